"""Verdicts: computed from an interval, a published number and a tolerance fixed beforehand."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

import pandas as pd

from sameloss.statistics.bootstrap import LEVEL, Interval


@dataclass(frozen=True)
class Claim:
    """One published claim: what it says, and where this book judges it.

    Every effect is oriented so that the claim is a positive number. A study adds how it is computed.
    """

    id: str
    place: str  # in the paper
    text: str
    page: str  # the chapter that judges it
    value: float | None = field(default=None, kw_only=True)  # published; None: the paper has a direction only
    unit: str = field(default="", kw_only=True)
    tolerance: float = field(default=0.25, kw_only=True)  # share of the value that still counts as reproduced

    def with_tolerance(self, tolerance: float | None) -> "Claim":
        """Return the claim with another tolerance; None: with its own."""
        return self if tolerance is None else replace(self, tolerance=tolerance)


C = TypeVar("C", bound=Claim)


@dataclass(frozen=True)
class Topic(Generic[C]):
    """A question that several claims are about."""

    question: str
    claims: tuple[C, ...]  # the most direct one first


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


class Judged(NamedTuple):
    """A claim with its computed effect, and the task that it is about."""

    claim: Claim
    effect: Interval
    task: str | None = None


COLUMNS = ("id", "place", "claim", "page", "paper", "unit", "task", "ours", "low", "high", "verdict")


def verdict_table(judged: Iterable[Judged], tolerance: float | None = None) -> pd.DataFrame:
    """Return paper beside ours: one row a claim, with its verdict.

    Args:
        judged: claims and effects.
        tolerance: in the place of each claim's own.

    """
    rows = []
    for claim, effect, task in judged:
        published = (claim.id, claim.place, claim.text, claim.page, claim.value, claim.unit, task)
        rows.append((*published, *effect, str(judge(effect, claim.with_tolerance(tolerance)))))
    return pd.DataFrame(rows, columns=COLUMNS)


def chance_in_words(verdicts: pd.DataFrame) -> str:
    """Return how many intervals of a table lie above zero, and how many would by chance.

    An interval whose true effect is not above zero lies wholly above it in 2.5 % of repetitions at most, and
    expected numbers add up for dependent claims too. There is no correction for many claims: it would need
    tails far beyond 2.5 %, which the ends of a bootstrap over few seeds do not give.

    Args:
        verdicts: from `verdict_table`.

    >>> claim = Claim("x", "Tab. 0", "it helps", "a_page")
    >>> found = verdict_table([Judged(claim, Interval(1, 0.5, 2)), Judged(claim, Interval(1, -0.5, 2))])
    >>> print(chance_in_words(found).partition(". ")[0])
    95 % intervals: 2; wholly above zero: 1; there by chance, were no effect above zero: at most 0.05 (2.5 %)

    """
    share = (1 - LEVEL) / 2
    known = verdicts.dropna(subset=["low", "high"])
    return (
        f"{100 * LEVEL:g} % intervals: {len(known)}; wholly above zero: {(known.low > 0).sum()}; there by "
        f"chance, were no effect above zero: at most {share * len(known):.2g} ({100 * share:.2g} %). "
        "Claims on the same runs are not independent: chance moves several at once."
    )
