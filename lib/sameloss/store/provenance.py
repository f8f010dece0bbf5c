"""Provenance of results, and the seal of tables."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sameloss.errors import StoreError
from sameloss.store.location import UNCOMMITTED, UNKNOWN, committed_hash, source_checkout
from sameloss.store.store import Run, Store, read_manifest, sha256, with_ancestors, write_manifest


def origin_of(store: Store, runs: Iterable[Run]) -> dict[str, Any]:
    """Devices, versions, revisions, days, time and memory of finished runs and their present ancestors."""
    manifests = [store.manifest(run) for run in with_ancestors(runs) if store.has(run)]
    distinct = {
        name: sorted({m[name] for m in manifests}) for name in ("device", "sameloss", "python", "torch")
    }
    distinct["revision"] = sorted({_short(m["revision"]) for m in manifests})
    days = sorted({m["created"][:10] for m in manifests})
    return distinct | {
        "days": [days[0], days[-1]],
        "runs": len(manifests),
        "core_hours": round(sum(m["wall_s"] for m in manifests) / 3600, 2),
        "peak_gb": round(max(m["peak_memory_bytes"] for m in manifests) / 1e9, 2),
    }


def origin_in_words(store: Store, runs: list[Run]) -> str:
    """One sentence on the origin of finished runs."""
    origin = origin_of(store, runs)
    return (
        f"{origin['runs']} runs on {', '.join(origin['device'])}, "
        f"{' to '.join(dict.fromkeys(origin['days']))}, source revision {', '.join(origin['revision'])}."
    )


def record_in_words(preset: str, origin: Mapping[str, Any]) -> str:
    """One sentence on the origin of a record, which has `seeds` as well, and on what it may lack (`note`)."""
    return (
        f"Recorded: preset {preset}, {origin['seeds']} seeds, {origin['runs']} runs, "
        f"{origin['core_hours']:g} core-hours on {', '.join(origin['device'])}, torch "
        f"{', '.join(origin['torch'])}, {' to '.join(dict.fromkeys(origin['days']))}, source revision "
        f"{', '.join(origin['revision'])}.{origin.get('note', '')}"
    )


def _short(revision: str) -> str:
    commit, *mark = revision.partition(UNCOMMITTED)
    return "".join([commit[:8], *mark])


def uncommitted_runs(store: Store, runs: Iterable[Run]) -> list[Run]:
    """Finished runs and ancestors whose source was not committed or is unknown.

    That is so as well if it was not what their commit has, or if no such commit is found.
    """
    finished = [run for run in with_ancestors(runs) if store.has(run)]
    return [run for run in finished if not _committed(store.manifest(run))]


def _committed(manifest: dict[str, Any]) -> bool:
    revision, source, checkout = manifest["revision"], manifest.get("source"), source_checkout()
    if revision.endswith((UNCOMMITTED, UNKNOWN)):
        return False
    if source is None or checkout is None:  # older runs have no hash
        return True
    try:
        return source == committed_hash(checkout, revision)
    except StoreError:
        return False


# Tables that are kept beside the record, such as those of benchmarks.


def seal(path: Path, origin: Mapping[str, Any], tables: str) -> None:
    """Write provenance with a hash of itself and of the tables beside it (a pattern of their names)."""
    write_manifest(path.parent, {**origin, "files": _hashes(path.parent, tables)}, path.name)


def sealed(path: Path, tables: str) -> dict[str, Any]:
    """Provenance that `seal` wrote.

    Raises:
        StoreError: if it or a table beside it is not as it was then.

    """
    origin = read_manifest(path.parent, path.name)
    files = {} if origin is None else origin["files"]
    altered = {name for name, _ in files.items() ^ _hashes(path.parent, tables).items()}
    if origin is None or altered:
        wrong = path if origin is None else path.with_name(min(altered))
        raise StoreError(
            f"{wrong} is not what was recorded; restore its folder with `git checkout -- {path.parent}` and "
            "remove what was added to it, or record it again."
        )
    return origin


def _hashes(folder: Path, tables: str) -> dict[str, str]:
    return {path.name: sha256(path) for path in sorted(folder.glob(tables)) if path.is_file()}
