"""Everything that decides what a chapter's execution gives, as one hash.

Two executions of one fingerprint may differ in times that they print, and in nothing else. What is in the
run store does not count: a run's key is made of what decides its result.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import nbformat

from sameloss.store.location import SOURCE

VERSIONS = Path("constraints.txt")

RESULTS = Path("results")
POOL = RESULTS / "runs"
"""What runs of all presets found, in small. A chapter computes the same without it."""


def fingerprints(pages: Iterable[Path], preset: str) -> dict[Path, str]:
    """Return a hash for each chapter: of its source, the preset, the library, recorded tables, versions."""
    shared = _hash(_shared(preset))
    return {page: _hash([shared.encode(), *_source(page)]) for page in pages}


def _shared(preset: str) -> Iterator[bytes]:
    """Yield what decides every chapter."""
    yield preset.encode()
    library = (path for path in SOURCE.rglob("*") if path.suffix in (".py", ".txt"))
    recorded = (path for path in RESULTS.rglob("*") if not path.is_relative_to(POOL))
    for folder, paths in ((SOURCE, library), (Path(), recorded), (Path(), [VERSIONS])):
        for path in sorted(path for path in paths if path.is_file()):
            yield str(path.relative_to(folder)).encode()
            yield path.read_bytes()


def _source(page: Path) -> Iterator[bytes]:
    """Yield what decides what a notebook gives: type, source, tags and figure captions of its cells."""
    for cell in nbformat.read(page, as_version=4).cells:
        kept = {key: cell.metadata[key] for key in ("tags", "mystnb") if cell.metadata.get(key)}
        for part in (cell.cell_type, cell.source.strip(), json.dumps(kept, sort_keys=True)):
            yield part.encode()


def _hash(parts: Iterable[bytes]) -> str:
    """Return a hash in which the parts cannot flow into each other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()
