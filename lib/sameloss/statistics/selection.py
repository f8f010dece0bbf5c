"""Ways to choose among candidates while they are trained, as functions of their losses at some looks.

Each returns the candidate, and how many steps the others have taken in vain when it goes on alone: what a
choice costs beside what it is worth. Karp 2024, Section 5.3.4, chooses all at one step; that step, and how
many go on until then, can be left to the losses.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sameloss.errors import ParameterError


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
