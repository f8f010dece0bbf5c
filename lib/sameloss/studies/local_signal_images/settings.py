"""Which images in which noise, which networks, and how much is trained."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sameloss.checks import check_counts
from sameloss.errors import ParameterError
from sameloss.images import ImageSource
from sameloss.studies.local_signal_images.backgrounds import ANY_CORNER, ANYWHERE, PLACEMENTS, Scene
from sameloss.studies.local_signal_images.descent import LogisticDescent
from sameloss.studies.local_signal_images.networks import LogitNetwork, PooledCNN, WideResNet
from sameloss.studies.local_signal_images.published import AMONG_ANIMALS, GAUSSIAN, Setting
from sameloss.studies.local_signal_images.runs import ImageComparison, KernelFit, LazyTraining
from sameloss.studies.parameters import MOST_SEEDS, OF_EVERY_PAGE, OWN_LIMITS, Limits, Parameter


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


@dataclass(frozen=True)
class ImageSettings:
    """Everything that decides the runs."""

    source: ImageSource
    network: LogitNetwork
    descent: LogisticDescent
    examples: int
    noises: tuple[float, ...]  # σ, the least first; images have 1
    sizes: tuple[tuple[int, int], ...]  # pixels that become one, and side of the background
    placements: tuple[str, ...]
    seeds: int
    kernel: KernelFit | None = field(default_factory=KernelFit)
    linear: LogisticDescent | None = None
    lazy: Lazy | None = None
    widths: Widths | None = None
    every: bool = False  # whether all placements and sizes are measured at every noise, or at the ends
    theirs: Setting | None = None  # the row of Table 3.1 whose data and network these are
    pictures: ImageSource | None = None  # backgrounds in the place of Gaussian noise
    tiles: int = 1  # pictures in a row of a background
    first_seed: int = 100  # the pilot's were below

    def __post_init__(self) -> None:
        """Refuse noises that nothing could be compared of."""
        check_counts(self, "examples", "seeds")
        if len(self.noises) < 2 or list(self.noises) != sorted(set(self.noises)):
            raise ParameterError(f"Noises must be at least two, and grow; got {self.noises}.")

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


@dataclass(frozen=True)
class Settings:
    """A preset of the page."""

    name: str
    images: ImageSettings
    limits: Limits = OWN_LIMITS
    tolerance: float | None = None  # of all verdicts; None: each claim's own


LONG = ImageSettings(
    source=ImageSource(halves=True),
    network=PooledCNN(),
    descent=LogisticDescent(3e-3, 64, 500),
    examples=800,
    noises=(0.0, 0.25, 0.5, 1.0),
    sizes=((1, 16), (2, 8)),
    placements=PLACEMENTS,
    seeds=15,
    lazy=Lazy((1.0, 10.0, 100.0), 0.5, LogisticDescent(0.2, 64, 500, "SGD")),
    widths=Widths((4, 2), 0.5),
    every=True,
)
"""8-on-16, and 4-on-8. At the thesis' most noise, 2, the pilot (seed 0) had its kernel at chance, and its
network not far above it, where little can be compared; so the noise ends at 1."""

LAPTOP = replace(
    LONG,
    descent=LogisticDescent(3e-3, 64, 350),
    examples=500,
    noises=(0.0, 0.5, 1.0),
    seeds=3,
    lazy=Lazy((1.0, 10.0, 100.0), 0.5, LogisticDescent(0.2, 64, 350, "SGD")),
    widths=Widths((4,), 0.5),
    every=False,
)
"""Fewer of all, and shorter."""

SMOKE = replace(
    LAPTOP,
    network=PooledCNN((4, 8, 8)),
    descent=LogisticDescent(3e-3, 32, 16),
    examples=80,
    noises=(0.0, 0.5),
    seeds=2,
    lazy=Lazy((1.0, 100.0), 0.5, LogisticDescent(0.2, 32, 16, "SGD")),
    widths=Widths((2,), 0.5),
)

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


def _epochs(epochs: int, batch: int, drops: tuple[int, ...], **how: Any) -> LogisticDescent:
    """Return a training of whole epochs of CIFAR, whose rate falls after some of 200."""
    return LogisticDescent(
        batch=batch, steps=epochs * EPOCH // batch, drops=tuple(d / 200 for d in drops), **how
    )


def _thesis(width: int, epochs: int, **changes: Any) -> ImageSettings:
    """Return the thesis' own: CIFAR-2 on Gaussian noise, WRN-10 and its linearisation."""
    return ImageSettings(
        source=CIFAR_2,
        network=WideResNet(width),
        descent=_epochs(epochs, 128, (80, 100, 120), lr=0.1, optimiser="SGD", decay=5e-4),
        examples=EPOCH,
        noises=(0.0, 0.5, 1.0, 2.0),
        kernel=None,
        linear=_epochs(epochs, 50, (140, 170), lr=1e-3),
        every=True,
        theirs=GAUSSIAN,
        **changes,
    )


