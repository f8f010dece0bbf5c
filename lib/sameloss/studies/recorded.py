"""Recorded runs: the small tables of presets that are too long to wait for, kept in `results/`.

A record is a folder of a preset, `results/laptop-long/`, or for a page with tables of its own a folder
within it, `results/laptop-long/ii5_growing/`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from sameloss.store.location import book_root, results_folder
from sameloss.store.store import Run, write_atomically

ORIGIN = "record.json"
"""The file that makes a folder a record; written last."""


def write_record(tables: Mapping[str, pd.DataFrame], origin: Mapping[str, Any], folder: Path) -> Path:
    """Write tables, and where they come from; return their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
    write_atomically(folder / ORIGIN, (json.dumps(origin, indent=1) + "\n").encode())
    return folder


def records(page: str = "") -> dict[str, dict[str, Any]]:
    """Return the origin of every record, by preset: of Part I, or of a page with tables of its own."""
    if book_root() is None:
        return {}
    results = results_folder()
    presets = sorted(folder.name for folder in results.glob("*") if (folder / page / ORIGIN).exists())
    return {preset: json.loads((results / preset / page / ORIGIN).read_text()) for preset in presets}


def recorded(table: str, preset: str, page: str = "") -> pd.DataFrame:
    """Return a recorded table; an empty one where the record is of a time that had none such.

    Raises:
        ParameterError: where no book is found.

    """
    path = results_folder() / preset / page / f"{table}.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def recorded_tables(preset: str, page: str) -> dict[str, pd.DataFrame]:
    """Return all tables of a record by name."""
    return {path.stem: pd.read_csv(path) for path in (results_folder() / preset / page).glob("*.csv")}


def record_in_words(preset: str, page: str = "") -> str:
    """Return one line on where a record comes from."""
    origin = records(page)[preset]
    days = " to ".join(dict.fromkeys(origin["days"]))
    return (
        f"Recorded: preset {preset}, {origin['seeds']} pre-training seeds, {origin['runs']} runs, "
        f"{origin['core_hours']:g} core-hours on {', '.join(origin['device'])}, torch "
        f"{', '.join(origin['torch'])}, {days}, source revision {', '.join(origin['revision'])}."
        + _schemas_in_words(origin.get("schemas", {}))
        + origin.get("note", "")
    )


def _schemas_in_words(schemas: Mapping[str, int]) -> str:
    """Say whether the code computes what a record has; nothing of a record that does not say what it has."""
    if not schemas:
        return ""
    changed = ", ".join(changed_since(schemas))
    return (
        f" Computed otherwise since: {changed}." if changed else " Nothing of it is computed otherwise since."
    )


def changed_since(schemas: Mapping[str, int]) -> list[str]:
    """Return the kinds of runs, of those in a record, that the code computes otherwise now, or not at all."""
    now, kinds = {}, [Run]
    for kind in kinds:  # which grow
        kinds += kind.__subclasses__()
        now[kind.__name__] = kind.schema
    return [kind for kind, schema in schemas.items() if now.get(kind) != schema]
