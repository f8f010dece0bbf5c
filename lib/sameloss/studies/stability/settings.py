"""Which models, which samples, and how much is trained."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sameloss.checks import check_counts
from sameloss.images import ImageSource
from sameloss.studies.parameters import MOST_SEEDS, OF_EVERY_PAGE, OWN_LIMITS, Limits, Parameter, choose
from sameloss.studies.stability.decay import check_sizes
from sameloss.studies.stability.exact import AllSwaps, RidgeSwaps
from sameloss.studies.stability.networks import (
    LogisticRegression,
    Network,
    Perceptron,
    RandomFeatures,
    ResNet20,
    SmallCNN,
)
from sameloss.studies.stability.runs import TwinTraining
from sameloss.studies.stability.stacked import Descent
from sameloss.studies.stability.twins import check_sample

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


@dataclass(frozen=True)
class SwapSettings:
    """Small problems all of whose swaps are computed."""

    sizes: tuple[int, ...]
    candidates: int  # test images that replace an example
    descent: Descent
    drawn: tuple[int, ...]  # numbers of random swaps; the thesis draws 40, and 90 for logistic regression
    ridge_sizes: tuple[int, ...]
    ridges: tuple[float, ...]  # λ


@dataclass(frozen=True)
class StabilitySettings:
    """Everything that decides the runs."""

    source: ImageSource
    sizes: tuple[int, ...]  # m
    pairs: int  # of a seed
    seeds: int
    paths: int  # so many pairs of a seed, at most, have their path measured
    kinds: tuple[Kind, ...]
    swaps: SwapSettings
    first_seed: int = 100  # the pilot's were below

    def __post_init__(self) -> None:
        """Refuse what no exponent can be estimated from, and seeds without an interval."""
        check_counts(self, "pairs", "seeds")
        check_sizes(self.sizes)
        for kind in self.kinds:
            for size in self.sizes:
                check_sample(size, self.source_of(kind).pool, kind.descent.batch)

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Return the seeds: each has an initialisation, an order and pairs of its own."""
        return tuple(range(self.first_seed, self.first_seed + self.seeds))

    def source_of(self, kind: Kind) -> ImageSource:
        """Return the images of a kind."""
        return kind.source or replace(self.source, halves=kind.halves)

    def training(self, kind: Kind, size: int) -> TwinTraining:
        """Return all twins of a kind and a size."""
        descent = replace(kind.descent, steps=kind.stops[-1])
        source, paths = self.source_of(kind), min(self.paths, self.pairs)
        return TwinTraining(
            source, kind.network, descent, size, self.pairs, self.all_seeds, kind.stops, paths
        )

    @property
    def all_swaps(self) -> list[AllSwaps]:
        """Return logistic regressions on every swap."""
        s, source = self.swaps, replace(self.source, halves=True)
        return [AllSwaps(source, s.descent, m, s.candidates, s.drawn, self.first_seed) for m in s.sizes]

    @property
    def ridge_swaps(self) -> RidgeSwaps:
        """Return ridge regression on every swap."""
        s, source = self.swaps, replace(self.source, halves=True)
        return RidgeSwaps(source, s.ridge_sizes, s.ridges, s.candidates, self.first_seed)


@dataclass(frozen=True)
class Settings:
    """A preset of the page."""

    name: str
    stability: StabilitySettings
    limits: Limits = OWN_LIMITS
    tolerance: float | None = None  # of all verdicts; None: each claim's own


SWAPS = SwapSettings((32, 64), 120, Descent(0.1, 16, 400), (10, 40, 90), (32, 128, 512), (1e-3, 1e-2, 1e-1))

LONG = StabilitySettings(
    source=ImageSource(),
    sizes=(80, 160, 320, 640),
    pairs=6,
    seeds=15,
    paths=2,
    kinds=(
        Kind(LR, LogisticRegression(), Descent(0.1, 32, 4000), halves=True),
        Kind(CONVEX, RandomFeatures(1500), Descent(0.3, 32, 1000, momentum=0.9)),
        Kind(MLP, Perceptron((64, 64)), Descent(0.1, 32, 2500)),
        Kind(MOMENTUM, Perceptron((64, 64)), Descent(0.1, 32, 2500, momentum=0.9)),
        Kind(CNN, SmallCNN((16, 32)), Descent(0.5, 32, 400)),
        Kind(CNN_MOMENTUM, SmallCNN((16, 32)), Descent(0.1, 32, 400, momentum=0.9)),
    ),
    swaps=SWAPS,
)

