"""Reduce a result to a few numbers, and tell whether two results are the same but for rounding."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors.numpy import load_file

TOLERANCE = 1e-4
"""Of every number, relative to the size of the values it is made of.

Of the tiny runs, fifty times what other instruction sets (SSE4, AVX2, AVX-512) and two threads change.
"""

NOISE = 1e-9
"""Numbers below are what rounding leaves of zero."""

SECONDS = {"seconds"}
"""Columns that no two computations share."""


def fingerprint(folder: Path, names: list[str]) -> dict[str, Any]:
    """Return the numbers of each column, array and text of a result's files."""
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
    """Return their names, and the numbers of all tensors of a type as of one: weights have many names."""
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
    """Return shape, mean, root of the mean square, and a mean that knows the order of the values."""
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
    """Return the geometric mean of the absolute values: of a column of unlike rows each counts alike."""
    size = np.abs(values)
    size = size[size > NOISE]  # neither zeros nor NaN
    return float(f"{np.exp(np.log(size).mean()):.7g}") if len(size) else 0.0


def differences(recorded: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Name the parts of a result that are not what they were."""
    names = sorted(recorded.keys() | found.keys())
    return [name for name in names if not _same(recorded.get(name), found.get(name))]


def _same(recorded: Any, found: Any) -> bool:
    if not (isinstance(recorded, dict) and isinstance(found, dict) and "rms" in recorded and "rms" in found):
        return recorded == found
    exact = ("shape", "unknown")
    if any(recorded[name] != found[name] for name in exact) or recorded.keys() != found.keys():
        return False
    return all(
        abs(recorded[name] - found[name]) <= TOLERANCE * _scale(name, recorded) + NOISE
        for name in recorded.keys() - set(exact)
    )


def _scale(name: str, recorded: dict[str, Any]) -> float:
    """Return what a number is measured by: a mean may cancel, the size of its terms does not."""
    return recorded["geometric" if name == "geometric" else "rms"]
