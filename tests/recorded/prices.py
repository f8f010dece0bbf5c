"""What a run of each kind, and a unit of its work, took in the record."""

import tempfile
from functools import cache

import pandas as pd

from sameloss.book.pages import pages_at
from sameloss.store.record import kept_runs
from sameloss.store.store import OTHER, Store, with_ancestors
from sameloss.studies.parameters import MAX_HOURS


@cache
def recorded() -> pd.DataFrame:
    """Return what the record has of all pages at all presets: kind, work, estimated and measured seconds."""
    record = kept_runs()
    with tempfile.TemporaryDirectory() as folder:
        pages = [page for preset in MAX_HOURS for page in pages_at(preset, Store(folder, record))]
        runs = [run for run in with_ancestors(r for page in pages for r in page.runs()) if record.has(run)]
    rows = [(run.kind, run.work, run.effort, record.manifest(run)["wall_s"]) for run in runs]
    return pd.DataFrame(rows, columns=["kind", "work", "estimated", "seconds"])


def found() -> dict[str, list[float]]:
    """Return seconds of a run and of a unit of work, by kind, to three digits.

    They are lower quartiles, for a busy machine only makes a run slower.
    """
    table = recorded().assign(unit=lambda table: table.seconds / table.work.where(table.work > 0))
    quartiles = table.groupby("kind")[["seconds", "unit"]].quantile(0.25)
    quartiles.loc[OTHER, "seconds"] = 1.0
    quartiles = quartiles.fillna({"unit": quartiles.unit["Pretraining"]})
    return {row.Index: [float(f"{x:.3g}") for x in row[1:]] for row in quartiles.itertuples()}
