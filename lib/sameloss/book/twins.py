"""Notebooks and their py:percent twins, which say the same; the parameters cells, which studies declare."""

import json
import re
from itertools import zip_longest
from pathlib import Path

import jupytext
import nbformat
from jupytext.cli import jupytext as run_jupytext
from jupytext.config import load_jupytext_config

from sameloss.book.notebooks import notebooks


def twin_of(path: Path) -> str:
    """Return the twin of a notebook as jupytext writes it, but with the letters of captions as they are."""
    notebook = nbformat.read(path, as_version=4)
    twin = jupytext.writes(notebook, "py:percent", config=load_jupytext_config(str(path)))
    return re.sub(r"^# %% .*", _with_letters, twin, flags=re.MULTILINE)


def _with_letters(line: re.Match[str]) -> str:
    """Write the strings of a cell's metadata without the escapes that JSON may do without."""
    return re.sub(
        r'"(?:[^"\\]|\\.)*"', lambda text: json.dumps(json.loads(text[0]), ensure_ascii=False), line[0]
    )


def twin_differences() -> list[str]:
    """Return one line for each chapter whose twin is not what its notebook says."""
    found = []
    for path in notebooks():
        twin = path.with_suffix(".py")
        lines = zip_longest(twin_of(path).splitlines(), twin.read_text().splitlines())
        different = [number for number, (ours, theirs) in enumerate(lines, 1) if ours != theirs]
        if different:
            found.append(f"{path} and {twin.name} differ, first at line {different[0]} of the latter.")
    return found


HEAD = '# %% tags=["parameters"]\n'


def with_parameters(source: str, written: str) -> str:
    """Return the py:percent source of a chapter with another parameters cell."""
    own = re.compile(re.escape(HEAD) + r".*?(?=\n\n# %%)", re.DOTALL)
    return own.sub(lambda _: HEAD + written, source, count=1)


def stale_cells(folder: Path) -> dict[Path, str]:
    """Return the chapters whose parameters cell is not what their study says, each with its right source."""
    from sameloss.book.pages import all_studies  # studies take seconds that a comparison need not wait
    from sameloss.studies.parameters import cell

    found = {}
    for study in all_studies().values():
        for name in study.plans:
            path = folder / f"{name}.py"
            source = path.read_text() if path.exists() else ""
            right = with_parameters(source, cell(study.table(name)))
            if right != source:
                found[path] = right
    return found


def twins(sync: bool) -> None:
    """Compare every notebook with its twin; with `sync` write the twin's sources into the notebook first.

    Raises:
        SystemExit: where they differ.

    """
    stale = stale_cells(Path("chapters"))
    if sync:
        for path, right in stale.items():
            path.write_text(right)
        stale = {}
        for source in sorted(Path("chapters").glob("*.py")):
            run_jupytext(["--quiet", "--update", "--to", "ipynb", str(source)])
            source.write_text(twin_of(source.with_suffix(".ipynb")))
    differences = [f"{path}: its parameters cell is not what its study says." for path in stale]
    differences += twin_differences()
    if differences:
        raise SystemExit("\n".join(differences) + "\nRun `make twins` after editing a .py twin.")
