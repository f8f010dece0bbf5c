"""The configuration of this study and its stored runs: networks beside their kernels, lazy training."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from sameloss.checks import check_counts
from sameloss.device import best_device
from sameloss.errors import ParameterError
from sameloss.images import ImageSource
from sameloss.runs.frames import TABLE, Tabled
from sameloss.seeds import generator_for
from sameloss.store.store import Report, Store
from sameloss.studies.config import Config, param
from sameloss.studies.local_signal_images.backgrounds import (
    ANY_CORNER,
    ANYWHERE,
    PLACEMENTS,
    Sample,
    Scene,
    composed,
)
from sameloss.studies.local_signal_images.kernels import (
    all_linear_outputs,
    check_ridge,
    chosen,
    fits,
    tangent_kernel,
    train_linearised,
)
from sameloss.studies.local_signal_images.published import AMONG_ANIMALS, GAUSSIAN, Setting
from sameloss.studies.local_signal_images.training import (
    LogisticDescent,
    LogitNetwork,
    PooledCNN,
    Weights,
    WideResNet,
    accuracy,
    active_shares,
    outputs,
    train,
)
from sameloss.studies.parameters import MOST_SEEDS

# The stored steps of this study: a network beside its tangent kernel, and a network in lazy training.

NETWORK, GCV, BEST, AFTER, LINEARISED, PIXELS, CHANCE = (
    "network",
    "NTK, GCV",
    "NTK, best λ",
    "trained kernel",
    "linearised",
    "pixels",
    "chance",
)
"""What predicts: the network; its tangent kernel at first, with λ by cross-validation and with the λ that is
best on the test set; that of the trained parameters; the linearised network, trained; ridge regression of
pixels; always the same answer."""

ACCURACY, TRAINED, RIDGE, BEFORE, ACTIVE = (
    "accuracy",
    "own accuracy",
    "ridge",
    "active before",
    "active after",
)
"""What is measured: shares of test images and of the sample; λ over the mean eigenvalue; active neurons."""

LINEAR_EFFORT = 2
"""A step of the linearised network takes so many of the network's."""

Row = tuple[str, str, float]


@dataclass(frozen=True)
class KernelFit:
    """How a kernel is computed and solved; part of a run's key."""

    ridges: tuple[float, ...] = tuple(
        10.0 ** (half / 2) for half in range(-12, 5)
    )  # λ over the mean eigenvalue
    chunk: int = 50  # images whose gradients are computed at once
    trained: bool = True  # whether the kernel at the trained parameters is solved, too

    def __post_init__(self) -> None:
        """Refuse no λ, or a negative one.

        Raises:
            ParameterError: in one sentence.

        """
        check_counts(self, "chunk")
        if not self.ridges:
            raise ParameterError("Ridge regression needs at least one λ; got none.")
        for ridge in self.ridges:
            check_ridge(ridge)


@dataclass(frozen=True)
class Trial(Tabled):
    """What all runs of this study share: images, their surroundings, a network and its training."""

    source: ImageSource
    scene: Scene
    network: LogitNetwork
    descent: LogisticDescent
    examples: int  # of the sample
    seed: int  # of sample, places, backgrounds, initialisation and order

    def __post_init__(self) -> None:
        """Refuse what cannot be composed."""
        check_counts(self, "examples")
        self.scene.check_fits(self.source.shape)
        if self.examples > self.source.pool:
            raise ParameterError(
                f"There are {self.source.pool} images to train on; {self.examples} were asked for."
            )

    @property
    def channels(self) -> int:
        """Return the channels of an image."""
        return self.source.shape[0]

    def begin(self) -> tuple[Sample, nn.Module, Weights]:
        """Return images on backgrounds, the network and its first parameters, on the device that computes."""
        device = best_device()
        sample = composed(self.source.load(), self.scene, self.examples, self.seed).to(device)
        drawn = self.network.drawn(self.channels, self.seed, sample.logits)
        model = self.network.build(self.channels, sample.logits).to(device)
        return sample, model, {name: own.to(device) for name, own in drawn.items()}

    def order(self) -> torch.Generator:
        """Begin the order of visits."""
        return generator_for("order of visits", self.seed)

    @property
    def training_effort(self) -> float:
        """Return a rough number of seconds of a training, of one core."""
        products = 3 * self.network.products(self.channels, self.scene.side)
        return self.descent.steps * (1e-3 + 3e-11 * self.descent.batch * products)


