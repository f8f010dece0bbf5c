"""Estimates with their standard errors, intervals over seeds, and Holm's correction for several of them."""

from collections.abc import Callable, Sequence
from math import isnan, nan, sqrt
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy import stats


class Estimate(NamedTuple):
    """A mean with its standard error over `count` independent draws.

    The standard error of an exact value is 0, that of a single draw unknown (NaN).
    """

    mean: float
    standard_error: float
    count: int  # type: ignore[assignment]  # shadows tuple.count

    @classmethod
    def of(cls, values: Float[torch.Tensor, " draw"]) -> "Estimate":
        r"""Estimate the mean of independent draws, with the standard error $s / \sqrt n$.

        >>> Estimate.of(torch.tensor([1.0, 2.0, 3.0, 6.0]))
        Estimate(mean=3.0, standard_error=1.0801234497346435, count=4)

        """
        count = len(values)
        spread = float(values.double().std()) if count > 1 else nan
        return cls(float(values.double().mean()), spread / count**0.5, count)


# Intervals over seeds.

LEVEL = 0.95
"""Coverage of intervals."""


class Interval(NamedTuple):
    """A value with its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        """Format all three numbers; without an interval the value alone, without a value a dash.

        >>> f"{Interval(-1.0, -1.25, -0.755):.2f}", f"{Interval(0.5, nan, nan):+.1f}", f"{UNDEFINED:.1f}"
        ('-1.00 (-1.25 to -0.76)', '+0.5', '–')
        """
        value, low, high = ("–" if isnan(number) else format(number, spec) for number in self)
        return value if isnan(self.low) else f"{value} ({low} to {high})"

    def __abs__(self) -> "Interval":
        """The same difference taken the other way round where it is negative.

        >>> abs(Interval(-1.0, -3.0, 1.0))
        Interval(value=1.0, low=-1.0, high=3.0)
        """
        return Interval(-self.value, -self.high, -self.low) if self.value < 0 else self


UNDEFINED = Interval(nan, nan, nan)
"""The result of a comparison without data."""


def seed_interval(values: ArrayLike, level: float = LEVEL) -> Interval:
    """Compute the mean of one value per seed with Student's interval; undefined without values.

    >>> [round(end, 1) for end in seed_interval([1.0, 2.0, 3.0])]
    [2.0, -0.5, 4.5]
    """
    mean, error, count = _mean_and_error(values)
    half = float(stats.t.ppf((1 + level) / 2, count - 1)) * error if count > 1 else nan
    return Interval(mean, mean - half, mean + half)


def _mean_and_error(values: ArrayLike) -> tuple[float, float, int]:
    """Mean, standard error and number of values; an error of NaN for fewer than two."""
    known = np.asarray(values, float)
    count = len(known)
    mean = float(np.mean(known)) if count else nan
    return mean, float(np.std(known, ddof=1)) / sqrt(count) if count > 1 else nan, count


def p_value(differences: Float[np.ndarray, " seed"]) -> float:
    """Compute the two-sided p-value of Student's test that the mean is zero; NaN for fewer than two values.

    >>> round(p_value(np.array([1.0, 2.0, 3.0])), 3)
    0.074
    """
    mean, error, count = _mean_and_error(differences)
    if count < 2:
        return nan
    return float(2 * stats.t.sf(abs(mean) / error, count - 1)) if error else float(mean == 0)


def least(
    effects: Sequence[ArrayLike], level: float = LEVEL, of: Callable[[Interval], Interval] = lambda own: own
) -> Interval:
    """Compute the smallest of several mean effects, with its interval; undefined without effects.

    The lower end is the lowest of the effects' own intervals: it is above zero where each of them is (an
    intersection-union test, which needs no correction). The upper end is the lowest after correction for
    their number (Bonferroni), because any one of them may be the smallest. The mean over seeds of each
    seed's smallest value is another, smaller number: noise makes it so.

    Args:
        effects: one value per seed, of each effect.
        level: of the interval.
        of: what is judged of an effect, such as `within` a margin.

    >>> f"{least([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]):.1f}"
    '2.0 (-0.5 to 5.6)'

    """
    if not effects:
        return UNDEFINED
    own = np.array([of(seed_interval(values, level)) for values in effects])
    corrected = [of(seed_interval(values, 1 - (1 - level) / len(effects))) for values in effects]
    return Interval(*(float(end) for end in (*own.min(0)[:2], np.min([one.high for one in corrected]))))


def within(difference: Interval, margin: float) -> Interval:
    """What is left of a margin beyond the absolute value of a difference.

    >>> [round(end, 2) for end in within(Interval(0.1, -0.05, 0.25), 0.35)]
    [0.25, 0.1, 0.35]
    """
    value, low, high = difference
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return Interval(margin - abs(value), margin - max(abs(low), abs(high)), margin - nearest)


def holm_levels(ps: Sequence[float], level: float = LEVEL) -> list[float]:
    """Return the level of each interval after Holm's correction for their number.

    An interval at its level excludes zero exactly if Holm's step-down test rejects. Only those after the
    first p-value that is not rejected may exclude it too: they keep that one's level.

    >>> [round(x, 4) for x in holm_levels([0.001, 0.03, 0.04])]
    [0.9833, 0.975, 0.975]
    >>> [round(x, 4) for x in holm_levels([0.001, 0.02, 0.04])]
    [0.9833, 0.975, 0.95]
    """
    order = sorted(range(len(ps)), key=lambda i: (np.isnan(ps[i]), ps[i]))
    levels, current, stopped = [level] * len(ps), level, False
    for rank, index in enumerate(order):
        if not stopped:
            current = 1 - (1 - level) / (len(ps) - rank)
            stopped = not ps[index] <= 1 - current
        levels[index] = current
    return levels
