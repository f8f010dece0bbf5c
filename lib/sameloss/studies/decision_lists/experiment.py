"""The configuration of this study and its stored runs: flows, sweeps, SGD, fixed samples, blocks, proofs."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from sameloss.device import best_device
from sameloss.errors import ParameterError
from sameloss.models.encoder import EncoderShape
from sameloss.runs.frames import TABLE, Tabled
from sameloss.seeds import generator_for, stream_seed
from sameloss.store.store import Report, Store
from sameloss.studies.config import Config, param
from sameloss.studies.decision_lists.proofs import (
    Case,
    Matrices,
    Weighted,
    all_sequences,
    assumption_excess,
    autograd_gap,
    curvature_share,
    identity_gap,
    light_mass_excess,
    lost_again,
    matrix_flow,
    nearly_ordered_case,
    proof_bounds,
    random_case,
    read_out_slope,
    seen,
)
from sameloss.studies.decision_lists.theory import (
    LATEST,
    Column,
    DecisionLists,
    Flow,
    Sets,
    curvature_bound,
    cyclic_lists,
    descend,
    draw_sequences,
    flow,
    forward,
    gradient_bound,
    horizon_of_43,
    luce_flow,
    order_of,
    readout_of_43,
    readout_of_44,
    recall,
    sampled_step,
    uniform_sets,
)
from sameloss.studies.decision_lists.training import (
    Steps,
    block_looked_at,
    both_by_sgd,
    error_of,
    looked_at,
    new_block,
    scores_by_sgd,
    train_block,
    trained_on,
)
from sameloss.studies.parameters import MOST_SEEDS

# Which task, which read-outs, and how much is swept, drawn and trained.

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
    readout: float = param(
        "c of SGD on W alone, and of one more flow; None: the preset's", 30.0, kind=float, example="8"
    )
    steps: int = param("of SGD on both matrices; None: the preset's", 1500)
    batch: int | None = param("sequences a step of SGD; None: the preset's", most=100_000)
    seeds: int = param(
        "of SGD, fixed samples and Figure 4.1; None: the preset's", 10, least=2, most=MOST_SEEDS
    )
    readouts: tuple[float, ...] = (1e5, 1e3, 100.0, 30.0, 10.0, 7.0, 5.0)  # beside the theorem's
    compared: tuple[float, ...] = (30.0, 10.0, 7.0, 5.0)  # those that are drawn beside it
    sweeps: Sweeps = SWEEPS
    cases: int = 400  # random ones of each kind, for the steps of the proofs
    small: TaskShape = TaskShape(12, 3, 3)  # all of whose sets are enumerated
    departures: Departures = DEPARTURES
    drawn: tuple[int, ...] = (25, 100, 1000, 10_000)  # sequences of Figure 4.1's step
    rates: tuple[float, ...] = (1.5, 7.0, 20.0)  # of SGD on W alone, times the bound on the curvature there
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
    def shown(self) -> tuple[float, ...]:
        """The read-outs whose flows are drawn, that of SGD first."""
        return (self.readout, *(other for other in self.compared if other != self.readout))

    @property
    def both(self) -> Steps:
        """SGD on both matrices."""
        return Steps(self.both_lr, self.batch or self.both_batch, self.steps, self.both_looks)

    def resolve(self, values: Mapping[str, Any]) -> Any:
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
        found = flow(self.task.column(self.readout), 1e6)
        return found.natural(found.perfect)

    def steps_at(self, rate: float) -> Steps:
        """Return SGD of W at a rate over the curvature, for longer than the exact flow takes.

        Args:
            rate: times the bound on the curvature; up to 2, descent on the population loss falls.

        """
        own = float(f"{rate / self.task.curvature(self.readout):.3g}")
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
        compared=(30.0, 10.0),
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


# The exact runs of this study: flows, and gradient descent as the theorems have it.

HORIZON = 1e6
"""Scaled time within which flows above c* are perfect at L²/n = 1,600; longer in proportion."""

CRITICAL_RULES = 4
"""Tokens of a list where c* is tried, as in Figure 4.1."""

LOOKS_A_DECADE = 12
"""Of curves over the logarithm of time."""

CURVES_GO_ON = 100
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
            last = np.fmin(found.horizon, CURVES_GO_ON * found.perfect)
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

MOST_DESCENT_STEPS = 100_000
"""Of descent on an exact loss."""

GENTLE = 1e5
"""The read-out at which the two readings of λ are told apart."""

AFTER_START = 2000
"""Steps of descent at the rate of the start's curvature."""


