"""Files that are whole: written at once or not at all, and known again by their hash."""

import hashlib
import os
import time
from functools import cache
from pathlib import Path

JUST_WRITTEN_NS = 1_000_000_000
"""Time stamps of files may be coarse: within this time a second writing could have the same."""


def write_atomically(path: Path, *content: bytes | memoryview) -> None:
    """Write a file so that a kill at any moment leaves the old one or the new one, whole."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.writelines(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    write_through(path.parent)


def write_through(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """Return a file's hash; a process reads an unchanged file once.

    A file counts as unchanged while its time and its size stay. One that was written a moment ago is
    read every time.
    """
    state = path.stat()
    if time.time_ns() - state.st_mtime_ns < JUST_WRITTEN_NS:
        return _read(path)
    return _remembered(path, state.st_mtime_ns, state.st_size)


@cache
def _remembered(path: Path, mtime_ns: int, size: int) -> str:
    return _read(path)


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
