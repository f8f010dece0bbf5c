"""Loading from the Hugging Face hub or a local folder, with a fingerprint for run keys."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NoReturn

import huggingface_hub  # lazy: 0.25 s
from huggingface_hub import constants

from sameloss.errors import BookError, LanguageError

PATIENCE = 3.0
"""Timeout of the hub, in seconds."""


def load_or_explain(
    what: str, parameter: str, source: str, load: Callable[[], Any], fault: type[BookError] = LanguageError
) -> Any:
    """Load a resource; on failure, raise one sentence with the remedy.

    Args:
        what: description of the resource.
        parameter: parameter that names it.
        source: name on the hub, or local folder.
        load: loads it.
        fault: class of the error to raise.

    Raises:
        BookError: for anything that the libraries raise.

    """
    try:
        with _reachable(source):
            return load()
    except Exception as error:  # three libraries and the network have no common base
        kind = type(error).__name__
        raise fault(
            f"Cannot load {what} ({kind}); give a local folder in the parameter `{parameter}`."
        ) from error


def commit_of(name: str, kind: Literal["model", "dataset"]) -> str | None:
    """Latest commit of a repository on the hub; None for a local folder or an unknown name.

    Offline, it is the cached commit, or None.
    """
    if Path(name).is_dir():
        return None
    with _reachable(name):
        with suppress(Exception):  # the client's exceptions have no stable base
            if not constants.HF_HUB_OFFLINE:
                return huggingface_hub.HfApi().repo_info(name, repo_type=kind).sha
        with suppress(Exception):  # neither on the hub nor cached: loading it reports that
            return Path(huggingface_hub.snapshot_download(name, repo_type=kind, local_files_only=True)).name
    return None


MOST_FILES = 200_000
"""A folder with more files is taken for a typing error rather than a model or a dataset."""


def fingerprint_of(folders: Sequence[Path]) -> str | None:
    """Hash of all files in the folders (16 hex digits); None without folders.

    Raises:
        LanguageError: for an unreadable folder, or one of more than `MOST_FILES` files.

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
    walk = os.walk(folder, onerror=_raised)  # unlike Path.rglob, reports unreadable folders
    names = (Path(at, name) for at, _, files in walk for name in files)
    files = list(islice((path for path in names if path.is_file()), MOST_FILES + 1))
    if len(files) > MOST_FILES:
        raise LanguageError(
            f"The folder {folder} has more than {MOST_FILES:,} files; give one that holds nothing else."
        )
    return files


def _raised(error: OSError) -> NoReturn:
    raise error


@contextmanager
def _reachable(source: str) -> Iterator[None]:
    """Switch to the local cache where the hub does not answer: its libraries would retry for a minute."""
    saved = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = saved or not (Path(source).is_dir() or _answers())
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = saved


def _answers() -> bool:
    try:
        huggingface_hub.get_session().head(constants.ENDPOINT, timeout=PATIENCE)
    except Exception:  # the client's exceptions have no stable base
        return False
    return True
