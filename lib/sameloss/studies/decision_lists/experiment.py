"""The configuration of this study and its stored runs: flows, sweeps, SGD, fixed samples, blocks, proofs."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from sameloss.device import best_device
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.runs.stage import stage
from sameloss.seeds import generator_for, stream_seed
from sameloss.store.store import Report
from sameloss.studies.decision_lists import theory
from sameloss.studies.decision_lists.proofs import (
    MatrixFlow,
    lost_again,
    measured,
    nearly_ordered_case,
    random_case,
)
from sameloss.studies.decision_lists.theory import (
    Column,
    DecisionLists,
    Matrix,
    Sequences,
    draw_sequences,
    flow,
)
from sameloss.studies.parameters import MOST_SEEDS, Config, param

# Which task, which read-outs, and how much is swept, drawn and trained.

MOST_STEPS = 4000  # of SGD, where the exact flow takes longer, or for ever
FIRST_SEED = 100  # of everything that is drawn; the pilot's were 0 to 5, 99 and 999
THEOREM = "theorem"  # the name of the read-out that Theorem 4.3 asks for


@dataclass(frozen=True)
class TaskShape:
    """L, n and m; sets are drawn uniformly."""

    words: int
    length: int
    rules: int

    def build(self) -> DecisionLists:
        """Return the lists of Figure 4.1 for this vocabulary."""
        return theory.cyclic_lists(self.words, self.rules)

    def column(self, readout: float) -> Column:
        """Return a column's exact loss at c."""
        return Column(self.words, self.length, self.rules, readout)

    def curvature(self, readout: float) -> float:
        """Return the bound on the Hessian of every W at c."""
        return theory.curvature_bound(self.length / self.words, readout, self.length)

    @property
    def theorem_column(self) -> Column:
        """Return a column's exact loss at c of Theorem 4.3."""
        mass = self.column(1.0).triple_mass
        return self.column(theory.readout_of_43(self.words, self.length, mass))


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
class Steps:
    """How SGD goes: all in the thesis' terms, one rate for both matrices and no stages."""

    rate: float
    batch: int
    steps: int
    looks: int  # at equal distances, the first before any step


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
    departures: Departures = Departures(
        (1e3, 1e4), (0.0, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5), (10.0, 100.0), 3
    )
    drawn: tuple[int, ...] = (25, 100, 1000, 10_000)  # sequences of Figure 4.1's step
    rates: tuple[float, ...] = (1.5, 7.0, 20.0)  # of SGD on W alone, times the bound on the curvature there
    alone_looks: int = 50
    both_lr: float = 100.0
    both_batch: int = 64
    both_looks: int = 50
    looked: int = 400  # sequences held out for every look
    samples: Samples = Samples(
        (16, 24, 36, 54), 6, 3, 30.0, (8, 12, 18, 27, 40, 60, 90, 135, 200, 300, 450, 675, 1000), 3000
    )
    blocks: Blocks = Blocks(TaskShape(50, 10, 4), 64, (1,), 3e-3, 64, 1000, 3)
    larger: tuple[TaskShape, ...] = ()  # on which both matrices are trained, too

    @property
    def task(self) -> TaskShape:
        """The page's own."""
        return TaskShape(self.vocabulary, self.length, self.list_length)

    @property
    def tasks(self) -> tuple[TaskShape, ...]:
        """All on which both matrices are trained, the page's own first."""
        return tuple(dict.fromkeys((self.task, *self.larger)))

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
        if theory.order_of(first) == theory.order_of(-np.arange(config.list_length + 1.0)):
            raise ParameterError(
                f"With n = {config.length} of L = {config.vocabulary} tokens the order is right after a step "
                "of any size, so there is nothing to follow; choose shorter sequences."
            )
        return config

    @property
    def all_seeds(self) -> range:
        """Return the seeds of everything that is drawn."""
        return range(FIRST_SEED, FIRST_SEED + self.seeds)

    @cached_property
    def exact_time(self) -> float:
        """Return when the exact flow at SGD's read-out is perfect; NaN: not in scaled time 1e6."""
        followed = flow(self.task.column(self.readout), 1e6)
        return followed.natural(followed.perfect)

    def steps_at(self, rate: float) -> Steps:
        """Return SGD of W at a rate over the curvature, for longer than the exact flow takes.

        Args:
            rate: times the bound on the curvature; up to 2, descent on the population loss falls.

        """
        rounded = float(f"{rate / self.task.curvature(self.readout):.3g}")
        wanted = 1.7 * self.exact_time / rounded
        steps = round(wanted) if wanted < MOST_STEPS else MOST_STEPS  # NaN is not less than anything
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

