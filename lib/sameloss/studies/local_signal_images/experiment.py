"""The configuration of this study and its stored runs: networks beside their kernels, lazy training."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from sameloss.device import best_device
from sameloss.errors import ParameterError
from sameloss.images import ImageSource
from sameloss.runs.stage import TABLE, Tabled
from sameloss.seeds import generator_for
from sameloss.store.store import Report, Store
from sameloss.studies.local_signal_images.theory import (
    ANY_CORNER,
    ANYWHERE,
    PLACEMENTS,
    LogisticDescent,
    LogitNetwork,
    PooledCNN,
    Sample,
    Scene,
    Weights,
    WideResNet,
    accuracy,
    active_shares,
    composed,
    fits,
    network_size,
    outputs,
    tangent_kernel,
    train,
)
from sameloss.studies.parameters import MOST_SEEDS, Config, param

# The stored steps of this study: a network beside its tangent kernel, and a network in lazy training.


class Model:
    """What predicts, as tables of runs name it."""

    NETWORK = "network"
    GCV = "NTK, GCV"  # its tangent kernel at the first parameters, with λ by cross-validation
    BEST = "NTK, best λ"  # and with the λ that is best on the test set
    AFTER = "trained kernel"  # at the trained parameters
    LINEARISED = "linearised"  # network, trained
    PIXELS = "pixels"  # ridge regression of them
    CHANCE = "chance"  # always the same answer


class Measure:
    """What is measured, as tables of runs name it."""

    ACCURACY = "accuracy"  # share of test images
    TRAINED = "own accuracy"  # share of the sample
    RIDGE = "ridge"  # λ over the mean eigenvalue
    BEFORE, ACTIVE = "active before", "active after"  # training: shares of neurons


LINEAR_EFFORT = 2
"""A step of the linearised network takes so many of the network's."""

RIDGES = tuple(10.0 ** (half / 2) for half in range(-12, 5))


@dataclass(frozen=True)
class KernelFit:
    """How a kernel is computed and solved; part of a run's key."""

    ridges: tuple[float, ...] = RIDGES  # λ over the mean eigenvalue
    chunk: int = 50  # images whose gradients are computed at once
    trained: bool = True  # whether the kernel at the trained parameters is solved, too


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
        size = max(self.source.shape[1:]) // self.scene.shrunk
        if size > self.scene.side:
            raise ParameterError(
                f"An image of {size} pixels a side does not fit on a background of {self.scene.side}; choose "
                "a larger background."
            )
        if self.examples > self.source.pool:
            raise ParameterError(
                f"There are {self.source.pool} images to train on; {self.examples} were asked for."
            )

    def begin(self) -> tuple[Sample, nn.Module, Weights]:
        """Return images on backgrounds, the network and its first parameters, on the device that computes."""
        device, channels = best_device(), self.source.shape[0]
        *images, logits = composed(self.source.load(), self.scene, self.examples, self.seed)
        drawn = self.network.drawn(channels, self.seed, logits)
        model = self.network.build(channels, logits).to(device)
        sample = Sample._make([*(part.to(device) for part in images), logits])
        return sample, model, {name: weights.to(device) for name, weights in drawn.items()}

    def order(self) -> torch.Generator:
        """Begin the order of visits."""
        return generator_for("order of visits", self.seed)

    @property
    def size(self) -> tuple[int, float]:
        """Return the network's numbers of parameters and of multiplications an image."""
        return network_size(self.network, self.source.shape[0], self.scene.side)

    @property
    def training_effort(self) -> float:
        """Return a rough number of seconds of a training, of one core."""
        return self.descent.steps * (1e-3 + 3e-11 * self.descent.batch * 3 * self.size[1])


