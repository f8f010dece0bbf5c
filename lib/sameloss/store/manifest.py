"""What a result is: its files, written at once or not at all, and a sealed manifest."""

import hashlib
import json
import os
import time
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from sameloss.errors import StoreError

# Files that are whole: written at once or not at all, and known again by their hash.

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


# What a result's folder holds: files, and the manifest that says what they are and how they were made.

MANIFEST = "manifest.json"

PROGRESS = "progress.txt"
"""One line of a running computation: fraction done, then free text. Not part of the result."""

SCRATCH = "scratch"
"""Folder of a running computation for what only a resumption needs. Not part of the result."""

TOLD = (
    dict.fromkeys(("parameters", "files"), (dict,))
    | dict.fromkeys(("created", "sameloss", "revision", "python", "torch", "device"), (str,))
    | dict.fromkeys(("wall_s", "peak_memory_bytes"), (int, float))
)
"""What a manifest tells, and pages show, with its types."""

LEFT_OUT = "left_out"
"""Names of the files that are not there, in the manifest of a result that a record had."""

SEAL = "sealed"
"""The hash of a manifest in itself."""

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a manifest can raise that somebody else has written, beside faults of the system."""

NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""What the system raises where a result is damaged; of other faults it is not known whether it is."""


def results_in(folder: Path) -> list[Path]:
    """Return the files of a folder that are its result."""
    others = (MANIFEST, PROGRESS, SCRATCH)
    return [p for p in sorted(folder.iterdir()) if p.name not in others and not p.name.startswith(".")]


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write a manifest, sealed, at once or not at all."""
    write_atomically(folder / MANIFEST, _text(manifest))


def _text(manifest: dict[str, Any]) -> bytes:
    """Return a manifest as it is written, the only way: with the hash of all else in it."""
    rest = {name: value for name, value in manifest.items() if name != SEAL}
    seal = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    return (json.dumps({**rest, SEAL: seal}, indent=1) + "\n").encode()


def found_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a folder; None where there is none that is as it was written."""
    try:
        content = (folder / MANIFEST).read_bytes()
        manifest = dict(json.loads(content))
        return manifest if _text(manifest) == content and _well_typed(manifest) else None
    except (*UNREADABLE, *NOT_THERE):
        return None


def _well_typed(manifest: dict[str, Any]) -> bool:
    """Tell whether all that pages show is there and can be shown, and names are those of files."""
    datetime.fromisoformat(manifest["created"])  # a fault where it is none
    files, left_out = manifest["files"], manifest.get(LEFT_OUT, [])
    return (
        all(type(manifest[name]) in kinds for name, kinds in TOLD.items())
        and manifest["parameters"].keys() >= {"run", "schema"}
        and all(isinstance(hashed, str) for hashed in files.values())
        and isinstance(left_out, list)
        and files.keys() >= set(left_out)
    )


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what is recorded of a finished run: parameters, versions, device, time, files.

    Raises:
        StoreError: where it is not as it was written, or tells less.

    """
    with suppress(OSError):
        if manifest := found_manifest(folder):
            return manifest
    raise StoreError(
        f"{folder / MANIFEST} cannot be read; delete its folder, and what it holds is computed again."
    )


def first_damage(
    folder: Path, parameters: dict[str, Any], needed: dict[str, Any], may_lack: tuple[str, ...]
) -> str | None:
    """Return the name of the first file that is not as its manifest says, or of a manifest of another run.

    Args:
        folder: of the result.
        parameters: of the run.
        needed: those of them that no record of the run can lack.
        may_lack: what the names of files end in that a record may have left out.

    """
    manifest = found_manifest(folder)
    if manifest is None:
        return MANIFEST
    left_out = manifest.get(LEFT_OUT, [])
    files = {name: found for name, found in manifest["files"].items() if name not in left_out}
    unlisted = {path.name for path in results_in(folder)} - set(files)
    lost = [name for name in left_out if not name.endswith(may_lack)]
    known, wanted, least = manifest["parameters"], *(json.loads(json.dumps(p)) for p in (parameters, needed))
    if unlisted or lost or not _same(known, wanted, least):
        return MANIFEST
    for name, expected in files.items():
        path = folder / name
        if not path.is_file() or sha256(path) != expected:
            return name
    return None


def _same(found: Any, wanted: Any, needed: Any = None) -> bool:
    """Tell whether recorded parameters are a run's; it may have fields that are younger than the record."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        needed = needed or {}
        shared = found.keys() & wanted.keys()
        return needed.keys() <= shared and all(_same(found[n], wanted[n], needed.get(n)) for n in shared)
    if isinstance(found, list) and isinstance(wanted, list):
        least = needed or [None] * len(wanted)
        return len(found) == len(wanted) and all(map(_same, found, wanted, least))
    return bool(found == wanted)