HORIZON = 1e6  # scaled time within which flows above c* are perfect at L²/n = 1,600; longer in proportion
CRITICAL_RULES = 4  # tokens of a list where c* is tried, as in Figure 4.1
PRINTED = TaskShape(200, 25, 4)  # the setting of Figure 4.1


def _scale(column: Column) -> float:
    """Return scaled time over natural time."""
    return (column.readout / column.length) ** 2


def _horizon(column: Column, natural: float) -> float:
    """Return the scaled time to follow: longer where the read-out is small and escape slow."""
    longest = HORIZON * max(1.0, column.words**2 / column.length / 1600)
    slow = not column.readout > column.critical_readout + 1  # which may be NaN
    return max(longest, min(natural * _scale(column), theory.LATEST)) if slow else longest


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


def _flows_seconds(run: Any) -> float:
    return 0.12 * len(list(_families(run.task, run.readouts, run.sweeps)))


@stage("ListFlows", seconds=_flows_seconds)
def list_flows(task: TaskShape, readouts: tuple[float, ...], sweeps: Sweeps) -> pd.DataFrame:
    """Follow when the order of scores changes on the way to perfection: by c, L, n, m and rarity."""
    rows = []
    for family, column, horizon in _families(task, readouts, sweeps):
        followed = flow(column, horizon, luce=family == "luce")
        about = {"family": family, **asdict(column)}
        rows += [{**about, **e._asdict(), "natural": followed.natural(e.time)} for e in followed.events]
    return pd.DataFrame(rows)


def _log_times(horizon: float) -> np.ndarray:
    """Return twelve times a decade."""
    first = min(1.0, horizon / 1000)
    return np.geomspace(first, horizon, round(12 * np.log10(horizon / first)) + 1)


@stage("ListCurves", seconds=lambda run: 0.15 * len(run.readouts))
def list_curves(task: TaskShape, readouts: tuple[float, ...], horizon: float) -> pd.DataFrame:
    """Follow scores, loss, accuracy and attention along the flow, at equal distances of log time.

    Of the theorem's read-out and others, to a hundred times the moment of perfection, or to a natural time.
    """
    entries, rows = [*(f"w{place}" for place in range(1, task.rules + 1)), "wo"], []
    named = {THEOREM: task.theorem_column.readout, **{f"{c:g}": c for c in readouts}}
    for name, readout in named.items():
        column = task.column(readout)
        followed = flow(column, _horizon(column, horizon))
        for time in _log_times(np.fmin(followed.horizon, 100 * followed.perfect)):
            scores = followed.scores(time)
            row = {
                "name": name,
                "readout": readout,
                "time": time,
                "natural": followed.natural(time),
                "loss": column.words * column.loss(scores),
                "accuracy": column.accuracy(scores),
                "attention": column.weight_on_determining(scores),
            }
            rows.append({**row, **dict(zip(entries, scores, strict=True))})
    return pd.DataFrame(rows)


@stage("ListDescents", seconds=lambda run: 0.35 * len(run.tasks))
def list_descents(tasks: tuple[TaskShape, ...]) -> pd.DataFrame:
    """Descend on the exact loss at the theorem's read-out and rate, on several tasks.

    At the printed setting again, at c = 10⁵ with 1/λ of the Hessian at W = 0: "of the Hessian" read as that
    of the start.
    """
    gentle = PRINTED.column(1e5)
    rows = [_descent("at the start", gentle, gentle.curvature_at_start(), 2000)]
    for task in tasks:
        column = task.theorem_column
        bound, followed = task.curvature(column.readout), flow(column, _horizon(column, 0.0))
        steps = 2 * followed.natural(followed.perfect) * bound
        rows.append(_descent("everywhere", column, bound, int(steps) + 10 if steps < 100_000 else 100_000))
    return pd.DataFrame(rows)


