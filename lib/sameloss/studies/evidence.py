"""What several presets say of the same claims, side by side: the strongest evidence first."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pandas as pd

from sameloss.studies.recorded import records

SCALES = ("smoke", "laptop", "workstation", "gpu", "paper")
"""Families of presets: `laptop-long` has models and data of `laptop`, and more runs."""


class Source(NamedTuple):
    """The runs that a verdict comes from."""

    preset: str
    seeds: int | None = None  # of pre-training; None: no number of them says how strong it is
    recorded: bool = False  # or computed by the page at hand

    @property
    def strength(self) -> tuple[int, int, bool]:
        """Return what sources are ordered by: the larger scale, then the more seeds, then the record.

        >>> Source("gpu", 1, False).strength > Source("laptop-long", 5, True).strength
        True
        """
        return SCALES.index(self.preset.partition("-")[0]), self.seeds or 0, self.recorded

    def __str__(self) -> str:
        """Return where the runs stand, and how many seeds they have.

        >>> print(Source("laptop-long", 5, True), "and", Source("laptop", 1, False), sep="; ")
        laptop-long, recorded, 5 seeds; and; laptop, this page, 1 seed
        """
        where = "recorded" if self.recorded else "this page"
        seeds = "" if self.seeds is None else f", {self.seeds} seed{'s' * (self.seeds != 1)}"
        return f"{self.preset}, {where}{seeds}"


EFFECT = ["id", "ours", "low", "high", "verdict"]


def side_by_side(judged: Mapping[Source, pd.DataFrame]) -> pd.DataFrame:
    """Return one row a source and claim, with its `source`; the strongest source first.

    Args:
        judged: tables from `verdict.verdict_table`.

    """
    ordered = sorted(judged, key=lambda source: source.strength, reverse=True)
    tables = [judged[source][EFFECT].assign(source=[source] * len(judged[source])) for source in ordered]
    return pd.concat(tables, ignore_index=True)


def beside_records(
    own: Source, verdicts: pd.DataFrame, page: str, judged: Callable[[str], pd.DataFrame]
) -> pd.DataFrame:
    """Return a page's verdicts and those of every record that it has, side by side.

    Args:
        own: where the page's runs stand.
        verdicts: of these runs.
        page: whose records are read.
        judged: returns the verdicts of the record of a preset, judged as the page is.

    """
    of_records = {Source(preset, o["seeds"], True): judged(preset) for preset, o in records(page).items()}
    return side_by_side({own: verdicts, **of_records})


def strongest(evidence: pd.DataFrame) -> pd.DataFrame:
    """Return one row a claim, indexed by its id: of the strongest source that could test it, if any could.

    Args:
        evidence: from `side_by_side`.

    """
    tested_first = evidence.assign(untested=evidence.low.isna()).sort_values("untested", kind="stable")
    return tested_first.drop(columns="untested").drop_duplicates("id").set_index("id")
