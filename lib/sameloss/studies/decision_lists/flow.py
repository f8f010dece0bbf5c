"""Gradient flow and gradient descent on a column's exact loss, and the moments at which its order changes.

Time is scaled: s = (c/n)² t in u = c w / n, so that flows at any read-out c are alike, and have a limit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.integrate import OdeSolution, solve_ivp
from scipy.optimize import brentq

from sameloss.errors import NotConverged, ParameterError
from sameloss.studies.decision_lists.population import Column, luce_gradient

FIRST = 1e-6
"""A flow starts so late, with the step that leads there: at time 0 all scores are tied."""

LATEST = 1e15
"""In scaled time; beyond it, forces are sums of numbers that cancel to all their digits."""

ACCURACY = {"rtol": 1e-9, "atol": 1e-12}


class Event(NamedTuple):
    """From a scaled time on, scores have an order, and the column an accuracy."""

    time: float
    order: str
    accuracy: float


@dataclass(frozen=True)
class Flow:
    """The flow of one column from W = 0."""

    column: Column
    solution: OdeSolution
    horizon: float

    def at(self, time: float) -> Float[np.ndarray, " entry"]:
        """Return u at a scaled time; before the first there is one straight step."""
        first = self.solution(FIRST)
        return first * time / FIRST if time < FIRST else self.solution(time)

    def scores(self, time: float) -> Float[np.ndarray, " entry"]:
        """Return w at a scaled time."""
        return self.at(time) * self.column.length / self.column.readout

    @cached_property
    def events(self) -> list[Event]:
        """Return the order at first and whenever it changes."""
        times = [FIRST, *sorted(self._crossings())]
        middles = [(a * b) ** 0.5 for a, b in pairwise([*times, self.horizon])]
        found = [
            Event(t, order_of(self.at(at)), self._accuracy(at)) for t, at in zip(times, middles, strict=True)
        ]
        return found[:1] + [b for a, b in pairwise(found) if a.order != b.order]

    def _accuracy(self, time: float) -> float:
        return self.column.accuracy(self.at(time))

    def _crossings(self) -> Iterator[float]:
        """Yield the times at which two entries have the same score."""
        knots = self.solution.ts
        values = np.array([self.solution(knot) for knot in knots])
        for i in range(values.shape[1]):
            for j in range(i):
                gaps = values[:, i] - values[:, j]
                for at in np.flatnonzero(gaps[1:] * gaps[:-1] < 0):
                    yield float(brentq(self._gap, knots[at], knots[at + 1], args=(i, j), rtol=1e-12))

    def _gap(self, time: float, i: int, j: int) -> float:
        found = self.solution(time)
        return float(found[i] - found[j])

    @property
    def perfect(self) -> float:
        """Return the scaled time from which every sequence is classified; NaN: not within the horizon."""
        return next((event.time for event in self.events if event.accuracy == 1), np.nan)

    def natural(self, time: float) -> float:
        """Return the flow's own time t of a scaled one."""
        return time * (self.column.length / self.column.readout) ** 2


def order_of(scores: Float[np.ndarray, " entry"]) -> str:
    """Return entries from the highest score to the lowest: places in the list from 1, o for all other tokens.

    >>> order_of(np.array([0.1, 0.0, 0.3, -0.2]))
    '312o'
    """
    names = [*(str(place) for place in range(1, len(scores))), "o"]
    return "".join(names[at] for at in np.argsort(-scores, kind="stable"))


def flow(column: Column, horizon: float, start: Float[np.ndarray, " entry"] | None = None) -> Flow:
    """Follow the gradient flow of a column up to a scaled time, from W = 0 or from other scores u.

    Raises:
        ParameterError: for a horizon beyond `LATEST`, or none, and for scores that are no numbers.
        NotConverged: where the solver gives up.

    """
    scale = column.length / column.readout
    return _solved(column, horizon, lambda u: -column.gradient(u * scale) * scale, start)


def luce_flow(column: Column, horizon: float) -> Flow:
    """Follow the flow in the limit c → ∞."""
    return _solved(column, horizon, lambda u: -luce_gradient(column, u), None)


def _solved(
    column: Column,
    horizon: float,
    force: Callable[[Float[np.ndarray, " entry"]], Float[np.ndarray, " entry"]],
    start: Float[np.ndarray, " entry"] | None,
) -> Flow:
    if not FIRST < horizon <= LATEST:
        raise ParameterError(
            f"A flow is followed up to a scaled time from {FIRST:g} to {LATEST:g}; got {horizon:g}."
        )
    begin = np.zeros(column.rules + 1) if start is None else start
    if not np.isfinite(begin).all():
        raise ParameterError(f"A flow starts from finite scores; got {begin.tolist()}.")
    begin = begin + FIRST * force(begin)
    moved = lambda time, u: force(u)  # noqa: E731
    found = solve_ivp(moved, (FIRST, horizon), begin, method="LSODA", dense_output=True, **ACCURACY)
    if not found.success:
        raise NotConverged(f"The flow to {horizon:g} stopped at {found.t[-1]:g}: {found.message}")
    return Flow(column, found.sol, horizon)


class Descent(NamedTuple):
    """Gradient descent on a column's exact loss."""

    perfect: int  # the first step after which every sequence is classified; 0: none
    losses: Float[np.ndarray, " step"]
    scores: Float[np.ndarray, " entry"]  # at the end


def descend(column: Column, rate: float, steps: int, to_the_end: bool = False) -> Descent:
    """Take steps from W = 0 until all is classified, or to the end.

    Raises:
        ParameterError: for a rate that moves nothing.

    """
    if not 0 < rate < np.inf:
        raise ParameterError(f"The learning rate must be positive and finite; got {rate}.")
    scores, losses, perfect = np.zeros(column.rules + 1), [], 0
    for step in range(1, steps + 1):
        losses.append(column.loss(scores))
        scores = scores - rate * column.gradient(scores)
        if not perfect and column.accuracy(scores) == 1:
            perfect = step
            if not to_the_end:
                break
    return Descent(perfect, np.array([*losses, column.loss(scores)]), scores)