def _descent(curvature: str, column: Column, bound: float, steps: int) -> dict:
    perfect, losses, scores = theory.descend(column, 1 / bound, steps, to_the_end=curvature == "at the start")
    promised = theory.horizon_of_43(column.words, column.rules)
    end = flow(column, min(promised * _scale(column), theory.LATEST))
    last = end.scores(end.horizon)
    slopes = [column.gradient(end.scores(time)) ** 2 for time in _log_times(end.perfect)]
    least = min(float(column.multiplicities @ slope) for slope in slopes)
    about = asdict(column)
    del about["rarity"]
    return {
        **about,
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


# The sampled runs of this study: Figure 4.1, SGD, fixed samples, and transformer blocks.


def generator(use: str, *path: int) -> torch.Generator:
    """Return random numbers for one use, on the device that computes."""
    return torch.Generator(best_device()).manual_seed(stream_seed(f"lists {use}", *path))


@stage("FigureStep", seconds=lambda run: 1.2e-4 * sum(run.counts))
def figure_step(task: TaskShape, counts: tuple[int, ...], seed: int) -> pd.DataFrame:
    """Take Figure 4.1's step on drawn sequences: how much of P is seen in V."""
    lists, words, rows = task.build(), task.words, []
    diagonal = lists.image, torch.arange(words)
    for count in counts:
        draws = generator_for("lists step", seed, count)
        read_out = theory.sampled_step(lists, task.length, float(words**2), count, draws)
        rows.append(
            {
                "count": count,
                "recall": theory.recall(lists, read_out),
                "row_recall": float((read_out.argmax(1)[lists.image] == diagonal[1]).double().mean()),
                "diagonal": float(read_out[diagonal].mean()),
                "least": float(read_out[diagonal].min()),
                "largest_other": float(read_out.index_put(diagonal, torch.tensor(0.0)).abs().max()),
            }
        )
    return pd.DataFrame(rows)


def sgd(
    task: DecisionLists, length: int, readout: float | None, how: Steps, draws: torch.Generator
) -> Iterator[tuple[int, Matrix, Matrix]]:
    """Train on sequences drawn anew at every step; yield the step, W and V at every look.

    W alone from 0 at V = cP, or where `readout` is None both from W = 0 and a tiny random V, as Figure 4.1.
    """
    device, words = draws.device, task.words
    scores = torch.zeros(words, words, device=device)
    if readout is None:
        read_out = theory.INITIAL_SCALE * torch.randn(words, words, generator=draws, device=device)
    else:
        read_out = task.read_out(readout).float().to(device)
    weights = torch.full((how.batch,), 1 / how.batch, device=device)
    looks = {round(how.steps * at / how.looks) for at in range(1, how.looks + 1)}
    yield 0, scores, read_out
    for step in range(1, how.steps + 1):
        sequences = draw_sequences(words, length, how.batch, draws)
        if readout is None:
            computed = theory.forward(scores, read_out, sequences, task.labels(sequences))
            by_scores, by_read_out = theory.gradients(computed, read_out, sequences, weights)
            read_out = read_out - how.rate * by_read_out
        else:
            by_scores = theory.fixed_read_out_gradient(scores, readout, task, sequences)
        scores = scores - how.rate * by_scores
        if not (scores.isfinite().all() and read_out.isfinite().all()):
            raise NonFiniteLoss(f"SGD diverged at the rate {how.rate:g}; choose a smaller one.")
        if step in looks:
            yield step, scores, read_out


def look(task: DecisionLists, scores: Matrix, read_out: Matrix, sequences: Sequences) -> dict[str, float]:
    """Return accuracies and attention on held-out sequences, the share of ordered columns, V's strength."""
    labels = task.labels(sequences)
    computed = theory.forward(scores, read_out, sequences, labels)
    right = theory.correct(computed.logits, labels).double()
    image, lists = task.image.to(scores.device), torch.tensor(task.lists, device=scores.device).T
    listed = scores.gather(0, lists)  # from the first of the list to the token itself
    others = scores.scatter(0, lists, -torch.inf).amax(0)
    ordered = (listed[:-1] > listed[1:]).all(0) & (listed[-1] > others)
    return {
        "loss": float(computed.losses.mean()),
        "accuracy": float(right.mean()),
        "listed_accuracy": float(right[task.determining(sequences) != sequences].mean()),
        "attention": float((computed.attention * theory.decides(task, sequences)).sum(-1).mean()),
        "ordered": float(ordered.float().mean()),
        "readout": float(read_out[image, torch.arange(task.words, device=scores.device)].mean()),
    }


def _sgd_seconds(run: Any) -> float:
    token = run.task.length * run.task.words
    dense = run.how.batch * token * run.task.words if run.readout is None else 0
    return run.how.steps * (1.2e-3 + dense / 2e10) + run.how.looks * run.looked * token / 1e8


@stage("ListSGD", seconds=_sgd_seconds)
def list_sgd(
    task: TaskShape, readout: float | None, how: Steps, looked: int, seed: int, report: Report
) -> pd.DataFrame:
    """Train on drawn sequences: W at V = cP, or both matrices from nothing (`readout` None)."""
    lists, rows = task.build(), []
    held_out = draw_sequences(task.words, task.length, looked, generator("held out"))
    for step, scores, read_out in sgd(lists, task.length, readout, how, generator("sgd", seed)):
        report(step / how.steps, f"step {step}")
        rows.append({"step": step, **look(lists, scores, read_out, held_out)})
    return pd.DataFrame(rows)


def trained_on(
    task: DecisionLists, readout: float, rate: float, sequences: Sequences, most_steps: int
) -> Matrix:
    """Return W after gradient descent on a fixed sample until all of it is classified, or to the end."""
    scores = torch.zeros(task.words, task.words)
    for step in range(1, most_steps + 1):
        scores = scores - rate * theory.fixed_read_out_gradient(scores, readout, task, sequences)
        if step % 10 == 0 and error_of(task, readout, scores, sequences) == 0:
            break
    return scores


def error_of(task: DecisionLists, readout: float, scores: Matrix, sequences: Sequences) -> float:
    """Return the fraction of tokens that are misclassified."""
    labels = task.labels(sequences)
    computed = theory.forward(scores, task.read_out(readout).float(), sequences, labels)
    return 1 - float(theory.correct(computed.logits, labels).double().mean())


def _samples_seconds(run: Any) -> float:
    return 5e-9 * sum(run.samples.words) * sum(run.samples.sizes) * run.samples.most_steps


@stage("ListSamples", seconds=_samples_seconds)
def list_samples(samples: Samples, seed: int) -> pd.DataFrame:
    """Train on the first sequences of one large sample, more and more of them; err on new ones."""
    s, rows = samples, []
    for words in s.words:
        shape, draws = TaskShape(words, s.length, s.rules), generator_for("lists samples", seed, words)
        task, mass = shape.build(), shape.column(1.0).triple_mass
        sample = draw_sequences(words, s.length, max(s.sizes), draws)
        tested = draw_sequences(words, s.length, s.tested, draws)
        rate = 4 * words / (s.readout**2 / 8 + s.readout)
        for size in s.sizes:
            scores = trained_on(task, s.readout, rate, sample[:size], s.most_steps)
            row = {"words": words, "size": size, "mass": mass}
            for name, sequences in {"error": tested, "trained_error": sample[:size]}.items():
                row[name] = error_of(task, s.readout, scores, sequences)
            rows.append(row)
    return pd.DataFrame(rows)


def new_block(words: int, length: int, shape: EncoderShape, mlp: bool, seed: int) -> Encoder:
    """Return an encoder without positions; without its MLPs, too, if so wanted."""
    model = Encoder(shape, words, length, seed)
    silent = [name for name, _ in model.named_parameters() if not mlp and ".mlp_out." in name]
    for name in ("position.weight", *silent):
        model.get_parameter(name).requires_grad_(False).zero_()
    return model


def logits_of(model: Encoder, sequences: Sequences) -> Float[Tensor, "batch seq words"]:
    """Return the logits of the label of every token; word 0 of an encoder is [MASK]."""
    return model.head(model.features(sequences + 1))


def attention_of(model: Encoder, sequences: Sequences) -> list[Float[Tensor, "batch head query key"]]:
    """Return the attention of every layer and head."""
    h, layers = model.embedding_norm(model.word(sequences + 1)), []
    block: Any
    for block in model.blocks:
        split = block.attention.qkv(block.attention_norm(h)).unflatten(-1, (3, block.attention.heads, -1))
        q, k, _ = split.permute(2, 0, 3, 1, 4)
        layers.append((q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1))
        h = block(h, None)
    return layers


@torch.no_grad()
def block_look(model: Encoder, task: DecisionLists, sequences: Sequences) -> dict[str, float]:
    """Return accuracies on held-out sequences, and the weight on the token that decides, in the best head."""
    right = (logits_of(model, sequences).argmax(-1) == task.labels(sequences)).double()
    heads = [head for layer in attention_of(model, sequences) for head in layer.unbind(1)]
    return {
        "accuracy": float(right.mean()),
        "listed_accuracy": float(right[task.determining(sequences) != sequences].mean()),
        "attention": max(float((head * theory.decides(task, sequences)).sum(-1).mean()) for head in heads),
    }


def train_block(
    model: Encoder, task: DecisionLists, rate: float, batch: int, steps: int, draws: torch.Generator
) -> None:
    """Train by Adam, whose rate falls linearly to zero, on sequences drawn anew."""
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps)
    for _ in range(steps):
        sequences = draw_sequences(task.words, model.max_length, batch, draws)
        logits = logits_of(model, sequences)
        optimiser.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), task.labels(sequences).flatten()).backward()
        optimiser.step()
        schedule.step()