@dataclass(frozen=True)
class ImageComparison(Trial):
    """A network beside its tangent kernel, on one sample.

    Its table has a row a `measure`, what it is `of` (a predictor, or a layer), and its `value`.
    """

    kernel: KernelFit | None = None  # None: it is not solved
    linear: LogisticDescent | None = None  # of the linearised network; None: it is not trained

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train, solve, and test."""
        rows = pd.DataFrame(self._rows(report), columns=["measure", "of", "value"])
        rows.to_csv(folder / TABLE, index=False)

    def _rows(self, report: Report) -> Iterator[tuple[str, str, float]]:
        sample, model, start = self.begin()
        (x, y), (tested, answers) = (sample.x, sample.y), (sample.tested, sample.answers)
        trained = train(model, start, x, y, self.descent, self.order())
        report(0.5, f"noise {self.scene.noise:g}")
        yield Measure.ACCURACY, Model.NETWORK, accuracy(outputs(model, trained, tested), answers)
        yield Measure.TRAINED, Model.NETWORK, accuracy(outputs(model, trained, x), y)
        for measure, weights in ((Measure.BEFORE, start), (Measure.ACTIVE, trained)):
            for layer, share in enumerate(active_shares(model, weights, tested), 1):
                yield measure, f"layer {layer}", share
        if self.kernel is not None:
            for name, kernel, first in _kernels(model, start, trained, sample, self.kernel):
                fitted = fits(kernel, first, y, self.kernel.ridges)
                chosen = min(fitted, key=lambda fit: fit.score)
                yield Measure.ACCURACY, name, accuracy(chosen.outputs, answers)
                yield Measure.RIDGE, name, chosen.ridge
                if name == Model.GCV:
                    yield Measure.ACCURACY, Model.BEST, max(accuracy(fit.outputs, answers) for fit in fitted)
        if self.linear is not None:
            change = train(model, start, x, y, self.linear, self.order(), linear=True)
            yield Measure.ACCURACY, Model.LINEARISED, accuracy(outputs(model, change, tested, start), answers)
            yield Measure.TRAINED, Model.LINEARISED, accuracy(outputs(model, change, x, start), y)
        yield Measure.ACCURACY, Model.CHANCE, sample.chance

    @property
    def effort(self) -> float:
        """Return a rough number of seconds, of one core."""
        total, images = self.training_effort, self.examples + self.source.tested
        if self.kernel is not None:
            solved = 2e-11 * self.size[0] * images * self.examples + 1.5e-9 * self.examples**3
            total += (1 + self.kernel.trained) * (solved + 3e-4 * images)
        if self.linear is not None:
            total += LINEAR_EFFORT * self.training_effort * self.linear.steps / self.descent.steps
        return total


def _kernels(
    model: nn.Module, start: Weights, trained: Weights, sample: Sample, fit: KernelFit
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Return the name of each kernel, it of all images with the sample, and the function that it adds to."""
    x, size = torch.cat([sample.x, sample.tested]), len(sample.x)
    zero = torch.zeros(len(x)).to(x)
    yield Model.GCV, tangent_kernel(model, start, x, size, fit.chunk), outputs(model, start, x)
    if fit.trained:
        yield Model.AFTER, tangent_kernel(model, trained, x, size, fit.chunk), zero
    flat = x.flatten(1).double()
    yield Model.PIXELS, flat @ flat[:size].T / flat.shape[1] + 1, zero  # with an intercept


@dataclass(frozen=True)
class LazyTraining(Trial):
    """A network whose output is scaled up, so that its parameters hardly move (Chizat et al. 2019).

    Its table has a row a `scale`: the `accuracy` on the test set, `own accuracy` on the sample, how far
    parameters `moved`, over the norm of the first ones, and in all rows the same the `limit`: the accuracy of
    the linearised network after the same training.
    """

    scales: tuple[float, ...] = (1.0,)  # α

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train once a scale, and the linearised network."""
        sample, model, start = self.begin()
        training = model, start, sample.x, sample.y, self.descent
        first, tested = parameters_to_vector(start.values()), outputs(model, start, sample.tested)
        rows = []
        for at, scale in enumerate(self.scales, 1):
            trained = train(*training, self.order(), scale)
            change = outputs(model, trained, sample.tested) - tested
            of_sample = outputs(model, trained, sample.x) - outputs(model, start, sample.x)
            moved = parameters_to_vector(trained.values()) - first
            row = scale, accuracy(change, sample.answers), accuracy(of_sample, sample.y)
            rows.append((*row, float(moved.norm()) / float(first.norm())))
            report(at / (len(self.scales) + LINEAR_EFFORT), f"scale {scale:g}")
        linear = train(*training, self.order(), 1.0, linear=True)
        limit = accuracy(outputs(model, linear, sample.tested, start) - tested, sample.answers)
        table = pd.DataFrame(rows, columns=["scale", Measure.ACCURACY, Measure.TRAINED, "moved"])
        table.assign(limit=limit).to_csv(folder / TABLE, index=False)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds, of one core."""
        return self.training_effort * (len(self.scales) + LINEAR_EFFORT)


# Which images in which noise, which networks, and how much is trained.


class Setting(NamedTuple):
    """One row of Table 3.1: of the accuracy without noise, what is kept at most noise, in per cent."""

    name: str
    placement: str
    network: float
    kernel: float


