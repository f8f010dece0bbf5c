"""Judges what records of Part I say as its pages are judged."""

from typing import Any

import pandas as pd

from sameloss.errors import ParameterError
from sameloss.statistics.bootstrap import Interval
from sameloss.store.location import results_folder
from sameloss.studies.evidence import Source, side_by_side
from sameloss.studies.recorded import recorded, records
from sameloss.studies.same_loss.claims import CLAIMS
from sameloss.studies.same_loss.settings import Settings
from sameloss.studies.verdict import Verdict, judge

BY_ID = {claim.id: claim for claim in CLAIMS}


def recorded_verdicts(verdicts: pd.DataFrame, preset: str, tolerance: float | None = None) -> pd.DataFrame:
    """Return the claims of a page as a record has them; a claim that it has not is left out.

    A record keeps numbers, and is judged as the page is. It has a claim only where it has it in the same
    words: what was called so before may be another.

    Args:
        verdicts: of the page, from `verdict.verdict_table`.
        preset: of the record.
        tolerance: of all verdicts, in the place of each claim's own.

    """
    kept = recorded("verdicts", preset)[["id", "claim", "ours", "low", "high"]]
    known = verdicts[["id", "claim"]].merge(kept)
    return known.assign(verdict=[str(_judged(row, tolerance)) for row in known.itertuples()])


def rows(preset: str, table: str, **values: object) -> pd.DataFrame:
    """Return the rows of a recorded table that have some values; columns that are then empty are left out."""
    found = recorded(table, preset)
    if not set(values) <= set(found):
        return pd.DataFrame()
    wanted = (found[list(values)] == pd.Series(values)).all(axis=1)
    return found[wanted].dropna(axis=1, how="all").reset_index(drop=True)


def strongest_record(table: str, **values: object) -> str:
    """Return the preset of the strongest record that has rows with some values in a table.

    Raises:
        ParameterError: where none has, or no book is found.

    """
    results_folder()  # of no book, which is not for want of a record
    strength = {name: Source(name, origin["seeds"], True).strength for name, origin in records().items()}
    ordered = sorted(strength, key=strength.__getitem__, reverse=True)
    found = [name for name in ordered if len(rows(name, table, **values))]
    if not found:
        wanted = " and ".join(f"{name} {value}" for name, value in values.items())
        raise ParameterError(
            f"No record has {wanted or 'a row'} in its table {table}; `make record` makes one."
        )
    return found[0]


def _judged(row: Any, tolerance: float | None) -> Verdict:
    return judge(Interval(row.ours, row.low, row.high), BY_ID[row.id].with_tolerance(tolerance))


def evidence_on(verdicts: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """Return the verdicts of a page beside those of every record, the strongest source first.

    Args:
        verdicts: from `verdict.verdict_table`, under these settings.
        settings: of the page.

    """
    tolerance = settings.evaluation.tolerance
    judged = {Source(settings.name, settings.training.seeds, recorded=False): verdicts}
    for preset, origin in records().items():
        source = Source(preset, origin["seeds"], recorded=True)
        judged[source] = recorded_verdicts(verdicts, preset, tolerance)
    return side_by_side(judged)