def _block_seconds(run: Any) -> float:
    b = run.blocks
    return b.steps * run.layers * (1.5e-3 + 1.5e-7 * b.batch * b.task.length * b.d_model)


@stage("ListBlock", seconds=_block_seconds)
def list_block(blocks: Blocks, layers: int, mlp: bool, seed: int) -> pd.DataFrame:
    """Train an encoder of the library on the task; look at it before and after."""
    b, task, device = blocks, blocks.task.build(), best_device()
    shape = EncoderShape(b.d_model, 1, layers, 4 * b.d_model)
    model = new_block(b.task.words, b.task.length, shape, mlp, seed).to(device)
    held_out = draw_sequences(b.task.words, b.task.length, 1000, generator("block held out"))
    before = block_look(model, task, held_out)
    train_block(model, task, b.lr, b.batch, b.steps, generator("block", seed))
    return pd.DataFrame([{"step": 0, **before}, {"step": b.steps, **block_look(model, task, held_out)}])


# The steps of the proofs in random cases, and what happens where an assumption is dropped.


@stage("ListProofs", schema=2, seconds=lambda run: 0.06 * run.cases)
def list_proofs(cases: int, seed: int) -> pd.DataFrame:
    """Measure the proofs' inequalities and the assumptions' relations, one row a random case."""
    kinds = {
        "V = cP": lambda draws: random_case(draws),
        "V near cP": lambda draws: random_case(draws, radius=True),
        "rare, V = cP": lambda draws: random_case(draws, rare=True),
        "nearly ordered, V near cP": nearly_ordered_case,
    }
    streams = {kind: generator_for(f"lists proofs {kind}", seed) for kind in kinds}
    rows = [{"kind": kind, **measured(kinds[kind](streams[kind]))} for kind in kinds for _ in range(cases)]
    return pd.DataFrame(rows)


