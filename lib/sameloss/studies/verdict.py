"""Verdicts: computed from an interval, a published number and a tolerance fixed beforehand.

And what several presets say of the same claims, side by side: the strongest evidence first.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

import pandas as pd

from sameloss.statistics.intervals import LEVEL, UNDEFINED, Interval


@dataclass(frozen=True)
class Claim:
    """One published claim: what it says, and where this book judges it.

    Every effect is oriented so that the claim is a positive number.
    """

    id: str
    place: str  # in the paper
    text: str
    page: str  # the chapter that judges it
    effect: Callable[[Any], Interval] = lambda results: UNDEFINED  # of what its study's runs found
    value: float | None = field(default=None, kw_only=True)  # published; None: the paper has a direction only
    unit: str = field(default="", kw_only=True)
    tolerance: float = field(default=0.25, kw_only=True)  # share of the value that still counts as reproduced


@dataclass(frozen=True)
class Topic:
    """A question that several claims are about."""

    question: str
    claims: tuple[Claim, ...]  # the most direct one first


DECIMALS = {"nats": 4}
"""Of units that two are too few for: every verdict can be checked from the digits that are printed."""


def in_unit(number: float, unit: str, sign: str = "") -> str:
    """Write a number with the decimals of its unit, a gap as a dash.

    >>> in_unit(0.00512, "nats"), in_unit(5.123, "accuracy points", "+"), in_unit(float("nan"), "nats")
    ('0.0051', '+5.12', '–')
    """
    return "–" if pd.isna(number) else f"{number:{sign}.{DECIMALS.get(unit, 2)}f}"


class Verdict(StrEnum):
    """What a computation says of a published claim."""

    REPRODUCED = "reproduced"
    DIRECTION = "direction confirmed"  # the paper has no more than one
    SMALLER = "smaller than published"
    LARGER = "larger than published"
    NOT_DECIDED = "not decided"
    CONTRADICTED = "contradicted"
    NOT_TESTABLE = "not testable here"


def judge(effect: Interval, claim: Claim) -> Verdict:
    """Compare an effect, oriented so that the claim is positive, with what was published.

    A word is given where it is true of the whole interval, so a wider interval never gets a stronger one: its
    word stays, or becomes *not decided*, or from *contradicted* the *smaller* that this implies.

    - reproduced: within the tolerance around the published value, and above zero. It implies that the value
      lies in the interval widened by the tolerance, and that the interval is no wider than the tolerance to
      both sides. It is stricter than these two: an interval across an edge can have both where its part
      beyond the edge has not, and would get the stronger word for being wider.
    - smaller, larger than published: below, above the tolerance around the published value. An interval
      around zero can be smaller: a precise null is a result.
    - direction confirmed: above zero, where no value is published.
    - contradicted: below zero; it comes before smaller.
    - not decided: none of these. The interval overlaps an edge of the tolerance, or zero.

    >>> claim = Claim("x", "Tab. 0", "it helps", "a_page", value=10.0, tolerance=0.2)
    >>> for ends in [(9, 11), (-1, 3), (13, 15), (7, 13), (-3, -1)]:
    ...     print(judge(Interval(0, *ends), claim))
    reproduced
    smaller than published
    larger than published
    not decided
    contradicted

    """
    if effect.low != effect.low or effect.high != effect.high:
        return Verdict.NOT_TESTABLE
    if effect.high < 0:
        return Verdict.CONTRADICTED
    if claim.value is None:
        return Verdict.DIRECTION if effect.low > 0 else Verdict.NOT_DECIDED
    slack = claim.tolerance * abs(claim.value)
    low, high = claim.value - slack, claim.value + slack
    if effect.high < low:
        return Verdict.SMALLER
    if effect.low > high:
        return Verdict.LARGER
    within = low <= effect.low and effect.high <= high
    return Verdict.REPRODUCED if within and effect.low > 0 else Verdict.NOT_DECIDED


COLUMNS = ("id", "place", "claim", "page", "paper", "unit", "ours", "low", "high", "verdict")


def verdict_table(topics: Sequence[Topic], results: Any, tolerance: float | None = None) -> pd.DataFrame:
    """Return paper beside ours: one row a claim, with its verdict.

    Args:
        topics: whose claims are judged.
        results: of which each claim has its effect.
        tolerance: in the place of each claim's own.

    """
    rows = []
    for claim in (claim for topic in topics for claim in topic.claims):
        effect, held = claim.effect(results), claim.tolerance if tolerance is None else tolerance
        published = (claim.id, claim.place, claim.text, claim.page, claim.value, claim.unit)
        rows.append((*published, *effect, str(judge(effect, replace(claim, tolerance=held)))))
    return pd.DataFrame(rows, columns=COLUMNS)


def chance_in_words(verdicts: pd.DataFrame) -> str:
    """Return how many intervals of a table lie above zero, and how many would by chance.

    An interval whose true effect is not above zero lies wholly above it in 2.5 % of repetitions at most, and
    expected numbers add up for dependent claims too. There is no correction for many claims: it would need
    tails far beyond 2.5 %, which the ends of a bootstrap over few seeds do not give.

    Args:
        verdicts: from `verdict_table`.

    >>> claim = Claim("x", "Tab. 0", "it helps", "a_page", lambda low: Interval(1, low, 2))
    >>> print(chance_in_words(verdict_table([Topic("does it?", (claim, claim))], 0.5)).partition(". ")[0])
    95 % intervals: 2; wholly above zero: 2; there by chance, were no effect above zero: at most 0.05 (2.5 %)

    """
    share = (1 - LEVEL) / 2
    known = verdicts.dropna(subset=["low", "high"])
    return (
        f"{100 * LEVEL:g} % intervals: {len(known)}; wholly above zero: {(known.low > 0).sum()}; there by "
        f"chance, were no effect above zero: at most {share * len(known):.2g} ({100 * share:.2g} %). "
        "Claims on the same runs are not independent: chance moves several at once."
    )


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


def strongest(evidence: pd.DataFrame) -> pd.DataFrame:
    """Return one row a claim, indexed by its id: of the strongest source that could test it, if any could.

    Args:
        evidence: from `side_by_side`.

    """
    tested_first = evidence.assign(untested=evidence.low.isna()).sort_values("untested", kind="stable")
    return tested_first.drop(columns="untested").drop_duplicates("id").set_index("id")
