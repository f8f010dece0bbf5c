"""Presets, and stored runs: flows, sweeps, SGD, fixed samples, transformer blocks, steps of the proofs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import product
from math import log
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Generator, Tensor
from torch.nn import functional as F

from sameloss.device import best_device
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.runs.stage import stage
from sameloss.seeds import generator_for, stream_seed
from sameloss.store.store import Report
from sameloss.studies.decision_lists import proofs, theory
from sameloss.studies.decision_lists.theory import Column, DecisionLists, Matrix, Sequences, flow
from sameloss.studies.parameters import MOST_SEEDS, Config, param

# Which task, which read-outs, and how much is swept, drawn and trained.

MOST_STEPS = 4000  # of SGD, where the exact flow takes longer or never ends
FIRST_SEED = 100  # of all random numbers; the pilot's were 0 to 5, 99 and 999
THEOREM = "theorem"  # name of the read-out of Theorem 4.3


@dataclass(frozen=True)
class TaskShape:
    """Vocabulary size L, sequence length n and list length m; sets are drawn uniformly."""

    words: int
    length: int
    rules: int

    def build(self) -> DecisionLists:
        return theory.cyclic_lists(self.words, self.rules)

    def column(self, readout: float) -> Column:
        return Column(self.words, self.length, self.rules, readout)

    def curvature(self, readout: float) -> float:
        """Bound on the Hessian at every W."""
        return theory.curvature_bound(self.length / self.words, readout, self.length)

    @property
    def theorem_column(self) -> Column:
        """A column at the read-out of Theorem 4.3, c = 4n² log L / δ."""
        return self.column(4 * self.length**2 * log(self.words) / self.column(1.0).triple_mass)


@dataclass(frozen=True)
class Sweeps:
    """Quantities against which the time to perfection is measured, one flow per value."""

    words: tuple[int, ...]  # L, at fixed densities and fixed lengths
    densities: tuple[float, ...]  # n / L
    lengths: tuple[int, ...]  # n
    rules: tuple[int, ...]  # m
    rarities: tuple[float, ...]  # κ
    critical_words: tuple[int, ...]  # L of flows around c*, with n = L/8
    horizon: float = 1e12  # unscaled time of flows around c*


@dataclass(frozen=True)
class Steps:
    """SGD as in the thesis: one learning rate for both matrices, no schedule."""

    rate: float
    batch: int
    steps: int
    looks: int  # evaluations at equal distances, after one before training


@dataclass(frozen=True)
class Samples:
    """Fixed samples of growing size, on each of which W is trained until all of it is classified."""

    words: tuple[int, ...]
    length: int
    rules: int
    readout: float
    sizes: tuple[int, ...]
    tested: int  # new sequences on which the error is measured
    errors: tuple[float, ...] = (0.05, 0.01)
    most_steps: int = 3000


@dataclass(frozen=True)
class Blocks:
    """Transformer encoders of this library on a smaller task."""

    task: TaskShape
    d_model: int
    layers: tuple[int, ...]
    lr: float
    batch: int
    steps: int
    seeds: int


@dataclass(frozen=True)
class Departures:
    """How far each assumption is violated."""

    readouts: tuple[float, ...]  # c of flows with repeated tokens
    radii: tuple[float, ...]  # largest |V − cP| over c
    radius_readouts: tuple[float, ...]
    radius_seeds: int
    starts: tuple[float, ...] = (0.0, 0.01, 0.1, 1.0, 3.0, 5.0, 7.0)  # spread of the initial scores


SWEEPS = Sweeps(
    words=(40, 80, 160, 320, 640, 1280, 2560),
    densities=(1 / 8, 1 / 4),
    lengths=(8, 25),
    rules=(2, 3, 4, 5, 6, 8),
    rarities=(1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01),
    critical_words=(40, 100, 200, 400, 1000),
)


@dataclass(frozen=True)
class ListConfig(Config):
    """A preset, and what a reader can change in it."""

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
    compared: tuple[float, ...] = (30.0, 10.0, 7.0, 5.0)  # in figures, beside the theorem's
    sweeps: Sweeps = SWEEPS
    cases: int = 400  # random ones of each kind, for the steps of the proofs
    small: TaskShape = TaskShape(12, 3, 3)  # small enough to enumerate all sets
    departures: Departures = Departures(
        (1e3, 1e4), (0.0, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5), (10.0, 100.0), 3
    )
    drawn: tuple[int, ...] = (25, 100, 1000, 10_000)  # sequences of Figure 4.1's step
    rates: tuple[float, ...] = (1.5, 7.0, 20.0)  # of SGD on W alone, times the bound on the curvature
    alone_looks: int = 50
    both_lr: float = 100.0
    both_batch: int = 64
    both_looks: int = 50
    looked: int = 400  # held-out sequences of every evaluation
    samples: Samples = Samples(
        (16, 24, 36, 54), 6, 3, 30.0, (8, 12, 18, 27, 40, 60, 90, 135, 200, 300, 450, 675, 1000), 3000
    )
    blocks: Blocks = Blocks(TaskShape(50, 10, 4), 64, (1,), 3e-3, 64, 1000, 3)
    larger: tuple[TaskShape, ...] = ()  # more tasks on which both matrices are trained

    @property
    def task(self) -> TaskShape:
        return TaskShape(self.vocabulary, self.length, self.list_length)

    @property
    def tasks(self) -> tuple[TaskShape, ...]:
        """Tasks on which both matrices are trained, the page's main one first."""
        return tuple(dict.fromkeys((self.task, *self.larger)))

    @property
    def shown(self) -> tuple[float, ...]:
        """Read-outs whose flows are drawn, that of SGD first."""
        return tuple(dict.fromkeys((self.readout, *self.compared)))

    @property
    def both(self) -> Steps:
        """SGD on both matrices."""
        return Steps(self.both_lr, self.batch or self.both_batch, self.steps, self.both_looks)

    @property
    def all_seeds(self) -> range:
        return range(FIRST_SEED, FIRST_SEED + self.seeds)

    def resolve(self, values: Mapping[str, Any]) -> Any:
        """Apply a reader's parameters.

        Raises:
            ParameterError: for impossible sequences or lists, or if one step already gives the right order.

        """
        config = super().resolve(values)
        first_step = config.task.column(1.0).first_step()
        if theory.order_of(first_step) == theory.order_of(-np.arange(config.list_length + 1.0)):
            raise ParameterError(
                f"With n = {config.length} of L = {config.vocabulary} tokens the order is right after a step "
                "of any size, so there is nothing to follow; choose shorter sequences."
            )
        return config

    @cached_property
    def exact_time(self) -> float:
        """Time to perfection of the exact flow at SGD's read-out; NaN: not in scaled time 1e6."""
        exact = flow(self.task.column(self.readout), 1e6)
        return exact.natural(exact.perfect)

    def steps_at(self, rate: float) -> Steps:
        """SGD on W alone, for longer than the exact flow takes.

        Args:
            rate: times the bound on the curvature; up to 2, descent on the population loss is monotone.

        """
        rounded = float(f"{rate / self.task.curvature(self.readout):.3g}")
        wanted = 1.7 * self.exact_time / rounded
        steps = round(wanted) if wanted < MOST_STEPS else MOST_STEPS  # also where it is NaN
        return Steps(rounded, self.batch or 64, max(self.alone_looks, steps), self.alone_looks)


