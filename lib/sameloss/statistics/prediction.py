"""What early losses predict, and how to choose by them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import rankdata, spearmanr

from sameloss.errors import ParameterError
from sameloss.statistics.intervals import UNDEFINED, Interval, seed_interval

# How well early losses of several candidates predict which of them ends best (Karp 2024, Section 5.3).
#
# All functions are of losses, so smaller is better. What has several seeds is computed seed by seed, each
# with the same candidates, and averaged afterwards: pooling seeds would mix how good the seeds are into it.

FEWEST = 3
"""Candidates that a correlation is taken over at least."""

PERFECT = 1 - 1e-6
"""Larger correlations count as this one, whose Fisher z is finite."""


def rank_correlation(early: Float[np.ndarray, " candidate"], final: Float[np.ndarray, " candidate"]) -> float:
    """Return Spearman's correlation; NaN where all candidates are equal in one of the two.

    Raises:
        ParameterError: for fewer than three candidates.

    """
    if len(early) < FEWEST:
        raise ParameterError(f"A correlation needs at least {FEWEST} candidates; got {len(early)}.")
    if np.ptp(early) == 0 or np.ptp(final) == 0:
        return float("nan")
    return float(spearmanr(early, final).statistic)


def mean_correlation(correlations: Float[np.ndarray, " seed"]) -> Interval:
    """Return the mean over seeds in Fisher's z, with its interval over seeds; NaN are left out.

    >>> mean_correlation(np.array([0.5, 0.5, 0.5])).value
    0.5
    """
    known = correlations[~np.isnan(correlations)]
    if not len(known):
        return UNDEFINED
    found = seed_interval(np.arctanh(known.clip(-PERFECT, PERFECT)))
    return Interval(*(round(float(np.tanh(end)), 12) for end in found))


def regret(chosen_by: Float[np.ndarray, " candidate"], final: Float[np.ndarray, " candidate"]) -> float:
    """Return by how much what looks best ends above what ends best (equation 5.1)."""
    return float(final[np.argmin(chosen_by)] - final.min())


def random_regret(final: Float[np.ndarray, " candidate"]) -> float:
    """Return the regret of a choice by lot, on average, over that of the worst candidate (equation 5.2)."""
    return float((final.mean() - final.min()) / np.ptp(final))


def recall(
    early: Float[np.ndarray, " candidate"], final: Float[np.ndarray, " candidate"], among: int
) -> bool:
    """Tell whether what ends best is among so many that look best early (Section 5.3.3)."""
    return bool(rankdata(early, "ordinal")[np.argmin(final)] <= among)


def self_correlation(
    losses: Float[np.ndarray, "look candidate"],
) -> Float[np.ndarray, "look look"]:
    """Return the rank correlation between any two looks at the candidates (the map of Figure 5.3)."""
    ranks = rankdata(losses, axis=1)
    return np.corrcoef(ranks)


def transition(correlations: Float[np.ndarray, "look look"]) -> tuple[int, float]:
    """Return the look from which on looks agree with each other and not with those before.

    It is where the mean correlation among later looks exceeds that between earlier and later ones the most.

    Returns:
        The first of the later looks, and by how much.

    >>> block = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.9], [0.0, 0.9, 1.0]])
    >>> transition(block)
    (1, 0.9)

    """
    looks = len(correlations)

    def contrast(at: int) -> float:
        late = correlations[at:, at:][np.triu_indices(looks - at, 1)]
        return float(late.mean() - correlations[:at, at:].mean())

    best = max(range(1, looks - 1), key=contrast)
    return best, round(contrast(best), 12)


# Ways to choose among candidates while they are trained, as functions of their losses at some looks.
#
# Each returns the candidate, and how many steps the others have taken in vain when it goes on alone: what a
# choice costs beside what it is worth. Karp 2024, Section 5.3.4, chooses all at one step; that step, and how
# many go on until then, can be left to the losses.


class Choice(NamedTuple):
    """What was chosen, and when."""

    candidate: int
    others: int  # steps of all other candidates together


def choose_at(
    losses: Float[np.ndarray, "look candidate"], steps: Int[np.ndarray, " look"], look: int
) -> Choice:
    """Choose the best at one look: LAG.

    >>> choose_at(np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([0, 10]), 1)
    Choice(candidate=1, others=10)
    """
    return Choice(int(losses[look].argmin()), int(steps[look]) * (losses.shape[1] - 1))


def halve(losses: Float[np.ndarray, "look candidate"], steps: Int[np.ndarray, " look"], first: int) -> Choice:
    """Keep the better half at the first look from some step on, then at twice that step, and so on.

    It is successive halving (Jamieson and Talwalkar 2016) whose rounds get longer as fewer go on.

    Raises:
        ParameterError: for a first round without a step.

    """
    if first < 1:
        raise ParameterError(f"The first round has at least one step; got {first}.")
    left, taken, before, wanted = np.arange(losses.shape[1]), 0, 0, first
    while len(left) > 1:
        look = min(int(np.searchsorted(steps, wanted)), len(steps) - 1)
        taken += len(left) * (int(steps[look]) - before)
        kept = 1 if look == len(steps) - 1 else (len(left) + 1) // 2
        left = left[np.argsort(losses[look, left], kind="stable")[:kept]]
        before, wanted = int(steps[look]), 2 * int(steps[look])
    return Choice(int(left[0]), taken - before)


def when_settled(
    losses: Float[np.ndarray, "look candidate"], steps: Int[np.ndarray, " look"], factor: float = 2.0
) -> Choice:
    """Choose as soon as the same candidate has been best since a `factor` fewer steps, so k needs no eye.

    Looks before the first step do not count. Where it never settles, the last look decides.

    >>> losses = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0]])
    >>> when_settled(losses, np.array([0, 10, 15, 25, 40]))
    Choice(candidate=1, others=40)

    """
    best = losses.argmin(1)
    for look in range(1, len(steps)):
        since = [at for at in range(1, look + 1) if steps[at] * factor >= steps[look]]
        earlier = [at for at in range(1, look) if steps[at] * factor <= steps[look]]
        if earlier and len(set(best[[earlier[-1], *since]])) == 1:
            return choose_at(losses, steps, look)
    return choose_at(losses, steps, len(steps) - 1)
