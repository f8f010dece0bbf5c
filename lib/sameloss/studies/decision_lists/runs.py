"""The exact runs of this study: flows, and gradient descent as the theorems have it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from sameloss.runs.frames import TABLE, Tabled
from sameloss.store.store import Report, Store
from sameloss.studies.decision_lists.flow import LATEST, Flow, descend, flow, luce_flow
from sameloss.studies.decision_lists.population import Column
from sameloss.studies.decision_lists.settings import THEOREM, Sweeps, TaskShape
from sameloss.studies.decision_lists.theorems import gradient_bound, horizon_of_43

HORIZON = 1e6
"""Scaled time within which flows above c* are perfect at L²/n = 1,600; longer in proportion."""

CRITICAL_RULES = 4
"""Tokens of a list where c* is tried, as in Figure 4.1."""

LOOKS_A_DECADE = 12
"""Of curves over the logarithm of time."""

AFTERWARDS = 100
"""Curves go on to so many times the time of perfection."""


class ListRun(Tabled, ABC):
    """A run of this study: one table."""

    @abstractmethod
    def rows(self, report: Report) -> Iterator[dict]:
        """Yield the table's rows."""

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Write the table."""
        pd.DataFrame(self.rows(report)).to_csv(folder / TABLE, index=False)


@dataclass(frozen=True)
class ListFlows(ListRun):
    """When the order of scores changes on the way to perfection: by c, L, n, m and rarity."""

    task: TaskShape
    readouts: tuple[float, ...]
    sweeps: Sweeps

    def rows(self, report: Report) -> Iterator[dict]:
        """Follow one flow after the other."""
        families = list(self._families())
        for done, (family, column, horizon) in enumerate(families):
            found = luce_flow(column, horizon) if family == "luce" else flow(column, horizon)
            yield from _events(family, found)
            report((done + 1) / len(families), family)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 0.12 * len(list(self._families()))

    def _families(self) -> Iterator[tuple[str, Column, float]]:
        task, sweeps = self.task, self.sweeps
        yield "luce", task.column(1.0), HORIZON
        for readout in (task.theorem_readout, *self.readouts):
            column = task.column(readout)
            yield "readout", column, _horizon(column, sweeps.horizon)
        for words, density in product(sweeps.words, sweeps.densities):
            yield f"words at n = {density:g} L", _at_theorem(words, round(words * density), task.rules), 1e9
        for words, length in product(sweeps.words, sweeps.lengths):
            if length < words / 2:
                yield f"words at n = {length}", _at_theorem(words, length, task.rules), 1e9
        for rules in sweeps.rules:
            yield "rules", _at_theorem(task.words, task.length, rules), HORIZON
        for rarity in sweeps.rarities:
            yield "rarity", replace(task.column(task.theorem_readout), rarity=rarity), 100 * HORIZON
        for words, shift in product(sweeps.critical_words, (-0.5, 0.0, 0.5)):
            column = Column(words, words // 8, CRITICAL_RULES, 1.0)
            column = replace(column, readout=column.critical_readout + shift)
            yield f"critical {shift:+g}", column, sweeps.horizon * _scale(column)


def _horizon(column: Column, natural: float) -> float:
    """Return the scaled time to follow: longer where the read-out is small and escape slow."""
    longest = HORIZON * max(1.0, column.words**2 / column.length / 1600)
    slow = not column.readout > column.critical_readout + 1  # which may be NaN
    return max(longest, min(natural * _scale(column), LATEST)) if slow else longest


def _at_theorem(words: int, length: int, rules: int) -> Column:
    shape = TaskShape(words, length, rules)
    return shape.column(shape.theorem_readout)


def _scale(column: Column) -> float:
    """Return scaled time over natural time."""
    return (column.readout / column.length) ** 2


def _events(family: str, found: Flow) -> Iterator[dict]:
    c = found.column
    about = {"family": family, "words": c.words, "length": c.length, "rules": c.rules}
    for event in found.events:
        natural = found.natural(event.time)
        yield {**about, "readout": c.readout, "rarity": c.rarity, **event._asdict(), "natural": natural}


@dataclass(frozen=True)
class ListCurves(ListRun):
    """Scores, loss, accuracy and attention along the flow, at equal distances of log time."""

    task: TaskShape
    readouts: tuple[float, ...]  # beside the theorem's
    horizon: float  # natural time of flows that do not become perfect

    def rows(self, report: Report) -> Iterator[dict]:
        """Follow each read-out's flow."""
        named = {THEOREM: self.task.theorem_readout, **{f"{c:g}": c for c in self.readouts}}
        for name, readout in named.items():
            column = self.task.column(readout)
            found = flow(column, _horizon(column, self.horizon))
            last = np.fmin(found.horizon, AFTERWARDS * found.perfect)
            for time in _log_times(last):
                yield {"name": name, "readout": readout, **_along(found, time)}

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 0.15 * len(self.readouts)