# Longer, wider; the exact side needs no GPU.
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
    # Fewer seeds, steps and evaluations; one seed of transformer blocks, which have no intervals.
    "laptop": ListConfig(
        "laptop",
        cases=200,
        alone_looks=20,
        steps=2000,
        both_looks=20,
        blocks=Blocks(TaskShape(50, 10, 4), 64, (1,), 3e-3, 64, 1000, 1),
        seeds=3,
    ),
    "laptop-long": ListConfig("laptop-long"),
    "gpu": _GPU,
    # The printed setting, with a million sequences for its figure.
    "paper": replace(_GPU, name="paper", drawn=(25, 100, 1000, 10_000, 1_000_000)),
}


# Exact runs: flows, and gradient descent as in the theorems.

HORIZON = 1e6  # scaled time in which flows above c* are perfect at L²/n = 1,600; longer in proportion
CRITICAL_RULES = 4  # m of the flows around c*, as in Figure 4.1
PRINTED = TaskShape(200, 25, 4)  # the setting of Figure 4.1


def _scale(column: Column) -> float:
    """Scaled over unscaled time."""
    return (column.readout / column.length) ** 2


def _horizon(column: Column, unscaled: float) -> float:
    """Scaled time of a flow; at least `unscaled` time where the read-out is small and escape is slow."""
    longest = HORIZON * max(1.0, column.words**2 / column.length / 1600)
    slow = not column.readout > column.critical_readout + 1  # also where c* is NaN
    return max(longest, min(unscaled * _scale(column), theory.LATEST)) if slow else longest


