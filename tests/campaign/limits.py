"""A disk that is full, and files that may not be touched: one sentence each, and nothing lost."""

import encodings.cp437  # of zip files; another user may not be able to import it  # noqa: F401
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from campaign.children import Child
from campaign.kills import to_the_end
from campaign.parts import Part, Trial
from campaign.victims import (
    CANDIDATES,
    CORPUS,
    HELD_OUT,
    LABELLED,
    PROBING,
    TRACE,
    TRAINING,
    compute,
    undisturbed,
)
from sameloss.store import store
from sameloss.store.store import Run, Store, with_ancestors

NOBODY = 65534
"""The number of a user who may do nothing."""

SAID = "sameloss.errors.StoreError: "


def a_full_disk(trial: Trial) -> None:
    """Compute on a disk that is too small; then make it larger and go on."""
    run = trial.rng.choice((CORPUS, TRAINING, LABELLED, PROBING, TRACE, HELD_OUT, CANDIDATES))
    undisturbed(run)  # elsewhere
    pages = trial.rng.randint(3, 60)
    with disk(trial.folder / "disk", pages * 4096) as small:
        child = Child(lambda: compute(run, small / "store"), trial.folder).wait()
        trial.check(_said(child.fault, "No space left in the artifacts folder"), f"{run.kind}: {child.fault}")
        mount(small, f"remount,size={64 << 20}")
        to_the_end(run, trial, small / "store")


def _said(fault: str | None, sentence: str) -> bool:
    """Tell whether a computation ended well, or with one sentence."""
    return fault is None or (fault.splitlines()[-1].startswith(SAID) and sentence in fault.splitlines()[-1])


@contextmanager
def disk(folder: Path, size: int) -> Iterator[Path]:
    """Make a folder a disk of so many bytes."""
    folder.mkdir()
    mount(folder, f"size={size}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)  # a process may still have it for its own


def mount(folder: Path, options: str) -> None:
    """Mount a disk of its own on a folder, or mount it again with other options."""
    words = ["mount", "-t", "tmpfs", "-o", options, "campaign", folder]
    subprocess.run(words, check=True, capture_output=True)


def forbidden(trial: Trial) -> None:
    """Let another user compute in a store of which one thing may not be touched; then allow it."""
    run = trial.rng.choice((CORPUS, TRAINING, PROBING))
    root = trial.folder / "store"
    to_the_end(run, trial, root)
    _give_away(trial.folder)
    path = trial.rng.choice(sorted(root.rglob("*")))
    mode = path.stat().st_mode
    path.chmod(0)
    child = Child(_as_nobody(lambda: _looked_for_and_computed(run, root)), trial.folder).wait()
    path.chmod(mode)
    what = f"{run.kind}: {path.relative_to(root)}"
    trial.check(_said(child.fault, "cannot be used (Permission denied)"), f"{what}: {child.fault}")
    to_the_end(run, trial, root)


def _looked_for_and_computed(run: Run, root: Path) -> None:
    for each in with_ancestors([run]):
        Store(root).has(each)
    compute(run, root)


def _give_away(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)


def _as_nobody(work: Callable[[], None]) -> Callable[[], None]:
    def do() -> None:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        work()

    return do


def may_mount() -> bool:
    """Tell whether this process may mount disks."""
    try:
        with TemporaryDirectory() as folder, disk(Path(folder) / "disk", 4096):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def may_be_nobody() -> bool:
    """Tell whether this process may become another, which then finds the library."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        child = Child(_as_nobody(lambda: Path(store.__file__).read_bytes()), Path(folder)).wait()
        return child.fault is None


PARTS = (
    Part("a full disk", 100, a_full_disk, needs=may_mount),
    Part("another user, one thing forbidden", 60, forbidden, needs=may_be_nobody),
)
