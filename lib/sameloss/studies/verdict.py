"""Verdicts: computed from an interval, a published number and a tolerance fixed beforehand."""

from dataclasses import dataclass
from enum import StrEnum

from sameloss.statistics.bootstrap import Interval


@dataclass(frozen=True)
class Published:
    """One claim of the paper.

    `tolerance` is relative: the published value counts as reproduced where it lies within our
    interval widened on both sides by that share of it.
    """

    place: str
    claim: str
    value: float | None = None
    unit: str = ""
    tolerance: float = 0.25


class Verdict(StrEnum):
    """What a computation says of a published claim."""

    REPRODUCED = "reproduced"
    DIRECTION = "direction only"
    NOT_SEEN = "not seen"
    CONTRADICTED = "contradicted"
    NOT_TESTABLE = "not testable here"


def judge(effect: Interval, published: Published) -> Verdict:
    """Compare an effect, oriented so that the claim is positive, with what was published.

    >>> claim = Published("Tab. 0", "it helps", 10.0, "points", tolerance=0.2)
    >>> [str(judge(Interval(0, *ends), claim)) for ends in [(7, 9), (1, 2), (-1, 3), (-3, -1)]]
    ['reproduced', 'direction only', 'not seen', 'contradicted']
    """
    if effect.low != effect.low or effect.high != effect.high:
        return Verdict.NOT_TESTABLE
    if effect.high < 0:
        return Verdict.CONTRADICTED
    if effect.low <= 0:
        return Verdict.NOT_SEEN
    if published.value is None:
        return Verdict.REPRODUCED
    slack = published.tolerance * abs(published.value)
    near = effect.low - slack <= published.value <= effect.high + slack
    return Verdict.REPRODUCED if near else Verdict.DIRECTION
