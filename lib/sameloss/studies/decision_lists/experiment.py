"""Stored runs: flows, SGD, steps of the proofs."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from math import log
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Generator

from sameloss.device import best_device
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.runs.checkpoints import STEP
from sameloss.runs.stage import stage
from sameloss.seeds import generator_for, stream_seed
from sameloss.store.store import Report
from sameloss.studies.decision_lists import proofs, theory
from sameloss.studies.decision_lists.theory import Column, DecisionLists, Matrix, Sequences, flow

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

    @property
    def theorem_column(self) -> Column:
        """A column at the read-out of Theorem 4.3, c = 4n² log L / δ."""
        return self.column(4 * self.length**2 * log(self.words) / self.column(1.0).triple_mass)


@dataclass(frozen=True)
class Steps:
    """SGD as in the thesis: one learning rate for both matrices, no schedule."""

    rate: float
    batch: int
    steps: int
    looks: int  # evaluations at equal distances, after one before training


def require_phases(task: TaskShape) -> None:
    """Require scores that get into the order of the list only in the course of training.

    Raises:
        ParameterError: for impossible sequences or lists, or if one step already gives the right order.

    """
    first_step = -task.column(1.0).gradient(np.zeros(task.rules + 1))
    if theory.order_of(first_step) == theory.order_of(-np.arange(task.rules + 1.0)):
        raise ParameterError(
            f"With n = {task.length} of L = {task.words} tokens the order is right after a step "
            "of any size, so there is nothing to follow; choose shorter sequences."
        )


# Exact runs: flows, and gradient descent as in the theorems.

HORIZON = 1e6  # scaled time in which flows above c* are perfect at L²/n = 1,600; longer in proportion
PRINTED = TaskShape(200, 25, 4)  # the setting of Figure 4.1


def _horizon(column: Column, unscaled: float) -> float:
    """Scaled time of a flow; at least `unscaled` time where the read-out is small and escape is slow."""
    longest = HORIZON * max(1.0, column.words**2 / column.length / 1600)
    slow = not column.readout > column.critical_readout + 1  # also where c* is NaN
    return max(longest, min(unscaled * column.time_scale, theory.LATEST)) if slow else longest


def _families(
    task: TaskShape, readouts: tuple[float, ...], critical_words: tuple[int, ...], unscaled: float
) -> Iterator[tuple[str, Column, float]]:
    """Yield a flow's family, column and horizon in scaled time."""
    for column in (task.theorem_column, *map(task.column, readouts)):
        yield "readout", column, _horizon(column, unscaled)
    for words, shift in product(critical_words, (-0.5, 0.0, 0.5)):
        column = Column(words, words // 8, PRINTED.rules, 1.0)
        column = replace(column, readout=column.critical_readout + shift)
        yield f"critical {shift:+g}", column, unscaled * column.time_scale


@stage("ListFlows")
def list_flows(
    task: TaskShape, readouts: tuple[float, ...], critical_words: tuple[int, ...], unscaled: float
) -> pd.DataFrame:
    """Orders of the scores on the way to perfection, and their times, by c and around c*.

    `unscaled` is the time of flows that are slow.
    """
    rows = []
    for family, column, horizon in _families(task, readouts, critical_words, unscaled):
        exact = flow(column, horizon)
        about = {"family": family, **asdict(column)}
        rows += [{**about, **e._asdict(), "natural": e.time / column.time_scale} for e in exact.events]
    return pd.DataFrame(rows)


def _log_times(horizon: float) -> np.ndarray:
    """Twelve times per decade."""
    first = min(1.0, horizon / 1000)
    return np.geomspace(first, horizon, round(12 * np.log10(horizon / first)) + 1)


@stage("ListCurves")
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
                "natural": time / column.time_scale,
                "loss": column.words * column.loss(scores),
                "accuracy": column.accuracy(scores),
                "attention": column.weight_on_determining(scores),
            }
            rows.append({**row, **dict(zip(entries, scores, strict=True))})
    return pd.DataFrame(rows)


@stage("ListDescents")
def list_descents(tasks: tuple[TaskShape, ...]) -> pd.DataFrame:
    """Gradient descent on the exact loss at the theorem's read-out and rate, on several tasks.

    Once more at the printed setting and c = 10⁵, with λ of the Hessian at W = 0, another reading of "the
    Hessian".
    """
    gentle = PRINTED.column(1e5)
    rows = [_descent("at the start", gentle, gentle.curvature_at_start(), 2000)]
    for task in tasks:
        column = task.theorem_column
        exact = flow(column, _horizon(column, 0.0))
        steps = 2 * exact.perfect / column.time_scale * column.curvature_bound
        most = int(steps) + 10 if steps < 100_000 else 100_000
        rows.append(_descent("everywhere", column, column.curvature_bound, most))
    return pd.DataFrame(rows)


def _descent(curvature: str, column: Column, bound: float, steps: int) -> dict[str, Any]:
    """A row of `list_descents`: descent in steps of 1/`bound`, and the flow over the promised time."""
    perfect, losses, scores = theory.descend(column, 1 / bound, steps, stop=curvature == "everywhere")
    exact = flow(column, min(column.promised_time * column.time_scale, theory.LATEST))
    last = exact.scores(exact.horizon)
    slopes = [column.gradient(exact.scores(time)) ** 2 for time in _log_times(exact.perfect)]
    least = min(float(column.multiplicities @ slope) for slope in slopes)
    return {
        **asdict(column),
        "curvature": curvature,
        "bound": bound,
        "steps": perfect or np.nan,
        "promised": column.promised_time * bound,
        "rises": int((np.diff(losses) > 1e-12 * losses[:-1]).sum()),
        "attention": column.weight_on_determining(scores),
        "attention_at_end": column.weight_on_determining(last),
        "largest_at_end": float(abs(last).max()),
        "least_slope": least / column.gradient_bound,
    }


# SGD on drawn sequences.

INITIAL_SCALE = 1e-4  # standard deviation of the entries of V at the start: 10⁻⁸ is their variance


def generator(use: str, *path: int) -> Generator:
    """Random numbers for one use, on the best device."""
    return Generator(best_device()).manual_seed(stream_seed(f"lists {use}", *path))


def sgd(
    task: DecisionLists, length: int, readout: float | None, how: Steps, draws: Generator
) -> Iterator[tuple[int, Matrix, Matrix]]:
    """Train on sequences drawn anew at every step; yield the step, W and V at every evaluation.

    W alone from 0 at V = cP; if `readout` is None both, from W = 0 and a tiny random V as in Figure 4.1.
    """
    device, words = draws.device, task.words
    scores = torch.zeros(words, words, device=device)
    if readout is None:
        read_out = INITIAL_SCALE * torch.randn(words, words, generator=draws, device=device)
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


def _sgd_work(run: Any) -> float:
    sequence = run.task.length * run.task.words
    dense = run.how.batch * sequence * run.task.words if run.readout is None else 0
    return run.how.steps * (STEP / 4 + dense) + 200 * run.how.looks * run.looked * sequence


@stage("ListSGD", work=_sgd_work, accelerated=True)
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


# Steps of the proofs in random cases.


@stage("ListProofs", schema=2, work=lambda run: run.cases)
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
