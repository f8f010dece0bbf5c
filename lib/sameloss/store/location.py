"""Where the book, its records and its artifacts are, and at which revision its source is."""

import os
import subprocess
from functools import cache
from pathlib import Path

from sameloss.errors import ParameterError, StoreError

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


UNCOMMITTED = "-dirty"
"""How a revision ends where a file that git knows has changed since."""

UNKNOWN = "unknown"
"""The revision of source that is no checkout of the book's, or of which git tells nothing; the version of a
library that is not installed."""


@cache
def source_revision() -> str:
    """Return the revision of the library's source, or 'unknown'; a process asks git once."""
    checkout = source_checkout()
    try:
        return UNKNOWN if checkout is None else revision(checkout)
    except StoreError:
        return UNKNOWN


def revision(checkout: Path) -> str:
    """Return the git revision that a checkout is at.

    Raises:
        StoreError: where git fails, or the folder is no checkout of its own.

    """
    return _git(checkout, "describe", "--always", f"--dirty={UNCOMMITTED}")


def uncommitted(checkout: Path, *new_in: str) -> list[str]:
    """Return the files of a checkout that its revision does not have, or not like this.

    Args:
        checkout: its root.
        new_in: folders in which new files count; elsewhere only changes do.

    Raises:
        StoreError: where git fails, or the folder is no checkout of its own.

    """
    changed = _git(checkout, "diff", "--name-only", "HEAD")
    new = _git(checkout, "ls-files", "--others", "--exclude-standard", "--", *new_in) if new_in else ""
    return [*changed.splitlines(), *new.splitlines()]


def _git(checkout: Path, *words: str) -> str:
    """Return what git says of a checkout, and of no repository that the folder only lies in."""
    root = _said(checkout, "rev-parse", "--show-toplevel")
    if Path(root).resolve() != checkout.resolve():
        raise StoreError(f"{checkout.resolve()} has no git repository of its own; it lies in that of {root}.")
    return _said(checkout, *words)


def _said(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise StoreError(f"The revision of the source is not known: git cannot be run ({error}).") from None
    if done.returncode:
        raise StoreError(f"The revision of the source is not known: {' '.join(done.stderr.split())}")
    return done.stdout.strip()
