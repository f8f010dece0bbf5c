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


PANIC = "PanicException"
"""Error of the tokenizers library that is no `Exception`, and whose class cannot be imported."""


def load_without_code(load: Callable[..., Any], *source: Any, **options: Any) -> Any:
    """Call a loader of transformers or datasets so that it runs no code of what it loads.

    It is the only call of any of them; otherwise transformers asks on the terminal whether to run such code.

    >>> load_without_code(lambda name, **options: options, "a folder", revision="main")
    {'trust_remote_code': False, 'revision': 'main'}
    """
    return load(*source, trust_remote_code=False, **options)


@contextmanager
def explained(
    what: str, parameter: str, source: str, fault: type[BookError] = LanguageError
) -> Iterator[None]:
    """Turn what the libraries raise while they load a resource into one sentence with their reason.

    Args:
        what: description of the resource.
        parameter: parameter that names it.
        source: name on the hub, or local folder.
        fault: class of the error to raise.

    Raises:
        BookError: for anything that the libraries raise.

    """
    try:
        with _reachable(source):
            yield
    except BookError:
        raise
    except BaseException as error:  # three libraries and the network have no common base
        if not isinstance(error, Exception) and type(error).__name__ != PANIC:
            raise
        remedy = "; give a local folder in" if not Path(source).is_dir() else "; put that right, or change"
        raise fault(f"Cannot load {what} ({reason(error)}){remedy} the parameter `{parameter}`.") from error


def reason(error: BaseException) -> str:
    """What a library says, in short: the class of an error and its first sentence.

    >>> reason(OSError("no file named model.safetensors. You can ..."))
    'OSError: no file named model.safetensors'
    """
    if type(error).__name__ == "DatasetGenerationError":  # says only that there is a cause
        error = error.__cause__ or error
    text = " ".join(str(error).split())
    if "trust_remote_code" in text:
        return "it needs code of its own, which is never run"
    return f"{type(error).__name__}: {text.partition('. ')[0].rstrip('.:')[:200]}".removesuffix(": ")


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
