"""Paired differences over replicates: Student's interval, and Holm's correction for several of them."""

from collections.abc import Sequence
from math import nan, sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats


class Paired(NamedTuple):
    """The mean of paired differences with its two-sided interval and p-value."""

    mean: float
    low: float
    high: float
    p: float
    replicates: int


def paired(differences: Float[np.ndarray, " replicate"], level: float = 0.95) -> Paired:
    """Return Student's interval of the mean of differences; NaN ends for fewer than two.

    >>> [round(x, 3) for x in paired(np.array([1.0, 2.0, 3.0]))]
    [2.0, -0.484, 4.484, 0.074, 3]
    """
    count = len(differences)
    mean = float(np.mean(differences)) if count else nan
    if count < 2:
        return Paired(mean, nan, nan, nan, count)
    error = float(np.std(differences, ddof=1)) / sqrt(count)
    half = float(stats.t.ppf((1 + level) / 2, count - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, count - 1)) if error else float(mean == 0)
    return Paired(mean, mean - half, mean + half, p, count)


def holm_levels(ps: Sequence[float], level: float = 0.95) -> list[float]:
    """Return the level of each interval after Holm's correction for their number.

    An interval at its level excludes zero exactly where Holm's step-down test rejects, but for those behind
    the first that it does not reject: they keep the level of that one.

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
