"""The stored run that trains twins."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from sameloss.images import ImageSource, visiting_order
from sameloss.runs.checkpoints import STEP, Resumable
from sameloss.runs.stage import TABLE
from sameloss.seeds import generator_for
from sameloss.store.store import SCRATCH, Folder, Report, Run, Store, write_atomically
from sameloss.studies.stability import theory, training
from sameloss.training.loop import TrainingStep


@dataclass(frozen=True)
class TwinTraining(Run):
    """Pairs of models trained on samples that differ in one example; all pairs of one size as one stack."""

    source: ImageSource
    network: training.Network
    descent: training.Descent
    size: int  # m
    pairs: int  # per seed
    seeds: tuple[int, ...]
    stops: tuple[int, ...]  # steps after which all pairs are compared
    paths: int = 0  # pairs per seed whose linear path is measured
    resume_every: int = 1000
    brief: bool = False  # keep only what claims are judged by: `by_seed`, and paths between their ends

    accelerated: ClassVar[bool] = True

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train and compare at every stop; resumes from the last saved state, if there is one."""
        images = self.source.load()
        counts = images.pool, images.tested, self.size, self.pairs
        twins = [theory.drawn_twins(*counts, generator_for("twins", seed, self.size)) for seed in self.seeds]
        rows = torch.cat([pairs.rows(images.pool) for pairs in twins])
        stack = training.Stack(self.network, images, rows, self.seeds)
        by = torch.cat([pairs.by for pairs in twins]).to(stack.rows.device)
        resumable = Resumable(folder / SCRATCH, {"stack": stack}, self.resume_every)
        (folder / SCRATCH).mkdir(exist_ok=True)
        tables = {stop: folder / SCRATCH / f"stop-{stop:07}.csv" for stop in self.stops}
        start = resumable.load(lambda done: (path for stop, path in tables.items() if stop <= done))
        batches = self.size, self.descent.batch, self.descent.steps
        rngs = (generator_for("order", seed, self.size) for seed in self.seeds)
        order = torch.stack([visiting_order(*batches, rng) for rng in rngs])
        for step in stack.train(order, self.descent, start):
            if step in self.stops:  # written before the state, which would not compute it again
                table = self._compared(stack, by, step)
                write_atomically(tables[step], _csv(table))
                report(step / self.descent.steps, f"error {table.error.mean():.4f}")
            resumable.record(TrainingStep(step, 0.0, self.descent.lr_at(step - 1)))
        table = pd.concat(map(pd.read_csv, tables.values()))
        (folder / TABLE).write_bytes(_csv(theory.by_seed(table) if self.brief else table))
        (folder / "paths.csv").write_bytes(_csv(self._along(stack)))

    def _compared(self, stack: training.Stack, by: Int[Tensor, " pair"], step: int) -> pd.DataFrame:
        """Compare the models of every pair after a step; a NonFiniteLoss where a training diverged."""
        tested, sampled = stack.log_probabilities(stack.tested), stack.log_probabilities(stack.rows)
        labels, sampled_labels = stack.y[stack.tested[0]], stack.y[stack.rows]
        losses = theory.cross_entropy(sampled, sampled_labels).mean(1)
        training.check_learnt(losses, stack.classes, self.descent, step)
        table = theory.twin_table(tested, labels, sampled, sampled_labels, by, stack.vectors())
        return self._by_pair(table).assign(step=step)

    def _by_pair(self, table: pd.DataFrame) -> pd.DataFrame:
        """Replace the running number of a pair by its seed and its number among the seed's pairs."""
        return table.assign(seed=np.array(self.seeds)[table.pair // self.pairs], pair=table.pair % self.pairs)

    def _along(self, stack: training.Stack) -> pd.DataFrame:
        """Accuracies along the paths of the first pairs of every seed."""
        if not self.paths:
            return pd.DataFrame(columns=["pair", "alpha", "test", "trained", "seed"])
        pairs = torch.arange(len(stack.rows) // 2, device=stack.rows.device)
        pairs = pairs[pairs % self.pairs < self.paths]
        alphas = [alpha for alpha in training.GRID if not self.brief or 0 <= alpha <= 1]
        index = pd.MultiIndex.from_product([alphas, pairs.tolist()], names=["alpha", "pair"])
        table = pd.DataFrame(index=index)
        for name, rows in (("test", stack.tested), ("trained", stack.rows)):
            table[name] = training.accuracies_along(stack, pairs, rows[2 * pairs], alphas).ravel()
        return self._by_pair(table.reset_index())

    def load(self, folder: Folder) -> dict[str, pd.DataFrame]:
        """Read `table`, by seed, pair and stop (see `twin_table`), and `paths`, by seed, pair and α.

        A brief one has no pairs in `table`: see `by_seed`.
        """
        return {name: pd.read_csv(folder / f"{name}.csv") for name in ("table", "paths")}

    @property
    def work(self) -> float:
        models = 2 * self.pairs * len(self.seeds)
        of_an_image = 6 * training.products(self.network, self.source.shape)
        return self.descent.steps * (STEP / 3 + models * self.descent.batch * of_an_image)


def _csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False, float_format="%.6g").encode()


@dataclass(frozen=True)
class Kind:
    """A model, and how it is trained."""

    network: training.Network
    descent: training.Descent  # its steps are the second of three stops
    source: ImageSource = ImageSource()

    @property
    def stops(self) -> tuple[int, int, int]:
        """0.5, 1 and 1.5 times the steps, as the thesis' 50, 100 and 150 thousand."""
        steps = self.descent.steps
        return max(1, steps // 2), steps, steps + max(1, steps // 2)

    def changed(self, **changes: Any) -> "Kind":
        """The kind with other fields of its descent, those that are not None; drops scale with the steps."""
        given = {name: value for name, value in changes.items() if value is not None}
        scale = given.get("steps", self.descent.steps) / self.descent.steps
        drops = tuple((round(scale * step), factor) for step, factor in self.descent.drops)
        return replace(self, descent=replace(self.descent, drops=drops, **given))
