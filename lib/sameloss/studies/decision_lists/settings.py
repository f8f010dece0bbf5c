"""Which task, which read-outs, and how much is swept, drawn and trained."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from sameloss.errors import ParameterError
from sameloss.models.encoder import EncoderShape
from sameloss.studies.config import Config, param
from sameloss.studies.decision_lists.flow import flow, order_of
from sameloss.studies.decision_lists.population import Column
from sameloss.studies.decision_lists.sgd import Steps
from sameloss.studies.decision_lists.task import DecisionLists, cyclic_lists
from sameloss.studies.decision_lists.theorems import curvature_bound, readout_of_43
from sameloss.studies.parameters import MOST_SEEDS

AFTERWARDS = 1.7
"""SGD goes on to so many times the exact flow's perfect time."""

MOST_STEPS = 4000
"""Of SGD, where the exact flow takes longer, or for ever."""

THEOREM = "theorem"
"""The name of the read-out that Theorem 4.3 asks for."""


@dataclass(frozen=True)
class TaskShape:
    """L, n and m; sets are drawn uniformly."""

    words: int
    length: int
    rules: int

    def build(self) -> DecisionLists:
        """Return the lists of Figure 4.1 for this vocabulary."""
        return cyclic_lists(self.words, self.rules)

    def column(self, readout: float) -> Column:
        """Return a column's exact loss at c."""
        return Column(self.words, self.length, self.rules, readout)

    def curvature(self, readout: float) -> float:
        """Return the bound on the Hessian of every W at c."""
        return curvature_bound(self.length / self.words, readout, self.length)

    @property
    def theorem_readout(self) -> float:
        """Return c of Theorem 4.3."""
        return readout_of_43(self.words, self.length, self.column(1.0).triple_mass)


@dataclass(frozen=True)
class Sweeps:
    """Of what the time to perfection is followed, one flow each."""

    words: tuple[int, ...]  # L, at a fixed density and at a fixed length
    densities: tuple[float, ...]  # n / L
    lengths: tuple[int, ...]  # n
    rules: tuple[int, ...]  # m
    rarities: tuple[float, ...]  # κ
    critical_words: tuple[int, ...]  # L, around c* at n = L/8
    horizon: float = 1e12  # natural time of flows around c*


@dataclass(frozen=True)
class Samples:
    """Fixed samples of growing size, on which W is trained until they are classified."""

    words: tuple[int, ...]
    length: int
    rules: int
    readout: float
    sizes: tuple[int, ...]
    tested: int  # sequences drawn to measure the error
    errors: tuple[float, ...] = (0.05, 0.01)
    most_steps: int = 3000


@dataclass(frozen=True)
class Blocks:
    """Transformer blocks of the library's encoder on a smaller task."""

    task: TaskShape
    d_model: int
    layers: tuple[int, ...]
    lr: float
    batch: int
    steps: int
    seeds: int

    def shape(self, layers: int) -> EncoderShape:
        """Return the encoder's shape: one head, and an MLP of the usual width."""
        return EncoderShape(self.d_model, 1, layers, 4 * self.d_model)


@dataclass(frozen=True)
class Departures:
    """How far each assumption is left."""

    readouts: tuple[float, ...]  # c at which tokens may be repeated
    radii: tuple[float, ...]  # largest |V − cP| over c
    radius_readouts: tuple[float, ...]
    radius_seeds: int
    starts: tuple[float, ...] = (0.0, 0.01, 0.1, 1.0, 3.0, 5.0, 7.0)  # spread of the first scores


SWEEPS = Sweeps(
    words=(40, 80, 160, 320, 640, 1280, 2560),
    densities=(1 / 8, 1 / 4),
    lengths=(8, 25),
    rules=(2, 3, 4, 5, 6, 8),
    rarities=(1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01),
    critical_words=(40, 100, 200, 400, 1000),
)

DEPARTURES = Departures((1e3, 1e4), (0.0, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5), (10.0, 100.0), 3)

SAMPLES = Samples(
    (16, 24, 36, 54), 6, 3, 30.0, (8, 12, 18, 27, 40, 60, 90, 135, 200, 300, 450, 675, 1000), 3000
)