LAPTOP = replace(LONG, sizes=(80, 160, 640), pairs=4, seeds=3, swaps=replace(SWAPS, candidates=60))
"""Fewer sizes, pairs and seeds."""

SMOKE = replace(
    LAPTOP,
    sizes=(40, 80, 160),
    pairs=2,
    seeds=2,
    paths=1,
    kinds=(
        Kind(LR, LogisticRegression(), Descent(0.1, 32, 20), halves=True),
        Kind(CONVEX, RandomFeatures(100), Descent(0.3, 32, 10, momentum=0.9)),
        Kind(MLP, Perceptron((16,)), Descent(0.1, 32, 20)),
        Kind(MOMENTUM, Perceptron((16,)), Descent(0.1, 32, 20, momentum=0.9)),
        Kind(CNN_MOMENTUM, SmallCNN((4, 8)), Descent(0.1, 32, 10, momentum=0.9)),
    ),
    swaps=replace(
        SWAPS, sizes=(16,), candidates=10, descent=Descent(0.1, 8, 30), drawn=(10,), ridge_sizes=(16, 32)
    ),
)

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


GPU = replace(
    LONG,
    sizes=(5000, 10_000, 20_000, 25_000),
    pairs=5,
    seeds=2,
    paths=2,
    kinds=tuple(_shortened(kind, 0.1) for kind in PAPER_KINDS),
)
"""0.9 hours of an H200 by arithmetic, 8.4e16 operations at two fifths of its single precision: never run."""

PAPER = replace(LONG, sizes=(15_000, 20_000, 25_000), pairs=40, seeds=3, paths=10, kinds=PAPER_KINDS)

PRESETS = {
    "smoke": Settings("smoke", SMOKE),
    "laptop": Settings("laptop", LAPTOP),
    "laptop-long": Settings("laptop-long", LONG),
    "gpu": Settings("gpu", GPU),
    "paper": Settings("paper", PAPER),
}

PARAMETERS: dict[str, Parameter] = {
    **OF_EVERY_PAGE,
    "model": Parameter("one of the preset's alone; None: all", str | None),
    "data": Parameter(
        "a data set on the hub (name, or name:part), or a local folder of one; None: the preset's", str | None
    ),
    "pairs": Parameter(
        "of twins, of each seed; None: the preset's", int | None, sets=("stability.pairs",), most=1000
    ),
    "seeds": Parameter(
        "of initialisation, order and pairs; None: the preset's",
        int | None,
        sets=("stability.seeds",),
        least=2,
        most=MOST_SEEDS,
        example="8",
    ),
    "steps": Parameter("of the second of three stops; None: each model's own", int | None),
    "lr": Parameter("learning rate; None: each model's own", float | None),
    "momentum": Parameter(
        "of gradient descent; None: each model's own", float | None, may_be_zero=True, most=0.999
    ),
    "largest": Parameter(
        "sample, m; smaller ones are a half, a quarter, an eighth; None: the preset's", int | None
    ),
    "tolerance": Parameter(
        "relative, of all verdicts; None: each claim's own", float | None, sets=("tolerance",)
    ),
}


def finished(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return the settings with what a reader asked of the models and the images.

    Raises:
        ParameterError: for a model that the preset has not, or samples that cannot be.

    """
    found = settings.stability
    if (name := values.get("model")) is not None:
        choose("model", name, [kind.name for kind in found.kinds])
        found = replace(found, kinds=tuple(kind for kind in found.kinds if kind.name == name))
    asked = {name: own for name in ("steps", "lr", "momentum") if (own := values.get(name)) is not None}
    kinds = tuple(replace(kind, descent=replace(kind.descent, **asked)) for kind in found.kinds)
    found = replace(found, kinds=kinds)
    if (largest := values.get("largest")) is not None:
        found = replace(found, sizes=tuple(largest // share for share in (8, 4, 2, 1)))
    if (data := values.get("data")) is not None:
        found = _of_other_images(found, data)
    return replace(settings, stability=found)


def _of_other_images(found: StabilitySettings, name: str) -> StabilitySettings:
    """Return the settings with another data set in the place of every kind's own."""
    source = replace(found.source, name=name).known()
    kinds = tuple(
        replace(kind, source=kind.source and replace(kind.source, name=name)) for kind in found.kinds
    )
    return replace(found, source=source, kinds=kinds)
