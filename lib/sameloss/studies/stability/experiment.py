"""Presets, and the stored run that trains twins."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from sameloss.images import CIFAR_10, ImageSource, visiting_order
from sameloss.runs.checkpoints import Resumable
from sameloss.runs.stage import TABLE
from sameloss.seeds import generator_for
from sameloss.store.store import SCRATCH, Report, Run, Store, write_atomically
from sameloss.studies.parameters import MOST_SEEDS, Config, choose, param
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
        (folder / TABLE).write_bytes(_csv(pd.concat(map(pd.read_csv, tables.values()))))
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
        index = pd.MultiIndex.from_product([training.GRID, pairs.tolist()], names=["alpha", "pair"])
        table = pd.DataFrame(index=index)
        for name, rows in (("test", stack.tested), ("trained", stack.rows)):
            table[name] = training.accuracies_along(stack, pairs, rows[2 * pairs]).ravel()
        return self._by_pair(table.reset_index())

    def load(self, folder: Path) -> dict[str, pd.DataFrame]:
        """Read `table`, by seed, pair and stop (see `twin_table`), and `paths`, by seed, pair and α."""
        return {name: pd.read_csv(folder / f"{name}.csv") for name in ("table", "paths")}

    @property
    def effort(self) -> float:
        models = 2 * self.pairs * len(self.seeds)
        of_a_step = training.products(self.network, self.source.shape) * self.descent.batch * models
        return self.descent.steps * (5e-4 + 3e-10 * of_a_step)


def _csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False, float_format="%.6g").encode()


# Which models, which samples, and how much is trained.
#
# Kinds of training by their names in figures and for `-p model`: those of the small presets, and those of
# `gpu` and `paper`.

LR, CONVEX = "logistic regression", "random features"
MLP, MOMENTUM, CNN, CNN_MOMENTUM = "perceptron", "perceptron, momentum", "CNN", "CNN, momentum"

THEIRS_LR, THEIRS_1A = "LR, MNIST", "1a: ResNet-20, SVHN"
THEIRS_2A, THEIRS_2B = "2a: ResNet-20, CIFAR-10", "2b: ResNet-20, momentum"


@dataclass(frozen=True)
class Kind:
    """A model, and how it is trained."""

    name: str
    network: training.Network
    descent: training.Descent  # its steps are the second of three stops
    source: ImageSource = ImageSource()

    @property
    def stops(self) -> tuple[int, int, int]:
        """0.5, 1 and 1.5 times the steps, as the thesis' 50, 100 and 150 thousand."""
        steps = self.descent.steps
        return max(1, steps // 2), steps, steps + max(1, steps // 2)


KINDS = (
    Kind(LR, training.LogisticRegression(), training.Descent(0.1, 32, 4000), ImageSource(halves=True)),
    Kind(CONVEX, training.RandomFeatures(1500), training.Descent(0.3, 32, 1000, momentum=0.9)),
    Kind(MLP, training.Perceptron((64, 64)), training.Descent(0.1, 32, 2500)),
    Kind(MOMENTUM, training.Perceptron((64, 64)), training.Descent(0.1, 32, 2500, momentum=0.9)),
    Kind(CNN, training.SmallCNN((16, 32)), training.Descent(0.5, 32, 400)),
    Kind(CNN_MOMENTUM, training.SmallCNN((16, 32)), training.Descent(0.1, 32, 400, momentum=0.9)),
)

TINY_KINDS = (
    Kind(LR, training.LogisticRegression(), training.Descent(0.1, 32, 20), ImageSource(halves=True)),
    Kind(CONVEX, training.RandomFeatures(100), training.Descent(0.3, 32, 10, momentum=0.9)),
    Kind(MLP, training.Perceptron((16,)), training.Descent(0.1, 32, 20)),
    Kind(MOMENTUM, training.Perceptron((16,)), training.Descent(0.1, 32, 20, momentum=0.9)),
    Kind(CNN_MOMENTUM, training.SmallCNN((4, 8)), training.Descent(0.1, 32, 10, momentum=0.9)),
)


@dataclass(frozen=True)
class StabilityConfig(Config):
    """A preset, and what a reader can change in it."""

    model: str | None = param("one of the preset's alone; None: all", kind=str)
    pairs: int = param("of twins, of each seed; None: the preset's", 6, most=1000)
    seeds: int = param(
        "of initialisation, order and pairs; None: the preset's", 15, least=2, most=MOST_SEEDS, example="8"
    )
    steps: int | None = param("of the second of three stops; None: each model's own")
    lr: float | None = param("learning rate; None: each model's own", kind=float)
    momentum: float | None = param(
        "of gradient descent; None: each model's own", kind=float, may_be_zero=True, most=0.999
    )
    tolerance: float | None = param("relative, of all verdicts; None: each claim's own", kind=float)
    sizes: tuple[int, ...] = (80, 160, 320, 640)  # m, at most half of the pool, so that samples differ
    paths: int = 2  # pairs per seed whose linear path is measured, at most
    preset_kinds: tuple[Kind, ...] = KINDS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model is not None:
            choose("model", self.model, [kind.name for kind in self.preset_kinds])

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Seeds of initialisation, order and pairs; the pilot's were below 100."""
        return tuple(range(100, 100 + self.seeds))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The preset's kinds, or only `model`, with a reader's steps, rate and momentum."""
        kinds = (kind for kind in self.preset_kinds if self.model in (None, kind.name))
        changes = {name: v for name in ("steps", "lr", "momentum") if (v := getattr(self, name)) is not None}
        return tuple(replace(kind, descent=replace(kind.descent, **changes)) for kind in kinds)

    def twins(self, kind: Kind, size: int) -> TwinTraining:
        """The run that trains twins of one kind on samples of one size."""
        descent, paths = replace(kind.descent, steps=kind.stops[-1]), min(self.paths, self.pairs)
        about = kind.source, kind.network, descent, size, self.pairs, self.all_seeds
        return TwinTraining(*about, kind.stops, paths)


SVHN = ImageSource("ufldl-stanford/svhn:cropped_digits", 73_257, 10_000, shape=(3, 32, 32))

MNIST = ImageSource("ylecun/mnist", 60_000, 10_000, halves=True, shape=(1, 28, 28))

DROPS = ((32_000, 0.01), (48_000, 0.001))

PAPER_KINDS = (
    Kind(THEIRS_LR, training.LogisticRegression(), training.Descent(0.1, 128, 100_000), MNIST),
    Kind(THEIRS_1A, training.ResNet20(), training.Descent(0.01, 32, 100_000), SVHN),
    Kind(THEIRS_2A, training.ResNet20(), training.Descent(0.1, 128, 100_000, 0.0, DROPS), CIFAR_10),
    Kind(THEIRS_2B, training.ResNet20(), training.Descent(0.1, 128, 100_000, 0.9, DROPS), CIFAR_10),
)
"""Those of the thesis, without its samples of more than half of the pool."""


def _tenth(kind: Kind) -> Kind:
    """A kind with a tenth of the steps, drops of the learning rate included."""
    steps, drops = kind.descent.steps // 10, tuple((step // 10, lr) for step, lr in kind.descent.drops)
    return replace(kind, descent=replace(kind.descent, steps=steps, drops=drops))


PRESETS = {
    "smoke": StabilityConfig(
        "smoke", pairs=2, seeds=2, sizes=(40, 80, 160), paths=1, preset_kinds=TINY_KINDS
    ),
    "laptop": StabilityConfig("laptop", pairs=3, seeds=3, sizes=(80, 160, 640)),
    "laptop-long": StabilityConfig("laptop-long"),
    "gpu": StabilityConfig(
        "gpu",
        pairs=5,
        seeds=2,
        sizes=(5000, 10_000, 20_000, 25_000),
        preset_kinds=tuple(map(_tenth, PAPER_KINDS)),
    ),
    "paper": StabilityConfig(
        "paper", pairs=40, seeds=3, sizes=(15_000, 20_000, 25_000), paths=10, preset_kinds=PAPER_KINDS
    ),
}
"""`gpu` and `paper` were never run; `gpu` takes 0.9 hours of an H200 by arithmetic (8.4e16 operations)."""
