"""The stored step of this study that trains twins."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from sameloss.checks import check_counts
from sameloss.device import best_device
from sameloss.runs.frames import TABLE
from sameloss.runs.resumable import Resumable
from sameloss.seeds import generator_for
from sameloss.store.files import write_atomically
from sameloss.store.store import SCRATCH, Report, Run, Store
from sameloss.studies.stability.differences import twin_table
from sameloss.studies.stability.images import Images, ImageSource
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
        images, device = self.source.load(), best_device()
        x, y = self.network.inputs(images.x.to(device)), images.y.to(device)
        rows, by = (drawn.to(device) for drawn in self.drawn(images))
        order = self.order().to(device)
        stack = self.stack(tuple(x.shape[1:]), images.classes)
        resumable = Resumable(folder / SCRATCH, {"stack": stack}, self.resume_every)
        start = resumable.load(lambda done: (_kept(folder, stop) for stop in self.stops if stop <= done))
        for step in train(stack, x, y, rows, order, self.descent, start):
            if step in self.stops:  # before the state is saved from which it would not be made again
                found = self._compared(stack, x, y, rows, by, images.pool, step)
                write_atomically(_kept(folder, step), _csv(found))
                report(step / self.descent.steps, f"error {found.error.mean():.4f}")
            resumable.record(TrainingStep(step, 0.0, self.descent.lr_at(step - 1)))
        tables = [pd.read_csv(_kept(folder, stop)) for stop in self.stops]
        (folder / TABLE).write_bytes(_csv(pd.concat(tables)))
        (folder / PATHS).write_bytes(_csv(self._along(stack, x, y, rows, images.pool)))

    def drawn(self, images: Images) -> tuple[Tensor, Tensor]:
        """Return the rows of every model's sample, and z of every pair."""
        twins = [
            drawn_twins(
                images.pool, images.tested, self.size, self.pairs, generator_for("twins", seed, self.size)
            )
            for seed in self.seeds
        ]
        return torch.cat([own.rows(images.pool) for own in twins]), torch.cat([own.by for own in twins])

    def order(self) -> Tensor:
        """Return the order of visits of each seed."""
        return torch.stack(
            [
                visiting_order(
                    self.size,
                    self.descent.batch,
                    self.descent.steps,
                    generator_for("order", seed, self.size),
                )
                for seed in self.seeds
            ]
        )

    def stack(self, shape: tuple[int, ...], classes: int) -> Stack:
        """Return the models of all seeds before the first step."""
        device = best_device()
        first = [self.network.drawn(shape, classes, seed) for seed in self.seeds]
        models = [{name: own.to(device) for name, own in weights.items()} for weights in first]
        return Stack(self.network.build(shape, classes).to(device), models, 2 * self.pairs)

    def _compared(
        self, stack: Stack, x: Tensor, y: Tensor, rows: Tensor, by: Tensor, pool: int, step: int
    ) -> pd.DataFrame:
        predict = partial(log_probabilities, stack.network, stack.weights, x)
        tested, sampled = predict(_test_rows(rows, pool, len(x))), predict(rows)
        own = cross_entropy(sampled, y[rows]).mean(1)
        check_learnt(own, sampled.shape[-1], self.descent, step)
        return self._by_pair(twin_table(tested, y[pool:], sampled, y[rows], by, stack.vectors())).assign(
            step=step
        )

    def _by_pair(self, table: pd.DataFrame) -> pd.DataFrame:
        """Name seeds in a table whose pairs are counted over all of them."""
        return table.assign(seed=np.array(self.seeds)[table.pair // self.pairs], pair=table.pair % self.pairs)

    def _along(self, stack: Stack, x: Tensor, y: Tensor, rows: Tensor, pool: int) -> pd.DataFrame:
        """Return the accuracies on the paths of the first pairs of every seed."""
        if not self.paths:
            return pd.DataFrame(columns=["pair", "alpha", "test", "trained", "seed"])
        chosen = (torch.arange(len(rows)) // 2 % self.pairs) < self.paths
        weights = {name: own[chosen.to(own.device)] for name, own in stack.weights.items()}
        first = rows[chosen.to(rows.device)][::2]
        pairs = torch.arange(len(rows) // 2)[chosen[::2]]
        seen = {"test": _test_rows(first, pool, len(x)), "trained": first}
        found = {
            name: accuracies_along(weights, partial(_accuracy, stack.network, x, y, own))
            for name, own in seen.items()
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


def _test_rows(rows: Tensor, pool: int, count: int) -> Tensor:
    return torch.arange(pool, count, device=rows.device).expand(len(rows), -1)


def _accuracy(network: torch.nn.Module, x: Tensor, y: Tensor, rows: Tensor, weights: Weights) -> Tensor:
    predicted = log_probabilities(network, weights, x, rows).argmax(-1)
    return (predicted == y[rows]).double().mean(1)


def _kept(folder: Path, stop: int) -> Path:
    """Return where the table of a stop is kept until all are there."""
    (folder / SCRATCH).mkdir(exist_ok=True)
    return folder / SCRATCH / f"stop-{stop:07}.csv"


def _csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False, float_format=DIGITS_KEPT).encode()
