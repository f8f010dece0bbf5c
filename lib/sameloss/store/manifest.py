"""What a result's folder holds: files, and the manifest that says what they are and how they were made."""

import hashlib
import json
from pathlib import Path
from typing import Any

from sameloss.errors import StoreError
from sameloss.store.files import sha256, write_atomically

MANIFEST = "manifest.json"

PROGRESS = "progress.txt"
"""One line of a running computation: fraction done, then free text. Not part of the result."""

SCRATCH = "scratch"
"""Folder of a running computation for what only a resumption needs. Not part of the result."""

TOLD = {
    "parameters",
    "files",
    "created",
    "sameloss",
    "revision",
    "python",
    "torch",
    "device",
    "wall_s",
    "peak_memory_bytes",
}
"""What a manifest tells, and pages show."""

LEFT_OUT = "left_out"
"""Names of the files that are not there, in the manifest of a result that a record had."""

SEAL = "sealed"
"""The hash of a manifest in itself; those of before have none."""

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
    write_atomically(folder / MANIFEST, (json.dumps(sealed(manifest), indent=1) + "\n").encode())


def sealed(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest with the hash of all else in it, so that a change of it is found."""
    rest = {name: value for name, value in manifest.items() if name != SEAL}
    return {**rest, SEAL: hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what is recorded of a finished run: parameters, versions, device, time, files.

    Raises:
        StoreError: where it is not as it was written, or tells less.

    """
    path = folder / MANIFEST
    try:
        manifest = dict(json.loads(path.read_text()))
    except (*UNREADABLE, OSError):
        manifest = {}
    if not manifest.keys() >= TOLD or _changed(manifest):
        raise StoreError(f"{path} cannot be read; delete its folder, and what it holds is computed again.")
    return manifest


def first_damage(folder: Path, parameters: dict[str, Any]) -> str | None:
    """Return the name of the first file that is not as its manifest says, or of a manifest of another run."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        if _changed(manifest):
            return MANIFEST
        left_out = manifest.get(LEFT_OUT, ())
        files = {name: found for name, found in manifest["files"].items() if name not in left_out}
        unlisted = {path.name for path in results_in(folder)} - set(files)
        if unlisted or not _same(manifest["parameters"], json.loads(json.dumps(parameters))):
            return MANIFEST
    except (*UNREADABLE, *NOT_THERE):
        return MANIFEST
    for name, expected in files.items():
        path = folder / name
        if not path.is_file() or sha256(path) != expected:
            return name
    return None


def lacks_files(folder: Path) -> bool:
    """Tell whether files were left out of a result; one that is damaged is found so when it is read."""
    try:
        return LEFT_OUT in json.loads((folder / MANIFEST).read_text())
    except (*UNREADABLE, *NOT_THERE):
        return False


def _changed(manifest: dict[str, Any]) -> bool:
    """Tell whether a manifest is not as it was written; of one without a seal it is not known."""
    return SEAL in manifest and manifest != sealed(manifest)


def _same(found: Any, wanted: Any) -> bool:
    """Tell whether recorded parameters are a run's; it may have fields that are younger than the record."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        return all(_same(value, wanted[name]) for name, value in found.items() if name in wanted)
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_same, found, wanted))
    return found == wanted
