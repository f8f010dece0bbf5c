"""Which models, which samples, and how much is trained."""

from dataclasses import dataclass, replace

from sameloss.images import ImageSource
from sameloss.studies.config import Config, param
from sameloss.studies.parameters import MOST_SEEDS, choose
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
        own = kind.source or replace(self.source, halves=kind.halves)
        return own if self.data is None else replace(own, name=self.data).known()

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
        source = self.source if self.data is None else replace(self.source, name=self.data).known()
        return replace(source, halves=True)


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
        StabilityConfig("laptop", pairs=4, seeds=3, preset_sizes=(80, 160, 640), swap_candidates=60),
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