def _enough(column: Column, bound: float) -> int:
    """Return twice the steps that the flow's time to perfection makes, at most `MOST_DESCENT_STEPS`."""
    found = flow(column, _horizon(column, 0.0))
    steps = 2 * found.natural(found.perfect) * bound
    return int(steps) + 10 if steps < MOST_DESCENT_STEPS else MOST_DESCENT_STEPS


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


# The sampled runs of this study: Figure 4.1, SGD, fixed samples, and transformer blocks.


def generator(use: str, *path: int) -> torch.Generator:
    """Return random numbers for one use, on the device that computes."""
    return torch.Generator(best_device()).manual_seed(stream_seed(f"lists {use}", *path))


@dataclass(frozen=True)
class FigureStep(ListRun):
    """Figure 4.1's step on drawn sequences: how much of P is seen in V."""

    task: TaskShape
    counts: tuple[int, ...]
    seed: int

    def rows(self, report: Report) -> Iterator[dict]:
        """Take the step on each number of sequences."""
        task, words = self.task.build(), self.task.words
        for count in self.counts:
            own = torch.Generator().manual_seed(stream_seed("lists step", self.seed, count))
            read_out = sampled_step(task, self.task.length, float(words**2), count, own)
            diagonal = read_out[task.image, torch.arange(words)]
            rest = read_out.index_put((task.image, torch.arange(words)), torch.tensor(0.0))
            yield {
                "count": count,
                "recall": recall(task, read_out),
                "row_recall": recall(_inverse(task), read_out.T),
                "diagonal": float(diagonal.mean()),
                "least": float(diagonal.min()),
                "largest_other": float(rest.abs().max()),
            }
            report(count / max(self.counts), f"{count} sequences")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 1.2e-4 * sum(self.counts)


def _inverse(task: DecisionLists) -> DecisionLists:
    """Return a task whose permutation is turned round; its lists do not matter."""
    inverse = torch.empty_like(task.image)
    inverse[task.image] = torch.arange(task.words)
    return DecisionLists(tuple(inverse.tolist()), tuple((token,) for token in range(task.words)))


@dataclass(frozen=True)
class ListSGD(ListRun):
    """SGD on drawn sequences: on W at V = cP, or on both matrices from nothing (`readout` None)."""

    task: TaskShape
    readout: float | None
    how: Steps
    looked: int
    seed: int

    def rows(self, report: Report) -> Iterator[dict]:
        """Train, and look."""
        task, length = self.task.build(), self.task.length
        held_out = draw_sequences(task.words, length, self.looked, generator("held out"))
        own = generator("sgd", self.seed)
        if self.readout is None:
            looks = both_by_sgd(task, length, self.how, own)
        else:
            looks = scores_by_sgd(task, length, self.readout, self.how, own)
        for found in looks:
            report(found.step / self.how.steps, f"step {found.step}")
            yield looked_at(task, found, held_out)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        token = self.task.length * self.task.words
        dense = self.how.batch * token * self.task.words if self.readout is None else 0
        return self.how.steps * (1.2e-3 + dense / 2e10) + self.how.looks * self.looked * token / 1e8


@dataclass(frozen=True)
class ListSamples(ListRun):
    """The error on new sequences after training on a fixed sample of each size."""

    samples: Samples
    seed: int

    def rows(self, report: Report) -> Iterator[dict]:
        """Train on the first sequences of one large sample, more and more of them."""
        s = self.samples
        for words in s.words:
            shape = TaskShape(words, s.length, s.rules)
            task, own = (
                shape.build(),
                torch.Generator().manual_seed(stream_seed("lists samples", self.seed, words)),
            )
            drawn = draw_sequences(words, s.length, max(s.sizes), own)
            tested = draw_sequences(words, s.length, s.tested, own)
            rate = 4 * words / (s.readout**2 / 8 + s.readout)
            for size in s.sizes:
                scores = trained_on(task, s.readout, rate, drawn[:size], s.most_steps)
                errors = {
                    "error": error_of(task, s.readout, scores, tested),
                    "trained_error": error_of(task, s.readout, scores, drawn[:size]),
                }
                yield {"words": words, "size": size, "mass": shape.column(1.0).triple_mass, **errors}
            report((s.words.index(words) + 1) / len(s.words), f"L = {words}")

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        s = self.samples
        return 5e-9 * sum(s.words) * sum(s.sizes) * s.most_steps


