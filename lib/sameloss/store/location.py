"""Folders of the book, its records and artifacts, and the revision of its source."""

import os
import subprocess
from functools import cache
from pathlib import Path

from sameloss.errors import ParameterError, StoreError

HOME = "SAMELOSS_HOME"
"""Environment variable with the book's folder."""

SOURCE = Path(__file__).resolve().parents[1]
"""Folder of the library."""


def book_root() -> Path | None:
    """The book's folder, the same from every working directory; None if there is none.

    In this order: `SAMELOSS_HOME`; the checkout that the library is imported from; the nearest parent of
    the working directory that holds a book.

    Raises:
        ParameterError: if `SAMELOSS_HOME` is not a book's folder.

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
    """The book whose `lib` holds this library; None if the library is installed elsewhere."""
    root = SOURCE.parents[1]
    return root if SOURCE.parent.name == "lib" and _is_book(root) else None


def _is_book(folder: Path) -> bool:
    return (folder / "_config.yml").is_file() and (folder / "chapters").is_dir()


def default_artifacts() -> Path:
    """`artifacts` in the book's folder, or else in the working directory."""
    return (book_root() or Path.cwd()) / "artifacts"


def results_folder() -> Path:
    """Folder of the book's records.

    Raises:
        ParameterError: if no book is found.

    """
    root = book_root()
    if root is None:
        raise ParameterError(
            f"No book was found from here, so its records cannot be read; set {HOME} to its folder."
        )
    return root / "results"


UNCOMMITTED = "-dirty"
"""Suffix of a revision with changed files."""

UNKNOWN = "unknown"
"""Revision of source outside a checkout or unreadable by git; version of a library not installed."""


@cache
def source_revision() -> str:
    """Revision of the library's source, or 'unknown'; cached per process."""
    checkout = source_checkout()
    try:
        return UNKNOWN if checkout is None else revision(checkout)
    except StoreError:
        return UNKNOWN


def revision(checkout: Path) -> str:
    """Git revision of a checkout.

    Raises:
        StoreError: if git fails, or the folder is not the root of a repository.

    """
    return _git(checkout, "describe", "--always", f"--dirty={UNCOMMITTED}")


def uncommitted(checkout: Path, *new_in: str) -> list[str]:
    """Changed files of a checkout, and untracked ones.

    Args:
        checkout: root of the checkout.
        new_in: folders in which untracked files count.

    Raises:
        StoreError: if git fails, or the folder is not the root of a repository.

    """
    changed = _git(checkout, "diff", "--name-only", "HEAD")
    new = _git(checkout, "ls-files", "--others", "--exclude-standard", "--", *new_in) if new_in else ""
    return [*changed.splitlines(), *new.splitlines()]


def _git(checkout: Path, *words: str) -> str:
    """Output of a git command in a checkout, never of a repository around it."""
    root = _output(checkout, "rev-parse", "--show-toplevel")
    if Path(root).resolve() != checkout.resolve():
        raise StoreError(f"{checkout.resolve()} has no git repository of its own; it lies in that of {root}.")
    return _output(checkout, *words)


def _output(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, check=False)
    except OSError as error:
        raise StoreError(f"The revision of the source is not known: git cannot be run ({error}).") from None
    if done.returncode:
        raise StoreError(f"The revision of the source is not known: {' '.join(done.stderr.split())}")
    return done.stdout.strip()