@dataclass(frozen=True)
class ListConfig(Config):
    """What is followed, swept, drawn and trained, and what a reader can set."""

    vocabulary: int = param("tokens, L; None: the preset's", 200, most=3200, example="100")
    length: int = param("of sequences, n; None: the preset's", 25, most=3200)
    list_length: int = param("tokens of every list, m; None: the preset's", 4, least=2, most=8)
    readout: float | None = param(
        "c of SGD on W alone, and of one more flow; None: the preset's", kind=float, example="8"
    )
    steps: int = param("of SGD on both matrices; None: the preset's", 1500)
    batch: int | None = param("sequences a step of SGD; None: the preset's", most=100_000)
    seeds: int = param(
        "of SGD, fixed samples and Figure 4.1; None: the preset's", 10, least=2, most=MOST_SEEDS
    )
    readouts: tuple[float, ...] = (1e5, 1e3, 100.0, 30.0, 10.0, 7.0, 5.0)  # beside the theorem's
    preset_shown: tuple[float, ...] = (30.0, 10.0, 7.0, 5.0)  # those that are drawn
    sweeps: Sweeps = SWEEPS
    cases: int = 400  # random ones of each kind, for the steps of the proofs
    small: TaskShape = TaskShape(12, 3, 3)  # all of whose sets are enumerated
    departures: Departures = DEPARTURES
    drawn: tuple[int, ...] = (25, 100, 1000, 10_000)  # sequences of Figure 4.1's step
    preset_readout: float = 30.0  # c of SGD on W alone
    rates: tuple[float, ...] = (1.5, 7.0, 20.0)  # of it, times the bound on the curvature there
    alone_batch: int = 64
    alone_looks: int = 50
    both_lr: float = 100.0
    both_batch: int = 64
    both_looks: int = 50
    looked: int = 400  # sequences held out for every look
    samples: Samples = SAMPLES
    blocks: Blocks = Blocks(TaskShape(50, 10, 4), 64, (1,), 3e-3, 64, 1000, 3)
    first_seed: int = 100
    larger: tuple[TaskShape, ...] = ()  # on which both matrices are trained, too

    @property
    def task(self) -> TaskShape:
        """The page's own."""
        return TaskShape(self.vocabulary, self.length, self.list_length)

    @property
    def sgd_readout(self) -> float:
        """The read-out c of SGD on W alone."""
        return self.readout or self.preset_readout

    @property
    def shown(self) -> tuple[float, ...]:
        """The read-outs whose flows are drawn, a reader's own first."""
        if self.readout is None:
            return self.preset_shown
        return (self.readout, *(other for other in self.preset_shown if other != self.readout))

    @property
    def both(self) -> Steps:
        """SGD on both matrices."""
        return Steps(self.both_lr, self.batch or self.both_batch, self.steps, self.both_looks)

    def resolve(self, values: Mapping[str, Any]) -> Self:
        """Return what a reader asked for.

        Raises:
            ParameterError: for sequences or lists that cannot be, or whose order is right after one step.

        """
        config = super().resolve(values)
        first = config.task.column(1.0).first_step()
        config.task.build()
        if order_of(first) == order_of(-np.arange(config.list_length + 1.0)):
            raise ParameterError(
                f"With n = {config.length} of L = {config.vocabulary} tokens the order is right after a step "
                "of any size, so there is nothing to follow; choose shorter sequences."
            )
        return config

    @property
    def all_seeds(self) -> range:
        """Return the seeds of everything that is drawn; the pilot's were 0 to 5, 99 and 999."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @cached_property
    def exact_time(self) -> float:
        """Return when the exact flow at SGD's read-out is perfect; NaN: not in scaled time 1e6."""
        found = flow(self.task.column(self.sgd_readout), 1e6)
        return found.natural(found.perfect)

    def steps_at(self, rate: float) -> Steps:
        """Return SGD of W at a rate over the curvature, for longer than the exact flow takes.

        Args:
            rate: times the bound on the curvature; up to 2, descent on the population loss falls.

        """
        own = float(f"{rate / self.task.curvature(self.sgd_readout):.3g}")
        wanted = AFTERWARDS * self.exact_time / own
        steps = round(wanted) if wanted < MOST_STEPS else MOST_STEPS  # NaN is not less than anything
        return Steps(own, self.batch or self.alone_batch, max(self.alone_looks, steps), self.alone_looks)


_GPU = ListConfig(
    "gpu",
    sweeps=replace(SWEEPS, words=(*SWEEPS.words, 3200)),
    drawn=(25, 100, 1000, 10_000, 100_000),
    both_batch=256,
    steps=10_000,
    both_looks=100,
    blocks=Blocks(TaskShape(50, 10, 4), 64, (1, 2, 4), 3e-3, 64, 4000, 3),
    larger=(TaskShape(400, 50, 4), TaskShape(800, 100, 4)),
)
"""Longer, wider; the exact side needs no GPU."""

PRESETS = {
    "smoke": ListConfig(
        "smoke",
        vocabulary=12,
        length=3,
        list_length=3,
        readouts=(1e5, 30.0, 10.0),
        preset_shown=(30.0, 10.0),
        sweeps=Sweeps((320, 640), (0.125,), (8,), (2, 3), (1.0, 0.02, 0.01), (40,), 1e6),
        cases=8,
        small=TaskShape(9, 3, 3),
        departures=Departures((100.0, 1000.0), (0.0, 0.03, 1.0), (10.0,), 1, starts=(0.0, 1.0, 7.0)),
        drawn=(25, 1000),
        rates=(0.3,),
        alone_looks=20,
        both_lr=5.0,
        steps=40,
        both_looks=20,
        looked=500,
        samples=Samples((12, 18), 4, 3, 30.0, (8, 16, 32, 64, 128, 256), 500, most_steps=300),
        blocks=Blocks(TaskShape(12, 3, 3), 16, (1,), 1e-2, 64, 40, 1),
        seeds=2,
    ),
    # Fewer seeds, steps and looks, and of transformer blocks, of which no interval is taken, one seed.
    "laptop": ListConfig(
        "laptop",
        cases=200,
        alone_looks=20,
        steps=1000,
        both_looks=20,
        blocks=Blocks(TaskShape(50, 10, 4), 64, (1,), 3e-3, 64, 1000, 1),
        seeds=3,
    ),
    "laptop-long": ListConfig("laptop-long"),
    "gpu": _GPU,
    # The printed setting, and its figure from a million sequences.
    "paper": replace(_GPU, name="paper", drawn=(25, 100, 1000, 10_000, 1_000_000)),
}