AMONG_ANIMALS = Setting("CIFAR vehicles among animals", ANY_CORNER, 97.25, 76.37)
GAUSSIAN = Setting("CIFAR-2 on Gaussian noise", ANYWHERE, 96.83, 85.54)

ANIMALS = (2, 3, 4, 5, 6, 7)
"""Classes of CIFAR-10 that CIFAR-2 tells from vehicles."""

CIFAR_10 = ImageSource("uoft-cs/cifar10", 50_000, 10_000, shape=(3, 32, 32))

CIFAR_ANIMALS = replace(CIFAR_10, pool=30_000, tested=6_000, only=ANIMALS)

CIFAR_VEHICLES = replace(CIFAR_10, pool=20_000, tested=4_000, only=(0, 1, 8, 9))

HALVES, ALL, VEHICLES = CLASSES = ("halves", "all", "vehicles")
"""What is told apart: the two halves of the classes; every class; CIFAR-10's vehicles, among its animals."""

FADED = (0.0, 0.25, 0.5, 0.75, 1.0)
"""The thesis' scales of pictures (Section 3.2)."""

EPOCH = 50_000

LAZY_LR = 0.2
"""Learning rate of lazy training, by SGD."""


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
        "of samples, backgrounds and trainings; None: the preset's", 15, least=2, most=MOST_SEEDS, example="8"
    )
    steps: int | None = param("of each training; None: the preset's")
    lr: float | None = param("learning rate of the network; None: the preset's", kind=float)
    tolerance: float | None = param("relative, of all verdicts; None: each claim's own", kind=float)
    source: ImageSource = ImageSource(halves=True)
    network: LogitNetwork = PooledCNN()
    descent: LogisticDescent = LogisticDescent(3e-3, 64, 500)
    noises: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0)  # σ, the least first; images have 1
    sizes: tuple[tuple[int, int], ...] = ((1, 16), (2, 8))  # pixels that become one, side of the background
    placements: tuple[str, ...] = PLACEMENTS
    kernel: KernelFit | None = KernelFit()
    linear: LogisticDescent | None = None
    middle_noise: float = 0.5  # of lazy training and of widths; one of `noises`
    scales: tuple[float, ...] = (1.0, 10.0, 100.0)  # α of lazy training; empty: there is none
    narrower: tuple[LogitNetwork, ...] = (PooledCNN((4, 8, 8)), PooledCNN((8, 16, 16)))  # the narrowest first
    every: bool = True  # whether all placements and sizes are measured at every noise, or at the ends
    theirs: Setting | None = None  # the row of Table 3.1 whose data and network these are
    pictures: ImageSource | None = None  # backgrounds in the place of Gaussian noise
    tiles: int = 1  # pictures in a row of a background
    first_seed: int = 100  # the pilot's were below

    def resolve(self, values: Mapping[str, Any]) -> Any:
        """Return what a reader asked of images, noise, placement and training.

        Raises:
            ParameterError: for images that cannot be fetched, or vehicles among other images.

        """
        config = super().resolve(values)
        if config.data is not None:
            source = replace(config.source, name=config.data, halves=True, second=None).known()
            config = replace(config, theirs=None, source=source)
        if config.classes == ALL:
            config = _every_class(config)
        elif config.classes == VEHICLES:
            config = _vehicles(config)
        if config.backgrounds is not None:
            pictures = replace(config.source, name=config.backgrounds, halves=False, second=None).known()
            config = replace(config, theirs=None, pictures=pictures, tiles=1, noises=FADED)
        if (most := config.noise) is not None:
            noises = (0.0, most / 4, most / 2, most)
            config = replace(config, theirs=None, noises=noises, middle_noise=most / 2)
        if config.placement is not None:
            placements = dict.fromkeys((config.placement, *config.placements))
            config = replace(config, placements=tuple(placements))
        if (steps := config.steps) is not None:
            linear = config.linear and replace(config.linear, steps=steps)
            config = replace(config, descent=replace(config.descent, steps=steps), linear=linear)
        if config.lr is not None:
            config = replace(config, descent=replace(config.descent, lr=config.lr))
        return config

    @property
    def scenes(self) -> list[Scene]:
        """Return what surrounds images: the first placement and size in every noise, others at its ends.

        The first size is in every placement, others are in the first, or in all.
        """
        size, *others = self.sizes
        placements = self.placements if self.every else self.placements[:1]
        about = [(p, size) for p in self.placements] + [(p, other) for other in others for p in placements]
        ends = self.noises if self.every else (self.noises[0], self.noises[-1])
        return [
            self.scene(*surroundings, noise)
            for at, surroundings in enumerate(about)
            for noise in (ends if at else self.noises)
        ]

    def scene(self, placement: str, size: tuple[int, int], noise: float) -> Scene:
        """Return one of them."""
        shrunk, side = size
        return Scene(placement, side, noise, shrunk, self.pictures, self.tiles)

    def comparison(self, scene: Scene, seed: int) -> ImageComparison:
        """Return a network beside its kernel; the trained one's only at the first placement and size."""
        main = (scene.placement, scene.shrunk) == (self.placements[0], self.sizes[0][0])
        kernel = self.kernel and replace(self.kernel, trained=main)
        about = self.source, scene, self.network, self.descent, self.examples, seed
        return ImageComparison(*about, kernel, self.linear)

    def runs(self) -> dict[str, list[Trial]]:
        """Return the runs by the table that they make.

        Each seed has a sample, backgrounds, an initialisation and an order of its own. Lazy training and the
        widths (the narrowest first, the page's own last) have the samples that are compared at their noise.
        """
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        images = [self.comparison(scene, seed) for scene in self.scenes for seed in seeds]
        lazy, widths = [], []
        descent = replace(self.descent, lr=LAZY_LR, optimiser="SGD")
        for seed in seeds:
            run = self.comparison(self.scene(self.placements[0], self.sizes[0], self.middle_noise), seed)
            if self.scales:
                about = run.source, run.scene, run.network, descent, run.examples, seed
                lazy.append(LazyTraining(*about, self.scales))
            kernel = run.kernel and replace(run.kernel, trained=False)
            widths += [replace(run, network=network, kernel=kernel) for network in self.narrower]
            widths += [run] if self.narrower else []
        return {"images": [*images], "lazy": [*lazy], "widths": [*widths]}


