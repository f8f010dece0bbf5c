"""The configuration of this study and its stored runs: flows, best filters, SGD, the dead zone."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from sameloss.checks import check_counts, check_positive
from sameloss.runs.frames import TABLE, Tabled
from sameloss.seeds import stream_seed
from sameloss.store.store import Report, Store
from sameloss.studies.config import Config, param
from sameloss.studies.local_signal.tangent.rows import linear_error
from sameloss.studies.local_signal.tangent.runs import TangentRows, TangentStarts
from sameloss.studies.local_signal.theory import (
    CARRIED,
    Filter,
    Network,
    Patches,
    Rates,
    begin,
    best_threshold,
    dies,
    flow,
    may_die,
    sgd,
    thesis_rates,
)
from sameloss.studies.parameters import MOST_SEEDS

# The stored steps of this study: flows, descents, and which settings can be learnt.

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


# How many rows, how noisy, and how much is trained.

log = logging.getLogger(__name__)

TANGENT_PATCHES = Patches(1000)
"""Of the tangent kernels: fewer rows have too few dimensions, d = 1/σ²."""


@dataclass(frozen=True)
class SignalConfig(Config):
    """How many rows, how noisy, how much is trained: by default as in Figure 3.3, with fewer steps."""

    noise: int = param("rows of noise, k; None: the preset's", 1000, least=2, most=10_000_000, example="300")
    multiplier: float = param("σ over log k/√k; None: 1", 1.0, kind=float, most=100)
    lr: float = param("learning rate of w; None: the preset's", 0.1, kind=float)
    length: float = param("of the first filter, w; None: the preset's", 1e-6, kind=float)
    batch: int = param("fresh images a step; None: the preset's", 500, most=100_000)
    steps: int = param("of stochastic descent; None: the preset's", 3000, most=1_000_000)
    seeds: int = param("of stochastic descent; None: the preset's", 3, least=2, most=MOST_SEEDS)
    starts: int = param(
        "of tangent kernels, for every number of filters; None: the preset's",
        40,
        least=2,
        most=10_000,
        example="30",
    )
    d: int = 10  # entries of a row
    horizon: float = 1e7  # steps of the flow
    rows_of_noise: tuple[int, ...] = (100, 200, 300, 500, 700, 800, 1000, 2000, 3000, 10_000, 100_000)
    phase: tuple[int, ...] = (100, 200, 500, 1000, 2000, 5000, 10_000, 100_000)  # k of the phase diagram
    multipliers: tuple[float, ...] = (0.5, 0.75, 1.0, 1.25, 1.5)
    dead: DeadZone = DeadZone(Patches(100), (-0.5, -0.1, 0.5), (2.0, 3.0, 5.0, 8.0, 16.0, 32.0), 20)
    filters: tuple[int, ...] = (1, 2, 4, 8, 16, 32)  # of tangent kernels
    held: int = 10
    images: int = 400
    first_seed: int = 100

    @property
    def patches(self) -> Patches:
        """The rows of an image."""
        return Patches(self.noise, self.multiplier)

    @property
    def descent(self) -> FilterDescent:
        """How a filter is trained."""
        return FilterDescent(lr=self.lr, length=self.length)

    @property
    def flow(self) -> SignalFlows:
        """Return the flow at the page's own settings."""
        return SignalFlows((self.patches.noise,), (self.patches.multiplier,), self.descent, self.horizon)

    @property
    def phase_flows(self) -> SignalFlows:
        """Return the flows of the phase diagram."""
        return SignalFlows(self.phase, self.multipliers, self.descent, self.horizon)

    @property
    def best(self) -> BestFilters:
        """Return the best filters."""
        return BestFilters(self.rows_of_noise, self.multipliers)

    @property
    def tangent_rows(self) -> TangentRows:
        """Return the best errors of tangent kernels; the pilot's seed was 0."""
        starts = TangentStarts(self.filters, self.starts, self.held, self.images)
        return TangentRows(TANGENT_PATCHES, starts, self.first_seed)

    @property
    def descents(self) -> list[SignalSGD]:
        """Return stochastic descent from each seed; the pilot's seeds were 0 and 1."""
        own = (self.patches, self.descent, self.d, self.batch, self.steps)
        return [SignalSGD(*own, self.first_seed + seed) for seed in range(self.seeds)]

    def resolve(self, values: Mapping[str, Any]) -> Any:
        """Warn where what a reader asked for begins too far below zero for its rate."""
        config = super().resolve(values)
        if (warning := dead_starts(config)) is not None:
            log.warning(warning)
        return config


_GPU = SignalConfig("gpu", steps=10_000, seeds=10, starts=400, held=50, images=2000)
"""The figure's own 10,000 steps; nothing here needs a GPU."""

PRESETS = {
    "smoke": SignalConfig(
        "smoke",
        noise=100,
        batch=50,
        steps=60,
        horizon=1e4,
        rows_of_noise=(100, 1000),
        phase=(100, 1000),
        multipliers=(0.5, 1.0),
        dead=DeadZone(Patches(100), (-0.5, 0.5), (3.0, 5.0, 16.0), 4),
        filters=(1, 4, 16),
        starts=6,
        held=2,
        images=100,
        seeds=2,
    ),
    "laptop": SignalConfig("laptop"),
    "laptop-long": replace(_GPU, name="laptop-long"),
    "gpu": _GPU,
    "paper": replace(_GPU, name="paper", seeds=20),
}


def dead_starts(signal: SignalConfig) -> str | None:
    """Return a sentence on the descents that are expected to end in the dead zone; None: there are none."""
    seeds = [run.seed for run in signal.descents if run.may_die]
    if not seeds:
        return None
    least = CARRIED * signal.descent.length / signal.patches.noise
    return (
        f"{len(seeds)} of {signal.seeds} descents (seeds {', '.join(map(str, seeds))}) begin with c < 0 and "
        f"a rate below {CARRIED:g}|c|/k, and are expected to end in the dead zone, where the signal is under "
        f"the threshold and has no gradient; choose an lr of {least:.3g} or more, or a smaller length."
    )
