"""How many rows, how noisy, and how much is trained."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from sameloss.studies.config import Config, param
from sameloss.studies.local_signal.flow import CARRIED
from sameloss.studies.local_signal.patches import Patches
from sameloss.studies.local_signal.runs import BestFilters, DeadZone, FilterDescent, SignalFlows, SignalSGD
from sameloss.studies.local_signal.tangent.runs import TangentRows, TangentStarts
from sameloss.studies.parameters import MOST_SEEDS

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

    def resolve(self, values: Mapping[str, Any]) -> Self:
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
