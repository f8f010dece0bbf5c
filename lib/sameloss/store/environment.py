"""Where results come from: source revision, versions, device."""

import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from sameloss.device import device_name
from sameloss.errors import StoreError
from sameloss.store.location import source_checkout

# The revision of the source: which one computes, and whether it is committed.

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
        command = ["git", "-C", str(folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise StoreError(f"The revision of the source is not known: git cannot be run ({error}).") from None
    if done.returncode:
        raise StoreError(f"The revision of the source is not known: {' '.join(done.stderr.split())}")
    return done.stdout.strip()


# What computes here: the versions and the device that a result's manifest records.


def environment() -> dict[str, str]:
    """Return the time, the versions, the revision and the device of this process."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "sameloss": _installed(),
        "revision": source_revision(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device_name(),
    }


def _installed() -> str:
    """Return the library's version, or 'unknown' where its folder is only on Python's path."""
    try:
        return version("sameloss")
    except PackageNotFoundError:
        return UNKNOWN
