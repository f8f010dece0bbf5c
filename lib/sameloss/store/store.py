"""The run store: everything computed, kept under a key made of everything that decides it.

A run is a frozen dataclass. Its key is a hash of its canonical JSON, in which the runs it reads
stand by their own keys and fields at their defaults are left out: a new field with a default renames
no run. A result is a folder; it exists once its `manifest.json` is in place, which is written last.
What a killed computation left stays in `<key>.partial`, so that the next one can go on from there.
"""

import errno
import hashlib
import json
import logging
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

import torch
from filelock import FileLock

from sameloss.device import device_name, forget_peak, peak_bytes
from sameloss.errors import StoreError
from sameloss.store.location import UNKNOWN, source_revision

log = logging.getLogger("sameloss")

# Runs, and their keys

PEAK = "peak.txt"
"""In the folder `SCRATCH`, the largest memory in bytes of a computation in processes of its own."""

Report = Callable[[float, str], None]
"""Told the fraction done and a few words."""


@dataclass(frozen=True)
class Run:
    """Base of all runs: a frozen dataclass whose fields decide its result.

    A subclass raises its `schema` when its code changes what it computes, or when the default of one
    of its fields changes.
    """

    schema: ClassVar[int] = 1

    weights: ClassVar[tuple[str, ...]] = ()
    """What the names of files end in that `load` leaves to be read when a model is asked for."""

    details: ClassVar[tuple[str, ...]] = ()
    """Names of other files that `load` does not read, so that a record may do without a large one."""

    def compute(self, folder: Path, store: "Store", report: Report) -> None:
        """Write the result into `folder`; go on from what an interrupted call left there.

        That is what lies in its folder `SCRATCH`, and the files named in `kept`; all else is gone by then.
        """
        raise NotImplementedError

    def load(self, folder: Path) -> Any:
        """Read the result that `compute` wrote."""
        raise NotImplementedError

    @property
    def kept(self) -> frozenset[str]:
        """Names of those files of the result that an interrupted computation need not make again."""
        return frozenset()

    @property
    def effort(self) -> float:
        """Rough seconds of a laptop's core, to start long runs first, to weigh progress and to tell costs."""
        return 1.0

    @property
    def memory_advice(self) -> str:
        """Say what takes less memory."""
        return "choose a smaller size, or another device"

    @property
    def kind(self) -> str:
        """Name of the run's class: its folder in the store."""
        return type(self).__name__

    def parameters(self) -> dict[str, Any]:
        """Return all fields as plain JSON values, parent runs by their keys: what the manifest keeps."""
        return {"run": self.kind, "schema": self.schema, **_plain_fields(self, _keyed)}

    def canonical(self) -> dict[str, Any]:
        """Return what the key is made of: the parameters but those at their defaults."""
        return {"run": self.kind, "schema": self.schema, **_plain_fields(self, _chosen)}

    @cached_property
    def key(self) -> str:
        """Return the name of the run's result: 16 hex digits."""
        text = json.dumps(self.canonical(), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def parents(self) -> list["Run"]:
        """Return the runs this one reads."""
        return [v for f in fields(self) if isinstance(v := getattr(self, f.name), Run)]


def _keyed(value: Any) -> list[Field]:
    """Return the fields that decide a result: those that equality is made of."""
    return [field for field in fields(value) if field.compare]


def _plain(value: Any, fields_of: Callable[[Any], Iterable[Field]] = _keyed) -> Any:
    """Return a value as plain JSON; of dataclasses those fields that `fields_of` returns."""
    if isinstance(value, Run):
        return {"run": value.kind, "key": value.key}
    if is_dataclass(value):
        name = getattr(value, "key_name", type(value).__name__)  # of a class that has been renamed
        return {"type": name, **_plain_fields(value, fields_of)}
    if isinstance(value, tuple | list):
        return [_plain(item, fields_of) for item in value]
    return value


def _plain_fields(value: Any, fields_of: Callable[[Any], Iterable[Field]]) -> dict[str, Any]:
    return {field.name: _plain(getattr(value, field.name), fields_of) for field in fields_of(value)}


def _chosen(value: Any) -> list[Field]:
    """Return the fields that are not at their defaults; 1, 1.0 and True are three values."""
    return [f for f in _keyed(value) if not _at_default(f, getattr(value, f.name))]


def _at_default(field: Field, value: Any) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return value is default or (default is not MISSING and _json(value) == _json(default))


def _json(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True)


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


def _damage(run: Run, folder: Path) -> str | None:
    """Return the name of the first file that is not as its manifest says, or of a manifest of another run."""
    manifest = found_manifest(folder)
    if manifest is None:
        return MANIFEST
    left_out = manifest.get(LEFT_OUT, [])
    files = {name: found for name, found in manifest["files"].items() if name not in left_out}
    unlisted = {path.name for path in results_in(folder)} - set(files)
    lost = [name for name in left_out if not name.endswith((*run.weights, *run.details))]
    wanted, needed = (json.loads(json.dumps(some)) for some in (run.parameters(), run.canonical()))
    if unlisted or lost or not _same(manifest["parameters"], wanted, needed):
        return MANIFEST
    for name, expected in files.items():
        if not (folder / name).is_file() or sha256(folder / name) != expected:
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


# What a computation may take of the machine: one thread, and the memory and the disk there is.


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread, so that a result does not depend on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


NO_MEMORY = "can't allocate memory"
"""What torch's allocator says on a CPU, among other things."""


@contextmanager
def small_memory_explained(kind: str, advice: str) -> Iterator[None]:
    """Turn a lack of memory into one sentence that says what takes less.

    Args:
        kind: what is computed.
        advice: what would take less memory.

    Raises:
        StoreError: in the place of torch's `OutOfMemoryError`, on a CPU a plain `RuntimeError`, and of
            Python's and NumPy's `MemoryError`.

    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and NO_MEMORY not in str(error):
            raise
        raise StoreError(
            f"The memory of this device ({device_name()}) is too small for {kind}; {advice}. "
            "What was computed before is kept."
        ) from error


FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)

IN_THE_WAY = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
"""What the system says of a file or a folder that is another's, or not what it should be."""


@contextmanager
def disk_faults_explained(folder: Path) -> Iterator[None]:
    """Turn a lack of space, or something in this folder that cannot be used, into one sentence.

    Raises:
        StoreError: in the place of the system's error.

    """
    try:
        yield
    except OSError as error:
        named = error.filename is not None and Path(str(error.filename))
        within = named and (named.is_relative_to(folder) or folder.is_relative_to(named))
        if error.errno in FULL and (within or error.filename is None):
            raise StoreError(
                f"No space left in the artifacts folder {folder}; what was computed before is kept. "
                "Free some space, or choose another folder with the parameter `artifacts`."
            ) from error
        if error.errno not in IN_THE_WAY or not within:
            raise
        raise StoreError(
            f"{error.filename} cannot be used ({error.strerror}); what was computed before is kept. "
            "Move it away, or choose another folder with the parameter `artifacts`."
        ) from error


# The store


class Store:
    """Results on disk. Two processes asking for one run: one computes, the other waits."""

    def __init__(self, root: Path | str, *, recorded: bool = False) -> None:
        """Open the artifacts folder, which the first result makes where it is not there.

        Args:
            root: the folder.
            recorded: whether a result counts of which a record had all but the weights.

        Raises:
            StoreError: where it cannot be written.

        """
        self.root, self.recorded = Path(root), recorded
        if not _can_be_written(self.root):
            raise self._unusable

    @property
    def _unusable(self) -> StoreError:
        return StoreError(
            f"The artifacts folder {self.root} cannot be written or made; "
            "choose another with the parameter `artifacts`."
        )

    @property
    def whole(self) -> "Store":
        """Return the same store, of which nothing counts but results with all their files."""
        whole = copy(self)
        whole.recorded = False
        return whole

    def folder(self, run: Run) -> Path:
        """Return where the run's result is, or will be."""
        return self.root / run.kind / run.key

    def partial(self, run: Run) -> Path:
        """Return where the run is being computed."""
        return self.folder(run).with_suffix(".partial")

    def get(self, run: Run, report: Report | None = None) -> Any:
        """Return the run's result, computing it only if it is missing or damaged."""
        self.compute(run, report)
        with disk_faults_explained(self.root):
            return run.load(self.folder(run))

    def compute(self, run: Run, report: Report | None = None) -> None:
        """Compute the run's result, if it is missing or damaged, without reading it."""
        folder = self.folder(run)
        with disk_faults_explained(self.root):
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
            except FileNotFoundError as error:  # in /proc nobody makes a folder, though root may write there
                raise self._unusable from error
            with FileLock(folder.with_suffix(".lock")):
                if not self._intact(run, folder):
                    self._compute(run, report or write_progress(self.partial(run)))

    def has(self, run: Run) -> bool:
        """Tell whether the run's result is there, with its manifest (files are checked when it is read)."""
        with disk_faults_explained(self.root):
            manifest = found_manifest(self.folder(run))
        return manifest is not None and (self.recorded or not manifest.get(LEFT_OUT))

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Return what is to be computed for some runs, parents first.

        Of these and of all that they read, what is not there; and what that reads has to be whole.
        """
        ordered: dict[str, Run] = {}

        def visit(run: Run, store: Store) -> None:
            if run.key not in ordered and not store.has(run):
                for parent in run.parents():
                    visit(parent, store.whole)
                ordered[run.key] = run

        for run in with_ancestors(runs):
            visit(run, self)
        return list(ordered.values())

    def manifest(self, run: Run) -> dict[str, Any]:
        """Return what is recorded of a finished run: parameters, versions, device, time, files.

        Raises:
            StoreError: where it is not as it was written, or tells less.

        """
        folder = self.folder(run)
        with suppress(OSError):
            if manifest := found_manifest(folder):
                return manifest
        raise StoreError(
            f"{folder / MANIFEST} cannot be read; delete its folder, and what it holds is computed again."
        )

    def _intact(self, run: Run, folder: Path) -> bool:
        """Check that a result is the run's, file by file; set another aside, and say so."""
        if not (folder.exists() or folder.is_symlink()):
            return False
        wrong = _damage(run, folder)
        if wrong is None:
            return self.has(run)
        aside = folder.with_name(f"{folder.name}.damaged-{time.time_ns()}")
        folder.rename(aside)
        log.warning(
            "%s is damaged; the result is set aside as %s and computed again.",
            f"{folder.parent.name}/{folder.name}/{wrong}",
            aside.name,
        )
        return False

    def _compute(self, run: Run, report: Report) -> None:
        """Compute in the partial folder, unless a kill struck just before it was renamed."""
        folder = self.partial(run)
        if _damage(run, folder) is not None:
            _clear(folder, run.kept)
            here, started = environment(), time.perf_counter()  # before the source can change
            forget_peak()
            with one_thread(), small_memory_explained(run.kind, run.memory_advice):
                run.compute(folder, self.whole, report)
            made = {
                "parameters": run.parameters(),
                "parents": [f"{parent.kind}/{parent.key}" for parent in run.parents()],
                **here,
                "peak_memory_bytes": _peak(folder),
                "wall_s": round(time.perf_counter() - started, 3),
                "files": {path.name: sha256(path) for path in results_in(folder)},
            }
            write_manifest(folder, made)
        shutil.rmtree(folder / SCRATCH, ignore_errors=True)  # only the computation needed it
        for leftover in (folder / PROGRESS, *folder.glob(".*.tmp")):
            leftover.unlink(missing_ok=True)
        for path in folder.iterdir():
            write_through(path)
        if self.folder(run).exists():  # what a record had of it
            shutil.rmtree(self.folder(run))
        folder.rename(self.folder(run))
        write_through(self.folder(run).parent)


def _can_be_written(folder: Path) -> bool:
    """Tell whether this user can write in a folder, or make it."""
    with suppress(OSError):  # not even to be looked at
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return False


def environment() -> dict[str, str]:
    """Return the time, the versions, the revision and the device of this process."""
    try:
        installed = version("sameloss")
    except PackageNotFoundError:  # its folder is only on Python's path
        installed = UNKNOWN
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "sameloss": installed,
        "revision": source_revision(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device_name(),
    }


def _peak(folder: Path) -> int:
    """Return the largest memory of what computed, this process or others."""
    try:
        return int((folder / SCRATCH / PEAK).read_text())
    except (OSError, ValueError):  # none was left, or something else lies there
        return peak_bytes()


def _clear(folder: Path, kept: frozenset[str]) -> None:
    """Make a folder in which there is only what an interrupted computation goes on from."""
    if not folder.is_dir():  # or a link to one, perhaps on another disk
        folder.unlink(missing_ok=True)
        folder.mkdir()
    for path in folder.iterdir():
        is_folder = path.is_dir() and not path.is_symlink()
        if is_folder and path.name != SCRATCH:
            shutil.rmtree(path)
        elif not is_folder and path.name not in kept:
            path.unlink()


def write_progress(folder: Path) -> Report:
    """Return a reporter that keeps one line on disk, at most twice a second."""
    last = 0.0

    def report(fraction: float, text: str) -> None:
        nonlocal last
        if time.monotonic() - last > 0.5:
            last = time.monotonic()
            (folder / PROGRESS).write_text(f"{fraction:.4f} {text}")

    return report


def with_ancestors(runs: Iterable[Run]) -> list[Run]:
    """Return the runs and all they read, parents first, each once."""
    ordered: dict[str, Run] = {}

    def visit(run: Run) -> None:
        name = f"{run.kind}/{run.key}"
        if name not in ordered:
            for parent in run.parents():
                visit(parent)
            ordered[name] = run

    for run in runs:
        visit(run)
    return list(ordered.values())