@dataclass(frozen=True)
class ImageComparison(Trial):
    """A network beside its tangent kernel, on one sample.

    Its table has a row a `measure`, what it is `of` (a predictor, or a layer), and its `value`.
    """

    kernel: KernelFit | None = None  # None: it is not solved
    linear: LogisticDescent | None = None  # of the linearised network; None: it is not trained

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train, solve, and test."""
        sample, model, start = self.begin()
        trained = train(model, start, sample.x, sample.y, self.descent, self.order())
        report(0.5, f"noise {self.scene.noise:g}")
        rows = [
            *_network(model, start, trained, sample),
            *self._kernels(model, start, trained, sample),
            *self._linearised(model, start, sample),
            (ACCURACY, CHANCE, sample.chance),
        ]
        pd.DataFrame(rows, columns=["measure", "of", "value"]).to_csv(folder / TABLE, index=False)

    def _kernels(self, model: nn.Module, start: Weights, trained: Weights, sample: Sample) -> Iterator[Row]:
        if self.kernel is None:
            return
        if sample.logits > 1:
            raise ParameterError(
                f"A kernel is solved for two classes; of {sample.logits} the linearised network is trained."
            )
        fit = self.kernel
        x, size = torch.cat([sample.x, sample.tested]), len(sample.x)
        kernel = tangent_kernel(model, start, x, size, fit.chunk)
        yield from _solved(kernel, outputs(model, start, x), sample, fit.ridges, GCV, BEST)
        if fit.trained:
            kernel = tangent_kernel(model, trained, x, size, fit.chunk)
            yield from _solved(kernel, torch.zeros(len(x)).to(x), sample, fit.ridges, AFTER)
        flat = x.flatten(1).double()
        pixels = flat @ flat[:size].T / flat.shape[1] + 1  # with an intercept
        yield from _solved(pixels, torch.zeros(len(x)).to(x), sample, fit.ridges, PIXELS)

    def _linearised(self, model: nn.Module, start: Weights, sample: Sample) -> Iterator[Row]:
        if self.linear is None:
            return
        change = train_linearised(model, start, sample.x, sample.y, self.linear, self.order())
        for measure, x, y in ((ACCURACY, sample.tested, sample.answers), (TRAINED, sample.x, sample.y)):
            yield measure, LINEARISED, accuracy(all_linear_outputs(model, start, change, x), y)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds, of one core."""
        total, images = self.training_effort, self.examples + self.source.tested
        if self.kernel is not None:
            products = self.network.parameters(self.channels) * images * self.examples
            solved = 2e-11 * products + 1.5e-9 * self.examples**3
            total += (1 + self.kernel.trained) * (solved + 3e-4 * images)
        if self.linear is not None:
            total += LINEAR_EFFORT * self.training_effort * self.linear.steps / self.descent.steps
        return total


def _network(model: nn.Module, start: Weights, trained: Weights, sample: Sample) -> Iterator[Row]:
    """Return accuracies of the trained network, and its active neurons."""
    yield ACCURACY, NETWORK, accuracy(outputs(model, trained, sample.tested), sample.answers)
    yield TRAINED, NETWORK, accuracy(outputs(model, trained, sample.x), sample.y)
    for measure, weights in ((BEFORE, start), (ACTIVE, trained)):
        for layer, share in enumerate(active_shares(model, weights, sample.tested), 1):
            yield measure, f"layer {layer}", share