def _epochs(epochs: int, batch: int, drops: tuple[int, ...], **how: Any) -> LogisticDescent:
    """Return a training of whole epochs of CIFAR, whose rate falls after some of 200."""
    return LogisticDescent(
        batch=batch, steps=epochs * EPOCH // batch, drops=tuple(d / 200 for d in drops), **how
    )


_GPU = ImageConfig(
    "gpu",
    source=replace(CIFAR_10, second=ANIMALS),
    network=WideResNet(2),
    descent=_epochs(30, 128, (80, 100, 120), lr=0.1, optimiser="SGD", decay=5e-4),
    examples=EPOCH,
    noises=(0.0, 0.5, 1.0, 2.0),
    sizes=((2, 32),),
    placements=PLACEMENTS[:2],
    seeds=2,
    kernel=None,
    linear=_epochs(30, 50, (140, 170), lr=1e-3),
    scales=(),
    narrower=(),
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
        scales=(1.0, 100.0),
        narrower=(PooledCNN((2, 4, 4)),),
        every=False,
    ),
    "laptop": ImageConfig(
        "laptop",
        descent=LogisticDescent(3e-3, 64, 350),
        examples=500,
        noises=(0.0, 0.5, 1.0),
        seeds=3,
        narrower=(PooledCNN((4, 8, 8)),),
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


def _every_class(config: ImageConfig) -> ImageConfig:
    """Tell every class apart, by a logit each: what stands for the kernel is the network linearised."""
    linear = config.linear or LogisticDescent(1e-3, config.descent.batch, config.descent.steps)
    source = replace(config.source, halves=False, second=None)
    return replace(config, source=source, theirs=None, kernel=None, linear=linear, scales=(), narrower=())


def _vehicles(config: ImageConfig) -> ImageConfig:
    """Return the vehicles of CIFAR-10, each in a corner, with animals in the others.

    Raises:
        ParameterError: where other images were asked for.

    """
    if config.theirs is None or config.linear is None:
        raise ParameterError(
            "Vehicles among animals are images of CIFAR-10: choose the preset gpu or paper, and no `data`."
        )
    share = CIFAR_VEHICLES.pool / EPOCH
    descent, linear = (replace(d, steps=round(d.steps * share)) for d in (config.descent, config.linear))
    return replace(
        config,
        source=CIFAR_VEHICLES,
        examples=min(config.examples, CIFAR_VEHICLES.pool),
        pictures=CIFAR_ANIMALS,
        tiles=2,
        noises=FADED,
        sizes=config.sizes[:1],
        placements=(ANY_CORNER,),
        descent=descent,
        linear=linear,
        theirs=AMONG_ANIMALS,
    )
