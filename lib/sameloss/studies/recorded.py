"""Records: tables of long presets, kept in `results/<preset>/<page>/`, for Part I in `results/<preset>/`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from sameloss.store.location import book_root, results_folder
from sameloss.store.store import Run, write_atomically

ORIGIN = "record.json"
"""Provenance of a record; written last, it makes the folder a record."""


def write_record(tables: Mapping[str, pd.DataFrame], origin: Mapping[str, Any], folder: Path) -> Path:
    """Write the tables of a record and their provenance."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
    write_atomically(folder / ORIGIN, (json.dumps(origin, indent=1) + "\n").encode())
    return folder


def records(page: str = "") -> dict[str, dict[str, Any]]:
    """Provenance of the records of Part I or of a page, by preset."""
    if book_root() is None:
        return {}
    results = results_folder()
    presets = sorted(folder.name for folder in results.glob("*") if (folder / page / ORIGIN).exists())
    return {preset: json.loads((results / preset / page / ORIGIN).read_text()) for preset in presets}


def recorded(table: str, preset: str, page: str = "") -> pd.DataFrame:
    """A recorded table; empty where the record has none of that name.

    Raises:
        ParameterError: if no book is found.

    """
    path = results_folder() / preset / page / f"{table}.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def recorded_tables(preset: str, page: str) -> dict[str, pd.DataFrame]:
    """All tables of a record by name."""
    return {path.stem: pd.read_csv(path) for path in (results_folder() / preset / page).glob("*.csv")}


def record_in_words(preset: str, page: str = "") -> str:
    """Provenance of a record in one line."""
    origin = records(page)[preset]
    days = " to ".join(dict.fromkeys(origin["days"]))
    changed = ", ".join(changed_since(origin.get("schemas", {})))
    since = f" The code of {changed or 'its runs'} has {'' if changed else 'not '}changed since."
    return (
        f"Recorded: preset {preset}, {origin['seeds']} seeds, {origin['runs']} runs, "
        f"{origin['core_hours']:g} core-hours on {', '.join(origin['device'])}, torch "
        f"{', '.join(origin['torch'])}, {days}, source revision {', '.join(origin['revision'])}."
        f"{since if 'schemas' in origin else ''}{origin.get('note', '')}"
    )


def changed_since(schemas: Mapping[str, int]) -> list[str]:
    """Kinds of recorded runs whose schema has changed since, or that no longer exist."""
    now, kinds = {}, [Run]
    for kind in kinds:  # grows while iterating
        kinds += kind.__subclasses__()
        now[kind.__name__] = kind.schema
    return [kind for kind, schema in schemas.items() if now.get(kind) != schema]