GPU = _thesis(2, 30, sizes=((2, 32),), placements=PLACEMENTS[:2], seeds=2)
"""Never run."""

PAPER = _thesis(10, 200, sizes=((2, 32), (1, 64)), placements=PLACEMENTS, seeds=2)
"""20 to 30 hours of an H200 a seed by arithmetic (8e18 operations): never run. The thesis has one seed."""

PRESETS = {
    "smoke": Settings("smoke", SMOKE),
    "laptop": Settings("laptop", LAPTOP),
    "laptop-long": Settings("laptop-long", LONG),
    "gpu": Settings("gpu", GPU),
    "paper": Settings("paper", PAPER),
}

PARAMETERS: dict[str, Parameter] = {
    **OF_EVERY_PAGE,
    "data": Parameter(
        "on the hub (name, or name:part), or a folder; classes in two halves; None: the preset's",
        str | None,
    ),
    "backgrounds": Parameter(
        "a data set or folder of pictures in the place of Gaussian noise; None: noise", str | None
    ),
    "classes": Parameter(
        f"told apart: {', '.join(CLASSES)} (of CIFAR-10, among animals); None: {HALVES}",
        str | None,
        choices=CLASSES,
    ),
    "placement": Parameter(
        f"{', '.join(PLACEMENTS)}: of the page's figures; None: {ANYWHERE}", str | None, choices=PLACEMENTS
    ),
    "examples": Parameter(
        "to train on; None: the preset's", int | None, sets=("images.examples",), most=1_000_000
    ),
    "noise": Parameter(
        "the most; others are 0, a quarter and a half of it; None: the preset's",
        float | None,
    ),
    "seeds": Parameter(
        "of samples, backgrounds and trainings; None: the preset's",
        int | None,
        sets=("images.seeds",),
        least=2,
        most=MOST_SEEDS,
        example="8",
    ),
    "steps": Parameter("of each training; None: the preset's", int | None),
    "lr": Parameter("learning rate of the network; None: the preset's", float | None),
    "tolerance": Parameter(
        "relative, of all verdicts; None: each claim's own", float | None, sets=("tolerance",)
    ),
}


def finished(settings: Settings, values: Mapping[str, Any]) -> Settings:
    """Return the settings with what a reader asked of noise, placement, training and images.

    Raises:
        ParameterError: for images that cannot be fetched.

    """
    found = settings.images
    if (data := values.get("data")) is not None:
        found = replace(found, theirs=None, source=_halves(found.source, data))
    if (classes := values.get("classes")) not in (None, HALVES):
        found = _every_class(found) if classes == ALL else _vehicles(found)
    if (pictures := values.get("backgrounds")) is not None:
        pictured = _pictures(found.source, pictures)
        found = replace(found, theirs=None, pictures=pictured, tiles=1, noises=FADED)
    if (noise := values.get("noise")) is not None:
        lazy = found.lazy and replace(found.lazy, noise=noise / 2)
        widths = found.widths and replace(found.widths, noise=noise / 2)
        noises = (0.0, noise / 4, noise / 2, noise)
        found = replace(found, theirs=None, noises=noises, lazy=lazy, widths=widths)
    if (placement := values.get("placement")) is not None:
        others = tuple(other for other in found.placements if other != placement)
        found = replace(found, placements=(placement, *others))
    return replace(settings, images=_trained(found, values))


def _every_class(found: ImageSettings) -> ImageSettings:
    """Tell every class apart, by a logit each: what stands for the kernel is the network linearised."""
    descent = found.descent
    linear = found.linear or LogisticDescent(1e-3, descent.batch, descent.steps)
    source = replace(found.source, halves=False, second=None)
    return replace(found, source=source, theirs=None, kernel=None, linear=linear, lazy=None, widths=None)


def _vehicles(found: ImageSettings) -> ImageSettings:
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


def _trained(found: ImageSettings, values: Mapping[str, Any]) -> ImageSettings:
    """Return the settings with other steps, and another rate."""
    if (steps := values.get("steps")) is not None:
        linear = found.linear and replace(found.linear, steps=steps)
        lazy = found.lazy and replace(found.lazy, descent=replace(found.lazy.descent, steps=steps))
        found = replace(found, descent=replace(found.descent, steps=steps), linear=linear, lazy=lazy)
    if (lr := values.get("lr")) is not None:
        found = replace(found, descent=replace(found.descent, lr=lr))
    return found


def _halves(source: ImageSource, name: str) -> ImageSource:
    return replace(source, name=name, halves=True, second=None).known()


def _pictures(source: ImageSource, name: str) -> ImageSource:
    return replace(source, name=name, halves=False, second=None).known()
