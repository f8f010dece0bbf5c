"""Full disks and forbidden files, which end in one sentence and lose nothing."""

import encodings.cp437  # imported for zip files, which another user may not be able to  # noqa: F401
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
    TRAINING,
    compute,
    undisturbed,
)
from sameloss.store import store
from sameloss.store.store import Run, Store, with_ancestors

NOBODY = 65534
"""The id of a user without permissions."""

PREFIX = "sameloss.errors.StoreError: "


def a_full_disk(trial: Trial) -> None:
    """Compute on a disk that is too small, enlarge it and resume."""
    run = trial.rng.choice((CORPUS, TRAINING, LABELLED, PROBING, HELD_OUT, CANDIDATES))
    undisturbed(run)  # on another disk
    pages = trial.rng.randint(3, 60)
    with disk(trial.folder / "disk", pages * 4096) as small:
        child = Child(lambda: compute(run, small / "store"), trial.folder).wait()
        trial.check(_fine(child.fault, "No space left in the artifacts folder"), f"{run.kind}: {child.fault}")
        mount(small, f"remount,size={64 << 20}")
        to_the_end(run, trial, small / "store")


def _fine(fault: str | None, sentence: str) -> bool:
    """Whether a computation succeeded or ended with a sentence."""
    return fault is None or (fault.splitlines()[-1].startswith(PREFIX) and sentence in fault.splitlines()[-1])


@contextmanager
def disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a disk of a size in bytes."""
    folder.mkdir()
    mount(folder, f"size={size}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)  # a process may still use it


def mount(folder: Path, options: str) -> None:
    """Mount or remount a disk in memory."""
    words = ["mount", "-t", "tmpfs", "-o", options, "campaign", folder]
    subprocess.run(words, check=True, capture_output=True)


def forbidden(trial: Trial) -> None:
    """Compute as another user in a store with one forbidden path, then allow it and resume."""
    run = trial.rng.choice((CORPUS, TRAINING, PROBING))
    root = trial.folder / "store"
    to_the_end(run, trial, root)
    _give_away(trial.folder)
    path = trial.rng.choice(sorted(root.rglob("*")))
    mode = path.stat().st_mode
    path.chmod(0)
    child = Child(as_nobody(lambda: _check_and_compute(run, root)), trial.folder).wait()
    path.chmod(mode)
    what = f"{run.kind}: {path.relative_to(root)}"
    trial.check(_fine(child.fault, "cannot be used (Permission denied)"), f"{what}: {child.fault}")
    to_the_end(run, trial, root)


def _check_and_compute(run: Run, root: Path) -> None:
    for each in with_ancestors([run]):
        Store(root).has(each)
    compute(run, root)


def _give_away(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)


def as_nobody(work: Callable[[], None]) -> Callable[[], None]:
    def do() -> None:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        work()

    return do


def may_mount() -> bool:
    try:
        with TemporaryDirectory() as folder, disk(Path(folder) / "disk", 4096):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def may_be_nobody() -> bool:
    """Whether this process may change its user, and that user can read the library."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        child = Child(as_nobody(lambda: Path(store.__file__).read_bytes()), Path(folder)).wait()
        return child.fault is None


PARTS = (
    Part("a full disk", 100, a_full_disk, needs=may_mount),
    Part("another user, one thing forbidden", 60, forbidden, needs=may_be_nobody),
)
