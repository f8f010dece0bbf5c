"""Judges what records of Part I say as its pages are judged."""

from typing import Any

import pandas as pd

from sameloss.statistics.bootstrap import Interval
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