PARTS = ("repeats", "start", "radius", "persistence", "theorem 4.4")

Row = tuple[str, float, str, float]  # a value, a read-out, and a number after its name


def _repeats(readouts: tuple[float, ...]) -> Iterator[Row]:
    """Assumption 4.1: with repeated tokens the time to perfection falls as 1/c, not 1/c².

    Of one column: all are alike, and sequences without its token do not move it.
    """
    task = theory.cyclic_lists(9, 3)
    for (tokens, repeats), c in product({"different": False, "repeated": True}.items(), readouts):
        sequences, probabilities = theory.uniform_sets(9, 3, repeats)
        kept = (sequences == 0).any(1)
        sets, horizon = theory.Sets(sequences[kept], probabilities[kept]), 2e3 / c if repeats else 1e3 / c**2
        followed = MatrixFlow(task, sets, task.read_out(c), c, horizon, method="LSODA")
        perfect = followed.perfect(0)
        yield tokens, c, "time", perfect
        yield tokens, c, "spread", float(np.ptp(followed.at(perfect)[0][:, 0].numpy()))


def _off_zero(far: TaskShape, starts: tuple[float, ...], seed: int) -> Iterator[Row]:
    """W_0 = 0: the time to perfection over the promised one, at the theorem's c, from random scores."""
    column, promised = far.theorem_column, theory.horizon_of_43(far.words, far.rules)
    direction = torch.randn(far.rules + 1, generator=generator_for("lists start", seed)).double().numpy()
    for spread in starts:
        followed = flow(column, theory.LATEST, spread * (column.readout / far.length) * direction)
        time = followed.natural(followed.perfect)
        yield f"{spread:g}", column.readout, "time over promise", time / promised


