"""The run store: every result is stored under a key that hashes everything it depends on.

A run is a frozen dataclass. Its key is the hash of its canonical JSON, in which parent runs appear by
key and fields at their defaults are omitted, so that adding a field with a default changes no key. A
result is a folder that is complete once its `manifest.json`, written last, exists. An interrupted
computation leaves `<key>.partial`, from which the next one resumes.
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

from sameloss.device import device_name, peak_memory, reset_peak_memory
from sameloss.errors import StoreError
from sameloss.store.location import UNKNOWN, source_hash, source_revision

log = logging.getLogger("sameloss")

# Runs, and their keys

PEAK = "peak.txt"
"""File in `SCRATCH` with the peak memory (bytes) of a computation that runs in processes of its own."""

SMALL_BYTES = 1e9
"""Memory that no run of a small model exceeds: those of the default preset take at most 0.7 GB."""

ADVICE = "choose a smaller size, or another device"
"""What to change if the memory is too small for a run that knows nothing better."""

Folder = Any
"""A result's folder, or the line of a record in its place: `folder / name` is a file that can be read."""

Report = Callable[[float, str], None]
"""Progress callback: fraction done, and a short text."""


@dataclass(frozen=True)
class Run:
    """Base class of runs: a frozen dataclass whose fields determine its result.

    A subclass increments its `schema` when its code computes something else or a field's default changes.
    """

    schema: ClassVar[int] = 1

    accelerated: ClassVar[bool] = False
    """Whether the run computes on the GPU where there is one; else it takes the CPU everywhere."""

    weight_suffixes: ClassVar[tuple[str, ...]] = ()
    """Suffixes of weight files, which `load` reads lazily."""

    lazy_suffixes: ClassVar[tuple[str, ...]] = ()
    """Suffixes of other files that `load` reads lazily, so that a record may omit large ones."""

    def compute(self, folder: Path, store: "Store", report: Report) -> None:
        """Write the result into `folder`, resuming an interrupted computation.

        The folder then holds its `SCRATCH` and the files named in `resumable`; everything else was removed.
        """
        raise NotImplementedError

    def load(self, folder: Folder) -> Any:
        """Read what `compute` wrote."""
        raise NotImplementedError

    @property
    def resumable(self) -> frozenset[str]:
        """Names of result files that survive an interruption."""
        return frozenset()

    @property
    def work(self) -> float:
        """Floating-point operations, or another amount that tells a long run of its kind from a short one.

        Zero where all take about as long; for an accelerated run always operations.
        """
        return 0.0

    @property
    def effort(self) -> float:
        """Estimated seconds on a core of the record, see `prices`: for scheduling, progress and costs."""
        seconds, unit = prices().get(self.kind, prices()[OTHER])
        return unit * self.work or seconds

    @property
    def memory(self) -> float:
        """Estimated peak memory (bytes) on the device that computes, besides the loaded libraries."""
        return SMALL_BYTES

    @property
    def memory_advice(self) -> str:
        """What to change if memory is short."""
        return ADVICE

    @property
    def kind(self) -> str:
        """Name of the class, and of its folder in the store."""
        return type(self).__name__

    @property
    def cell_source(self) -> str:
        """Hash of its code where that stands in a notebook's cell; of the library's, `schema` speaks."""
        return ""

    def parameters(self) -> dict[str, Any]:
        """All fields as JSON values, parents by key; recorded in the manifest."""
        return {**self._code(), **_plain_fields(self, _keyed)}

    def canonical(self) -> dict[str, Any]:
        """The hashed content of the key: `parameters` without fields at their defaults."""
        return {**self._code(), **_plain_fields(self, _chosen)}

    def _code(self) -> dict[str, Any]:
        return {"run": self.kind, "schema": self.schema} | (
            {"source": self.cell_source} if self.cell_source else {}
        )

    @cached_property
    def key(self) -> str:
        """Name of the result: 16 hex digits."""
        text = json.dumps(self.canonical(), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def parents(self) -> list["Run"]:
        """Runs that this one reads."""
        return [v for f in fields(self) if isinstance(v := getattr(self, f.name), Run)]


PRICES = Path(__file__).with_name("prices.json")

OTHER = "other"
"""Name in `PRICES` of kinds that the record lacks."""


@cache
def prices() -> dict[str, list[float]]:
    """Median seconds of a recorded run, and of a unit of its work, by kind.

    `python tests/record.py` derives them from the record; its machines were busy, as a reader's may be.
    """
    return json.loads(PRICES.read_text())


def _keyed(value: Any) -> list[Field]:
    """Fields that take part in equality, and hence in the key."""
    return [field for field in fields(value) if field.compare]


def _plain(value: Any, fields_of: Callable[[Any], Iterable[Field]] = _keyed) -> Any:
    """Convert to JSON values, with the dataclass fields selected by `fields_of`."""
    if isinstance(value, Run):
        return {"run": value.kind, "key": value.key}
    if is_dataclass(value):
        name = getattr(value, "key_name", type(value).__name__)  # a renamed class keeps its name in keys
        return {"type": name, **_plain_fields(value, fields_of)}
    if isinstance(value, tuple | list):
        return [_plain(item, fields_of) for item in value]
    return value


def _plain_fields(value: Any, fields_of: Callable[[Any], Iterable[Field]]) -> dict[str, Any]:
    return {field.name: _plain(getattr(value, field.name), fields_of) for field in fields_of(value)}


def _chosen(value: Any) -> list[Field]:
    """Fields that differ from their defaults; 1, 1.0 and True are three different values."""
    return [f for f in _keyed(value) if not _at_default(f, getattr(value, f.name))]


def _at_default(field: Field, value: Any) -> bool:
    default = field.default if field.default_factory is MISSING else field.default_factory()
    if isinstance(value, str | int | float) and value != default:  # most fields, without a text of each
        return False
    return value is default or (default is not MISSING and _json(value) == _json(default))


def _json(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True)


# Atomic writes and file hashes

JUST_WRITTEN_NS = 1_000_000_000
"""File time stamps can be coarse: a second write within this time may carry the same one."""


def write_atomically(path: Path, *content: bytes | memoryview) -> None:
    """Replace a file atomically: a kill at any moment leaves the old or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.writelines(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    write_through(path.parent)


def write_through(path: Path) -> None:
    """Flush a file or folder to disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    """SHA-256 of a file, cached while its modification time and size stay the same.

    A file modified within the last second is always read again.
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


# Manifests

MANIFEST = "manifest.json"

PROGRESS = "progress.txt"
"""Progress of a running computation: fraction done, then text. Not part of the result."""

SCRATCH = "scratch"
"""Folder for resumable state. Not part of the result."""

LEFT_OUT = "left_out"
"""Manifest entry with the names of files that a record omitted."""

SEAL = "sealed"
"""Manifest entry with the hash of all its other entries."""

LARGEST_MANIFEST = 1_000_000
"""Bytes; a larger file is no manifest, and parsing it could take minutes."""

ENTRIES = {
    **dict.fromkeys(("created", "sameloss", "revision", "python", "torch", "device"), str),
    **{"parameters": dict, "parents": list, "files": dict, "wall_s": float | int, "peak_memory_bytes": int},
}
"""Entries of every manifest, and their types."""

NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
"""System errors that mean a damaged result; others, such as denied access, do not."""


def results_in(folder: Path) -> list[Path]:
    """Result files of a folder, without manifest, progress, scratch and hidden files."""
    others = (MANIFEST, PROGRESS, SCRATCH)
    return [p for p in sorted(folder.iterdir()) if p.name not in others and not p.name.startswith(".")]


def write_manifest(folder: Path, manifest: dict[str, Any], name: str = MANIFEST) -> None:
    """Seal and write a manifest atomically."""
    write_atomically(folder / name, _text(manifest))


def sealed_manifest(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest with the hash of all its entries."""
    rest = {name: value for name, value in manifest.items() if name != SEAL}
    seal = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
    return {**rest, SEAL: seal}


def _text(manifest: dict[str, Any]) -> bytes:
    """The canonical text of a manifest, with its seal."""
    return (json.dumps(sealed_manifest(manifest), indent=1) + "\n").encode()


def read_manifest(folder: Path, name: str = MANIFEST) -> dict[str, Any] | None:
    """The manifest of a folder; None if missing, malformed, altered or too large."""
    try:
        with (folder / name).open("rb") as file:
            content = file.read(LARGEST_MANIFEST + 1)
        if len(content) > LARGEST_MANIFEST:
            return None
        manifest = dict(json.loads(content))
        known = name != MANIFEST or is_manifest(manifest)
        return manifest if known and _text(manifest) == content else None
    except (ValueError, TypeError, RecursionError, *NOT_THERE):
        return None


def is_manifest(manifest: dict[str, Any]) -> bool:
    """Whether the seal is right, and entries have the types that this version of the book gives them."""
    left_out = manifest.get(LEFT_OUT, [])
    return (
        sealed_manifest(manifest).get(SEAL) == manifest.get(SEAL)
        and all(isinstance(manifest.get(name), kind) for name, kind in ENTRIES.items())
        and isinstance(manifest["parameters"].get("run"), str)
        and isinstance(left_out, list)
        and all(isinstance(name, str) for name in left_out)
    )


def _damage(run: Run, folder: Path) -> str | None:
    """Name of the first damaged file (the manifest itself where it is not this run's); None if intact."""
    manifest = read_manifest(folder)
    if manifest is None or {path.name for path in results_in(folder)} - manifest["files"].keys():
        return MANIFEST
    if not is_of(run, manifest):
        return MANIFEST
    for name, digest in manifest["files"].items():
        if not ((folder / name).is_file() and sha256(folder / name) == digest):
            return name
    return None


def is_of(run: Run, manifest: dict[str, Any]) -> bool:
    """Whether a manifest is that of a run, which can do without the files that a record omitted."""
    optional = (*run.weight_suffixes, *run.lazy_suffixes)
    expected, required = (json.loads(json.dumps(some)) for some in (run.parameters(), run.canonical()))
    lost = [name for name in manifest.get(LEFT_OUT, []) if not name.endswith(optional)]
    return not lost and _same(manifest["parameters"], expected, required)


def _same(recorded: Any, expected: Any, required: Any = None) -> bool:
    """Compare recorded parameters with a run's, which may have fields added since, at their defaults."""
    if isinstance(recorded, dict) and isinstance(expected, dict):
        required = required or {}
        shared = recorded.keys() & expected.keys()
        same = (_same(recorded[name], expected[name], required.get(name)) for name in shared)
        return required.keys() <= shared and all(same)
    if isinstance(recorded, list) and isinstance(expected, list):
        items = required or [None] * len(expected)
        return len(recorded) == len(expected) and all(map(_same, recorded, expected, items))
    return bool(recorded == expected)


# Threads, memory and disk


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread, so that results do not depend on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


NO_MEMORY = "can't allocate memory"
"""Part of the message of torch's CPU allocator."""


@contextmanager
def small_memory_explained(kind: str, advice: str) -> Iterator[None]:
    """Turn out-of-memory errors into one sentence with a remedy.

    Args:
        kind: kind of run.
        advice: what to change.

    Raises:
        StoreError: for torch's `OutOfMemoryError`, on a CPU a plain `RuntimeError`, and for the
            `MemoryError` of Python and NumPy.

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
"""Errors of a file or folder with the wrong owner or type."""


@contextmanager
def disk_faults_explained(folder: Path) -> Iterator[None]:
    """Turn a full disk, too many open files or an unusable file in this folder into one sentence.

    Raises:
        StoreError: for the system's error.

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
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise StoreError(
                "More files are open than this system allows; raise its limit, for example with "
                "`ulimit -n 4096`, or choose fewer `workers`. What was computed before is kept."
            ) from error
        if error.errno not in IN_THE_WAY or not within:
            raise
        raise StoreError(
            f"{error.filename} cannot be used ({error.strerror}); what was computed before is kept. "
            "Move it away, or choose another folder with the parameter `artifacts`."
        ) from error


NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a result, whose file every user may use.

    Raises:
        StoreError: on a file system without locks.

    """
    # The file stays, so that it could not be a lock by its mere existence, as `filelock` would have it.
    lock = FileLock(folder.with_suffix(".lock"), mode=0o666, fallback_to_soft=False)
    try:
        held = lock.acquire()
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        raise StoreError(
            f"The file system of {folder.parent} has no file locks; "
            "choose a folder on another one with the parameter `artifacts`."
        ) from error
    with held:
        yield


# The store


class Store:
    """Results on disk. Where two processes need the same run, one computes it and the other waits."""

    def __init__(self, root: Path | str, record: "Store | None" = None) -> None:
        """Open an artifacts folder, which the first result creates.

        Args:
            root: the folder.
            record: what is read of it is not computed; see `Record`.

        Raises:
            StoreError: where it can neither be written nor has results that can be read.

        """
        self.root, self.record = Path(root).absolute(), record
        if not (_can_be_written(self.root) or any(self.root.glob(f"*/*/{MANIFEST}"))):
            raise self._unusable

    @property
    def _unusable(self) -> StoreError:
        return StoreError(
            f"The artifacts folder {self.root} cannot be written or made; "
            "choose another with the parameter `artifacts`."
        )

    @property
    def complete(self) -> "Store":
        """The same store, in which only complete results count as present."""
        complete = copy(self)
        complete.record = self.record and self.record.complete
        return complete

    def folder(self, run: Run) -> Path:
        """Folder of the run's result."""
        return self.root / run.kind / run.key

    def partial(self, run: Run) -> Path:
        """Folder in which the run is being computed."""
        return self.folder(run).with_suffix(".partial")

    def get(self, run: Run, report: Report | None = None) -> Any:
        """Load the result, computing it first if missing or damaged."""
        self.compute(run, report)
        with disk_faults_explained(self.root):
            return run.load(self._files(run))

    def files(self, run: Run) -> Folder:
        """What the run loads, computed first if missing or damaged."""
        self.compute(run)
        return self._files(run)

    def _files(self, run: Run) -> Folder:
        return self.record._files(run) if self.record and not self._finished(run) else self.folder(run)

    def compute(self, run: Run, report: Report | None = None) -> None:
        """Compute the result if missing or damaged, without loading it; a finished one takes no lock."""
        folder = self.folder(run)
        with disk_faults_explained(self.root):
            with suppress(*NOT_THERE):  # as another process puts a complete result in its place
                if _damage(run, folder) is None if self._finished(run) else self._recorded(run):
                    return
            if not _can_be_written(self.root):
                raise self._unusable
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
            except FileNotFoundError as error:  # /proc claims to be writable for root
                raise self._unusable from error
            with locked(folder):
                if not (self._intact(run, folder) or self._recorded(run)):
                    self._compute(run, report or write_progress(self.partial(run)))

    def has(self, run: Run) -> bool:
        """Whether the result exists with a valid manifest; its files are verified when it is read."""
        return self._finished(run) or self._recorded(run)

    def _finished(self, run: Run) -> bool:
        with disk_faults_explained(self.root):
            manifest = read_manifest(self.folder(run))
        return manifest is not None and not manifest.get(LEFT_OUT)

    def _recorded(self, run: Run) -> bool:
        return self.record is not None and self.record.has(run)

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Missing runs and their missing or incomplete ancestors, parents first."""
        ordered: dict[str, Run] = {}

        def visit(run: Run, store: Store) -> None:
            if run.key not in ordered and not store.has(run):
                for parent in run.parents():
                    visit(parent, store.complete)
                ordered[run.key] = run

        for run in runs:
            visit(run, self)
        return list(ordered.values())

    def manifest(self, run: Run) -> dict[str, Any]:
        """Manifest of a finished run: parameters, versions, device, time, files.

        Raises:
            StoreError: if unreadable or altered.

        """
        if self.record and self._recorded(run) and not self._finished(run):
            return self.record.manifest(run)
        folder = self.folder(run)
        with suppress(OSError):
            if manifest := read_manifest(folder):
                return manifest
        raise StoreError(
            f"{folder / MANIFEST} cannot be read; delete its folder, and what it holds is computed again."
        )

    def _intact(self, run: Run, folder: Path) -> bool:
        """Verify a result file by file; a damaged one is set aside with a warning."""
        if not (folder.exists() or folder.is_symlink()):
            return False
        if LEFT_OUT in (read_manifest(folder) or {}):  # without weights, from a record
            return False
        wrong = _damage(run, folder)
        if wrong is None:
            return True
        aside = folder.with_name(f"{folder.name}.damaged-{time.time_ns()}")
        folder.rename(aside)
        log.warning(
            "%s is damaged; the result is set aside as %s and computed again.",
            f"{folder.parent.name}/{folder.name}/{wrong}",
            aside.name,
        )
        return False

    def _compute(self, run: Run, report: Report) -> None:
        """Compute in the partial folder, unless it is complete and only the rename is missing."""
        folder = self.partial(run)
        if folder.is_symlink():  # not this store's, whatever it leads to
            folder.unlink()
        if _damage(run, folder) is not None:
            _clear(folder, run.resumable)
            made_by, started = environment(), time.perf_counter()  # before the source can change
            reset_peak_memory()
            with one_thread(), small_memory_explained(run.kind, run.memory_advice):
                run.compute(folder, self.complete, report)
            manifest = {
                "parameters": run.parameters(),
                "parents": [f"{parent.kind}/{parent.key}" for parent in run.parents()],
                **made_by,
                "peak_memory_bytes": _peak(folder),
                "wall_s": round(time.perf_counter() - started, 3),
                "files": {path.name: sha256(path) for path in results_in(folder)},
            }
            write_manifest(folder, manifest)
        shutil.rmtree(folder / SCRATCH, ignore_errors=True)  # only resumption needs it
        for leftover in (folder / PROGRESS, *folder.glob(".*.tmp")):
            leftover.unlink(missing_ok=True)
        for path in folder.iterdir():
            write_through(path)
        remove(self.folder(run))
        folder.rename(self.folder(run))
        write_through(self.folder(run).parent)


def _can_be_written(folder: Path) -> bool:
    """Whether this user can write to a folder, or create it."""
    with suppress(OSError):  # not even readable
        nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    return False


def environment() -> dict[str, str]:
    """Time, versions, source revision and device of this process."""
    try:
        installed = version("sameloss")
    except PackageNotFoundError:  # not installed, only on Python's path
        installed = UNKNOWN
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "sameloss": installed,
        "revision": source_revision(),
        "source": source_hash(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device_name(),
    }


def _peak(folder: Path) -> int:
    """Peak memory of this process, or of the ones that it started."""
    try:
        return int((folder / SCRATCH / PEAK).read_text())
    except (OSError, ValueError):  # no such file, or not a number
        return peak_memory()


def _clear(folder: Path, kept: frozenset[str]) -> None:
    """Create the folder, or reduce it to what an interrupted computation resumes from."""
    if not folder.is_dir():
        remove(folder)
        folder.mkdir()
    for path in folder.iterdir():
        is_folder = path.is_dir() and not path.is_symlink()
        if not (path.name == SCRATCH if is_folder else path.name in kept):
            remove(path)


def remove(path: Path) -> None:
    """Remove a file or folder if there is one; of a link the link alone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_progress(folder: Path) -> Report:
    """Progress callback that writes one line to disk, at most twice a second."""
    last = 0.0

    def report(fraction: float, text: str) -> None:
        nonlocal last
        if time.monotonic() - last > 0.5:
            last = time.monotonic()
            (folder / PROGRESS).write_text(f"{fraction:.4f} {text}")

    return report


def with_ancestors(runs: Iterable[Run]) -> list[Run]:
    """The runs and all their ancestors, parents first, each once."""
    ordered: dict[str, Run] = {}

    def visit(run: Run) -> None:
        if run.key not in ordered:
            for parent in run.parents():
                visit(parent)
            ordered[run.key] = run

    for run in runs:
        visit(run)
    return list(ordered.values())
