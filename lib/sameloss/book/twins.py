"""Notebooks and their py:percent twins, which say the same."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat

from sameloss.book.contents import notebooks


def cells_of(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str, str]]:
    """Yield what a notebook and its twin must share: type, source, tags and figure captions."""
    for cell in notebook.cells:
        kept = {key: cell.metadata[key] for key in ("tags", "mystnb") if cell.metadata.get(key)}
        yield cell.cell_type, cell.source.strip(), json.dumps(kept, sort_keys=True)


def twin_differences() -> list[str]:
    """Return one line for each chapter whose notebook and twin differ."""
    found = []
    for path in notebooks():
        ours = list(cells_of(nbformat.read(path, as_version=4)))
        twin = list(cells_of(jupytext.read(path.with_suffix(".py"))))
        different = [number for number, (a, b) in enumerate(zip(ours, twin, strict=False)) if a != b]
        if different or len(ours) != len(twin):
            where = f"first at cell {different[0]}" if different else "in their number of cells"
            found.append(f"{path} and {path.with_suffix('.py').name} differ, {where}.")
    return found


def twins(sync: bool) -> None:
    """Compare every notebook with its twin; with `sync` write the twin's sources into the notebook first.

    Raises:
        SystemExit: where they differ.

    """
    from sameloss.book.cells import stale_cells  # studies take seconds, which reading cells need not wait

    stale = stale_cells(Path("chapters"))
    if sync:
        for path, right in stale.items():
            path.write_text(right)
        stale = {}
        for source in sorted(Path("chapters").glob("*.py")):
            command = [sys.executable, "-m", "jupytext", "--quiet", "--update", "--to", "ipynb"]
            subprocess.run([*command, str(source)], check=True)
    differences = [f"{path}: its parameters cell is not what its study says." for path in stale]
    differences += twin_differences()
    if differences:
        raise SystemExit("\n".join(differences) + "\nRun `make twins` after editing a .py twin.")
