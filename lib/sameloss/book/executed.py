"""Executed copies of the chapters: where they are, and what each records of its execution."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import nbformat
from nbformat.reader import NotJSONError

FOLDER = Path("_build/executed")

DEFAULT = "laptop"
"""The preset that chapters have without being told."""

OWN = "sameloss"
"""The name of our record in a notebook's metadata."""


@dataclass(frozen=True)
class Execution:
    """What decided an executed copy, and from which revision it is."""

    preset: str
    fingerprint: str
    revision: str


def copy_of(page: Path) -> Path:
    """Return where the executed copy of a chapter is, or will be."""
    return FOLDER / page


def write_execution(notebook: nbformat.NotebookNode, execution: Execution) -> None:
    """Record an execution in its notebook."""
    notebook.metadata[OWN] = asdict(execution)


def execution_of(page: Path) -> Execution | None:
    """Return what the executed copy of a chapter records; None where there is none, or half of one."""
    try:
        recorded = nbformat.read(copy_of(page), as_version=4).metadata.get(OWN)
    except (FileNotFoundError, NotJSONError):
        return None
    return Execution(**recorded) if recorded else None


def forget_execution(notebook: nbformat.NotebookNode) -> None:
    """Remove what tells one execution from another with the same outputs: its record, times and folders."""
    kept = {name: notebook.metadata[name] for name in ("kernelspec", "jupytext") if name in notebook.metadata}
    notebook.metadata = nbformat.from_dict({**kept, "language_info": {"name": "python"}})
    for cell in notebook.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if not cell.metadata.get("tags"):
            cell.metadata.pop("tags", None)


def code_cells(notebook: nbformat.NotebookNode) -> Iterator[nbformat.NotebookNode]:
    """Yield the cells that a kernel runs."""
    return (cell for cell in notebook.cells if cell.cell_type == "code")
