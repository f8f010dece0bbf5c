"""The record: finished runs without model weights, kept under version control.

It has a line of JSON per run, sorted by key, in `<kind>/<first digit of the key>.jsonl`, so that git compares
runs and no file grows large. A line holds the key, the manifest (parameters, versions, device, time, file
hashes) and the small files.
"""

import base64
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable
from copy import copy
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from sameloss.errors import StoreError
from sameloss.store.location import book_root
from sameloss.store.store import (
    LEFT_OUT,
    Report,
    Run,
    Store,
    is_manifest,
    is_of,
    locked,
    sealed_manifest,
    with_ancestors,
    write_atomically,
)

RUNS = "results/runs"
"""Folder of the record in that of the book."""

LARGEST, LARGEST_TABLE = 100_000, 300_000
"""Size limits (bytes) of recorded files. A run that needs a larger file is not recorded: redrawing a corpus
takes less time than fetching it."""

BASE64 = "base64"
"""Key of the content of a file that is no text."""


class NotRecorded(StoreError):
    """A run that the record lacks."""


class OpenFile(BytesIO):
    """A recorded file, which reads as an open one or as a path."""

    def read_text(self) -> str:
        return self.getvalue().decode()


class Line(NamedTuple):
    """A recorded run, which runs load as they load a folder: its files are `line / name`."""

    text: str
    name: str  # the key
    manifest: dict[str, Any]
    files: dict[str, bytes]

    def __truediv__(self, name: str) -> OpenFile:
        if name not in self.files:
            raise FileNotFoundError(f"{name} of {self.name} is not recorded.")
        return OpenFile(self.files[name])


class Record(Store):
    """A store of recorded runs, which computes nothing."""

    def __init__(self, folder: Path | str) -> None:
        """Open a record, which may be empty."""
        self.root, self.record, self._whole = Path(folder).absolute(), None, False

    @property
    def complete(self) -> "Record":
        """The same record, in which only runs with all their files count as present."""
        complete = copy(self)
        complete._whole = True
        return complete

    def has(self, run: Run) -> bool:
        """Whether the run is recorded.

        Raises:
            StoreError: if its line, or one beside it, is not as it was written.

        """
        return self._found(run) is not None

    def manifest(self, run: Run) -> dict[str, Any]:
        """Manifest of a recorded run.

        Raises:
            StoreError: if it is not recorded, or not as it was written.

        """
        return self._line(run).manifest

    def compute(self, run: Run, report: Report | None = None) -> None:
        """Require a run to be recorded; see `manifest`."""
        self._line(run)

    def _files(self, run: Run) -> Line:
        line = self._line(run)
        if not is_of(run, line.manifest):
            raise _fault(self._path(run), f"what it has as {run.key} is another run")
        return line

    def _line(self, run: Run) -> Line:
        line = self._found(run)
        if line is None:
            raise NotRecorded(
                f"{run.kind}/{run.key} is not in {self.root}, to which `make record` adds runs."
            )
        return line

    def _found(self, run: Run) -> Line | None:
        line = read_lines(self._path(run)).get(run.key)
        return None if line is None or (self._whole and LEFT_OUT in line.manifest) else line

    def _path(self, run: Run) -> Path:
        return self.root / run.kind / f"{run.key[0]}.jsonl"

    def add(self, store: Store, runs: Iterable[Run], *, lazy: bool = True) -> int:
        """Add finished runs of a store and their ancestors; returns how many of them the record then has.

        Without `lazy`, files that are loaded only on demand are left out, such as the losses of trainings.
        """
        finished = [run for run in with_ancestors(runs) if store.has(run)]
        new: dict[Path, dict[str, str]] = defaultdict(dict)
        for run in finished:
            if not self.has(run) and (line := _text_of(run, store, lazy)):
                new[self._path(run)][run.key] = line
        for path, added in new.items():
            with locked(store.root / "record"):
                lines = {key: line.text for key, line in read_lines(path).items()} | added
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, "".join(f"{lines[key]}\n" for key in sorted(lines)).encode())
        return sum(map(self.has, finished))


def kept_runs() -> Record:
    """The book's record; an empty one where there is no book."""
    return Record((book_root() or Path.cwd()) / RUNS)


def _text_of(run: Run, store: Store, lazy: bool) -> str | None:
    """The line of a finished run; None if it cannot be recorded."""
    folder, manifest = store.folder(run), store.manifest(run)
    excluded = run.weight_suffixes if lazy else (*run.weight_suffixes, *run.lazy_suffixes)
    kept = {name: folder / name for name in manifest["files"] if _is_small(folder / name, excluded)}
    left_out = [name for name in manifest["files"] if name not in kept]
    manifest |= {LEFT_OUT: left_out} if left_out else {}
    files = {name: _as_json(path.read_bytes()) for name, path in kept.items()}
    line = {"key": run.key, "manifest": sealed_manifest(manifest), "files": files}
    return json.dumps(line, separators=(",", ":")) if is_of(run, manifest) else None


def _is_small(path: Path, excluded: tuple[str, ...]) -> bool:
    largest = LARGEST_TABLE if path.suffix == ".csv" else LARGEST
    return path.exists() and path.stat().st_size <= largest and not path.name.endswith(excluded)


def _as_json(content: bytes) -> str | dict[str, str]:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {BASE64: base64.b64encode(content).decode()}


def _as_bytes(kept: Any) -> bytes:
    return kept.encode() if isinstance(kept, str) else base64.b64decode(kept[BASE64], validate=True)


def read_lines(path: Path) -> dict[str, Line]:
    """The lines of a file by key; none if there is no such file.

    Raises:
        StoreError: in one sentence, if one of them is not as it was written.

    """
    if not path.exists():
        return {}
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size, state.st_ino)


@cache
def _read(path: Path, *state: int) -> dict[str, Line]:
    """Read the lines of a file that stays in this state."""
    try:
        *texts, end = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        raise _fault(path, "it cannot be read as text") from None
    if end or not texts:
        raise _fault(path, "its end is missing")
    lines: dict[str, Line] = {}
    for number, text in enumerate(texts, 1):
        line = _parsed(text)
        if line is None or line.name in lines:
            raise _fault(path, f"line {number} is {'a second one of the same run' if line else 'altered'}")
        lines[line.name] = line
    return lines


def _parsed(text: str) -> Line | None:
    """A line; None if it is not as it was written."""
    try:
        kept = json.loads(text)
        key, manifest = str(kept["key"]), kept["manifest"]
        files = {name: _as_bytes(content) for name, content in kept["files"].items()}
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        names = manifest["files"].keys() - manifest.get(LEFT_OUT, ())
        sound = is_manifest(manifest) and hashes == {name: manifest["files"][name] for name in names}
        return Line(text, key, manifest, files) if sound else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _fault(path: Path, fault: str) -> StoreError:
    return StoreError(
        f"{path} is not what was recorded: {fault}; restore it with `git checkout -- {path}`, or remove what "
        "is wrong, and it is computed again."
    )