def _off_readout(small: TaskShape, how: Departures, seed: int) -> Iterator[Row]:
    """V = cP: the accuracy at the end of the flow of W at a V off cP by a fraction of c.

    At V = cP it is perfect after a scaled time, over n², of some 1,400.
    """
    task, sets = small.build(), theory.uniform_sets(small.words, small.length)
    for c, number in product(how.radius_readouts, range(how.radius_seeds)):
        noise, horizon = _noise(task.words, seed + number), 3e4 / c**2
        for radius in how.radii:
            followed = MatrixFlow(task, sets, task.read_out(c) + radius * c * noise, c, horizon)
            yield f"{radius:g}", c, "accuracy", 1 - float(followed.wrong(horizon).double().mean())


def _lost_again() -> Iterator[Row]:
    """From t on: a token that is perfect after one step, and lost afterwards; times in steps of 1/50λ."""
    (task, sets), c = lost_again(), 1e5
    occurs = float(sets.probabilities[(sets.sequences == 0).any(1)].sum())
    step = 1 / (50 * theory.curvature_bound(occurs, c, 3))
    followed = MatrixFlow(task, sets, task.read_out(c), c, 4000 * step)
    first = followed.perfect(0)
    yield "perfect", c, "steps", first / step
    yield "lost", c, "steps", followed.first(lambda time: time > first and followed.errs(time, 0)) / step
    yield "at 4000 steps", c, "wrong", float(followed.errs(4000 * step, 0))


def _theorem_44(small: TaskShape, seed: int) -> Iterator[Row]:
    """Theorem 4.4: both matrices from V within ε/2 of cP, at the least c that it allows."""
    task, sets = small.build(), theory.uniform_sets(small.words, small.length)
    for radius in (1.0, 0.1):
        noise = radius / 2 * _noise(task.words, seed)
        c = theory.readout_of_44(radius, task, sets, noise)
        followed = MatrixFlow(task, sets, task.read_out(c) + noise, c, 1e-3 * radius / 2, True)
        perfect = followed.perfect()
        yield f"{radius:g}", c, "time over promise", perfect / (radius / 2)
        moved = followed.at(perfect)[1] - followed.read_out
        yield f"{radius:g}", c, "move over radius", float(moved.abs().max()) / (radius / 2)


def _noise(words: int, seed: int) -> Tensor:
    """Return entries that are uniform in [−1, 1]."""
    return 2 * torch.rand(words, words, generator=generator_for("lists noise", seed), dtype=torch.float64) - 1


def _departure_seconds(run: Any) -> float:
    how = run.how
    radii = 4e-3 * sum(how.radius_readouts) * how.radius_seeds * len(how.radii)
    known = {"repeats": 1e-3 * sum(how.readouts), "radius": radii, "start": 0.2 * len(how.starts)}
    return known.get(run.part, 0.5)


@stage("ListDepartures", schema=2, seconds=_departure_seconds)
def list_departures(part: str, small: TaskShape, far: TaskShape, how: Departures, seed: int) -> pd.DataFrame:
    """Drop an assumption, or try Theorem 4.4: exact flows over all sequences of small tasks.

    Columns: what was dropped, at which value and read-out, and a number with its name. A start off zero is
    followed on the task `far`.
    """
    rows = {  # generators, of which one begins
        "repeats": _repeats(how.readouts),
        "start": _off_zero(far, how.starts, seed),
        "radius": _off_readout(small, how, seed),
        "persistence": _lost_again(),
        "theorem 4.4": _theorem_44(small, seed),
    }
    table = pd.DataFrame(rows[part], columns=["value", "readout", "name", "number"])
    table.insert(0, "what", part)
    return table
