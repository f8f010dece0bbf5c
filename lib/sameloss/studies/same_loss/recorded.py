"""Reads recorded runs: the small tables of presets that are too long to wait for, kept in `results/`."""

import json
from typing import Any

import pandas as pd

from sameloss.statistics.bootstrap import Interval
from sameloss.store.location import book_root
from sameloss.studies.evidence import Source, side_by_side
from sameloss.studies.same_loss.claims import CLAIMS
from sameloss.studies.same_loss.settings import Settings
from sameloss.studies.verdict import Verdict, judge

ORIGIN = "record.json"
"""The file that makes a folder a record; written last."""

BY_ID = {claim.id: claim for claim in CLAIMS}


def records() -> dict[str, dict[str, Any]]:
    """Return the origin of every record, by preset."""
    found = sorted((book_root() / "results").glob(f"*/{ORIGIN}"))
    return {path.parent.name: json.loads(path.read_text()) for path in found}


def recorded(table: str, preset: str = "laptop-long") -> pd.DataFrame:
    """Return a table that `record` wrote; an empty one where the record is of a time that had none such."""
    path = book_root() / "results" / preset / f"{table}.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame()


def record_in_words(preset: str) -> str:
    """Return one line on where a record comes from."""
    origin = records()[preset]
    days = " to ".join(dict.fromkeys(origin["days"]))
    return (
        f"Recorded: preset {preset}, {origin['seeds']} pre-training seeds, {origin['runs']} runs, "
        f"{origin['core_hours']:g} core-hours on {', '.join(origin['device'])}, torch "
        f"{', '.join(origin['torch'])}, {days}, source revision {', '.join(origin['revision'])}."
        + origin.get("note", "")
    )


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
