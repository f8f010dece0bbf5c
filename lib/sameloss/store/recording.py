"""Records: finished runs without model weights, kept under version control.

A record is a folder with the layout of the store, `<kind>/<key>`: the manifest (parameters, versions, device,
time, file hashes) and the small files. Several machines can add to it, and a store that takes it computes
only what is missing.
"""

import logging
import shutil
from collections.abc import Iterable
from pathlib import Path

from sameloss.store.store import (
    LEFT_OUT,
    MANIFEST,
    Run,
    Store,
    altered,
    locked,
    read_manifest,
    remove,
    with_ancestors,
    write_manifest,
)

log = logging.getLogger("sameloss")

LARGEST, LARGEST_TABLE = 100_000, 300_000
"""Size limits (bytes) of recorded files. A run that needs a larger file is not recorded: redrawing a corpus
takes less time than fetching it."""


def record_runs(store: Store, runs: Iterable[Run], folder: Path, *, lazy: bool = True) -> int:
    """Add finished runs and their ancestors to a record; returns how many of them it holds.

    Without `lazy`, files that are loaded only on demand are left out, such as the losses of trainings.
    """
    finished = [run for run in with_ancestors(runs) if store.has(run)]
    return sum(_recorded(run, store, folder / run.kind / run.key, lazy) for run in finished)


def prune_record(folder: Path, runs: Iterable[Run]) -> None:
    """Remove from a record all but the given runs and their ancestors."""
    wanted = {folder / run.kind / run.key for run in with_ancestors(runs)}
    for recorded in set(folder.glob("*/*/")) - wanted:
        remove(recorded)


def _recorded(run: Run, store: Store, folder: Path, lazy: bool) -> bool:
    """Copy a result into the record unless present; returns whether it can be recorded."""
    if (folder / MANIFEST).exists():
        return True
    result, manifest = store.folder(run), store.manifest(run)
    excluded = run.weight_suffixes if lazy else (*run.weight_suffixes, *run.lazy_suffixes)
    kept = [name for name in manifest["files"] if _is_small(result / name, excluded)]
    left_out = [name for name in manifest["files"] if name not in kept]
    if not all(name.endswith((*run.weight_suffixes, *run.lazy_suffixes)) for name in left_out):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    for name in kept:
        shutil.copyfile(result / name, folder / name)
    write_manifest(folder, manifest | ({LEFT_OUT: left_out} if left_out else {}))
    return True


def _is_small(path: Path, excluded: tuple[str, ...]) -> bool:
    largest = LARGEST_TABLE if path.suffix == ".csv" else LARGEST
    return path.exists() and path.stat().st_size <= largest and not path.name.endswith(excluded)


def take_recorded(folder: Path, store: Store) -> int:
    """Copy recorded runs that a store lacks into it; returns how many were copied. Warns of damaged ones.

    Raises:
        OSError: for a full disk or an unusable file; runs copied before stay.

    """
    recorded = [manifest.parent for manifest in sorted(folder.glob(f"*/*/{MANIFEST}"))]
    lacking = {run: store.root / run.parent.name / run.name for run in recorded}
    lacking = {run: result for run, result in lacking.items() if not result.exists()}
    damaged = [run for run in lacking if not is_sound(run)]
    if damaged:
        log.warning(
            "%d runs of %s are damaged and were not taken, the first of them %s; "
            "restore them with `git checkout`, or they are computed again.",
            *(len(damaged), folder, damaged[0].relative_to(folder)),
        )
    return sum(_taken(run, result) for run, result in lacking.items() if run not in damaged)


def is_sound(recorded: Path) -> bool:
    """Whether the folder of a recorded run is there, and as it was written."""
    manifest = read_manifest(recorded)
    return manifest is not None and altered(recorded, manifest) is None


def _taken(recorded: Path, result: Path) -> bool:
    """Copy one run atomically unless the store has it; returns whether it was copied."""
    result.parent.mkdir(parents=True, exist_ok=True)
    with locked(result):
        if result.exists():
            return False
        copied = result.with_suffix(".taken")
        try:
            remove(copied)
            copied.mkdir()
            for path in filter(Path.is_file, recorded.iterdir()):
                (copied / path.name).write_bytes(path.read_bytes())
            copied.rename(result)
        except BaseException:
            shutil.rmtree(copied, ignore_errors=True)
            raise
    return True