def _solved(
    kernel: Tensor,
    first: Tensor,
    sample: Sample,
    ridges: tuple[float, ...],
    name: str,
    best: str | None = None,
) -> Iterator[Row]:
    """Return the accuracy with the λ of cross-validation, and if asked for that with the best one."""
    found = fits(kernel, first, sample.y, ridges)
    own = chosen(found)
    yield ACCURACY, name, accuracy(own.outputs, sample.answers)
    yield RIDGE, name, own.ridge
    if best is not None:
        yield ACCURACY, best, max(accuracy(fit.outputs, sample.answers) for fit in found)


@dataclass(frozen=True)
class LazyTraining(Trial):
    """A network whose output is scaled up, so that its parameters hardly move (Chizat et al. 2019).

    Its table has a row a `scale`: the `accuracy` on the test set, `own accuracy` on the sample, how far
    parameters `moved`, over the norm of the first ones, and in all rows the same the `limit`: the accuracy of
    the linearised network after the same training.
    """

    scales: tuple[float, ...] = (1.0,)  # α

    def __post_init__(self) -> None:
        """Refuse scales that are none.

        Raises:
            ParameterError: in one sentence.

        """
        super().__post_init__()
        if not self.scales or min(self.scales) <= 0:
            raise ParameterError(f"Lazy training needs positive scales of the output; got {self.scales}.")

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train once a scale."""
        rows = []
        for at, scale in enumerate(self.scales, 1):
            rows.append(self._row(scale))
            report(at / (len(self.scales) + LINEAR_EFFORT), f"scale {scale:g}")
        pd.DataFrame(rows).assign(limit=self._limit()).to_csv(folder / TABLE, index=False)

    def _limit(self) -> float:
        """Return the accuracy of the linearised network after the same training."""
        sample, model, start = self.begin()
        change = train_linearised(model, start, sample.x, sample.y, self.descent, self.order(), centred=True)
        found = all_linear_outputs(model, start, change, sample.tested) - outputs(model, start, sample.tested)
        return accuracy(found, sample.answers)

    def _row(self, scale: float) -> dict[str, float]:
        sample, model, start = self.begin()
        trained = train(model, start, sample.x, sample.y, self.descent, self.order(), scale)

        def change(x: Tensor) -> Tensor:
            return outputs(model, trained, x) - outputs(model, start, x)

        return {
            "scale": scale,
            ACCURACY: accuracy(change(sample.tested), sample.answers),
            TRAINED: accuracy(change(sample.x), sample.y),
            "moved": _norm({name: trained[name] - own for name, own in start.items()}) / _norm(start),
        }

    @property
    def effort(self) -> float:
        """Return a rough number of seconds, of one core."""
        return self.training_effort * (len(self.scales) + LINEAR_EFFORT)


def _norm(weights: Weights) -> float:
    return float(torch.cat([own.flatten() for own in weights.values()]).norm())


# Which images in which noise, which networks, and how much is trained.


@dataclass(frozen=True)
class Lazy:
    """Training that is made lazy step by step."""

    scales: tuple[float, ...]  # α
    noise: float  # σ of the backgrounds; one that is compared, too
    descent: LogisticDescent


@dataclass(frozen=True)
class Widths:
    """Narrower networks beside the page's own, each with its kernel."""

    divisors: tuple[int, ...]  # of the channels, the largest first
    noise: float  # σ of the backgrounds; one that is compared, too


ANIMALS = (2, 3, 4, 5, 6, 7)
"""Classes of CIFAR-10 that CIFAR-2 tells from vehicles."""

CIFAR_10 = ImageSource("uoft-cs/cifar10", 50_000, 10_000, shape=(3, 32, 32))

CIFAR_2 = replace(CIFAR_10, second=ANIMALS)