def _log_times(horizon: float) -> np.ndarray:
    first = min(1.0, horizon / 1000)
    return np.geomspace(first, horizon, round(LOOKS_A_DECADE * np.log10(horizon / first)) + 1)


def _along(found: Flow, time: float) -> dict[str, float]:
    column, scores = found.column, found.scores(time)
    return {
        "time": time,
        "natural": found.natural(time),
        "loss": column.words * column.loss(scores),
        "accuracy": column.accuracy(scores),
        "attention": column.weight_on_determining(scores),
        **dict(zip(score_columns(column.rules), scores, strict=True)),
    }


def score_columns(rules: int) -> list[str]:
    """Return the columns of scores in the curves: places of the list, then all other tokens.

    >>> score_columns(2)
    ['w1', 'w2', 'wo']
    """
    return [*(f"w{place}" for place in range(1, rules + 1)), "wo"]


@dataclass(frozen=True)
class ListDescents(ListRun):
    """Gradient descent on the exact loss at the theorem's read-out and rate, on several tasks.

    At the printed setting again with 1/λ of the Hessian at W = 0: "of the Hessian" read as that of the start.
    """

    tasks: tuple[TaskShape, ...]

    def rows(self, report: Report) -> Iterator[dict]:
        """Descend, and compare with what is promised."""
        gentle = PRINTED.column(GENTLE)
        yield self._row("at the start", gentle, curvature_at_start(gentle), AFTER_START)
        for task in self.tasks:
            readout = task.theorem_readout
            column = task.column(readout)
            bound = task.curvature(readout)
            yield self._row("everywhere", column, bound, _enough(column, bound))
            report((self.tasks.index(task) + 1) / len(self.tasks), f"L = {task.words}")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 0.35 * len(self.tasks)

    def _row(self, curvature: str, column: Column, bound: float, steps: int) -> dict:
        found = descend(column, 1 / bound, steps, to_the_end=curvature == "at the start")
        promised = horizon_of_43(column.words, column.rules)
        end = flow(column, min(promised * _scale(column), LATEST))
        slopes = [_squared_norm(column, end.scores(time)) for time in _log_times(end.perfect)]
        return {
            "words": column.words,
            "length": column.length,
            "rules": column.rules,
            "readout": column.readout,
            "curvature": curvature,
            "bound": bound,
            "steps": found.perfect or np.nan,
            "promised": promised * bound,
            "rises": int((np.diff(found.losses) > 1e-12 * found.losses[:-1]).sum()),
            "attention": column.weight_on_determining(found.scores),
            "attention_at_end": column.weight_on_determining(end.scores(end.horizon)),
            "largest_at_end": float(abs(end.scores(end.horizon)).max()),
            "least_slope": min(slopes) / gradient_bound(column.words, column.rules),
        }


PRINTED = TaskShape(200, 25, 4)
"""The setting of Figure 4.1."""

MOST_STEPS = 100_000
"""Of descent on an exact loss."""

GENTLE = 1e5
"""The read-out at which the two readings of λ are told apart."""

AFTER_START = 2000
"""Steps of descent at the rate of the start's curvature."""


def _enough(column: Column, bound: float) -> int:
    """Return twice the steps that the flow's time to perfection makes, at most `MOST_STEPS`."""
    found = flow(column, _horizon(column, 0.0))
    steps = 2 * found.natural(found.perfect) * bound
    return int(steps) + 10 if steps < MOST_STEPS else MOST_STEPS


def _squared_norm(column: Column, scores: np.ndarray) -> float:
    return float(column.multiplicities @ column.gradient(scores) ** 2)


def curvature_at_start(column: Column) -> float:
    """Return the largest eigenvalue of a column's Hessian at W = 0, on the space of its own entries."""
    step = 1e-4 * column.length / column.readout
    root = column.multiplicities**0.5
    rows = [
        (column.gradient(step * e / root) - column.gradient(-step * e / root)) / (2 * step)
        for e in np.eye(column.rules + 1)
    ]
    hessian = np.array(rows) * root
    return float(np.linalg.eigvalsh((hessian + hessian.T) / 2).max())
