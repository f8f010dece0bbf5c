"""Make results of the present revision the committed ones: executed notebooks, and tables of long runs."""

from pathlib import Path

import nbformat

from sameloss.book.contents import notebooks
from sameloss.book.executed import DEFAULT, Execution, code_cells, copy_of, execution_of, forget_execution
from sameloss.book.fingerprint import fingerprints
from sameloss.store.environment import revision, uncommitted
from sameloss.store.location import SOURCE, source_checkout
from sameloss.store.manifest import write_atomically
from sameloss.studies.screens import WIDE

FRONT_CHAPTER, FRONT_FIGURE = Path("chapters/02_existence.ipynb"), Path("images/existence.svg")


def adopt() -> None:
    """Make the executed notebooks the committed ones, free of traces of this machine.

    Raises:
        SystemExit: where the tree has changes that are not committed, or a notebook was executed at
            another revision, with another preset, or not at all.
        StoreError: where git does not know this folder.

    """
    refuse_uncommitted()
    refuse_other_executions()
    for page in notebooks():
        notebook = nbformat.read(copy_of(page), as_version=4)
        forget_execution(notebook)
        for cell in code_cells(notebook):
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        write_atomically(page, (nbformat.writes(notebook) + "\n").encode())
    figure = front_figure(nbformat.read(FRONT_CHAPTER, as_version=4))
    FRONT_FIGURE.parent.mkdir(exist_ok=True)
    FRONT_FIGURE.write_bytes(figure)


def refuse_unknown_source() -> None:
    """Refuse to go on where nobody could tell from which source results come.

    Raises:
        SystemExit: where the library is not that of this folder.
        StoreError: where git does not know this folder.

    """
    if source_checkout() != Path().resolve():
        raise SystemExit(
            f"The library that runs is {SOURCE}, not this folder's; give the folder a .venv of its own."
        )
    revision(Path())


def refuse_uncommitted() -> None:
    """Refuse to go on where the present revision is not all that decides a result.

    Raises:
        SystemExit: where files have changed, or there are new ones in `lib` or `chapters`, or the library is
            not that of this folder.
        StoreError: where git does not know this folder.

    """
    refuse_unknown_source()
    files = uncommitted(Path(), "lib", "chapters")
    if files:
        others = f" and {len(files) - 1} more" if len(files) > 1 else ""
        raise SystemExit(
            f"{files[0]}{others} not committed; commit or remove the change, then run this again."
        )


def refuse_other_executions() -> None:
    """Refuse executed notebooks that are not those of the present revision at the default preset.

    Raises:
        SystemExit: at the first one.

    """
    here = revision(Path())
    for page, fingerprint in fingerprints(notebooks(), DEFAULT).items():
        execution = execution_of(page)
        if execution is None:
            raise SystemExit(f"{page} was not executed; run `make notebooks`.")
        if execution != Execution(DEFAULT, fingerprint, here):
            raise SystemExit(
                f"{page} was executed at revision {execution.revision} with preset {execution.preset}, "
                f"not as it is at the present {here} with preset {DEFAULT}; run `make notebooks`."
            )


def front_figure(notebook: nbformat.NotebookNode) -> bytes:
    """Return the picture of the cell that is named `fig-existence`."""
    for cell in notebook.cells:
        if cell.metadata.get("mystnb", {}).get("figure", {}).get("name") == "fig-existence":
            return next(o.data[WIDE].encode() for o in cell.outputs if WIDE in o.get("data", {}))
    raise SystemExit("02_existence has no figure named fig-existence.")
