"""Fingerprints of the results of tiny runs, and which of them changed under the same schemas."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from recorded.tiny_runs import tiny_runs
from safetensors.numpy import load_file
from stores import SECONDS

from sameloss.store.store import Run, Store, with_ancestors

FILE = "results.json"


def found(store: Store) -> dict[str, dict[str, Any]]:
    """Compute all tiny runs; return the fingerprint of each, and the schemas of the run and its ancestors."""
    return {name: _record(store, run) for name, run in tiny_runs().items()}


def _record(store: Store, run: Run) -> dict[str, Any]:
    store.get(run)
    result = fingerprint(store.folder(run), sorted(store.manifest(run)["files"]))
    return {"schemas": {one.kind: one.schema for one in with_ancestors([run])}, "result": result}


def moved(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Name the results that changed under the same schemas, without descendants of such runs."""
    runs = tiny_runs()
    parts = {
        name: _moved(recorded[name], found[name], TOLERANCES.get(runs[name].kind, TOLERANCE))
        for name in recorded.keys() & found.keys()
    }
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


def _moved(recorded: dict[str, Any], found: dict[str, Any], tolerance: float) -> list[str]:
    """Name the differences in a result, unless its schemas differ."""
    same = recorded["schemas"] == found["schemas"]
    return differences(recorded["result"], found["result"], tolerance) if same else []


def unrecorded(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Name the runs that are new or gone, or have another schema than recorded."""
    names = recorded.keys() | found.keys()
    schemas = {name: [facts.get(name, {}).get("schemas") for facts in (recorded, found)] for name in names}
    return sorted(name for name, (before, now) in schemas.items() if before != now)


def kept(recorded: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """What to record: old numbers for results that differ only by rounding."""
    new = set(unrecorded(recorded, found))
    return {name: found[name] if name in new else recorded[name] for name in found}


# Fingerprints: a few numbers of each part of a result.

TOLERANCE = 1e-4
"""Of every number, relative to the size of the values it summarises.

For the tiny runs, fifty times the change by other instruction sets (SSE4, AVX2, AVX-512) and two threads.
"""

TOLERANCES = {"ModelMeasurement": 5e-2}
"""By kind, where accuracies on few sentences count: on another processor some may fall into another class."""

NOISE = 1e-9
"""Smaller numbers are zeros after rounding."""


def fingerprint(folder: Path, names: list[str]) -> dict[str, Any]:
    """Summarise each column, array and text of a result's files."""
    return {
        f"{name}: {part}" if part else name: value for name in names for part, value in _parts(folder / name)
    }


def _parts(path: Path) -> list[tuple[str, Any]]:
    match path.suffix:
        case ".csv":
            table = pd.read_csv(path)
            return [(str(column), _column(table[column])) for column in table if column not in SECONDS]
        case ".npz":
            with np.load(path) as arrays:
                return [(name, numbers(arrays[name])) for name in sorted(arrays)]
        case ".npy":
            return [("", numbers(np.load(path)))]
        case ".safetensors":
            return _tensors(load_file(path))
        case ".json":
            return [("", json.loads(path.read_text()))]
    raise AssertionError(f"{path.name}: no fingerprint of files of this kind; add one.")


def _tensors(tensors: dict[str, np.ndarray]) -> list[tuple[str, Any]]:
    """The names, and a summary of all tensors of a type together, as there are many weights."""
    parts: dict[str, list[np.ndarray]] = {}
    for _, tensor in sorted(tensors.items()):
        parts.setdefault(str(tensor.dtype), []).append(tensor.ravel())
    whole = [(kind, numbers(np.concatenate(tensors))) for kind, tensors in sorted(parts.items())]
    return [("names", sorted(tensors)), *whole]


def _column(column: pd.Series) -> Any:
    if pd.api.types.is_numeric_dtype(column):
        return {**numbers(column.to_numpy()), "geometric": _geometric(column.to_numpy(np.float64))}
    return column.fillna("").unique().tolist()


def numbers(values: np.ndarray) -> dict[str, Any]:
    """Shape, mean, root mean square, and a mean that depends on the order of the values."""
    flat = np.asarray(values, np.float64).ravel()
    known = np.where(np.isnan(flat), 0.0, flat)
    wave = np.cos(np.arange(len(known)))
    means = {"mean": known, "rms": np.square(known), "ordered": wave * known}
    found = {name: float(np.mean(terms)) if len(terms) else 0.0 for name, terms in means.items()}
    found["rms"] **= 0.5
    return {"shape": list(np.shape(values)), "unknown": int(np.isnan(flat).sum())} | {
        name: float(f"{value:.7g}") for name, value in found.items()
    }


def _geometric(values: np.ndarray) -> float:
    """Geometric mean of absolute values, in which rows of different size count alike."""
    size = np.abs(values)
    size = size[size > NOISE]  # neither zeros nor NaN
    return float(f"{np.exp(np.log(size).mean()):.7g}") if len(size) else 0.0


def differences(recorded: dict[str, Any], found: dict[str, Any], tolerance: float = TOLERANCE) -> list[str]:
    """Name the parts of a result that changed."""
    names = sorted(recorded.keys() | found.keys())
    return [name for name in names if not _same(recorded.get(name), found.get(name), tolerance)]


def _same(recorded: Any, found: Any, tolerance: float) -> bool:
    if not (isinstance(recorded, dict) and isinstance(found, dict) and "rms" in recorded and "rms" in found):
        return recorded == found
    exact = ("shape", "unknown")
    if any(recorded[name] != found[name] for name in exact) or recorded.keys() != found.keys():
        return False
    return all(
        abs(recorded[name] - found[name]) <= tolerance * _scale(name, recorded) + NOISE
        for name in recorded.keys() - set(exact)
    )


def _scale(name: str, recorded: dict[str, Any]) -> float:
    """Scale of a number: terms of a mean may cancel, their size does not."""
    return recorded["geometric" if name == "geometric" else "rms"]