def _families(
    task: TaskShape, readouts: tuple[float, ...], sweeps: Sweeps
) -> Iterator[tuple[str, Column, float]]:
    """Yield a flow's family, column and horizon in scaled time."""
    theorem = task.theorem_column
    yield "luce", task.column(1.0), HORIZON
    for column in (theorem, *map(task.column, readouts)):
        yield "readout", column, _horizon(column, sweeps.horizon)
    for words, density in product(sweeps.words, sweeps.densities):
        shape = TaskShape(words, round(words * density), task.rules)
        yield f"words at n = {density:g} L", shape.theorem_column, 1e9
    for words, length in product(sweeps.words, sweeps.lengths):
        if length < words / 2:
            yield f"words at n = {length}", TaskShape(words, length, task.rules).theorem_column, 1e9
    for rules in sweeps.rules:
        yield "rules", replace(task, rules=rules).theorem_column, HORIZON
    for rarity in sweeps.rarities:
        yield "rarity", replace(theorem, rarity=rarity), 100 * HORIZON
    for words, shift in product(sweeps.critical_words, (-0.5, 0.0, 0.5)):
        column = Column(words, words // 8, CRITICAL_RULES, 1.0)
        column = replace(column, readout=column.critical_readout + shift)
        yield f"critical {shift:+g}", column, sweeps.horizon * _scale(column)


@stage("ListFlows", seconds=lambda run: 0.12 * len(list(_families(run.task, run.readouts, run.sweeps))))
def list_flows(task: TaskShape, readouts: tuple[float, ...], sweeps: Sweeps) -> pd.DataFrame:
    """Orders of the scores on the way to perfection, and their times, by c, L, n, m and rarity."""
    rows = []
    for family, column, horizon in _families(task, readouts, sweeps):
        exact = flow(column, horizon, luce=family == "luce")
        about = {"family": family, **asdict(column)}
        rows += [{**about, **e._asdict(), "natural": exact.natural(e.time)} for e in exact.events]
    return pd.DataFrame(rows)


def _log_times(horizon: float) -> np.ndarray:
    """Twelve times per decade."""
    first = min(1.0, horizon / 1000)
    return np.geomspace(first, horizon, round(12 * np.log10(horizon / first)) + 1)


@stage("ListCurves", seconds=lambda run: 0.15 * len(run.readouts))
def list_curves(task: TaskShape, readouts: tuple[float, ...], horizon: float) -> pd.DataFrame:
    """Scores, loss, accuracy and attention along the flow, at equal distances of log time.

    At the theorem's read-out and others, up to 100 times the time to perfection; `horizon` is unscaled time.
    """
    entries, rows = [*(f"w{place}" for place in range(1, task.rules + 1)), "wo"], []
    named = {THEOREM: task.theorem_column.readout, **{f"{c:g}": c for c in readouts}}
    for name, readout in named.items():
        column = task.column(readout)
        exact = flow(column, _horizon(column, horizon))
        for time in _log_times(np.fmin(exact.horizon, 100 * exact.perfect)):
            scores = exact.scores(time)
            row = {
                "name": name,
                "readout": readout,
                "time": time,
                "natural": exact.natural(time),
                "loss": column.words * column.loss(scores),
                "accuracy": column.accuracy(scores),
                "attention": column.weight_on_determining(scores),
            }
            rows.append({**row, **dict(zip(entries, scores, strict=True))})
    return pd.DataFrame(rows)


@stage("ListDescents", seconds=lambda run: 0.35 * len(run.tasks))
def list_descents(tasks: tuple[TaskShape, ...]) -> pd.DataFrame:
    """Gradient descent on the exact loss at the theorem's read-out and rate, on several tasks.

    Once more at the printed setting and c = 10⁵, with λ of the Hessian at W = 0, another reading of "the
    Hessian".
    """
    gentle = PRINTED.column(1e5)
    rows = [_descent("at the start", gentle, gentle.curvature_at_start(), 2000)]
    for task in tasks:
        column = task.theorem_column
        bound, exact = task.curvature(column.readout), flow(column, _horizon(column, 0.0))
        steps = 2 * exact.natural(exact.perfect) * bound
        rows.append(_descent("everywhere", column, bound, int(steps) + 10 if steps < 100_000 else 100_000))
    return pd.DataFrame(rows)


def _descent(curvature: str, column: Column, bound: float, steps: int) -> dict[str, Any]:
    perfect, losses, scores = theory.descend(column, 1 / bound, steps, stop=curvature == "everywhere")
    promised = theory.horizon_of_43(column.words, column.rules)
    exact = flow(column, min(promised * _scale(column), theory.LATEST))
    last = exact.scores(exact.horizon)
    slopes = [column.gradient(exact.scores(time)) ** 2 for time in _log_times(exact.perfect)]
    least = min(float(column.multiplicities @ slope) for slope in slopes)
    return {
        **{name: value for name, value in asdict(column).items() if name != "rarity"},
        "curvature": curvature,
        "bound": bound,
        "steps": perfect or np.nan,
        "promised": promised * bound,
        "rises": int((np.diff(losses) > 1e-12 * losses[:-1]).sum()),
        "attention": column.weight_on_determining(scores),
        "attention_at_end": column.weight_on_determining(last),
        "largest_at_end": float(abs(last).max()),
        "least_slope": least / theory.gradient_bound(column.words, column.rules),
    }


# Sampled runs: Figure 4.1, SGD, fixed samples, and transformer blocks.


def generator(use: str, *path: int) -> Generator:
    """Random numbers for one use, on the best device."""
    return Generator(best_device()).manual_seed(stream_seed(f"lists {use}", *path))


@stage("FigureStep", seconds=lambda run: 1.2e-4 * sum(run.counts))
def figure_step(task: TaskShape, counts: tuple[int, ...], seed: int) -> pd.DataFrame:
    """Figure 4.1's step on drawn sequences: how much of P is visible in V."""
    lists, words, rows = task.build(), task.words, []
    diagonal = lists.image, torch.arange(words)
    for count in counts:
        draws = generator_for("lists step", seed, count)
        read_out = theory.sampled_step(lists, task.length, float(words**2), count, draws)
        row = {
            "count": count,
            "recall": theory.recall(lists, read_out),
            "row_recall": float((read_out.argmax(1)[lists.image] == diagonal[1]).double().mean()),
            "diagonal": float(read_out[diagonal].mean()),
            "least": float(read_out[diagonal].min()),
            "largest_other": float(read_out.index_put(diagonal, torch.tensor(0.0)).abs().max()),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def sgd(
    task: DecisionLists, length: int, readout: float | None, how: Steps, draws: Generator
) -> Iterator[tuple[int, Matrix, Matrix]]:
    """Train on sequences drawn anew at every step; yield the step, W and V at every evaluation.

    W alone from 0 at V = cP; if `readout` is None both, from W = 0 and a tiny random V as in Figure 4.1.
    """
    device, words = draws.device, task.words
    scores = torch.zeros(words, words, device=device)
    if readout is None:
        read_out = theory.INITIAL_SCALE * torch.randn(words, words, generator=draws, device=device)
    else:
        read_out = task.read_out(readout).float().to(device)
    weights = torch.full((how.batch,), 1 / how.batch, device=device)
    evaluated = {round(how.steps * at / how.looks) for at in range(1, how.looks + 1)}
    yield 0, scores, read_out
    for step in range(1, how.steps + 1):
        sequences = theory.draw_sequences(words, length, how.batch, draws)
        if readout is None:
            computed = theory.forward(scores, read_out, sequences, task.labels(sequences))
            by_scores, by_read_out = theory.gradients(computed, read_out, sequences, weights)
            read_out = read_out - how.rate * by_read_out
        else:
            by_scores = theory.fixed_gradient(scores, readout, task, sequences)
        scores = scores - how.rate * by_scores
        if not (scores.isfinite().all() and read_out.isfinite().all()):
            raise NonFiniteLoss(f"SGD diverged at the rate {how.rate:g}; choose a smaller one.")
        if step in evaluated:
            yield step, scores, read_out


def evaluate(task: DecisionLists, scores: Matrix, read_out: Matrix, sequences: Sequences) -> dict[str, float]:
    """Loss, accuracies and attention on held-out sequences; fraction of ordered columns; strength of V."""
    labels = task.labels(sequences)
    computed = theory.forward(scores, read_out, sequences, labels)
    right = theory.correct(computed.logits, labels).double()
    lists = torch.tensor(task.lists, device=scores.device).T
    listed = scores.gather(0, lists)  # from the head of the list to the token itself
    others = scores.scatter(0, lists, -torch.inf).amax(0)
    ordered = (listed[:-1] > listed[1:]).all(0) & (listed[-1] > others)
    return {
        "loss": float(computed.losses.mean()),
        "accuracy": float(right.mean()),
        "listed_accuracy": float(right[task.determining(sequences) != sequences].mean()),
        "attention": float((computed.attention * theory.decides(task, sequences)).sum(-1).mean()),
        "ordered": float(ordered.float().mean()),
        "readout": float(read_out.gather(0, task.image.to(scores.device)[None]).mean()),
    }


def _sgd_seconds(run: Any) -> float:
    token = run.task.length * run.task.words
    dense = run.how.batch * token * run.task.words if run.readout is None else 0
    return run.how.steps * (1.2e-3 + dense / 2e10) + run.how.looks * run.looked * token / 1e8


@stage("ListSGD", seconds=_sgd_seconds, accelerated=True)
def list_sgd(
    task: TaskShape, readout: float | None, how: Steps, looked: int, seed: int, report: Report
) -> pd.DataFrame:
    """SGD on drawn sequences: of W at V = cP, or of both matrices from scratch (`readout` None)."""
    lists, rows = task.build(), []
    held_out = theory.draw_sequences(task.words, task.length, looked, generator("held out"))
    for step, scores, read_out in sgd(lists, task.length, readout, how, generator("sgd", seed)):
        report(step / how.steps, f"step {step}")
        rows.append({"step": step, **evaluate(lists, scores, read_out, held_out)})
    return pd.DataFrame(rows)


def trained_on(task: DecisionLists, readout: float, rate: float, sequences: Sequences, steps: int) -> Matrix:
    """W after at most `steps` of gradient descent on a fixed sample, fewer if all of it is classified."""
    scores = torch.zeros(task.words, task.words)
    for step in range(1, steps + 1):
        scores = scores - rate * theory.fixed_gradient(scores, readout, task, sequences)
        if step % 10 == 0 and error_of(task, readout, scores, sequences) == 0:
            break
    return scores


def error_of(task: DecisionLists, readout: float, scores: Matrix, sequences: Sequences) -> float:
    """Fraction of tokens that are misclassified."""
    labels = task.labels(sequences)
    computed = theory.forward(scores, task.read_out(readout).float(), sequences, labels)
    return 1 - float(theory.correct(computed.logits, labels).double().mean())


def _samples_seconds(run: Any) -> float:
    return 5e-9 * sum(run.samples.words) * sum(run.samples.sizes) * run.samples.most_steps


@stage("ListSamples", seconds=_samples_seconds)
def list_samples(samples: Samples, seed: int) -> pd.DataFrame:
    """Errors on new sequences after training on growing parts of one large sample."""
    s, rows = samples, []
    for words in s.words:
        shape, draws = TaskShape(words, s.length, s.rules), generator_for("lists samples", seed, words)
        task, mass = shape.build(), shape.column(1.0).triple_mass
        sample = theory.draw_sequences(words, s.length, max(s.sizes), draws)
        held_out = theory.draw_sequences(words, s.length, s.tested, draws)
        rate = 4 * words / (s.readout**2 / 8 + s.readout)
        for size in s.sizes:
            scores = trained_on(task, s.readout, rate, sample[:size], s.most_steps)
            errors = [error_of(task, s.readout, scores, part) for part in (held_out, sample[:size])]
            rows.append((words, size, mass, *errors))
    return pd.DataFrame(rows, columns=["words", "size", "mass", "error", "trained_error"])


def new_block(words: int, length: int, shape: EncoderShape, mlp: bool, seed: int) -> Encoder:
    """An encoder without position embeddings, and optionally without its MLPs."""
    model = Encoder(shape, words, length, seed)
    for name, parameter in model.named_parameters():
        if name == "position.weight" or (not mlp and ".mlp_out." in name):
            parameter.requires_grad_(False).zero_()
    return model


def logits_of(model: Encoder, sequences: Sequences) -> Float[Tensor, "batch seq words"]:
    """Logits of the labels; word 0 of an encoder is [MASK]."""
    return model.head(model.features(sequences + 1))


def attention_of(model: Encoder, sequences: Sequences) -> list[Float[Tensor, "batch head query key"]]:
    """Attention of every layer."""
    h, layers = model.embedding_norm(model.word(sequences + 1)), []
    block: Any
    for block in model.blocks:
        split = block.attention.qkv(block.attention_norm(h)).unflatten(-1, (3, block.attention.heads, -1))
        q, k, _ = split.permute(2, 0, 3, 1, 4)
        layers.append((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1))
        h = block(h, None)
    return layers


@torch.no_grad()
def evaluate_block(model: Encoder, task: DecisionLists, sequences: Sequences) -> dict[str, float]:
    """Accuracies on held-out sequences, and the best head's attention on the label-determining token."""
    right = (logits_of(model, sequences).argmax(-1) == task.labels(sequences)).double()
    heads = torch.cat(attention_of(model, sequences), 1)
    weights = (heads * theory.decides(task, sequences)[:, None]).sum(-1)  # batch head query
    return {
        "accuracy": float(right.mean()),
        "listed_accuracy": float(right[task.determining(sequences) != sequences].mean()),
        "attention": float(weights.mean((0, 2)).max()),
    }


def train_block(
    model: Encoder, task: DecisionLists, rate: float, batch: int, steps: int, draws: Generator
) -> None:
    """Train by Adam, with a rate that falls linearly to zero, on sequences drawn anew."""
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
    for _ in range(steps):
        sequences = theory.draw_sequences(task.words, model.max_length, batch, draws)
        logits = logits_of(model, sequences).flatten(0, 1)
        optimiser.zero_grad()
        F.cross_entropy(logits, task.labels(sequences).flatten()).backward()
        optimiser.step()
        schedule.step()


def _block_seconds(run: Any) -> float:
    b = run.blocks
    return b.steps * run.layers * (1.5e-3 + 1.5e-7 * b.batch * b.task.length * b.d_model)


@stage("ListBlock", seconds=_block_seconds, accelerated=True)
def list_block(blocks: Blocks, layers: int, mlp: bool, seed: int) -> pd.DataFrame:
    """Train an encoder on the task; evaluate it before and after."""
    b, task = blocks, blocks.task.build()
    shape = EncoderShape(b.d_model, 1, layers, 4 * b.d_model)
    model = new_block(b.task.words, b.task.length, shape, mlp, seed).to(best_device())
    held_out = theory.draw_sequences(b.task.words, b.task.length, 1000, generator("block held out"))
    before = evaluate_block(model, task, held_out)
    train_block(model, task, b.lr, b.batch, b.steps, generator("block", seed))
    after = evaluate_block(model, task, held_out)
    return pd.DataFrame([{"step": 0, **before}, {"step": b.steps, **after}])


# Steps of the proofs in random cases, and what happens where an assumption is dropped.


@stage("ListProofs", schema=2, seconds=lambda run: 0.06 * run.cases)
def list_proofs(cases: int, seed: int) -> pd.DataFrame:
    """Inequalities of the proofs and relations of the assumptions, one row per random case."""
    kinds: dict[str, Callable[..., Any]] = {
        "V = cP": proofs.random_case,
        "V near cP": partial(proofs.random_case, radius=True),
        "rare, V = cP": partial(proofs.random_case, rare=True),
        "nearly ordered, V near cP": proofs.nearly_ordered_case,
    }
    rows = []
    for kind, draw in kinds.items():
        draws = generator_for(f"lists proofs {kind}", seed)
        rows += [{"kind": kind, **proofs.measured(draw(draws))} for _ in range(cases)]
    return pd.DataFrame(rows)


PARTS = ("repeats", "start", "radius", "persistence", "theorem 4.4")

Row = tuple[str, float, str, float]  # a value, a read-out, and a number after its name


def _repeats(readouts: tuple[float, ...]) -> Iterator[Row]:
    """Assumption 4.1: with repeated tokens the time to perfection falls as 1/c, not 1/c².

    For one column: all are alike, and sequences without its token do not move it.
    """
    task = theory.cyclic_lists(9, 3)
    for (tokens, repeats), c in product({"different": False, "repeated": True}.items(), readouts):
        sequences, probabilities = theory.uniform_sets(9, 3, repeats)
        with_token = (sequences == 0).any(1)
        sets = theory.Sets(sequences[with_token], probabilities[with_token])
        horizon = 2e3 / c if repeats else 1e3 / c**2
        exact = proofs.MatrixFlow(task, sets, task.read_out(c), c, horizon, method="LSODA")
        perfect = exact.perfect(0)
        yield tokens, c, "time", perfect
        yield tokens, c, "spread", float(np.ptp(exact.at(perfect)[0][:, 0].numpy()))


def _off_zero(far: TaskShape, starts: tuple[float, ...], seed: int) -> Iterator[Row]:
    """W_0 = 0: time to perfection over the promised one, at the theorem's c, from random scores."""
    column, promised = far.theorem_column, theory.horizon_of_43(far.words, far.rules)
    direction = torch.randn(far.rules + 1, generator=generator_for("lists start", seed)).double().numpy()
    for spread in starts:
        exact = flow(column, theory.LATEST, spread * (column.readout / far.length) * direction)
        yield f"{spread:g}", column.readout, "time over promise", exact.natural(exact.perfect) / promised


def _off_readout(small: TaskShape, how: Departures, seed: int) -> Iterator[Row]:
    """V = cP: accuracy at the end of the flow of W, at a V off cP by a fraction of c.

    At V = cP it is perfect after a scaled time, over n², of some 1,400.
    """
    task, sets = small.build(), theory.uniform_sets(small.words, small.length)
    for c, number in product(how.radius_readouts, range(how.radius_seeds)):
        noise, horizon = _noise(task.words, seed + number), 3e4 / c**2
        for radius in how.radii:
            exact = proofs.MatrixFlow(task, sets, task.read_out(c) + radius * c * noise, c, horizon)
            yield f"{radius:g}", c, "accuracy", 1 - float(exact.wrong(horizon).double().mean())


def _lost_again() -> Iterator[Row]:
    """From t on: a token that is perfect after one step, and lost afterwards; times in steps of 1/50λ."""
    (task, sets), c = proofs.lost_again(), 1e5
    occurs = float(sets.probabilities[(sets.sequences == 0).any(1)].sum())
    step = 1 / (50 * theory.curvature_bound(occurs, c, 3))
    exact = proofs.MatrixFlow(task, sets, task.read_out(c), c, 4000 * step)
    first = exact.perfect(0)
    yield "perfect", c, "steps", first / step
    lost = exact.first(lambda time: time > first and bool(exact.wrong(time, 0).any()))
    yield "lost", c, "steps", lost / step
    yield "at 4000 steps", c, "wrong", float(exact.wrong(4000 * step, 0).any())


def _theorem_44(small: TaskShape, seed: int) -> Iterator[Row]:
    """Theorem 4.4: both matrices from V within ε/2 of cP, at the least c that it allows."""
    task, sets = small.build(), theory.uniform_sets(small.words, small.length)
    for radius in (1.0, 0.1):
        noise = radius / 2 * _noise(task.words, seed)
        c = theory.readout_of_44(radius, task, sets, noise)
        exact = proofs.MatrixFlow(task, sets, task.read_out(c) + noise, c, 1e-3 * radius / 2, True)
        perfect = exact.perfect()
        yield f"{radius:g}", c, "time over promise", perfect / (radius / 2)
        moved = exact.at(perfect)[1] - exact.read_out
        yield f"{radius:g}", c, "move over radius", float(moved.abs().max()) / (radius / 2)


def _noise(words: int, seed: int) -> Tensor:
    """Entries uniform in [−1, 1]."""
    return 2 * torch.rand(words, words, generator=generator_for("lists noise", seed), dtype=torch.float64) - 1


def _departure_seconds(run: Any) -> float:
    how = run.how
    radii = 4e-3 * sum(how.radius_readouts) * how.radius_seeds * len(how.radii)
    known = {"repeats": 1e-3 * sum(how.readouts), "radius": radii, "start": 0.2 * len(how.starts)}
    return known.get(run.part, 0.5)


@stage("ListDepartures", schema=2, seconds=_departure_seconds)
def list_departures(part: str, small: TaskShape, far: TaskShape, how: Departures, seed: int) -> pd.DataFrame:
    """Drop an assumption, or try Theorem 4.4: exact flows over all sequences of small tasks.

    Columns: the assumption, its value and the read-out, and the name of a number with that number. Flows that
    start off zero are those of the task `far`.
    """
    rows = {  # generators, of which only one runs
        "repeats": _repeats(how.readouts),
        "start": _off_zero(far, how.starts, seed),
        "radius": _off_readout(small, how, seed),
        "persistence": _lost_again(),
        "theorem 4.4": _theorem_44(small, seed),
    }
    table = pd.DataFrame(rows[part], columns=["value", "readout", "name", "number"])
    table.insert(0, "what", part)
    return table