CIFAR_ANIMALS = replace(CIFAR_10, pool=30_000, tested=6_000, only=ANIMALS)

CIFAR_VEHICLES = replace(CIFAR_10, pool=20_000, tested=4_000, only=(0, 1, 8, 9))

HALVES, ALL, VEHICLES = CLASSES = ("halves", "all", "vehicles")
"""What is told apart: the two halves of the classes; every class; CIFAR-10's vehicles, among its animals."""

FADED = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The thesis' scales of pictures (Section 3.2)."""

EPOCH = 50_000


@dataclass(frozen=True)
class ImageConfig(Config):
    """Which images in which noise, which networks, how much is trained, and what a reader can set of it.

    By default 8-on-16, and 4-on-8. At the thesis' most noise, 2, the pilot (seed 0) had its kernel at chance,
    and its network not far above it, where little can be compared; so the noise ends at 1.
    """

    data: str | None = param(
        "on the hub (name, or name:part), or a folder; classes in two halves; None: the preset's", kind=str
    )
    backgrounds: str | None = param(
        "a data set or folder of pictures in the place of Gaussian noise; None: noise", kind=str
    )
    classes: str | None = param(
        f"told apart: {', '.join(CLASSES)} (of CIFAR-10, among animals); None: {HALVES}",
        kind=str,
        choices=CLASSES,
    )
    placement: str | None = param(
        f"{', '.join(PLACEMENTS)}: of the page's figures; None: {ANYWHERE}", kind=str, choices=PLACEMENTS
    )
    examples: int = param("to train on; None: the preset's", 800, most=1_000_000)
    noise: float | None = param(
        "the most; others are 0, a quarter and a half of it; None: the preset's", kind=float
    )
    seeds: int = param(
        "of samples, backgrounds and trainings; None: the preset's",
        15,
        least=2,
        most=MOST_SEEDS,
        example="8",
    )
    steps: int | None = param("of each training; None: the preset's")
    lr: float | None = param("learning rate of the network; None: the preset's", kind=float)
    tolerance: float | None = param("relative, of all verdicts; None: each claim's own", kind=float)
    source: ImageSource = ImageSource(halves=True)
    network: LogitNetwork = PooledCNN()
    descent: LogisticDescent = LogisticDescent(3e-3, 64, 500)
    noises: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0)  # σ, the least first; images have 1
    sizes: tuple[tuple[int, int], ...] = (
        (1, 16),
        (2, 8),
    )  # pixels that become one, and side of the background
    placements: tuple[str, ...] = PLACEMENTS
    kernel: KernelFit | None = KernelFit()
    linear: LogisticDescent | None = None
    lazy: Lazy | None = Lazy((1.0, 10.0, 100.0), 0.5, LogisticDescent(0.2, 64, 500, "SGD"))
    widths: Widths | None = Widths((4, 2), 0.5)
    every: bool = True  # whether all placements and sizes are measured at every noise, or at the ends
    theirs: Setting | None = None  # the row of Table 3.1 whose data and network these are
    pictures: ImageSource | None = None  # backgrounds in the place of Gaussian noise
    tiles: int = 1  # pictures in a row of a background
    first_seed: int = 100  # the pilot's were below

    def __post_init__(self) -> None:
        """Refuse noises that nothing could be compared of."""
        super().__post_init__()
        if len(self.noises) < 2 or list(self.noises) != sorted(set(self.noises)):
            raise ParameterError(f"Noises must be at least two, and grow; got {self.noises}.")

    def resolve(self, values: Mapping[str, Any]) -> Any:
        """Return what a reader asked of images, noise, placement and training.

        Raises:
            ParameterError: for images that cannot be fetched, or vehicles among other images.

        """
        found = super().resolve(values)
        if found.data is not None:
            found = replace(found, theirs=None, source=_halves(found.source, found.data))
        if found.classes == ALL:
            found = _every_class(found)
        elif found.classes == VEHICLES:
            found = _vehicles(found)
        if found.backgrounds is not None:
            pictures = _pictures(found.source, found.backgrounds)
            found = replace(found, theirs=None, pictures=pictures, tiles=1, noises=FADED)
        if found.noise is not None:
            lazy, widths = (own and replace(own, noise=found.noise / 2) for own in (found.lazy, found.widths))
            noises = (0.0, found.noise / 4, found.noise / 2, found.noise)
            found = replace(found, theirs=None, noises=noises, lazy=lazy, widths=widths)
        if found.placement is not None:
            others = (other for other in found.placements if other != found.placement)
            found = replace(found, placements=(found.placement, *others))
        return _trained(found)

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Return the seeds: each has a sample, backgrounds, an initialisation and an order of its own."""
        return tuple(range(self.first_seed, self.first_seed + self.seeds))

    @property
    def scenes(self) -> list[Scene]:
        """Return what surrounds images: the first placement and size in every noise, others at its ends."""
        first, *others = self._surroundings
        ends = self.noises if self.every else (self.noises[0], self.noises[-1])
        of_first = [self.scene(*first, noise) for noise in self.noises]
        return of_first + [self.scene(*other, noise) for other in others for noise in ends]

    @property
    def _surroundings(self) -> list[tuple[str, tuple[int, int]]]:
        """Return the first size in every placement, and others in the first, or in all."""
        first, *others = self.sizes
        placements = self.placements if self.every else self.placements[:1]
        return [(p, first) for p in self.placements] + [(p, size) for size in others for p in placements]

    def scene(self, placement: str, size: tuple[int, int], noise: float) -> Scene:
        """Return one of them."""
        shrunk, side = size
        return Scene(placement, side, noise, shrunk, self.pictures, self.tiles)

    def comparison(self, scene: Scene, seed: int) -> ImageComparison:
        """Return a network beside its kernel; the trained one's only at the first placement and size."""
        kernel = self.kernel
        if kernel is not None:
            main = (scene.placement, scene.shrunk) == (self.placements[0], self.sizes[0][0])
            kernel = replace(kernel, trained=kernel.trained and main)
        about = self.source, scene, self.network, self.descent, self.examples, seed
        return ImageComparison(*about, kernel, self.linear)

    def lazy_training(self, seed: int) -> LazyTraining:
        """Return a network in lazy training, of the sample and the first parameters that are compared."""
        assert self.lazy is not None
        scene = self.scene(self.placements[0], self.sizes[0], self.lazy.noise)
        about = self.source, scene, self.network, self.lazy.descent, self.examples, seed
        return LazyTraining(*about, self.lazy.scales)

    def of_widths(self, seed: int) -> list[ImageComparison]:
        """Return networks of several widths beside their kernels, the narrowest first, the own last."""
        if self.widths is None:
            return []
        scene = self.scene(self.placements[0], self.sizes[0], self.widths.noise)
        own = self.comparison(scene, seed)
        kernel = own.kernel and replace(own.kernel, trained=False)
        networks = [self.network.narrowed(divisor) for divisor in self.widths.divisors]
        return [*(replace(own, network=network, kernel=kernel) for network in networks), own]


