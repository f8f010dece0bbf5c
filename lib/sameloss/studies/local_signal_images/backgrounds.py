"""Images on larger backgrounds (Chapter 3): where an image lies, and what lies around it."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from sameloss.checks import check_choice, check_counts, check_not_negative
from sameloss.errors import ParameterError
from sameloss.images import Images, ImageSource
from sameloss.seeds import generator_for
from sameloss.studies.local_signal_images.training import Answers

ANYWHERE, ANY_CORNER, ONE_CORNER = "random place", "random corner", "fixed corner"

PLACEMENTS = (ANYWHERE, ANY_CORNER, ONE_CORNER)
"""As the columns of Table B.1."""

Pixels = Float[Tensor, "image channel row column"]

Whole = Float[Tensor, "image channel side side"]
"""Images with what is around them, or that alone."""


@dataclass(frozen=True)
class Scene:
    """What surrounds an image; part of a run's key."""

    placement: str
    side: int  # pixels, of the background
    noise: float  # σ of the background, where the pixels of images have the standard deviation 1
    shrunk: int = 1  # so many pixels in a row of an image become one
    pictures: ImageSource | None = None  # backgrounds, times the noise, in the place of Gaussian ones
    tiles: int = 1  # pictures in a row, and in a column, of a background

    def __post_init__(self) -> None:
        """Refuse what is no background.

        Raises:
            ParameterError: in one sentence, with what is valid.

        """
        check_choice(self, "placement", PLACEMENTS)
        check_counts(self, "side", "shrunk", "tiles")
        check_not_negative(self, "noise")
        if self.side % self.tiles:
            raise ParameterError(f"{self.tiles} pictures in a row do not divide {self.side} pixels.")

    def check_fits(self, shape: tuple[int, int, int]) -> None:
        """Refuse images that are larger than their background.

        Raises:
            ParameterError: with both sizes.

        """
        own = max(shape[1:]) // self.shrunk
        if own > self.side:
            raise ParameterError(
                f"An image of {own} pixels a side does not fit on a background of {self.side}; choose a "
                "larger background."
            )


class Sample(NamedTuple):
    """Images on their backgrounds, to be trained on and to be tested with."""

    x: Whole
    y: Answers
    tested: Float[Tensor, "test channel side side"]
    answers: Answers  # of the tested ones
    logits: int = 1  # one for two classes, otherwise as many

    def to(self, device: str) -> "Sample":
        """Return the same on a device."""
        parts = {name: getattr(self, name).to(device) for name in ("x", "y", "tested", "answers")}
        return self._replace(**parts)

    @property
    def chance(self) -> float:
        """Return the accuracy of always giving the most frequent answer."""
        return float(self.answers.unique(return_counts=True)[1].max()) / len(self.answers)


def corners(placement: str, count: int, free: int, rng: torch.Generator) -> Int[Tensor, "image 2"]:
    """Draw where images begin: row and column of their first pixel.

    Args:
        placement: one of `PLACEMENTS`.
        count: number of images.
        free: rows, and columns, of the background that an image leaves.
        rng: of the places.

    >>> corners("fixed corner", 2, 8, torch.Generator()).tolist()
    [[0, 0], [0, 0]]

    """
    if placement == ANYWHERE:
        return torch.randint(0, free + 1, (count, 2), generator=rng)
    return free * torch.randint(0, 1 + (placement == ANY_CORNER), (count, 2), generator=rng)


def placed(images: Pixels, at: Int[Tensor, "image 2"], backgrounds: Whole) -> Whole:
    """Return the backgrounds with each image in its place."""
    found = backgrounds.clone()
    _, channels, rows, columns = images.shape
    each = torch.arange(len(images))[:, None, None, None]
    row = at[:, 0, None, None, None] + torch.arange(rows)[:, None]
    column = at[:, 1, None, None, None] + torch.arange(columns)
    found[each, torch.arange(channels)[:, None, None], row, column] = images
    return found


def standardised(images: Images) -> Pixels:
    """Return all images in units of the standard deviation of the pool's pixels, its mean at zero."""
    pool = images.x[: images.pool]
    return (images.x - pool.mean()) / pool.std()


def composed(images: Images, scene: Scene, examples: int, seed: int) -> Sample:
    """Draw a sample of the pool, and put it and the whole test set on backgrounds of their own.

    Args:
        images: of two classes or more.
        scene: what surrounds them.
        examples: number of the sample.
        seed: of sample, places and backgrounds.

    Raises:
        ParameterError: for more examples than there are, a single class, or too small a background.

    """
    _check(images, scene, examples)
    x = F.avg_pool2d(standardised(images), scene.shrunk)
    rows = torch.randperm(images.pool, generator=generator_for("sample", seed))[:examples]
    both = x[rows], x[images.pool :]
    seen, tested = (_surrounded(part, scene, at, seed) for at, part in enumerate(both))
    y, logits = (2.0 * images.y - 1, 1) if images.classes == 2 else (images.y, images.classes)
    return Sample(seen, y[rows], tested, y[images.pool :], logits)


def _check(images: Images, scene: Scene, examples: int) -> None:
    if examples > images.pool:
        raise ParameterError(f"There are {images.pool} images to train on; {examples} were asked for.")
    if images.classes < 2:
        raise ParameterError("Classes are to be told apart here; these images have one.")
    shape = tuple(images.x.shape[1:])
    scene.check_fits((shape[0], shape[1], shape[2]))


def _surrounded(images: Pixels, scene: Scene, part: int, seed: int) -> Whole:
    count, channels, rows, _ = images.shape
    at = corners(scene.placement, count, scene.side - rows, generator_for("places", seed, part))
    rng = generator_for("backgrounds", seed, part)
    if scene.pictures is None:
        around = torch.randn(count, channels, scene.side, scene.side, generator=rng)
    else:
        tiled = count * scene.tiles**2, channels, scene.side // scene.tiles
        around = _tiled(_pictures(scene.pictures.load(), part, tiled, rng), scene.tiles)
    return placed(images, at, scene.noise * around)


def _tiled(pictures: Float[Tensor, "tile channel part part"], tiles: int) -> Whole:
    """Put pictures together to squares of so many in a row."""
    rows = pictures.unflatten(0, (-1, tiles, tiles)).movedim(2, -2).flatten(-2)
    return rows.movedim(1, -3).flatten(-3, -2)


def _pictures(images: Images, part: int, shape: tuple[int, int, int], rng: torch.Generator) -> Whole:
    """Draw backgrounds among pictures: of the pool for training, of the test set for tests."""
    count, channels, side = shape
    own = standardised(images)[images.pool :] if part else standardised(images)[: images.pool]
    if own.shape[1] != channels:
        raise ParameterError(
            f"Backgrounds have {own.shape[1]} channels, and images {channels}; they must agree."
        )
    drawn = own[torch.randint(0, len(own), (count,), generator=rng)]
    return F.interpolate(drawn, (side, side), mode="bilinear", antialias=True)
