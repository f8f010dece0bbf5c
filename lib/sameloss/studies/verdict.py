"""Verdicts: a direction and a size, from an interval and a published number by rules fixed beforehand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import isnan
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


class Direction(StrEnum):
    """On which side of no effect the whole interval lies."""

    SUPPORTED = "supported"  # the paper's
    AGAINST = "against"
    OPEN = "open"  # on both
    NOT_REACHED = "not reached"  # the question follows another, which is open
    NOT_TESTABLE = "not testable"  # a rule forbids a verdict


class Size(StrEnum):
    """How an effect compares with the published one."""

    NEGLIGIBLE = "negligible"
    SMALLER = "smaller than published"
    AS_PUBLISHED = "as published"
    LARGER = "larger than published"
    IMPRECISE = "imprecise"


class Verdict(NamedTuple):
    """A direction, and a size where there is something to compare with."""

    direction: Direction
    size: Size | None = None
    reason: str = ""  # why the effect is not testable


TOLERANCE = 0.25
"""Default tolerance around a published effect, as a fraction of it."""

NARROW = 0.9
"""Level of the interval that lies within the margin of a negligible effect: two one-sided tests at 5 %."""


def judge(
    effect: Interval, published: float | None = None, *, tolerance: float = TOLERANCE, reason: str = "",
    sized: Interval | None = None, narrow: Interval = UNDEFINED, margin: float | None = None,
) -> Verdict:  # fmt: skip
    """Judge an effect that is positive if the paper is right.

    Each word must hold for a whole interval, so widening an interval never strengthens it. The size is the
    first that holds of

    - negligible: the narrow interval lies within the margin. Without a published effect this is said only of
      effects whose direction is open.
    - smaller than, as, larger than published: the interval lies below, within, above the tolerance. One
      around zero can be smaller: a precise null is a result.
    - imprecise: it overlaps an edge of the tolerance.

    Args:
        effect: with the interval that decides the direction; one without an interval is not testable.
        published: the effect in the paper; None: only a direction is published.
        tolerance: relative, around the published effect.
        sized: with the interval that decides the size; default: the same.
        narrow: the same effect at the level `NARROW`.
        margin: an effect this close to zero is negligible.
        reason: why the effect is not testable, if so.

    >>> for ends in [(9, 11), (-1, 3), (13, 15), (7, 13), (-3, -1)]:
    ...     print(*judge(Interval(0, *ends), 10.0)[:2], sep=": ")
    supported: as published
    open: smaller than published
    supported: larger than published
    supported: imprecise
    against: smaller than published

    """
    if reason or isnan(effect.low) or isnan(effect.high):
        return Verdict(Direction.NOT_TESTABLE, reason=reason)
    direction = (
        Direction.SUPPORTED if effect.low > 0 else Direction.AGAINST if effect.high < 0 else Direction.OPEN
    )
    negligible = margin is not None and -margin < narrow.low and narrow.high < margin
    if negligible and (published is not None or direction is Direction.OPEN):
        return Verdict(direction, Size.NEGLIGIBLE)
    if published is None:
        return Verdict(direction)
    slack, ends = tolerance * abs(published), sized or effect
    low, high = published - slack, published + slack
    if ends.high < low:
        return Verdict(direction, Size.SMALLER)
    if ends.low > high:
        return Verdict(direction, Size.LARGER)
    within = low <= ends.low and ends.high <= high
    return Verdict(direction, Size.AS_PUBLISHED if within else Size.IMPRECISE)


def in_words(direction: str, remark: str | None = None) -> str:
    """Return a verdict as readers see it: its direction, and its size or reason.

    >>> in_words("supported", "as published"), in_words("open")
    ('supported: as published', 'open')
    """
    return ": ".join(filter(None, (direction, remark)))


COLUMNS = ("id", "place", "claim", "page", "paper", "unit", "ours", "low", "high", "direction", "size")


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
        slack = claim.tolerance if tolerance is None else tolerance
        verdict = judge(effect, claim.value, tolerance=slack, narrow=narrow, margin=claim.margin)
        published = (claim.id, claim.place, claim.text, claim.page, claim.value, claim.unit)
        rows.append((*published, *effect, str(verdict.direction), str(verdict.size or "")))
    return pd.DataFrame(rows, columns=COLUMNS)


def effects_of(judged: pd.DataFrame) -> dict[str, Interval]:
    """Measured effects of a `verdict_table` with the claims' ids as its index."""
    return {id: Interval(*effect) for id, effect in judged[["ours", "low", "high"]].iterrows()}


def chance_in_words(judged: pd.DataFrame) -> str:
    """How many intervals lie wholly on either side of no effect, and how many would by chance.

    If there is no effect, its interval lies on one given side in 2.5 % of repetitions, and expectations add
    up for dependent effects too.

    Args:
        judged: effects with their `direction`; with a column `wide`, also those whose interval says nothing.

    >>> claim = Claim("x", "Tab. 0", "it helps", "a_page", lambda low: Interval(1, low, 2))
    >>> print(chance_in_words(verdict_table([Topic("does it?", (claim, claim))], 0.5)).partition(";")[0])
    Of 2 intervals (95 %) 2 lie wholly on the claim's side and 0 on the other

    """
    supported, against, undecided = (
        (judged.direction == word).sum() for word in (Direction.SUPPORTED, Direction.AGAINST, Direction.OPEN)
    )
    count = supported + against + undecided + (judged.wide.sum() if "wide" in judged else 0)
    if not count:
        return "No comparison is testable."
    return (
        f"Of {count} intervals ({100 * LEVEL:g} %) {supported} lie wholly on the claim's side and {against} "
        f"on the other; by chance about {(1 - LEVEL) / 2 * count:.2g} would lie on each. Comparisons share "
        "models, and some are parts of others: they are not independent."
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


EFFECT = ["id", "ours", "low", "high", "direction", "size"]


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