@dataclass(frozen=True)
class ListBlock(ListRun):
    """An encoder of the library trained on the task, and what its attention looks at."""

    blocks: Blocks
    layers: int
    mlp: bool
    seed: int

    def rows(self, report: Report) -> Iterator[dict]:
        """Train; look at a model that was not trained, too."""
        b, device = self.blocks, best_device()
        task, length = b.task.build(), b.task.length
        model = new_block(b.task.words, length, b.shape(self.layers), self.mlp, self.seed).to(device)
        held_out = draw_sequences(b.task.words, length, 1000, generator("block held out"))
        yield {"step": 0, **block_looked_at(model, task, held_out)}
        for step in train_block(model, task, b.lr, b.batch, b.steps, generator("block", self.seed)):
            if step % max(1, b.steps // 10) == 0:
                report(step / b.steps, f"step {step}")
        yield {"step": b.steps, **block_looked_at(model, task, held_out)}

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        b = self.blocks
        return b.steps * self.layers * (1.5e-3 + 1.5e-7 * b.batch * b.task.length * b.d_model)


# The steps of the proofs in random cases, and what happens where an assumption is dropped.

AT_SMALL = 3e4
"""Scaled time, over n², of flows on the small task; at V = cP it is perfect after some 1,400."""


@dataclass(frozen=True)
class ListProofs(ListRun):
    """The proofs' inequalities and the assumptions' relations, one row a random case."""

    cases: int
    seed: int

    schema: ClassVar[int] = 2

    def rows(self, report: Report) -> Iterator[dict]:
        """Draw cases of each kind."""
        kinds = {
            "V = cP": lambda g: random_case(g),
            "V near cP": lambda g: random_case(g, radius=True),
            "rare, V = cP": lambda g: random_case(g, rare=True),
            "nearly ordered, V near cP": nearly_ordered_case,
        }
        for done, (kind, draw) in enumerate(kinds.items()):
            own = generator_for(f"lists proofs {kind}", self.seed)
            for _ in range(self.cases):
                yield {"kind": kind, **_measured(draw(own))}
            report((done + 1) / len(kinds), kind)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 0.06 * self.cases


def _measured(case: Case) -> dict[str, float]:
    of = seen(case)
    triples, sets = assumption_excess(case, of)
    exact = case.radius == 0
    own = {
        "gradient": autograd_gap(case),
        "read_out_slope": read_out_slope(case),
        "identity": identity_gap(case, of) if exact else np.nan,
        "curvature": curvature_share(case) if exact else np.nan,
        "light": light_mass_excess(case, of) if exact else np.nan,
    }
    return {**own, **proof_bounds(case, of)._asdict(), "of_triples": triples, "of_sets": sets}


PARTS = ("repeats", "start", "radius", "persistence", "theorem 4.4")


@dataclass(frozen=True)
class ListDepartures(ListRun):
    """An assumption dropped, or Theorem 4.4: exact flows over all sequences of small tasks.

    Columns: what was dropped, at which value and read-out, and a number with its name.
    """

    part: str  # one of `PARTS`
    small: TaskShape
    far: TaskShape  # of which a start off zero is followed
    how: Departures
    seed: int

    schema: ClassVar[int] = 2

    def rows(self, report: Report) -> Iterator[dict]:
        """Follow the flows of the part."""
        parts = {
            "repeats": self._repeats,
            "start": self._off_zero,
            "radius": self._off_readout,
            "persistence": self._lost_again,
            "theorem 4.4": self._theorem_44,
        }
        for value, readout, name, number in parts[self.part]():
            report(0.0, f"{value} at c = {readout:g}")
            yield {"what": self.part, "value": value, "readout": readout, "name": name, "number": number}

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        how = self.how
        radii = 4e-3 * sum(how.radius_readouts) * how.radius_seeds * len(how.radii)
        known = {"repeats": 1e-3 * sum(how.readouts), "radius": radii, "start": 0.2 * len(how.starts)}
        return known.get(self.part, 0.5)

    def _repeats(self) -> Iterator[tuple]:
        """Assumption 4.1: with repeated tokens the time to perfection falls as 1/c, not 1/c².

        Of one column: all are alike, and sequences without its token do not move it.
        """
        shape = TaskShape(9, 3, 3)
        kinds: dict[str, Sets | Weighted] = {
            "different": uniform_sets(9, 3),
            "repeated": all_sequences(9, 3),
        }
        for (tokens, sets), c in product(kinds.items(), self.how.readouts):
            kept = (sets.sequences == 0).any(1)
            own = Weighted(sets.sequences[kept], sets.probabilities[kept])
            task, horizon = shape.build(), 1e3 / c**2 if tokens == "different" else 2e3 / c
            found = matrix_flow(task, own, _start(task.read_out(c)), c, horizon, method="LSODA")
            perfect = found.perfect_of(0)
            yield tokens, c, "time", perfect
            yield tokens, c, "spread", float(np.ptp(found.at(perfect).scores[:, 0].numpy()))

    def _off_zero(self) -> Iterator[tuple]:
        """W_0 = 0: the time to perfection over the promised one, at the theorem's c, from random scores."""
        c = self.far.theorem_readout
        column, scale = self.far.column(c), c / self.far.length
        direction = torch.randn(
            self.far.rules + 1, generator=generator_for("lists start", self.seed)
        ).double()
        for spread in self.how.starts:
            found = flow(column, LATEST, spread * scale * direction.numpy())
            promised = horizon_of_43(self.far.words, self.far.rules)
            yield f"{spread:g}", c, "time over promise", found.natural(found.perfect) / promised

    def _off_readout(self) -> Iterator[tuple]:
        """V = cP: the accuracy at the end of the flow of W at a V off cP by a share of c."""
        task, sets = self.small.build(), uniform_sets(self.small.words, self.small.length)
        for c, seed in product(self.how.radius_readouts, range(self.how.radius_seeds)):
            noise, horizon = _noise(task.words, self.seed + seed), AT_SMALL / c**2
            for radius in self.how.radii:
                found = matrix_flow(task, sets, _start(task.read_out(c) + radius * c * noise), c, horizon)
                right = 1 - float(found.wrong(horizon).double().mean())
                yield f"{radius:g}", c, "accuracy", right

    def _lost_again(self) -> Iterator[tuple]:
        """From t on: a token that is perfect after one step, and lost afterwards; times in steps of 1/50λ."""
        task, sets = lost_again()
        c, occurs = 1e5, (sets.sequences == 0).any(1)
        step = 1 / (50 * curvature_bound(float(sets.probabilities[occurs].sum()), c, 3))
        found = matrix_flow(task, sets, _start(task.read_out(c)), c, 4000 * step)
        first = found.perfect_of(0)
        lost = found.first(lambda time: time > first and found.wrong_of(0, time))
        yield "perfect", c, "steps", first / step
        yield "lost", c, "steps", lost / step
        yield "at 4000 steps", c, "wrong", float(found.wrong_of(0, 4000 * step))

    def _theorem_44(self) -> Iterator[tuple]:
        """Theorem 4.4: both matrices from V within ε/2 of cP, at the least c that it allows."""
        task, sets = self.small.build(), uniform_sets(self.small.words, self.small.length)
        for radius in (1.0, 0.1):
            noise = radius / 2 * _noise(task.words, self.seed)

            def loss(c: float, noise: torch.Tensor = noise) -> float:
                start = _start(task.read_out(c) + noise)
                losses = forward(*start, sets.sequences, task.labels(sets.sequences)).losses
                return float(losses.mean(1) @ sets.probabilities)

            mass = self.small.column(1.0).set_mass
            c = readout_of_44(radius, self.small.rules, self.small.length, mass, loss)
            found = matrix_flow(task, sets, _start(task.read_out(c) + noise), c, 1e-3 * radius / 2, True)
            yield f"{radius:g}", c, "time over promise", found.perfect / (radius / 2)
            moved = found.at(found.perfect).read_out - found.read_out
            yield f"{radius:g}", c, "move over radius", float(moved.abs().max()) / (radius / 2)


def _start(read_out: torch.Tensor) -> Matrices:
    return Matrices(torch.zeros_like(read_out), read_out)


def _noise(words: int, seed: int) -> torch.Tensor:
    """Return entries that are uniform in [−1, 1]."""
    own = generator_for("lists noise", seed)
    return 2 * torch.rand(words, words, generator=own, dtype=torch.float64) - 1
