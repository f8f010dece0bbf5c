"""What the tiny runs computed, under which schemas."""

from typing import Any

from recorded.fingerprint import differences, fingerprint
from recorded.tiny_runs import tiny_runs

from sameloss.store.store import Run, Store, with_ancestors

FILE = "results.json"


def found(store: Store) -> dict[str, dict[str, Any]]:
    """Compute all tiny runs; return fingerprints, and the schemas of each run and of those it reads."""
    return {name: _record(store, run) for name, run in tiny_runs().items()}


def _record(store: Store, run: Run) -> dict[str, Any]:
    store.get(run)
    result = fingerprint(store.folder(run), sorted(store.manifest(run)["files"]))
    return {"schemas": {one.kind: one.schema for one in with_ancestors([run])}, "result": result}


def moved(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Say which results changed under the same schemas; what reads another such run is not named."""
    runs = tiny_runs()
    parts = {name: _moved(recorded[name], found[name]) for name in recorded.keys() & found.keys()}
    wrong = {name: parts[name][0] for name in sorted(parts) if parts[name]}
    keys = {runs[name].key for name in wrong}
    first: dict[str, list[str]] = {}
    for name, part in wrong.items():
        if not keys & {parent.key for parent in with_ancestors([runs[name]])[:-1]}:
            first.setdefault(runs[name].kind, []).append(f"{name} in {part}")
    return [
        f"The result of {kind} changed: raise its schema and record again. ({'; '.join(where)})"
        for kind, where in sorted(first.items())
    ]


def _moved(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Name what is different in a result, unless a schema says that it may be."""
    same = recorded["schemas"] == found["schemas"]
    return differences(recorded["result"], found["result"]) if same else []


def unrecorded(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Name the runs that are new or gone, and those with a schema that is not the recorded one."""
    names = recorded.keys() | found.keys()
    schemas = {name: [facts.get(name, {}).get("schemas") for facts in (recorded, found)] for name in names}
    return sorted(name for name, (before, now) in schemas.items() if before != now)


def kept(recorded: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return what to record: of results that agree but for rounding the recorded numbers."""
    new = set(unrecorded(recorded, found))
    return {name: found[name] if name in new else recorded[name] for name in found}
