"""How one filter learns on the whole distribution: gradient flow and gradient descent (Algorithm 3.1, n = ∞).

Both are about c, v and b: the part of w across w* keeps its direction.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar

from sameloss.checks import check_positive
from sameloss.errors import ParameterError
from sameloss.studies.local_signal.patches import Patches
from sameloss.studies.local_signal.population import accuracy, population
from sameloss.studies.local_signal.soft_threshold import Filter

State = Float[np.ndarray, "3"]

COARSE = 60
"""Thresholds that are tried before the best is refined."""


@dataclass(frozen=True)
class Rates:
    """Learning rates η_w and η_b.

    Raises:
        ParameterError: for rates that are not positive.

    """

    w: float
    b: float

    def __post_init__(self) -> None:
        """Refuse rates with which nothing is learnt."""
        check_positive(self, "w", "b")

    @property
    def each(self) -> State:
        """Return the rate of c, v and b."""
        return np.array([self.w, self.w, self.b])


def thesis_rates(patches: Patches, lr: float) -> Rates:
    """Return η_b = η_w/k (Algorithm 3.1)."""
    return Rates(lr, lr / patches.noise)


def flow(patches: Patches, start: Filter, rates: Rates, steps: Float[np.ndarray, " look"]) -> pd.DataFrame:
    """Follow the gradient flow; its time is counted in steps of the rates.

    Args:
        patches: the distribution.
        start: the filter at step 0.
        rates: of descent.
        steps: when to look, in ascending order, from 0 on.

    Returns:
        One row a look: `step`, `c`, `v`, `b`, `loss` (nats) and `accuracy`.

    """
    found = solve_ivp(
        lambda _, state: -rates.each * _gradient(patches, state),
        (0, steps[-1]),
        _state(start),
        method="LSODA",
        t_eval=steps,
        rtol=1e-7,
        atol=1e-10,
    )
    if not found.success:
        raise ParameterError(f"The flow cannot be followed to step {steps[-1]:g}: {found.message}")
    return _looks(patches, steps, found.y.T)


def descend(patches: Patches, start: Filter, rates: Rates, steps: int) -> pd.DataFrame:
    """Take steps of gradient descent; the table is as that of `flow`, with a row a step."""
    states = [_state(start)]
    for _ in range(steps):
        states.append(states[-1] - rates.each * _gradient(patches, states[-1]))
    return _looks(patches, np.arange(steps + 1.0), np.array(states))


def _state(filter: Filter) -> State:
    return np.array([filter.c, filter.v, filter.b])


def _gradient(patches: Patches, state: State) -> State:
    found = population(patches, Filter(*state))
    return np.array([found.by_c, found.by_v, found.by_b])


def _looks(
    patches: Patches, steps: Float[np.ndarray, " look"], states: Float[np.ndarray, "look 3"]
) -> pd.DataFrame:
    rows = []
    for step, state in zip(steps, states, strict=True):
        found = population(patches, Filter(*state))
        rows.append((step, *state, found.loss, found.accuracy))
    return pd.DataFrame(rows, columns=["step", "c", "v", "b", "loss", "accuracy"])


def is_dead(filter: Filter) -> bool:
    """Return whether the signal is below the threshold: then it has no gradient, and noise shrinks the rest.

    >>> is_dead(Filter(-0.1, 0.0, -0.2)), is_dead(Filter(0.3, 0.0, -0.2))
    (True, False)
    """
    return bool(filter.b < 0 and abs(filter.c) <= -filter.b)


def dies(patches: Patches, start: Filter, rates: Rates) -> bool:
    """Descend until the signal is under the threshold, or above it with c > 0; return whether it is under.

    Raises:
        ParameterError: where neither happens for a hundred k steps.

    """
    state = _state(start)
    for _ in range(100 * patches.noise):
        state = state - rates.each * _gradient(patches, state)
        if is_dead(Filter(*state)):
            return True
        if state[0] > abs(state[2]):
            return False
    raise ParameterError(
        f"From c = {start.c:g} nothing is decided in {100 * patches.noise:,} steps; take a larger rate."
    )


CARRIED = 4.0
"""Rates below so many |c|/k are expected not to carry c across zero before b stops it."""


def may_die(patches: Patches, start: Filter, lr: float) -> bool:
    """Return whether a start is expected to end in the dead zone: c < 0, and too small a rate to cross zero.

    In the dead zone, |c| ≤ |b| with b < 0, the signal is under the threshold and has no gradient.

    The thesis' Lemma B.3 takes η over the size of the start to be of order k, which excludes it.
    """
    return start.c < 0 and lr < CARRIED * abs(start.c) / patches.noise


def best_threshold(patches: Patches) -> tuple[float, float]:
    """Return the threshold |b|/c that is right most often, and how often: of filters along w*.

    Accuracy depends on b/c and v/c alone, and v only adds noise.
    """

    def wrong(ratio: float) -> float:
        return 1 - accuracy(patches, Filter(1.0, 0.0, -ratio))

    tried = np.linspace(0, 1, COARSE, endpoint=False)
    best = tried[np.argmin([wrong(ratio) for ratio in tried])]
    around = (max(best - 1 / COARSE, 0.0), min(best + 1 / COARSE, 1.0))
    found = minimize_scalar(wrong, bounds=around, method="bounded", options={"xatol": 1e-6})
    return float(found.x), 1 - float(found.fun)
