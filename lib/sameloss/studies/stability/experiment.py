"""What is trained at each preset, and the stored runs: twins, all swaps, ridge regression."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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
from sameloss.runs.checkpoints import Resumable
from sameloss.runs.frames import TABLE, Tabled
from sameloss.seeds import generator_for
from sameloss.store.manifest import SCRATCH, write_atomically
from sameloss.store.store import Report, Run, Store
from sameloss.studies.config import Config, param
from sameloss.studies.parameters import MOST_SEEDS, choose
from sameloss.studies.stability.theory import (
    LOSS,
    all_swaps,
    check_sample,
    check_sizes,
    cross_entropy,
    drawn_twins,
    parameter_bound,
    solved,
    stability_bound,
    swap_changes,
    twin_table,
    visiting_order,
)
from sameloss.studies.stability.training import (
    GRID,
    Descent,
    LogisticRegression,
    Network,
    Perceptron,
    RandomFeatures,
    ResNet20,
    SmallCNN,
    Stack,
    Weights,
    accuracies_along,
    check_learnt,
    log_probabilities,
    train,
)
from sameloss.training.loop import TrainingStep

# The stored step of this study that trains twins.

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


# The stored steps that need no sample of swaps: every swap of a small sample, trained or in closed form.

REPEATS = 2000
"""Draws of some swaps out of all."""

KERNELS = {"linear": "linear", "Gaussian": "rbf"}
"""Kernels by our names, and scikit-learn's."""


