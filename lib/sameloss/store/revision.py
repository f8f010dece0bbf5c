"""The revision of the source: which one computes, and whether it is committed."""

import subprocess
from functools import cache
from pathlib import Path

UNCOMMITTED = "-dirty"
"""How a revision ends where a file that git knows has changed since."""

SOURCE = Path(__file__).parents[1]
"""The folder of the library."""


@cache
def source_revision() -> str:
    """Return the revision of the library's source; a process asks git once."""
    return revision(SOURCE)


def revision(folder: Path) -> str:
    """Return the git revision that a folder is at, or 'unknown' outside a checkout."""
    return _git(folder, "describe", "--always", f"--dirty={UNCOMMITTED}") or "unknown"


def uncommitted(checkout: Path, *new_in: str) -> list[str]:
    """Return the files of a checkout that its revision does not have, or not like this.

    Args:
        checkout: its root.
        new_in: folders in which new files count; elsewhere only changes do.

    """
    changed = _git(checkout, "diff", "--name-only", "HEAD")
    new = _git(checkout, "ls-files", "--others", "--exclude-standard", "--", *new_in) if new_in else ""
    return [*changed.splitlines(), *new.splitlines()]


def _git(folder: Path, *words: str) -> str:
    """Return what git says of a folder; nothing where it fails."""
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
