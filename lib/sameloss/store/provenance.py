"""Provenance of results."""

from collections.abc import Iterable
from typing import Any

from sameloss.errors import StoreError
from sameloss.store.location import UNCOMMITTED, UNKNOWN, committed_hash, source_checkout
from sameloss.store.store import Run, Store, with_ancestors


def origin_of(store: Store, runs: Iterable[Run]) -> dict[str, Any]:
    """Devices, versions, revisions, days, time and memory of finished runs and their present ancestors.

    Schemas are those of all ancestors: a result depends on an absent one as well.
    """
    needed = with_ancestors(runs)
    manifests = [store.manifest(run) for run in needed if store.has(run)]
    distinct = {
        name: sorted({m[name] for m in manifests}) for name in ("device", "sameloss", "python", "torch")
    }
    distinct["revision"] = sorted({_short(m["revision"]) for m in manifests})
    days = sorted({m["created"][:10] for m in manifests})
    return distinct | {
        "schemas": dict(sorted({(run.kind, run.schema) for run in needed})),
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
