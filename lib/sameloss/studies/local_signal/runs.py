"""The stored steps of this study: flows, descents, and which settings can be learnt."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from sameloss.checks import check_counts, check_positive
from sameloss.runs.frames import TABLE, Tabled
from sameloss.seeds import stream_seed
from sameloss.store.store import Report, Store
from sameloss.studies.local_signal.flow import (
    Rates,
    best_threshold,
    dies,
    flow,
    may_die,
    thesis_rates,
)
from sameloss.studies.local_signal.patches import Patches
from sameloss.studies.local_signal.soft_threshold import Filter
from sameloss.studies.local_signal.tangent.rows import linear_error
from sameloss.studies.local_signal.thinned import Network, begin, sgd

LOOKS_A_DECADE = 12
"""Of curves over the logarithm of steps."""

FIRST = 50
"""Steps of stochastic descent every one of which is looked at: the sign of b is decided there."""


class SignalRun(Tabled, ABC):
    """A run of this study: one table."""

    @abstractmethod
    def rows(self, report: Report) -> Iterator[pd.DataFrame]:
        """Yield parts of the table."""

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Write the table."""
        pd.concat(self.rows(report), ignore_index=True).to_csv(folder / TABLE, index=False)


@dataclass(frozen=True)
class FilterDescent:
    """Algorithm 3.1: its rates, and where it begins.

    Raises:
        ParameterError: for a rate or a start that is not positive.

    """

    lr: float  # η_w; η_b is a k-th of it
    length: float  # of w⁰, σ₀√d

    def __post_init__(self) -> None:
        """Refuse what does not descend."""
        check_positive(self, "lr", "length")

    def rates(self, patches: Patches) -> Rates:
        """Return η_w and η_b."""
        return thesis_rates(patches, self.lr)


def log_steps(last: float) -> Float[np.ndarray, " look"]:
    """Return steps at which to look: 0, and from 1 at equal distances of their logarithm.

    >>> log_steps(10.0)[[0, 1, -1]]
    array([ 0.,  1., 10.])
    """
    return np.append(0.0, np.geomspace(1, last, round(LOOKS_A_DECADE * np.log10(last)) + 1))


@dataclass(frozen=True)
class SignalFlows(SignalRun):
    """The exact flow from a small start, for several numbers of rows and strengths of noise."""

    rows_of_noise: tuple[int, ...]  # k
    multipliers: tuple[float, ...]
    descent: FilterDescent
    steps: float

    def rows(self, report: Report) -> Iterator[pd.DataFrame]:
        """Follow one flow after the other."""
        cases = list(product(self.rows_of_noise, self.multipliers))
        for done, (noise, multiplier) in enumerate(cases):
            patches = Patches(noise, multiplier)
            start = Filter(self.descent.length, self.descent.length, 0.0)
            found = flow(patches, start, self.descent.rates(patches), log_steps(self.steps))
            yield found.assign(noise=noise, multiplier=multiplier)
            report((done + 1) / len(cases), f"k = {noise}")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 0.3 * len(self.rows_of_noise) * len(self.multipliers)


@dataclass(frozen=True)
class SignalSGD(SignalRun):
    """Stochastic gradient descent from one random start."""

    patches: Patches
    descent: FilterDescent
    d: int
    batch: int
    steps: int
    seed: int

    def __post_init__(self) -> None:
        """Refuse numbers of nothing."""
        check_counts(self, "d", "batch", "steps")

    def looks(self) -> Int[np.ndarray, " look"]:
        """Return the steps after which it is looked at: each of the first, and ever fewer."""
        later = np.geomspace(FIRST, max(self.steps, FIRST), 40).astype(int)
        return np.unique(np.minimum(np.append(np.arange(1, FIRST), later), self.steps))

    def begin(self) -> tuple[Network, np.random.Generator]:
        """Return the first filter, and what draws the batches."""
        random = np.random.default_rng(stream_seed("local signal", self.seed))
        return begin(self.d, self.descent.length, random), random

    @property
    def may_die(self) -> bool:
        """Return whether it is expected to end in the dead zone: see `flow.may_die`."""
        return may_die(self.patches, self.begin()[0].filter, self.descent.lr)

    def rows(self, report: Report) -> Iterator[pd.DataFrame]:
        """Train."""
        network, random = self.begin()
        signed = network.filter.c
        found = sgd(
            self.patches, network, self.descent.rates(self.patches), self.batch, self.looks(), random, report
        )
        yield found.assign(start=signed)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 8e-9 * self.steps * self.batch * self.patches.noise


@dataclass(frozen=True)
class BestFilters(SignalRun):
    """What the best filter reaches, by k and strength of noise, beside the linear model."""

    rows_of_noise: tuple[int, ...]
    multipliers: tuple[float, ...]

    def rows(self, report: Report) -> Iterator[pd.DataFrame]:
        """Find the best threshold of each."""
        for noise in self.rows_of_noise:
            for multiplier in self.multipliers:
                patches = Patches(noise, multiplier)
                threshold, best = best_threshold(patches)
                about = {"noise": noise, "multiplier": multiplier, "threshold": threshold}
                yield pd.DataFrame([{**about, "network": best, "linear": 1 - linear_error(patches)}])

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 0.015 * len(self.rows_of_noise) * len(self.multipliers)


@dataclass(frozen=True)
class DeadZone(SignalRun):
    """Exact descent from larger starts: whether the signal stays above the threshold."""

    patches: Patches
    centres: tuple[float, ...]  # c⁰, around which starts are spread
    multiples: tuple[float, ...]  # η_w, in units of |c⁰|/k
    count: int  # starts around each centre
    spread: float = 0.1  # of them, as a share of the centre
    across: float = 0.01  # v⁰

    def rows(self, report: Report) -> Iterator[pd.DataFrame]:
        """Descend from each start with each rate, until it is decided."""
        cases = list(product(self.centres, self.multiples))
        for done, (centre, multiple) in enumerate(cases):
            starts = centre * (1 + self.spread * np.linspace(-1, 1, self.count))
            yield pd.DataFrame(
                {"start": centre, "multiple": multiple, "dead": [self._dies(c, multiple) for c in starts]}
            )
            report((done + 1) / len(cases), f"c = {centre:g}")

    def _dies(self, c: float, multiple: float) -> bool:
        rates = thesis_rates(self.patches, multiple * abs(c) / self.patches.noise)
        return dies(self.patches, Filter(c, self.across, 0.0), rates)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        steps = sum(2 * self.patches.noise / multiple for multiple in self.multiples)
        return 4e-5 * len(self.centres) * self.count * steps
