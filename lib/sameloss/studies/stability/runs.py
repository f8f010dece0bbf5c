"""The stored step of this study that trains twins."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sameloss.checks import check_counts
from sameloss.device import best_device
from sameloss.images import Images, ImageSource
from sameloss.runs.frames import TABLE
from sameloss.runs.resumable import Resumable
from sameloss.seeds import generator_for
from sameloss.store.files import write_atomically
from sameloss.store.manifest import SCRATCH
from sameloss.store.store import Report, Run, Store
from sameloss.studies.stability.differences import twin_table
from sameloss.studies.stability.losses import cross_entropy
from sameloss.studies.stability.networks import Network
from sameloss.studies.stability.paths import GRID, accuracies_along
from sameloss.studies.stability.stacked import (
    Descent,
    Stack,
    Weights,
    check_learnt,
    log_probabilities,
    train,
)
from sameloss.studies.stability.twins import check_sample, drawn_twins, visiting_order
from sameloss.training.loop import TrainingStep

PATHS = "paths.csv"

DIGITS_KEPT = "%.6g"


class Found(NamedTuple):
    """What twin trainings left."""

    table: pd.DataFrame  # a row a seed, pair and stop: see `twin_table`
    paths: pd.DataFrame  # accuracies (shares) by seed, pair and α, at the last stop


class Problem(NamedTuple):
    """What the models of a stack are trained on and tested with."""

    x: Float[Tensor, "row *shape"]  # inputs of the pool, and of the test set below it
    y: Int[Tensor, " row"]
    rows: Int[Tensor, "model position"]  # of each model's sample
    by: Int[Tensor, " pair"]  # z: rows of the test set
    pool: int
    classes: int

    @property
    def tested(self) -> Int[Tensor, "model image"]:
        """Return the rows of the test set, for each model."""
        return torch.arange(self.pool, len(self.x), device=self.x.device).expand(len(self.rows), -1)


@dataclass(frozen=True)
class TwinTraining(Run):
    """Pairs of models, each trained on samples that differ in one example: all of one size as one stack."""

    source: ImageSource
    network: Network
    descent: Descent
    size: int  # m
    pairs: int  # of a seed
    seeds: tuple[int, ...]
    stops: tuple[int, ...]  # steps after which all is measured
    paths: int = 0  # pairs of a seed between which the path is measured
    resume_every: int = 1000

    schema: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse what could not be estimated from."""
        check_counts(self, "size", "pairs", "resume_every")
        check_sample(self.size, self.source.pool, self.descent.batch)

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Draw, train, and compare at every stop; go on from the last saved state, if there is one."""
        problem = self.problem(self.source.load())
        stack = self.stack(problem)
        resumable = Resumable(folder / SCRATCH, {"stack": stack}, self.resume_every)
        start = resumable.load(lambda done: (_kept(folder, stop) for stop in self.stops if stop <= done))
        for step in train(stack, problem.x, problem.y, problem.rows, self.order(), self.descent, start):
            if step in self.stops:  # before the state is saved from which it would not be made again
                found = self._compared(stack, problem, step)
                write_atomically(_kept(folder, step), _csv(found))
                report(step / self.descent.steps, f"error {found.error.mean():.4f}")
            resumable.record(TrainingStep(step, 0.0, self.descent.lr_at(step - 1)))
        tables = [pd.read_csv(_kept(folder, stop)) for stop in self.stops]
        (folder / TABLE).write_bytes(_csv(pd.concat(tables)))
        (folder / PATHS).write_bytes(_csv(self._along(stack, problem)))

    def problem(self, images: Images) -> Problem:
        """Return what all models are trained on, on the device that computes."""
        device, pool = best_device(), images.pool
        twins = [
            drawn_twins(pool, images.tested, self.size, self.pairs, generator_for("twins", seed, self.size))
            for seed in self.seeds
        ]
        rows, by = torch.cat([own.rows(pool) for own in twins]), torch.cat([own.by for own in twins])
        x = self.network.inputs(images.x.to(device))
        return Problem(x, images.y.to(device), rows.to(device), by.to(device), pool, images.classes)

    def order(self) -> Tensor:
        """Return the order of visits of each seed."""
        about = self.size, self.descent.batch, self.descent.steps
        orders = [visiting_order(*about, generator_for("order", seed, self.size)) for seed in self.seeds]
        return torch.stack(orders).to(best_device())

    def stack(self, problem: Problem) -> Stack:
        """Return the models of all seeds before the first step."""
        shape, device = tuple(problem.x.shape[1:]), best_device()
        first = [self.network.drawn(shape, problem.classes, seed) for seed in self.seeds]
        models = [{name: own.to(device) for name, own in weights.items()} for weights in first]
        return Stack(self.network.build(shape, problem.classes).to(device), models, 2 * self.pairs)

    def _compared(self, stack: Stack, problem: Problem, step: int) -> pd.DataFrame:
        predict = partial(log_probabilities, stack.network, stack.weights, problem.x)
        tested, sampled, own = predict(problem.tested), predict(problem.rows), problem.y[problem.rows]
        check_learnt(cross_entropy(sampled, own).mean(1), problem.classes, self.descent, step)
        labels = problem.y[problem.pool :]
        found = twin_table(tested, labels, sampled, own, problem.by, stack.vectors())
        return self._by_pair(found).assign(step=step)

    def _by_pair(self, table: pd.DataFrame) -> pd.DataFrame:
        """Name seeds in a table whose pairs are counted over all of them."""
        return table.assign(seed=np.array(self.seeds)[table.pair // self.pairs], pair=table.pair % self.pairs)

    def _along(self, stack: Stack, problem: Problem) -> pd.DataFrame:
        """Return the accuracies on the paths of the first pairs of every seed."""
        if not self.paths:
            return pd.DataFrame(columns=["pair", "alpha", "test", "trained", "seed"])
        pairs = torch.arange(len(problem.by), device=problem.by.device)
        pairs = pairs[pairs % self.pairs < self.paths]
        both = torch.stack([2 * pairs, 2 * pairs + 1], 1).flatten()
        weights = {name: own[both] for name, own in stack.weights.items()}
        seen = {"test": problem.tested[2 * pairs], "trained": problem.rows[2 * pairs]}
        found = {
            name: accuracies_along(weights, partial(_accuracy, stack.network, problem.x, problem.y, rows))
            for name, rows in seen.items()
        }
        index = pd.MultiIndex.from_product([GRID, pairs.tolist()], names=["alpha", "pair"])
        table = pd.DataFrame({name: own.ravel() for name, own in found.items()}, index).reset_index()
        return self._by_pair(table)

    def load(self, folder: Path) -> Found:
        """Read both tables."""
        return Found(pd.read_csv(folder / TABLE), pd.read_csv(folder / PATHS))

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        models = 2 * self.pairs * len(self.seeds)
        products = self.network.products(self.source.shape) * self.descent.batch * models
        return self.descent.steps * (5e-4 + 3e-10 * products)


def _accuracy(network: torch.nn.Module, x: Tensor, y: Tensor, rows: Tensor, weights: Weights) -> Tensor:
    predicted = log_probabilities(network, weights, x, rows).argmax(-1)
    return (predicted == y[rows]).double().mean(1)


def _kept(folder: Path, stop: int) -> Path:
    """Return where the table of a stop is kept until all are there."""
    (folder / SCRATCH).mkdir(exist_ok=True)
    return folder / SCRATCH / f"stop-{stop:07}.csv"


def _csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False, float_format=DIGITS_KEPT).encode()
