"""Folders of the book, its records and artifacts, and the revision of its source."""

import hashlib
import os
import subprocess
from functools import cache
from os.path import isdir, isfile
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
        try:
            home = Path(named).expanduser().resolve()
        except (OSError, RuntimeError):  # a link that may not be read, one to itself, a user who is unknown
            home = None
        if home is None or not _is_book(home):
            raise ParameterError(
                f"{HOME} must be the book's folder, which has _config.yml and chapters/; got {named}."
            )
        return home
    if checkout := source_checkout():
        return checkout
    here = Path.cwd()
    return next(filter(_is_book, (here, *here.parents)), None)


def source_checkout() -> Path | None:
    """The book whose `lib` holds this library; None if the library is installed elsewhere."""
    root = SOURCE.parents[1]
    return root if SOURCE.parent.name == "lib" and _is_book(root) else None


def _is_book(folder: Path) -> bool:
    # Path.is_file raises for a folder that may not be entered, and for a name that is too long.
    return isfile(folder / "_config.yml") and isdir(folder / "chapters")  # noqa: PTH112, PTH113


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
    """Commit of the library's source, marked if it differs, or 'unknown'; cached per process."""
    checkout = source_checkout()
    try:
        return UNKNOWN if checkout is None else revision(checkout)
    except StoreError:
        return UNKNOWN


@cache
def source_hash() -> str:
    """Hash of the library's source as it is in its folder, whatever git is told of it; cached per process."""
    return _hash(_files(SOURCE))


def revision(checkout: Path) -> str:
    """Commit of a checkout (all digits, as names can move), marked if its library's source is another.

    Raises:
        StoreError: if git fails, or the folder is not the root of a repository.

    """
    commit = _git(checkout, "rev-parse", "HEAD")
    committed = _hash(_committed(checkout, commit, LIBRARY)) == _hash(_files(checkout / LIBRARY))
    return commit if committed else f"{commit}{UNCOMMITTED}"


@cache
def committed_hash(checkout: Path, commit: str) -> str:
    """What `source_hash` is at a commit.

    Raises:
        StoreError: if git fails or does not know the commit, or the folder is not the root of a repository.

    """
    return _hash(_committed(checkout, commit, LIBRARY))


def uncommitted(checkout: Path, *new_in: str) -> list[str]:
    """Changed files of a checkout, and untracked ones.

    Args:
        checkout: root of the checkout.
        new_in: folders in which untracked files count, and Python files that git is told to overlook.

    Raises:
        StoreError: if git fails, or the folder is not the root of a repository.

    """
    files = _git(checkout, "diff", "--name-only", "HEAD").splitlines()
    for folder in new_in:
        files += _git(checkout, "ls-files", "--others", "--exclude-standard", "--", folder).splitlines()
        changed = _files(checkout / folder).items() ^ _committed(checkout, "HEAD", folder).items()
        files += sorted(f"{folder}/{name}" for name, _ in changed)
    return list(dict.fromkeys(files))


LIBRARY = "lib/sameloss"
"""Folder of the library in a checkout."""


def _hash(files: dict[str, str]) -> str:
    return hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]


def _files(folder: Path) -> dict[str, str]:
    """Git's hashes of the Python files in a folder, by path."""
    contents = {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.py") if path.is_file()
    }
    return {
        path.as_posix(): hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        for path, content in contents.items()
    }


def _committed(checkout: Path, commit: str, folder: str) -> dict[str, str]:
    """The same at a commit."""
    listed = _git(checkout, "ls-tree", "-r", "-z", "--full-tree", commit, folder).split("\0")
    entries = (entry.partition("\t") for entry in listed if entry.endswith(".py"))
    return {name.removeprefix(f"{folder}/"): about.split()[2] for about, _, name in entries}


CONFIGURATION = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
"""Git's only variables that its commands are given."""

PATIENCE = 10.0
"""Seconds after which git is taken not to answer."""


def _git(checkout: Path, *words: str) -> str:
    """Output of a git command in a checkout, never of a repository around it."""
    root = _output(checkout, "rev-parse", "--show-toplevel")
    if not root:
        raise StoreError("The revision of the source is not known: git says nothing.")
    if Path(root).resolve() != checkout.resolve():
        raise StoreError(f"{checkout.resolve()} has no git repository of its own; it lies in that of {root}.")
    return _output(checkout, *words)


def _output(folder: Path, *words: str) -> str:
    # In its hooks git sets variables that name their repository instead of the folder's.
    kept = {name: v for name, v in os.environ.items() if not name.startswith("GIT_") or name in CONFIGURATION}
    try:
        done = subprocess.run(
            ["git", "-C", folder, *words], capture_output=True, encoding="utf-8", errors="surrogateescape",
            check=False, env=kept, timeout=PATIENCE,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreError(f"The revision of the source is not known: git cannot be run ({error}).") from None
    if done.returncode:
        raise StoreError(f"The revision of the source is not known: {' '.join(done.stderr.split())}")
    return done.stdout.strip()
