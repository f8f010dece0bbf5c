"""Reads recorded runs: the small tables of presets that are too long to wait for, kept in `results/`."""

import json
from typing import Any

import pandas as pd

from sameloss.statistics.bootstrap import Interval
from sameloss.store.location import book_root
from sameloss.studies.same_loss.claims import CLAIMS
from sameloss.studies.verdict import Claim, in_unit, judge

ORIGIN = "record.json"
"""The file that makes a folder a record; written last."""

NOT_RECORDED = "–"
"""In the place of a verdict on what a record does not have."""

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


def across_presets(verdicts: pd.DataFrame, preset: str, tolerance: float | None = None) -> pd.DataFrame:
    """Return the verdicts of a page beside those of every record.

    A record has a claim only where it has it in the same words: what was called so before may be another.

    Args:
        verdicts: from `verdict.verdict_table`.
        preset: the page's.
        tolerance: of all verdicts, in the place of each claim's own.

    """
    table = verdicts[["id", "claim"]].assign(**{f"{preset} (this page)": _in_short(verdicts, tolerance)})
    for name in records():
        own = recorded("verdicts", name).set_index(["id", "claim"])
        other = own.reindex(pd.MultiIndex.from_frame(verdicts[["id", "claim"]])).reset_index()
        table[f"{name} (recorded)"] = _in_short(other, tolerance)
    return table


def _in_short(verdicts: pd.DataFrame, tolerance: float | None) -> list[str]:
    """Return verdict, effect and interval as one text a row; records keep numbers, and are judged here."""
    effects = (Interval(row.ours, row.low, row.high) for row in verdicts.itertuples())
    return [
        NOT_RECORDED if pd.isna(known) else _judged(BY_ID[name].with_tolerance(tolerance), effect)
        for name, known, effect in zip(verdicts.id, verdicts.verdict, effects, strict=True)
    ]


def _judged(claim: Claim, effect: Interval) -> str:
    verdict = str(judge(effect, claim))
    if pd.isna(effect.low):
        return verdict
    value, low, high = (in_unit(n, claim.unit, sign) for n, sign in zip(effect, ("+", "", ""), strict=True))
    return f"{verdict}: {value} ({low}, {high})"
