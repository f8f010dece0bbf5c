"""What is fetched from the Hugging Face hub or read from local folders, and how it is known again."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn

import huggingface_hub  # loads what is used, when it is: a quarter of a second
from huggingface_hub import constants
from huggingface_hub.errors import HFValidationError

from sameloss.errors import BookError, LanguageError

PATIENCE = 3.0
"""Seconds the hub has to answer."""


def fetched(
    what: str, parameter: str, source: str, load: Callable[[], Any], fault: type[BookError] = LanguageError
) -> Any:
    """Load something; say in one sentence what to do where that fails.

    Args:
        what: is loaded, in words.
        parameter: which the reader sets.
        source: a name on the hub, or a local folder.
        load: does it.
        fault: what kind it is.

    Raises:
        BookError: in the place of what the libraries raise.

    """
    try:
        with _reachable(source):
            return load()
    except Exception as error:  # three libraries and the network: no common kind of fault
        kind = type(error).__name__
        raise fault(
            f"Cannot load {what} ({kind}); give a local folder in the parameter `{parameter}`."
        ) from error


def commit_of(name: str, kind: Literal["model", "dataset"]) -> str | None:
    """Return the last commit of what has a name on the hub; None of a local folder, or of no such name.

    Where the hub does not answer, it is the one that was fetched last into the cache, or None.
    """
    if Path(name).is_dir():
        return None
    with _reachable(name), suppress(Exception):  # the client's own faults have no stable name
        if not constants.HF_HUB_OFFLINE:
            return huggingface_hub.HfApi().repo_info(name, repo_type=kind).sha
    from huggingface_hub.file_download import repo_folder_name  # as slow

    try:
        folder = repo_folder_name(repo_id=name, repo_type=kind)
    except HFValidationError:  # a folder that is not there: loading it says so
        return None
    cached = Path(constants.HF_HUB_CACHE) / folder / "snapshots"
    found = sorted(cached.glob("*"), key=lambda folder: folder.stat().st_mtime)
    return found[-1].name if found else None


MOST_FILES = 200_000
"""A folder with more is not one of a model, of texts or of images, but one that was mistyped."""


def fingerprint_of(folders: Sequence[Path]) -> str | None:
    """Return a hash of all files in some folders: 16 hex digits; None of no folder.

    Raises:
        LanguageError: for a folder with very many files, or one that cannot be read.

    """
    digest = hashlib.sha256()
    try:
        for path in sorted(path for folder in folders for path in _files(folder)):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    except OSError as error:
        raise LanguageError(f"{error.filename} cannot be read ({error.strerror}).") from None
    return digest.hexdigest()[:16] if folders else None


def _files(folder: Path) -> list[Path]:
    walk = os.walk(folder, onerror=_raised)  # Path.rglob would skip what it may not read
    names = (Path(at, name) for at, _, files in walk for name in files)
    found = list(islice((path for path in names if path.is_file()), MOST_FILES + 1))
    if len(found) > MOST_FILES:
        raise LanguageError(
            f"The folder {folder} has more than {MOST_FILES:,} files; give one that holds nothing else."
        )
    return found


def _raised(error: OSError) -> NoReturn:
    raise error


@contextmanager
def _reachable(source: str) -> Iterator[None]:
    """Where the hub does not answer, let its libraries look in their cache only: they retry for a minute."""
    saved = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = saved or not (Path(source).is_dir() or _answers())
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = saved


def _answers() -> bool:
    try:
        huggingface_hub.get_session().head(constants.ENDPOINT, timeout=PATIENCE)
    except Exception:  # the client's own faults have no stable name
        return False
    return True
