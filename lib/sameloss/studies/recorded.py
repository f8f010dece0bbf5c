"""Records: tables of long presets, kept in `results/<preset>/<page>/`, for Part I in `results/<preset>/`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from sameloss.errors import StoreError
from sameloss.store.location import book_root, results_folder
from sameloss.store.store import Run, read_manifest, sha256, write_manifest

ORIGIN = "record.json"
"""Provenance of a record; written last, it makes the folder a record."""

TABLES = "*.csv"


def write_record(tables: Mapping[str, pd.DataFrame], origin: Mapping[str, Any], folder: Path) -> Path:
    """Write the tables of a record, in place of those of an earlier one, and their provenance."""
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in folder.glob(TABLES):
        earlier.unlink()
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
    seal(folder / ORIGIN, origin)
    return folder


def seal(path: Path, origin: Mapping[str, Any], tables: str = TABLES) -> None:
    """Write provenance with a hash of itself and of the tables beside it (a pattern of their names)."""
    write_manifest(path.parent, {**origin, "files": _hashes(path.parent, tables)}, path.name)


def sealed(path: Path, tables: str = TABLES) -> dict[str, Any]:
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


def records(page: str = "") -> dict[str, dict[str, Any]]:
    """Provenance of the records of Part I or of a page, by preset.

    Raises:
        StoreError: if one is not as it was written.

    """
    if book_root() is None:
        return {}
    results = results_folder()
    presets = sorted(folder.name for folder in results.glob("*") if (folder / page / ORIGIN).exists())
    return {preset: sealed(results / preset / page / ORIGIN) for preset in presets}


def recorded(table: str, preset: str, page: str = "") -> pd.DataFrame:
    """A recorded table; empty where the record has none of that name.

    Raises:
        ParameterError: if no book is found.
        StoreError: if the record is not as it was written.

    """
    return recorded_tables(preset, page).get(table, pd.DataFrame())


def recorded_tables(preset: str, page: str) -> dict[str, pd.DataFrame]:
    """All tables of a record by name.

    Raises:
        StoreError: if the record is not as it was written.

    """
    folder = results_folder() / preset / page
    return {Path(name).stem: pd.read_csv(folder / name) for name in sealed(folder / ORIGIN)["files"]}


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