def _epochs(epochs: int, batch: int, drops: tuple[int, ...], **how: Any) -> LogisticDescent:
    """Return a training of whole epochs of CIFAR, whose rate falls after some of 200."""
    return LogisticDescent(
        batch=batch, steps=epochs * EPOCH // batch, drops=tuple(d / 200 for d in drops), **how
    )


_GPU = ImageConfig(
    "gpu",
    source=CIFAR_2,
    network=WideResNet(2),
    descent=_epochs(30, 128, (80, 100, 120), lr=0.1, optimiser="SGD", decay=5e-4),
    examples=EPOCH,
    noises=(0.0, 0.5, 1.0, 2.0),
    sizes=((2, 32),),
    placements=PLACEMENTS[:2],
    seeds=2,
    kernel=None,
    linear=_epochs(30, 50, (140, 170), lr=1e-3),
    lazy=None,
    widths=None,
    theirs=GAUSSIAN,
)
"""The thesis' own, shorter: CIFAR-2 on Gaussian noise, WRN-10 and its linearisation. Never run."""

PRESETS = {
    "smoke": ImageConfig(
        "smoke",
        network=PooledCNN((4, 8, 8)),
        descent=LogisticDescent(3e-3, 32, 16),
        examples=80,
        noises=(0.0, 0.5),
        seeds=2,
        lazy=Lazy((1.0, 100.0), 0.5, LogisticDescent(0.2, 32, 16, "SGD")),
        widths=Widths((2,), 0.5),
        every=False,
    ),
    "laptop": ImageConfig(
        "laptop",
        descent=LogisticDescent(3e-3, 64, 350),
        examples=500,
        noises=(0.0, 0.5, 1.0),
        seeds=3,
        lazy=Lazy((1.0, 10.0, 100.0), 0.5, LogisticDescent(0.2, 64, 350, "SGD")),
        widths=Widths((4,), 0.5),
        every=False,
    ),
    "laptop-long": ImageConfig("laptop-long"),
    "gpu": _GPU,
    # 20 to 30 hours of an H200 a seed by arithmetic (8e18 operations): never run. The thesis has one seed.
    "paper": replace(
        _GPU,
        name="paper",
        network=WideResNet(10),
        descent=_epochs(200, 128, (80, 100, 120), lr=0.1, optimiser="SGD", decay=5e-4),
        linear=_epochs(200, 50, (140, 170), lr=1e-3),
        sizes=((2, 32), (1, 64)),
        placements=PLACEMENTS,
    ),
}


