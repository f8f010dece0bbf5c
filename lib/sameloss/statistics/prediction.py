"""Prediction of final losses from early ones.

How well do early losses of several candidates predict which of them ends best (Karp 2024, Section 5.3)? All
functions take losses: smaller is better. Statistics of several seeds are computed per seed, with the same
candidates for each, and averaged afterwards: pooling would mix in the differences between seeds.
"""

import numpy as np
from jaxtyping import Float
from scipy.stats import spearmanr

from sameloss.errors import ParameterError
from sameloss.statistics.intervals import UNDEFINED, Interval, seed_interval

FEWEST = 3
"""Fewest candidates for a correlation."""

PERFECT = 1 - 1e-6
"""Correlations are clipped to ± this value, whose Fisher z is finite."""


def rank_correlation(early: Float[np.ndarray, " candidate"], final: Float[np.ndarray, " candidate"]) -> float:
    """Compute Spearman's correlation; NaN if either argument is constant.

    Raises:
        ParameterError: for fewer than three candidates.

    """
    if len(early) < FEWEST:
        raise ParameterError(f"A correlation needs at least {FEWEST} candidates; got {len(early)}.")
    if np.ptp(early) == 0 or np.ptp(final) == 0:
        return float("nan")
    return float(spearmanr(early, final).statistic)


def mean_correlation(correlations: Float[np.ndarray, " seed"]) -> Interval:
    """Average correlations over seeds in Fisher's z, with an interval over seeds; NaN are left out.

    >>> mean_correlation(np.array([0.5, 0.5, 0.5])).value
    0.5
    """
    known = correlations[~np.isnan(correlations)]
    if not len(known):
        return UNDEFINED
    interval = seed_interval(np.arctanh(known.clip(-PERFECT, PERFECT)))
    return Interval(*(round(float(np.tanh(end)), 12) for end in interval))
