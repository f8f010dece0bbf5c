"""Where the book, its records and its artifacts are."""

import os
from pathlib import Path

from sameloss.errors import ParameterError

HOME = "SAMELOSS_HOME"
"""The environment variable that names the book's folder."""

SOURCE = Path(__file__).resolve().parents[1]
"""The folder of the library."""


def book_root() -> Path | None:
    """Return the book's folder, the same from every directory; None where no book is found.

    It is the folder that `SAMELOSS_HOME` names, or else the checkout from which the library is imported, or
    else the nearest one that is a book's, from here upwards.

    Raises:
        ParameterError: where `SAMELOSS_HOME` names another folder.

    """
    if named := os.environ.get(HOME):
        home = Path(named).expanduser().resolve()
        if not _is_book(home):
            raise ParameterError(
                f"{HOME} must be the book's folder, which has _config.yml and chapters/; got {named}."
            )
        return home
    here = Path.cwd()
    return source_checkout() or next(filter(_is_book, (here, *here.parents)), None)


def source_checkout() -> Path | None:
    """Return the book's folder whose `lib` has the library; None where it is installed apart from a book."""
    root = SOURCE.parents[1]
    return root if SOURCE.parent.name == "lib" and _is_book(root) else None


def _is_book(folder: Path) -> bool:
    return (folder / "_config.yml").is_file() and (folder / "chapters").is_dir()


def default_artifacts() -> Path:
    """Return `artifacts` in the book's folder, which every way to run shares; here where no book is found."""
    return (book_root() or Path.cwd()) / "artifacts"


def results_folder() -> Path:
    """Return the folder of the book's records.

    Raises:
        ParameterError: where no book is found.

    """
    root = book_root()
    if root is None:
        raise ParameterError(
            f"No book was found from here, so its records cannot be read; set {HOME} to its folder."
        )
    return root / "results"
