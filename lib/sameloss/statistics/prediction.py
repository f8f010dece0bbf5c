"""Prediction of final losses from early ones, and rules that select a candidate by them.

How well do early losses of several candidates predict which of them ends best (Karp 2024, Section 5.3)? All
functions take losses: smaller is better. Statistics of several seeds are computed per seed, with the same
candidates for each, and averaged afterwards: pooling would mix in the differences between seeds.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
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


def regret(chosen_by: Float[np.ndarray, " candidate"], final: Float[np.ndarray, " candidate"]) -> float:
    """Compute the final loss of the candidate with the least early loss, above the best (equation 5.1)."""
    return float(final[np.argmin(chosen_by)] - final.min())


def random_regret(final: Float[np.ndarray, " candidate"]) -> float:
    """Compute the expected regret of a random choice relative to the worst candidate's (equation 5.2)."""
    return float((final.mean() - final.min()) / np.ptp(final))


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


# Selection rules: which candidate to train on, given the losses of all at the evaluation steps.
#
# Karp 2024, Section 5.3.4, selects once, at a fixed step; the step, and how many candidates are trained until
# then, can also depend on the losses.


class Choice(NamedTuple):
    """The selected candidate, and the cost of selecting it."""

    candidate: int
    others: int  # training steps of all other candidates together


def choose_at(
    losses: Float[np.ndarray, "step candidate"], steps: Int[np.ndarray, " step"], at: int
) -> Choice:
    """Select the best candidate at one evaluation (LAG).

    >>> choose_at(np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([0, 10]), 1)
    Choice(candidate=1, others=10)
    """
    return Choice(int(losses[at].argmin()), int(steps[at]) * (losses.shape[1] - 1))


def halve(losses: Float[np.ndarray, "step candidate"], steps: Int[np.ndarray, " step"], first: int) -> Choice:
    """Keep the better half at the first evaluation after `first` steps, then at twice that step, and so on.

    This is successive halving (Jamieson and Talwalkar 2016) with rounds that double in length.

    Raises:
        ParameterError: for a first round without a step.

    """
    if first < 1:
        raise ParameterError(f"The first round needs at least one step; got {first}.")
    candidates, taken, before, target = np.arange(losses.shape[1]), 0, 0, first
    while len(candidates) > 1:
        at = min(int(np.searchsorted(steps, target)), len(steps) - 1)
        taken += len(candidates) * (int(steps[at]) - before)
        survivors = 1 if at == len(steps) - 1 else (len(candidates) + 1) // 2
        candidates = candidates[np.argsort(losses[at, candidates], kind="stable")[:survivors]]
        before, target = int(steps[at]), 2 * int(steps[at])
    return Choice(int(candidates[0]), taken - before)


def when_settled(losses: Float[np.ndarray, "step candidate"], steps: Int[np.ndarray, " step"]) -> Choice:
    """Select as soon as one candidate has been the best for the second half of the steps so far.

    Losses at initialisation do not count. If the best never settles, the last evaluation decides.

    >>> losses = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0]])
    >>> when_settled(losses, np.array([0, 10, 15, 25, 40]))
    Choice(candidate=1, others=40)

    """
    best = losses.argmin(1)
    for at in range(1, len(steps)):
        since = [i for i in range(1, at + 1) if 2 * steps[i] >= steps[at]]
        earlier = [i for i in range(1, at) if 2 * steps[i] <= steps[at]]
        if earlier and len(set(best[[earlier[-1], *since]])) == 1:
            return choose_at(losses, steps, at)
    return choose_at(losses, steps, len(steps) - 1)
