"""Prediction of final losses from early ones.

How well do early losses of several candidates predict which of them ends best (Karp 2024, Section 5.3)? All
functions take losses: smaller is better. Statistics of several seeds are computed per seed, with the same
candidates for each, and averaged afterwards: pooling would mix in the differences between seeds.
"""

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata, spearmanr

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


def recall(
    early: Float[np.ndarray, " candidate"], final: Float[np.ndarray, " candidate"], among: int
) -> bool:
    """Whether the `among` candidates with the least early losses include the best one (Section 5.3.3)."""
    return bool(rankdata(early, "ordinal")[np.argmin(final)] <= among)


def self_correlation(losses: Float[np.ndarray, "step candidate"]) -> Float[np.ndarray, "step step"]:
    """Compute the rank correlations between the losses at any two steps (the map of Figure 5.3)."""
    return np.corrcoef(rankdata(losses, axis=1))


def transition(correlations: Float[np.ndarray, "step step"]) -> tuple[int, float]:
    """Find the step from which on losses agree with each other and not with earlier ones.

    It maximises the mean correlation among later steps minus that between earlier and later ones.

    Returns:
        The index of the first of the later steps, and the difference.

    >>> block = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.9], [0.0, 0.9, 1.0]])
    >>> transition(block)
    (1, 0.9)

    """
    steps = len(correlations)

    def contrast(at: int) -> float:
        late = correlations[at:, at:][np.triu_indices(steps - at, 1)]
        return float(late.mean() - correlations[:at, at:].mean())

    best = max(range(1, steps - 1), key=contrast)
    return best, round(contrast(best), 12)