@dataclass(frozen=True)
class AllSwaps(Tabled):
    """Logistic regression on a sample and on every swap of it: the supremum, and what random swaps see of it.

    Its table has a row a loss and a number of swaps drawn: the `exact` largest change over all swaps and test
    images, `median`, `low` and `high` (2.5 and 97.5 %) of the largest over so many random swaps; and, in all
    rows the same, the largest `distance` of parameters, its `bound`, and the `slope` of the loss in them.
    """

    source: ImageSource
    descent: Descent
    size: int
    candidates: int  # test images that replace
    drawn: tuple[int, ...]  # numbers of random swaps
    seed: int

    def __post_init__(self) -> None:
        """Refuse what is no sample."""
        check_counts(self, "size", "candidates")
        check_sample(self.size, self.source.pool, self.descent.batch)

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train on all swaps as one stack, the sample itself first."""
        images = self.source.load()
        x, y, device = images.x.to(best_device()), images.y.to(best_device()), best_device()
        network = LogisticRegression()
        shape = tuple(x.shape[1:])
        rows = self.rows(images).to(device)
        model = {name: own.to(device) for name, own in network.drawn(shape, images.classes, 0).items()}
        stack = Stack(network.build(shape, images.classes).to(device), [model], len(rows))
        for step in train(stack, x, y, rows, self.order().to(device), self.descent):
            if step % 50 == 0:
                report(step / self.descent.steps, f"{len(rows)} swaps")
        table = pd.DataFrame(self._seen(stack, x, y, images.pool)).assign(**self._distances(stack, x))
        table.to_csv(folder / TABLE, index=False)

    def rows(self, images: Images) -> Tensor:
        """Return the sample, and then each swap of it."""
        rng = generator_for("all swaps", self.seed, self.size)
        sample = torch.randperm(images.pool, generator=rng)[: self.size]
        candidates = torch.randperm(images.tested, generator=rng)[: self.candidates]
        return torch.cat([sample[None], all_swaps(sample, candidates).rows(images.pool)[1::2]])

    def order(self) -> Tensor:
        """Return the order of visits, the same for all."""
        rng = generator_for("order of all swaps", self.seed, self.size)
        return visiting_order(self.size, self.descent.batch, self.descent.steps, rng)[None]

    def _seen(self, stack: Stack, x: Tensor, y: Tensor, pool: int) -> Iterator[dict]:
        tested = torch.arange(pool, len(x), device=x.device).expand(
            len(next(iter(stack.weights.values()))), -1
        )
        predicted = log_probabilities(stack.network, stack.weights, x, tested)
        for name, loss in LOSS.items():
            losses = loss(predicted, y[tested])
            largest = (losses[1:] - losses[:1]).abs().amax(1).cpu().numpy()
            for count in self.drawn:
                yield {
                    "loss": name,
                    "drawn": count,
                    "exact": largest.max(),
                    **self._largest_of(largest, count),
                }

    def _largest_of(self, changes: Float[np.ndarray, " swap"], count: int) -> dict[str, float]:
        rng = np.random.default_rng(self.seed)
        found = [rng.choice(changes, count, replace=False).max() for _ in range(REPEATS)]
        low, median, high = np.quantile(found, [0.025, 0.5, 0.975])
        return {"median": median, "low": low, "high": high}

    def _distances(self, stack: Stack, x: Tensor) -> dict[str, float]:
        vectors = stack.vectors()
        slope = float((x.flatten(1).double().square().sum(1) + 1).sqrt().max())
        d = self.descent
        bound = parameter_bound(slope, d.lr, d.steps, self.size, d.batch)
        return {
            "distance": float((vectors[1:] - vectors[0]).norm(dim=1).max()),
            "bound": bound,
            "slope": slope,
        }

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
        pd.DataFrame(self._rows(self.source.load())).to_csv(folder / TABLE, index=False)

    def _rows(self, images: Images) -> Iterable[dict]:
        from sklearn.metrics.pairwise import (
            pairwise_kernels,  # takes its time, and other runs need none of it
        )

        x, y = images.x.flatten(1).double().numpy(), 2.0 * images.y.numpy() - 1
        rng = np.random.default_rng(self.seed)
        tested = images.pool + rng.permutation(images.tested)[: self.candidates]
        for size in self.sizes:
            rows = np.concatenate([rng.permutation(images.pool)[:size], tested])
            for name, metric in KERNELS.items():
                gram = pairwise_kernels(x[rows], metric=metric)
                for ridge in self.ridges:
                    yield {
                        "kernel": name,
                        "ridge": ridge,
                        "size": size,
                        "change": _largest_change(gram, y[rows], size, ridge),
                        "bound": stability_bound(ridge, size, float(np.diag(gram).max()), 1.0),
                    }


def _largest_change(
    gram: Float[np.ndarray, "row row"], y: Float[np.ndarray, " row"], size: int, ridge: float
) -> float:
    """Return the largest change of (f(x) - y)² at a candidate, over all swaps."""
    before = gram[size:, :size] @ solved(gram[:size, :size], y[:size], ridge)
    changes = swap_changes(gram, y, size, ridge)
    return float(np.abs(changes * (2 * (before - y[size:]) + changes)).max())


# Which models, which samples, and how much is trained.

LR, CONVEX, MLP, MOMENTUM, CNN, CNN_MOMENTUM = (
    "logistic regression",
    "random features",
    "perceptron",
    "perceptron, momentum",
    "CNN",
    "CNN, momentum",
)
"""The kinds of training of the default, as figures and `-p model` name them."""

THEIRS_LR, THEIRS_1A, THEIRS_2A, THEIRS_2B = (
    "LR, MNIST",
    "1a: ResNet-20, SVHN",
    "2a: ResNet-20, CIFAR-10",
    "2b: ResNet-20, momentum",
)
"""Those of the thesis, at the presets `gpu` and `paper`."""


@dataclass(frozen=True)
class Kind:
    """A kind of training whose stability is measured: a model, and how it is trained."""

    name: str
    network: Network
    descent: Descent  # its steps are the second of three stops
    halves: bool = False  # whether it tells the lower half of the classes from the upper
    source: ImageSource | None = None  # images of its own

    @property
    def deep(self) -> bool:
        """Return whether its loss is not convex."""
        return not self.network.convex

    @property
    def stops(self) -> tuple[int, int, int]:
        """Return half the steps, the steps, and half as many again: the thesis' 50, 100 and 150 thousand."""
        steps = self.descent.steps
        return max(1, steps // 2), steps, steps + max(1, steps // 2)


KINDS = (
    Kind(LR, LogisticRegression(), Descent(0.1, 32, 4000), halves=True),
    Kind(CONVEX, RandomFeatures(1500), Descent(0.3, 32, 1000, momentum=0.9)),
    Kind(MLP, Perceptron((64, 64)), Descent(0.1, 32, 2500)),
    Kind(MOMENTUM, Perceptron((64, 64)), Descent(0.1, 32, 2500, momentum=0.9)),
    Kind(CNN, SmallCNN((16, 32)), Descent(0.5, 32, 400)),
    Kind(CNN_MOMENTUM, SmallCNN((16, 32)), Descent(0.1, 32, 400, momentum=0.9)),
)

TINY_KINDS = (
    Kind(LR, LogisticRegression(), Descent(0.1, 32, 20), halves=True),
    Kind(CONVEX, RandomFeatures(100), Descent(0.3, 32, 10, momentum=0.9)),
    Kind(MLP, Perceptron((16,)), Descent(0.1, 32, 20)),
    Kind(MOMENTUM, Perceptron((16,)), Descent(0.1, 32, 20, momentum=0.9)),
    Kind(CNN_MOMENTUM, SmallCNN((4, 8)), Descent(0.1, 32, 10, momentum=0.9)),
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
    swap_descent: Descent = Descent(0.1, 16, 400)
    swaps_drawn: tuple[int, ...] = (10, 40, 90)  # the thesis draws 40, and 90 for logistic regression
    ridge_sizes: tuple[int, ...] = (32, 128, 512)
    ridges: tuple[float, ...] = (1e-3, 1e-2, 1e-1)  # λ

    def __post_init__(self) -> None:
        """Refuse what no exponent can be estimated from, and seeds without an interval."""
        super().__post_init__()
        check_sizes(self.sizes)
        for kind in self.kinds:
            for size in self.sizes:
                check_sample(size, self.source_of(kind).pool, kind.descent.batch)

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Each seed has an initialisation, an order and pairs of its own."""
        return tuple(range(self.first_seed, self.first_seed + self.seeds))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sample sizes m."""
        return (
            self.preset_sizes
            if self.largest is None
            else tuple(self.largest // part for part in (8, 4, 2, 1))
        )

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The preset's, or the one that was asked for, with the steps, rate and momentum that were."""
        if self.model is not None:
            choose("model", self.model, [kind.name for kind in self.preset_kinds])
        kinds = (kind for kind in self.preset_kinds if self.model in (None, kind.name))
        given = {name: v for name in ("steps", "lr", "momentum") if (v := getattr(self, name)) is not None}
        return tuple(replace(kind, descent=replace(kind.descent, **given)) for kind in kinds)

    def source_of(self, kind: Kind) -> ImageSource:
        """Return the images of a kind."""
        return self._asked_for(kind.source or replace(self.source, halves=kind.halves))

    def training(self, kind: Kind, size: int) -> TwinTraining:
        """Return all twins of a kind and a size."""
        descent, paths = replace(kind.descent, steps=kind.stops[-1]), min(self.paths, self.pairs)
        about = self.source_of(kind), kind.network, descent, size, self.pairs, self.all_seeds
        return TwinTraining(*about, kind.stops, paths)

    @property
    def all_swaps(self) -> list[AllSwaps]:
        """Logistic regressions on every swap."""
        swaps = self.swap_descent, self.swap_candidates, self.swaps_drawn
        return [AllSwaps(self._halves, swaps[0], m, *swaps[1:], self.first_seed) for m in self.swap_sizes]

    @property
    def ridge_swaps(self) -> RidgeSwaps:
        """Ridge regression on every swap."""
        return RidgeSwaps(self._halves, self.ridge_sizes, self.ridges, self.swap_candidates, self.first_seed)

    @property
    def _halves(self) -> ImageSource:
        return self._asked_for(replace(self.source, halves=True))

    def _asked_for(self, source: ImageSource) -> ImageSource:
        """Return the images that a reader asked for in the place of a source."""
        return source if self.data is None else replace(source, name=self.data).known()


SVHN = ImageSource("ufldl-stanford/svhn:cropped_digits", 73_257, 10_000, shape=(3, 32, 32))
CIFAR = ImageSource("uoft-cs/cifar10", 50_000, 10_000, shape=(3, 32, 32))
MNIST = ImageSource("ylecun/mnist", 60_000, 10_000, halves=True, shape=(1, 28, 28))

DROPS = ((32_000, 0.01), (48_000, 0.001))

PAPER_KINDS = (
    Kind(THEIRS_LR, LogisticRegression(), Descent(0.1, 128, 100_000), True, MNIST),
    Kind(THEIRS_1A, ResNet20(), Descent(0.01, 32, 100_000), source=SVHN),
    Kind(THEIRS_2A, ResNet20(), Descent(0.1, 128, 100_000, drops=DROPS), source=CIFAR),
    Kind(
        THEIRS_2B,
        ResNet20(),
        Descent(0.1, 128, 100_000, momentum=0.9, drops=DROPS),
        source=CIFAR,
    ),
)
"""The thesis' own; its samples above half of the pool are left out."""


def _shortened(kind: Kind, share: float) -> Kind:
    """Return a kind of fewer steps, whose rate falls as early in them."""
    descent = kind.descent
    drops = tuple((round(step * share), lr) for step, lr in descent.drops)
    return replace(kind, descent=replace(descent, steps=round(descent.steps * share), drops=drops))


_PAPER = StabilityConfig(
    "paper", pairs=40, seeds=3, preset_sizes=(15_000, 20_000, 25_000), paths=10, preset_kinds=PAPER_KINDS
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
            swap_descent=Descent(0.1, 8, 30),
            swaps_drawn=(10,),
            ridge_sizes=(16, 32),
        ),
        StabilityConfig("laptop", pairs=3, seeds=3, preset_sizes=(80, 160, 640), swap_candidates=60),
        StabilityConfig("laptop-long"),
        replace(
            _PAPER,
            name="gpu",
            pairs=5,
            seeds=2,
            preset_sizes=(5000, 10_000, 20_000, 25_000),
            paths=2,
            preset_kinds=tuple(_shortened(kind, 0.1) for kind in PAPER_KINDS),
        ),
        _PAPER,
    )
}
"""`gpu` and `paper` were never run; `gpu` takes 0.9 hours of an H200 by arithmetic (8.4e16 operations)."""
