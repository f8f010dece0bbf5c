"""What twin trainings found, put side by side: by seed and size, and as exponents of the size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.statistics.bootstrap import UNDEFINED, Interval, seed_interval
from sameloss.studies.stability.decay import exponent
from sameloss.studies.stability.paths import GRID, barrier
from sameloss.studies.stability.settings import Kind

Seeds = Float[np.ndarray, " seed"]

T = TypeVar("T")

Over = Literal["max", "high", "mean"]
"""What is taken of a seed's pairs: the thesis takes the largest; `high` is their quantile of 80 %."""

HIGH = 0.8
"""Of six pairs it is the second largest."""

STOPS = 3

MIDDLE = 1
"""The stop that all is about where no other is named: the thesis' 100,000 steps."""


@dataclass(frozen=True)
class Stability:
    """Everything that was measured of twins."""

    kinds: tuple[Kind, ...]
    sizes: tuple[int, ...]
    table: pd.DataFrame  # one row a kind, size, seed, pair and step, with the columns of `twin_table`
    falls: pd.DataFrame  # from `falls_of`
    whole: bool = True  # with all kinds of its preset; a record may be older than one

    def kind(self, name: str) -> Kind | None:
        """Return a kind of training, if it is one of these."""
        return next((kind for kind in self.kinds if kind.name == name), None)

    @property
    def deep(self) -> tuple[Kind, ...]:
        """Return the kinds whose loss is not convex."""
        return tuple(kind for kind in self.kinds if kind.deep)

    def at(self, kind: Kind, stop: int = MIDDLE) -> pd.DataFrame:
        """Return what was measured of a kind at a stop."""
        return self.table[(self.table.kind == kind.name) & (self.table.step == kind.stops[stop])]

    def values(
        self, kind: Kind, measure: str, over: Over = "max", stop: int = MIDDLE
    ) -> Float[np.ndarray, "seed size"]:
        """Return a measure, of each seed's pairs the largest, a high quantile or the mean."""
        pairs = self.at(kind, stop).groupby(["seed", "size"])[measure]
        found = pairs.quantile(HIGH) if over == "high" else pairs.agg(over)
        return found.unstack("size")[list(self.sizes)].to_numpy()

    def exponents(self, kind: Kind, measure: str, over: Over = "max", stop: int = MIDDLE) -> Seeds:
        """Return the exponent of the size of the sample, seed by seed."""
        return exponent(self.sizes, self.values(kind, measure, over, stop))

    def slower(self, kind: Kind, measure: str, than: str, over: Over = "max", stop: int = MIDDLE) -> Seeds:
        """Return by how much a measure falls less steeply with the size than another, seed by seed."""
        return self.exponents(kind, measure, over, stop) - self.exponents(kind, than, over, stop)

    def barriers(self, kind: Kind, seen: str = "test") -> pd.DataFrame:
        """Return by how many points of accuracy each path falls, by size, seed and pair."""
        return self.falls[(self.falls.kind == kind.name) & (self.falls.seen == seen)]

    def worst_barrier(self, kind: Kind) -> Seeds:
        """Return the largest fall of each seed's paths, in points of test accuracy."""
        return self.barriers(kind).groupby("seed").barrier.max().to_numpy()


def falls_of(paths: pd.DataFrame) -> pd.DataFrame:
    """Return by how many points accuracy falls between the ends of each path.

    Args:
        paths: accuracies `test` and `trained` (shares) by kind, size, seed, pair and alpha.

    Returns:
        One row a path and kind of images `seen`, with its `barrier`.

    """
    about = ["kind", "size", "seed", "pair"]
    rows = [
        (*where, seen, 100 * float(barrier(path.sort_values("alpha")[seen].to_numpy(), GRID)))
        for where, path in paths.groupby(about, sort=False)
        for seen in ("test", "trained")
    ]
    return pd.DataFrame(rows, columns=[*about, "seen", "barrier"])


def over_seeds(values: Seeds) -> Interval:
    """Return the mean over seeds with its interval; undefined where a seed has no value."""
    return UNDEFINED if not len(values) or np.isnan(values).any() else seed_interval(values)


def least(cases: Sequence[T], effect: Callable[[T], Seeds]) -> Seeds:
    """Return of every seed the least effect of some cases; of none nothing."""
    return np.min([effect(case) for case in cases], 0) if cases else np.array([])
