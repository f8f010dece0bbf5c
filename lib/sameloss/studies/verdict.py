"""Verdicts: computed from an interval, a published number and a tolerance fixed beforehand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

import pandas as pd

from sameloss.statistics.intervals import LEVEL, UNDEFINED, Interval

OURS = "this book"
"""The place of a claim that the paper does not make."""


@dataclass(frozen=True)
class Claim:
    """A published claim, with an effect oriented so that the claim predicts a positive number."""

    id: str
    place: str  # in the paper
    text: str
    page: str  # the chapter that judges it
    effect: Callable[..., Interval] = lambda results: UNDEFINED  # from the study's results
    value: float | None = field(default=None, kw_only=True)  # published; None: only a direction is
    unit: str = field(default="", kw_only=True)
    tolerance: float = field(default=0.25, kw_only=True)  # relative, around the value
    margin: float | None = field(default=None, kw_only=True)
    """An effect this close to zero is negligible. Where there is a margin, `effect` takes a `level`."""


@dataclass(frozen=True)
class Topic:
    """A question and the claims about it."""

    question: str
    claims: tuple[Claim, ...]  # the most direct one first
    presets: tuple[str, ...] = ()  # whose data and models they are about; (): all


DECIMALS = {"nats": 4}
"""Units that need more than two decimals, so that verdicts can be checked from the printed digits."""


def in_unit(number: float, unit: str, sign: str = "") -> str:
    """Format a number with the decimals of its unit, and NaN as a dash.

    >>> in_unit(0.00512, "nats"), in_unit(5.123, "accuracy points", "+"), in_unit(float("nan"), "nats")
    ('0.0051', '+5.12', '–')
    """
    return "–" if pd.isna(number) else f"{number:{sign}.{DECIMALS.get(unit, 2)}f}"


class Verdict(StrEnum):
    """Verdict on a published claim."""

    REPRODUCED = "reproduced"
    DIRECTION = "direction confirmed"  # where no value is published
    SMALLER = "smaller than published"
    LARGER = "larger than published"
    NEGLIGIBLE = "negligible"
    NOT_DECIDED = "not decided"
    CONTRADICTED = "contradicted"
    NOT_TESTABLE = "not testable here"


NARROW = 0.9
"""Level of the interval that lies within the margin of a negligible effect: two one-sided tests at 5 %."""


def judge(effect: Interval, claim: Claim, narrow: Interval = UNDEFINED) -> Verdict:
    """Compare the interval of an effect with the published value.

    A verdict must hold for the whole interval, so widening an interval never strengthens the verdict: it
    stays, becomes *not decided*, or turns from *contradicted* into the weaker *smaller*; a decided direction
    may become *negligible*, which says nothing of the sign.

    - reproduced: within the tolerance around the published value, and above zero.
    - smaller, larger than published: below, above that tolerance. An interval around zero can be smaller: a
      precise null is a result.
    - direction confirmed: above zero, where no value is published.
    - negligible: the interval contains zero, and the narrow one lies within the claim's margin.
    - contradicted: below zero; takes precedence over smaller.
    - not decided: the interval overlaps an edge of the tolerance, or zero.

    Args:
        effect: with its interval.
        claim: with the published value.
        narrow: the same effect at the level `NARROW`.

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
        null = claim.margin is not None and -claim.margin < narrow.low and narrow.high < claim.margin
        return Verdict.DIRECTION if effect.low > 0 else Verdict.NEGLIGIBLE if null else Verdict.NOT_DECIDED
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
    """Published and measured effects: one row per claim, with its verdict.

    Args:
        topics: claims to judge.
        results: argument of each claim's `effect`.
        tolerance: replaces the claims' own.

    """
    rows = []
    for claim in (claim for topic in topics for claim in topic.claims):
        effect = claim.effect(results)
        narrow = UNDEFINED if claim.margin is None else claim.effect(results, level=NARROW)
        judged = claim if tolerance is None else replace(claim, tolerance=tolerance)
        published = (claim.id, claim.place, claim.text, claim.page, claim.value, claim.unit)
        rows.append((*published, *effect, str(judge(effect, judged, narrow))))
    return pd.DataFrame(rows, columns=COLUMNS)


def chance_in_words(verdicts: pd.DataFrame) -> str:
    """How many intervals lie above zero, and how many would by chance.

    If the true effect is not positive, its interval lies above zero in at most 2.5 % of repetitions, and
    expectations add up for dependent claims too. There is no correction for multiple comparisons.

    Args:
        verdicts: from `verdict_table`.

    >>> claim = Claim("x", "Tab. 0", "it helps", "a_page", lambda low: Interval(1, low, 2))
    >>> print(chance_in_words(verdict_table([Topic("does it?", (claim, claim))], 0.5)).partition(";")[0])
    Intervals (95 %) of this page's runs that lie wholly above zero: 2 of 2

    """
    share = (1 - LEVEL) / 2
    known = verdicts.dropna(subset=["low", "high"])
    return (
        f"Intervals ({100 * LEVEL:g} %) of this page's runs that lie wholly above zero: "
        f"{(known.low > 0).sum()} of {len(known)}; at most {share * len(known):.2g} on average if no effect "
        "were positive. Claims about the same runs are not independent: chance moves several at once."
    )


SCALES = ("smoke", "laptop", "workstation", "gpu", "paper")
"""Scales of presets: `laptop-long` has the models and data of `laptop`, and more runs."""


class Source(NamedTuple):
    """Where a verdict comes from."""

    preset: str
    seeds: int | None = None  # of pre-training; None if not applicable
    recorded: bool = False  # or computed by this page

    @property
    def strength(self) -> tuple[int, int, bool]:
        """Sort key: the larger scale, then more seeds, then the record.

        >>> Source("gpu", 1, False).strength > Source("laptop-long", 5, True).strength
        True
        """
        return SCALES.index(self.preset.partition("-")[0]), self.seeds or 0, self.recorded

    def __str__(self) -> str:
        """Describe the source.

        >>> print(Source("laptop-long", 5, True), "and", Source("laptop", 1, False), sep="; ")
        laptop-long, recorded, 5 seeds; and; laptop, this page, 1 seed
        """
        where = "recorded" if self.recorded else "this page"
        seeds = "" if self.seeds is None else f", {self.seeds} seed{'s' * (self.seeds != 1)}"
        return f"{self.preset}, {where}{seeds}"


EFFECT = ["id", "ours", "low", "high", "verdict"]


def side_by_side(judged: Mapping[Source, pd.DataFrame]) -> pd.DataFrame:
    """One row per source and claim, the strongest source first.

    Args:
        judged: tables from `verdict_table`.

    """
    ordered = sorted(judged, key=lambda source: source.strength, reverse=True)
    tables = [judged[source][EFFECT].assign(source=[source] * len(judged[source])) for source in ordered]
    return pd.concat(tables, ignore_index=True)


def strongest(evidence: pd.DataFrame) -> pd.DataFrame:
    """One row per claim, by id, from the strongest source that could test it.

    Args:
        evidence: from `side_by_side`.

    """
    tested_first = evidence.assign(untested=evidence.low.isna()).sort_values("untested", kind="stable")
    return tested_first.drop(columns="untested").drop_duplicates("id").set_index("id")
