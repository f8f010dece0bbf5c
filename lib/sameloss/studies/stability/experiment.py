"""What is trained at each preset, and the stored runs: twins, all swaps, ridge regression."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor

from sameloss.images import Images, ImageSource
from sameloss.runs.checkpoints import Resumable
from sameloss.runs.stage import TABLE, Tabled
from sameloss.seeds import generator_for
from sameloss.store.store import SCRATCH, Report, Run, Store, write_atomically
from sameloss.studies.parameters import MOST_SEEDS, Config, choose, param
from sameloss.studies.stability import theory, training
from sameloss.training.loop import TrainingStep

# The stored step of this study that trains twins.


@dataclass(frozen=True)
class TwinTraining(Run):
    """Pairs of models, each trained on samples that differ in one example: all of one size as one stack."""

    source: ImageSource
    network: training.Network
    descent: training.Descent
    size: int  # m
    pairs: int  # of a seed
    seeds: tuple[int, ...]
    stops: tuple[int, ...]  # steps after which all is measured
    paths: int = 0  # pairs of a seed between which the path is measured
    resume_every: int = 1000

    schema: ClassVar[int] = 1

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Draw, train, and compare at every stop; go on from the last saved state, if there is one."""
        images = self.source.load()
        drawn = images.pool, images.tested, self.size, self.pairs
        twins = [theory.drawn_twins(*drawn, generator_for("twins", seed, self.size)) for seed in self.seeds]
        rows = torch.cat([own.rows(images.pool) for own in twins])
        stack = training.Stack(self.network, images, rows, self.seeds)
        by = torch.cat([own.by for own in twins]).to(stack.rows.device)
        resumable = Resumable(folder / SCRATCH, {"stack": stack}, self.resume_every)
        start = resumable.load(lambda done: (_kept(folder, stop) for stop in self.stops if stop <= done))
        batches = self.size, self.descent.batch, self.descent.steps
        rngs = (generator_for("order", seed, self.size) for seed in self.seeds)
        order = torch.stack([theory.visiting_order(*batches, rng) for rng in rngs])
        for step in stack.train(order, self.descent, start):
            if step in self.stops:  # before the state is saved from which it would not be made again
                table = self._compared(stack, by, step)
                write_atomically(_kept(folder, step), _csv(table))
                report(step / self.descent.steps, f"error {table.error.mean():.4f}")
            resumable.record(TrainingStep(step, 0.0, self.descent.lr_at(step - 1)))
        tables = [pd.read_csv(_kept(folder, stop)) for stop in self.stops]
        (folder / TABLE).write_bytes(_csv(pd.concat(tables)))
        (folder / "paths.csv").write_bytes(_csv(self._along(stack)))

    def _compared(self, stack: training.Stack, by: Int[Tensor, " pair"], step: int) -> pd.DataFrame:
        tested, sampled = stack.log_probabilities(stack.tested), stack.log_probabilities(stack.rows)
        labels, sampled_labels = stack.y[stack.tested[0]], stack.y[stack.rows]
        losses = theory.cross_entropy(sampled, sampled_labels).mean(1)
        training.check_learnt(losses, stack.classes, self.descent, step)
        table = theory.twin_table(tested, labels, sampled, sampled_labels, by, stack.vectors())
        return self._by_pair(table).assign(step=step)

    def _by_pair(self, table: pd.DataFrame) -> pd.DataFrame:
        """Name seeds in a table whose pairs are counted over all of them."""
        return table.assign(seed=np.array(self.seeds)[table.pair // self.pairs], pair=table.pair % self.pairs)

    def _along(self, stack: training.Stack) -> pd.DataFrame:
        """Return the accuracies on the paths of the first pairs of every seed."""
        if not self.paths:
            return pd.DataFrame(columns=["pair", "alpha", "test", "trained", "seed"])
        pairs = torch.arange(len(stack.rows) // 2, device=stack.rows.device)
        pairs = pairs[pairs % self.pairs < self.paths]
        seen = {"test": stack.tested[2 * pairs], "trained": stack.rows[2 * pairs]}
        along = training.accuracies_along
        accuracies = {name: along(stack, pairs, rows).ravel() for name, rows in seen.items()}
        index = pd.MultiIndex.from_product([training.GRID, pairs.tolist()], names=["alpha", "pair"])
        return self._by_pair(pd.DataFrame(accuracies, index).reset_index())

    def load(self, folder: Path) -> dict[str, pd.DataFrame]:
        """Return `table`, a row a seed, pair and stop (see `twin_table`), and `paths` by seed, pair and α."""
        return {name: pd.read_csv(folder / f"{name}.csv") for name in ("table", "paths")}

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        models = 2 * self.pairs * len(self.seeds)
        of_a_step = training.products(self.network, self.source.shape) * self.descent.batch * models
        return self.descent.steps * (5e-4 + 3e-10 * of_a_step)


def _kept(folder: Path, stop: int) -> Path:
    """Return where the table of a stop is kept until all are there."""
    (folder / SCRATCH).mkdir(exist_ok=True)
    return folder / SCRATCH / f"stop-{stop:07}.csv"


def _csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False, float_format="%.6g").encode()


# The stored steps that need no sample of swaps: every swap of a small sample, trained or in closed form.

REPEATS = 2000
"""Draws of some swaps out of all."""


@dataclass(frozen=True)
class AllSwaps(Tabled):
    """Logistic regression on a sample and on every swap of it: the supremum, and what random swaps see of it.

    Its table has a row a loss and a number of swaps drawn: the `exact` largest change over all swaps and test
    images, `median`, `low` and `high` (2.5 and 97.5 %) of the largest over so many random swaps; and, in all
    rows the same, the largest `distance` of parameters, its `bound`, and the `slope` of the loss in them.
    """

    source: ImageSource
    descent: training.Descent
    size: int
    candidates: int  # test images that replace
    drawn: tuple[int, ...]  # numbers of random swaps
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train on all swaps as one stack, the sample itself first."""
        images = self.source.load()
        stack = training.Stack(training.LogisticRegression(), images, self.rows(images), (0,))
        for step in stack.train(self.order(), self.descent):
            report(step / self.descent.steps, f"{len(stack.rows)} swaps")
        slope = float((stack.x.flatten(1).double().square().sum(1) + 1).sqrt().max())
        descent, vectors = self.descent, stack.vectors()
        table = pd.DataFrame(self._seen(stack)).assign(
            distance=float((vectors[1:] - vectors[0]).norm(dim=1).max()),
            bound=theory.parameter_bound(slope, descent.lr, descent.steps, self.size, descent.batch),
            slope=slope,
        )
        table.to_csv(folder / TABLE, index=False)

    def rows(self, images: Images) -> Int[Tensor, "model position"]:
        """Return the sample, and then each swap of it."""
        rng = generator_for("all swaps", self.seed, self.size)
        sample = torch.randperm(images.pool, generator=rng)[: self.size]
        candidates = torch.randperm(images.tested, generator=rng)[: self.candidates]
        return torch.cat([sample[None], theory.all_swaps(sample, candidates).rows(images.pool)[1::2]])

    def order(self) -> Int[Tensor, "1 step batch"]:
        """Return the order of visits, the same for all."""
        rng = generator_for("order of all swaps", self.seed, self.size)
        return theory.visiting_order(self.size, self.descent.batch, self.descent.steps, rng)[None]

    def _seen(self, stack: training.Stack) -> Iterator[dict]:
        predicted, labels = stack.log_probabilities(stack.tested), stack.y[stack.tested]
        for name, loss in theory.LOSS.items():
            losses = loss(predicted, labels)
            changes = (losses[1:] - losses[:1]).abs().amax(1).cpu().numpy()
            for count in self.drawn:
                rng = np.random.default_rng(self.seed)
                largest = [rng.choice(changes, count, replace=False).max() for _ in range(REPEATS)]
                low, median, high = np.quantile(largest, [0.025, 0.5, 0.975])
                quantiles = {"median": median, "low": low, "high": high}
                yield {"loss": name, "drawn": count, "exact": changes.max(), **quantiles}

    @property
    def effort(self) -> float:
        """Return a rough number of seconds."""
        return 3e-7 * self.size * self.candidates * self.descent.batch * self.descent.steps


@dataclass(frozen=True)
class RidgeSwaps(Tabled):
    """All swaps of ridge regression in closed form, and the bound of Bousquet and Elisseeff (2002).

    Its table has a row a kernel, λ and m: the largest `change` of the squared loss over all swaps and test
    images, and the `bound` on it.
    """

    source: ImageSource
    sizes: tuple[int, ...]
    ridges: tuple[float, ...]
    candidates: int
    seed: int

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Solve each once."""
        from sklearn.metrics.pairwise import pairwise_kernels  # which takes its time

        images, rng, found = self.source.load(), np.random.default_rng(self.seed), []
        x, y = images.x.flatten(1).double().numpy(), 2.0 * images.y.numpy() - 1
        tested = images.pool + rng.permutation(images.tested)[: self.candidates]
        for size in self.sizes:
            rows = np.concatenate([rng.permutation(images.pool)[:size], tested])
            for kernel, metric in (("linear", "linear"), ("Gaussian", "rbf")):
                gram = pairwise_kernels(x[rows], metric=metric)
                for ridge in self.ridges:
                    change = theory.largest_change(gram, y[rows], size, ridge)
                    bound = theory.stability_bound(ridge, size, float(np.diag(gram).max()), 1.0)
                    found.append((kernel, ridge, size, change, bound))
        table = pd.DataFrame(found, columns=["kernel", "ridge", "size", "change", "bound"])
        table.to_csv(folder / TABLE, index=False)


# Which models, which samples, and how much is trained.
#
# Kinds of training as figures and `-p model` name them: of the default, and at the presets `gpu` and `paper`.

LR, CONVEX = "logistic regression", "random features"
MLP, MOMENTUM, CNN, CNN_MOMENTUM = "perceptron", "perceptron, momentum", "CNN", "CNN, momentum"

THEIRS_LR, THEIRS_1A = "LR, MNIST", "1a: ResNet-20, SVHN"
THEIRS_2A, THEIRS_2B = "2a: ResNet-20, CIFAR-10", "2b: ResNet-20, momentum"


@dataclass(frozen=True)
class Kind:
    """A kind of training whose stability is measured: a model, and how it is trained."""

    name: str
    network: training.Network
    descent: training.Descent  # its steps are the second of three stops
    halves: bool = False  # whether it tells the lower half of the classes from the upper
    source: ImageSource | None = None  # images of its own

    @property
    def stops(self) -> tuple[int, int, int]:
        """Return half the steps, the steps, and half as many again: the thesis' 50, 100 and 150 thousand."""
        steps = self.descent.steps
        return max(1, steps // 2), steps, steps + max(1, steps // 2)


KINDS = (
    Kind(LR, training.LogisticRegression(), training.Descent(0.1, 32, 4000), halves=True),
    Kind(CONVEX, training.RandomFeatures(1500), training.Descent(0.3, 32, 1000, momentum=0.9)),
    Kind(MLP, training.Perceptron((64, 64)), training.Descent(0.1, 32, 2500)),
    Kind(MOMENTUM, training.Perceptron((64, 64)), training.Descent(0.1, 32, 2500, momentum=0.9)),
    Kind(CNN, training.SmallCNN((16, 32)), training.Descent(0.5, 32, 400)),
    Kind(CNN_MOMENTUM, training.SmallCNN((16, 32)), training.Descent(0.1, 32, 400, momentum=0.9)),
)

TINY_KINDS = (
    Kind(LR, training.LogisticRegression(), training.Descent(0.1, 32, 20), halves=True),
    Kind(CONVEX, training.RandomFeatures(100), training.Descent(0.3, 32, 10, momentum=0.9)),
    Kind(MLP, training.Perceptron((16,)), training.Descent(0.1, 32, 20)),
    Kind(MOMENTUM, training.Perceptron((16,)), training.Descent(0.1, 32, 20, momentum=0.9)),
    Kind(CNN_MOMENTUM, training.SmallCNN((4, 8)), training.Descent(0.1, 32, 10, momentum=0.9)),
)


@dataclass(frozen=True)
class StabilityConfig(Config):
    """What is trained, on how much, and what a reader can set."""

    model: str | None = param("one of the preset's alone; None: all", kind=str)
    data: str | None = param(
        "a data set on the hub (name, or name:part), or a local folder of one; None: the preset's", kind=str
    )
    largest: int | None = param(
        "sample, m; smaller ones are a half, a quarter, an eighth; None: the preset's"
    )
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
    source: ImageSource = ImageSource()
    preset_sizes: tuple[int, ...] = (80, 160, 320, 640)
    paths: int = 2  # so many pairs of a seed, at most, have their path measured
    preset_kinds: tuple[Kind, ...] = KINDS
    first_seed: int = 100  # the pilot's were below
    swap_sizes: tuple[int, ...] = (32, 64)  # small problems all of whose swaps are computed
    swap_candidates: int = 120  # test images that replace an example
    swap_descent: training.Descent = training.Descent(0.1, 16, 400)
    swaps_drawn: tuple[int, ...] = (10, 40, 90)  # the thesis draws 40, and 90 for logistic regression
    ridge_sizes: tuple[int, ...] = (32, 128, 512)
    ridges: tuple[float, ...] = (1e-3, 1e-2, 1e-1)  # λ

    def __post_init__(self) -> None:
        """Refuse what no exponent can be estimated from, and seeds without an interval."""
        super().__post_init__()
        theory.check_sizes(self.sizes)
        for kind in self.kinds:
            for size in self.sizes:
                theory.check_sample(size, self.images(kind.halves, kind.source).pool, kind.descent.batch)

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Each seed has an initialisation, an order and pairs of its own."""
        return tuple(range(self.first_seed, self.first_seed + self.seeds))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sample sizes m."""
        largest = self.largest
        return self.preset_sizes if largest is None else tuple(largest // part for part in (8, 4, 2, 1))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The preset's, or the one that was asked for, with the steps, rate and momentum that were."""
        if self.model is not None:
            choose("model", self.model, [kind.name for kind in self.preset_kinds])
        kinds = (kind for kind in self.preset_kinds if self.model in (None, kind.name))
        given = {name: v for name in ("steps", "lr", "momentum") if (v := getattr(self, name)) is not None}
        return tuple(replace(kind, descent=replace(kind.descent, **given)) for kind in kinds)

    def images(self, halves: bool, source: ImageSource | None = None) -> ImageSource:
        """Return the preset's images, a kind's own, or in their place what a reader asked for."""
        source = source or replace(self.source, halves=halves)
        return source if self.data is None else replace(source, name=self.data).known()

    def twins(self, kind: Kind, size: int) -> TwinTraining:
        """Return all twins of a kind and a size."""
        descent, paths = replace(kind.descent, steps=kind.stops[-1]), min(self.paths, self.pairs)
        about = self.images(kind.halves, kind.source), kind.network, descent, size, self.pairs, self.all_seeds
        return TwinTraining(*about, kind.stops, paths)

    @property
    def all_swaps(self) -> list[AllSwaps]:
        """Logistic regressions on every swap."""
        images, more = self.images(halves=True), (self.swap_candidates, self.swaps_drawn, self.first_seed)
        return [AllSwaps(images, self.swap_descent, size, *more) for size in self.swap_sizes]

    @property
    def ridge_swaps(self) -> RidgeSwaps:
        """Ridge regression on every swap."""
        images, seed = self.images(halves=True), self.first_seed
        return RidgeSwaps(images, self.ridge_sizes, self.ridges, self.swap_candidates, seed)


SVHN = ImageSource("ufldl-stanford/svhn:cropped_digits", 73_257, 10_000, shape=(3, 32, 32))
CIFAR = ImageSource("uoft-cs/cifar10", 50_000, 10_000, shape=(3, 32, 32))
MNIST = ImageSource("ylecun/mnist", 60_000, 10_000, halves=True, shape=(1, 28, 28))

DROPS = ((32_000, 0.01), (48_000, 0.001))

PAPER_KINDS = (
    Kind(THEIRS_LR, training.LogisticRegression(), training.Descent(0.1, 128, 100_000), True, MNIST),
    Kind(THEIRS_1A, training.ResNet20(), training.Descent(0.01, 32, 100_000), source=SVHN),
    Kind(THEIRS_2A, training.ResNet20(), training.Descent(0.1, 128, 100_000, 0.0, DROPS), source=CIFAR),
    Kind(THEIRS_2B, training.ResNet20(), training.Descent(0.1, 128, 100_000, 0.9, DROPS), source=CIFAR),
)
"""The thesis' own; its samples above half of the pool are left out."""


_PAPER = StabilityConfig(
    "paper", pairs=40, seeds=3, preset_sizes=(15_000, 20_000, 25_000), paths=10, preset_kinds=PAPER_KINDS
)


def _tenth(kind: Kind) -> Kind:
    """Return a kind of a tenth of the steps, whose rate falls as early in them."""
    steps, drops = kind.descent.steps // 10, tuple((step // 10, lr) for step, lr in kind.descent.drops)
    return replace(kind, descent=replace(kind.descent, steps=steps, drops=drops))


_GPU = StabilityConfig(
    "gpu",
    pairs=5,
    seeds=2,
    preset_sizes=(5000, 10_000, 20_000, 25_000),
    preset_kinds=tuple(_tenth(kind) for kind in PAPER_KINDS),
)


PRESETS = {
    preset.name: preset
    for preset in (
        StabilityConfig(
            "smoke",
            pairs=2,
            seeds=2,
            preset_sizes=(40, 80, 160),
            paths=1,
            preset_kinds=TINY_KINDS,
            swap_sizes=(16,),
            swap_candidates=10,
            swap_descent=training.Descent(0.1, 8, 30),
            swaps_drawn=(10,),
            ridge_sizes=(16, 32),
        ),
        StabilityConfig("laptop", pairs=3, seeds=3, preset_sizes=(80, 160, 640), swap_candidates=60),
        StabilityConfig("laptop-long"),
        _GPU,
        _PAPER,
    )
}
"""`gpu` and `paper` were never run; `gpu` takes 0.9 hours of an H200 by arithmetic (8.4e16 operations)."""