def _every_class(found: ImageConfig) -> ImageConfig:
    """Tell every class apart, by a logit each: what stands for the kernel is the network linearised."""
    descent = found.descent
    linear = found.linear or LogisticDescent(1e-3, descent.batch, descent.steps)
    source = replace(found.source, halves=False, second=None)
    return replace(found, source=source, theirs=None, kernel=None, linear=linear, lazy=None, widths=None)


def _vehicles(found: ImageConfig) -> ImageConfig:
    """Return the vehicles of CIFAR-10, each in a corner, with animals in the others.

    Raises:
        ParameterError: where other images were asked for.

    """
    if found.theirs is None or found.linear is None:
        raise ParameterError(
            "Vehicles among animals are images of CIFAR-10: choose the preset gpu or paper, and no `data`."
        )
    share = CIFAR_VEHICLES.pool / EPOCH
    shorter = [replace(own, steps=round(own.steps * share)) for own in (found.descent, found.linear)]
    return replace(
        found,
        source=CIFAR_VEHICLES,
        examples=min(found.examples, CIFAR_VEHICLES.pool),
        pictures=CIFAR_ANIMALS,
        tiles=2,
        noises=FADED,
        sizes=found.sizes[:1],
        placements=(ANY_CORNER,),
        descent=shorter[0],
        linear=shorter[1],
        theirs=AMONG_ANIMALS,
    )


def _trained(found: Any) -> Any:
    """Train for a reader's steps, at a reader's rate."""
    if (steps := found.steps) is not None:
        linear = found.linear and replace(found.linear, steps=steps)
        lazy = found.lazy and replace(found.lazy, descent=replace(found.lazy.descent, steps=steps))
        found = replace(found, descent=replace(found.descent, steps=steps), linear=linear, lazy=lazy)
    return found if found.lr is None else replace(found, descent=replace(found.descent, lr=found.lr))


def _halves(source: ImageSource, name: str) -> ImageSource:
    return replace(source, name=name, halves=True, second=None).known()


def _pictures(source: ImageSource, name: str) -> ImageSource:
    return replace(source, name=name, halves=False, second=None).known()
