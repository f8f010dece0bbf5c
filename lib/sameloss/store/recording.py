"""Finished runs in small: what was measured, kept under version control, without the models' weights.

A record is a folder of results as the store has them, `<kind>/<key>`: a manifest with parameters, versions,
device, time and the hashes of all files, and the small ones of these that are no weights. It grows: machines
and days add to it what they have finished, and a store that takes it computes the rest.
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from filelock import FileLock

from sameloss.store.store import LEFT_OUT, MANIFEST, Run, Store, with_ancestors, write_manifest

LARGEST, LARGEST_TABLE = 100_000, 300_000
"""A file of more bytes is not recorded. Nor is its run where it reads the file: corpora are drawn again in
less time than it takes to fetch them."""


def record_runs(store: Store, runs: Iterable[Run], folder: Path) -> int:
    """Add to a record finished runs, and all that they read; return how many of them it has."""
    finished = [run for run in with_ancestors(runs) if store.has(run)]
    return sum(_recorded(run, store, folder / run.kind / run.key) for run in finished)


def forget_others(folder: Path, runs: Iterable[Run]) -> None:
    """Remove from a record what is neither one of some runs nor read by one."""
    wanted = {folder / run.kind / run.key for run in with_ancestors(runs)}
    for recorded in set(folder.glob("*/*/")) - wanted:
        shutil.rmtree(recorded)


def _recorded(run: Run, store: Store, folder: Path) -> bool:
    """Copy a result, where it can be recorded and is not yet, and tell whether it can."""
    if (folder / MANIFEST).exists():
        return True
    result, manifest = store.folder(run), store.manifest(run)
    kept = [name for name in manifest["files"] if _is_small(result / name, run.weights)]
    left_out = [name for name in manifest["files"] if name not in kept]
    if not all(name.endswith((*run.weights, *run.details)) for name in left_out):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    for name in kept:
        shutil.copyfile(result / name, folder / name)
    write_manifest(folder, manifest | ({LEFT_OUT: left_out} if left_out else {}))
    return True


def _is_small(path: Path, weights: tuple[str, ...]) -> bool:
    """Tell whether a file is there, is small, and is none of the weights."""
    largest = LARGEST_TABLE if path.suffix == ".csv" else LARGEST
    return path.exists() and path.stat().st_size <= largest and not path.name.endswith(weights)


def take_recorded(folder: Path, store: Store) -> int:
    """Put recorded runs in a store that has nothing of them; return how many those were.

    Raises:
        OSError: where the disk is full, or a file cannot be read or written; what was taken is kept.

    """
    recorded = [manifest.parent for manifest in folder.glob(f"*/*/{MANIFEST}")]
    return sum(_taken(run, store.root / run.parent.name / run.name) for run in recorded)


def _taken(recorded: Path, result: Path) -> bool:
    """Copy one run, unless it is there or comes there meanwhile, and tell whether it was copied."""
    if result.exists():
        return False
    result.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(result.with_suffix(".lock")):
        if result.exists():
            return False
        copied = result.with_suffix(".taken")
        try:
            copied.mkdir(exist_ok=True)
            for path in recorded.iterdir():
                (copied / path.name).write_bytes(path.read_bytes())
            copied.rename(result)
        except BaseException:
            shutil.rmtree(copied, ignore_errors=True)
            raise
    return True


class WithRecord(Store):
    """A store to look at, as it will be once it has taken a record: it reads there what it has not."""

    def __init__(self, store: Store, record: Path) -> None:
        """Look at a store and at a record."""
        super().__init__(store.root, recorded=store.recorded)
        self.record = record

    def folder(self, run: Run) -> Path:
        """Return where the run's result is, or will be."""
        own = super().folder(run)
        return own if own.exists() else self.record / run.kind / run.key
