"""How many rows, how noisy, and how much is trained."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sameloss.checks import check_counts
from sameloss.studies.local_signal.flow import CARRIED
from sameloss.studies.local_signal.patches import Patches
from sameloss.studies.local_signal.runs import BestFilters, DeadZone, FilterDescent, SignalFlows, SignalSGD
from sameloss.studies.local_signal.tangent.runs import TangentRows, TangentStarts
from sameloss.studies.parameters import MOST_SEEDS, OF_EVERY_PAGE, OWN_LIMITS, Limits, Parameter

log = logging.getLogger(__name__)

TANGENT_PATCHES = Patches(1000)
"""Of the tangent kernels: fewer rows have too few dimensions, d = 1/σ²."""


@dataclass(frozen=True)
class SignalSettings:
    """Everything that decides the runs."""

    patches: Patches
    d: int  # entries of a row
    descent: FilterDescent
    batch: int
    steps: int  # of stochastic descent
    horizon: float  # steps of the flow
    rows_of_noise: tuple[int, ...]  # k, of the best filters
    phase: tuple[int, ...]  # k, of the flows of the phase diagram
    multipliers: tuple[float, ...]
    dead: DeadZone
    tangent: TangentStarts
    seeds: int
    first_seed: int = 100

    def __post_init__(self) -> None:
        """Refuse numbers of nothing."""
        check_counts(self, "d", "batch", "steps", "seeds")

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
        return TangentRows(TANGENT_PATCHES, self.tangent, self.first_seed)

    @property
    def descents(self) -> list[SignalSGD]:
        """Return stochastic descent from each seed; the pilot's seeds were 0 and 1."""
        own = (self.patches, self.descent, self.d, self.batch, self.steps)
        return [SignalSGD(*own, self.first_seed + seed) for seed in range(self.seeds)]


@dataclass(frozen=True)
class Settings:
    """A preset of the pages."""

    name: str
    signal: SignalSettings
    limits: Limits = OWN_LIMITS


LAPTOP = SignalSettings(
    patches=Patches(1000),
    d=10,
    descent=FilterDescent(lr=0.1, length=1e-6),
    batch=500,
    steps=3000,
    horizon=1e7,
    rows_of_noise=(100, 200, 300, 500, 700, 800, 1000, 2000, 3000, 10_000, 100_000),
    phase=(100, 200, 500, 1000, 2000, 5000, 10_000, 100_000),
    multipliers=(0.5, 0.75, 1.0, 1.25, 1.5),
    dead=DeadZone(Patches(100), (-0.5, -0.1, 0.5), (2.0, 3.0, 5.0, 8.0, 16.0, 32.0), 20),
    tangent=TangentStarts(filters=(1, 2, 4, 8, 16, 32), starts=40, held=10, images=400),
    seeds=3,
)
"""The settings of Figure 3.3, but for its 10,000 steps."""

SMOKE = replace(
    LAPTOP,
    patches=Patches(100),
    batch=50,
    steps=60,
    horizon=1e4,
    rows_of_noise=(100, 1000),
    phase=(100, 1000),
    multipliers=(0.5, 1.0),
    dead=DeadZone(Patches(100), (-0.5, 0.5), (3.0, 5.0, 16.0), 4),
    tangent=TangentStarts(filters=(1, 4, 16), starts=6, held=2, images=100),
    seeds=2,
)

GPU = replace(
    LAPTOP,
    steps=10_000,
    seeds=10,
    tangent=TangentStarts(filters=(1, 2, 4, 8, 16, 32), starts=400, held=50, images=2000),
)
"""The figure's own 10,000 steps; nothing here needs a GPU."""

PRESETS = {
    "smoke": Settings("smoke", SMOKE),
    "laptop": Settings("laptop", LAPTOP),
    "laptop-long": Settings("laptop-long", GPU),
    "gpu": Settings("gpu", GPU),
    "paper": Settings("paper", replace(GPU, seeds=20)),
}

PARAMETERS: dict[str, Parameter] = {
    **OF_EVERY_PAGE,
    "noise": Parameter(
        "rows of noise, k; None: the preset's",
        int | None,
        sets=("signal.patches.noise",),
        least=2,
        most=10_000_000,
        example="300",
    ),
    "multiplier": Parameter(
        "σ over log k/√k; None: 1", float | None, sets=("signal.patches.multiplier",), most=100
    ),
    "batch": Parameter(
        "fresh images a step; None: the preset's", int | None, sets=("signal.batch",), most=100_000
    ),
    "lr": Parameter("learning rate of w; None: the preset's", float | None, sets=("signal.descent.lr",)),
    "length": Parameter(
        "of the first filter, w; None: the preset's", float | None, sets=("signal.descent.length",)
    ),
    "steps": Parameter(
        "of stochastic descent; None: the preset's", int | None, sets=("signal.steps",), most=1_000_000
    ),
    "starts": Parameter(
        "of tangent kernels, for every number of filters; None: the preset's",
        int | None,
        sets=("signal.tangent.starts",),
        least=2,
        most=10_000,
        example="30",
    ),
    "seeds": Parameter(
        "of stochastic descent; None: the preset's",
        int | None,
        sets=("signal.seeds",),
        least=2,
        most=MOST_SEEDS,
    ),
}


def dead_starts(signal: SignalSettings) -> str | None:
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


def finished(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return the settings; warn where what a reader asked for begins too far below zero for its rate."""
    if (said := dead_starts(settings.signal)) is not None:
        log.warning(said)
    return settings
