"""Image data: scikit-learn's digits, or a data set from the Hugging Face hub or a local folder.

And what the networks of several studies share: initial parameters, operations, the order of visits.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from sameloss.checks import check_counts
from sameloss.errors import ParameterError
from sameloss.hub import commit_of, explained, fingerprint_of, load_without_code
from sameloss.seeds import generator_for

DIGITS = "digits"

Labelled = tuple[Tensor, Tensor]
"""Images in [0, 1] and their labels."""


class Images(NamedTuple):
    """A training pool, from which samples are drawn, followed by a test set."""

    x: Float[Tensor, "row channel height width"]  # in [0, 1]
    y: Int[Tensor, " row"]
    pool: int  # rows before the test set
    classes: int

    @property
    def tested(self) -> int:
        """Size of the test set."""
        return len(self.x) - self.pool


@dataclass(frozen=True)
class ImageSource:
    """Which images to use; part of a run's key."""

    name: str = DIGITS  # or a data set on the hub (`name:configuration`), or a folder that `datasets` reads
    pool: int = 1300  # training images, drawn without replacement
    tested: int = 497  # test images, likewise
    halves: bool = False  # binary labels: the second half of the classes against the first
    shape: tuple[int, int, int] = (1, 8, 8)  # channels, rows, columns
    content: str | None = None  # commit on the hub, or hash of the files
    second: tuple[int, ...] | None = None  # binary labels: these classes against all others

    def __post_init__(self) -> None:
        check_counts(self, "pool", "tested")

    def known(self) -> "ImageSource":
        """Fill in the present shape and content.

        Raises:
            ParameterError: if the data set cannot be fetched.
            LanguageError: if the folder cannot be read or is no data set.

        """
        if self.name == DIGITS:
            return self
        folder, dataset = Path(self.name), self.name.partition(":")[0]
        content = fingerprint_of([folder]) if folder.is_dir() else commit_of(dataset, "dataset")
        (first, _), _ = replace(self, content=content)._fetched("[:1]")
        channels, rows, columns = first.shape[1:]
        return replace(self, content=content, shape=(channels, rows, columns))

    def load(self) -> Images:
        """Load the images.

        Raises:
            ParameterError: if they cannot be fetched, are too few, or have another shape.

        """
        splits = _digits(self.pool) if self.name == DIGITS else self._fetched()
        generator = generator_for("images", 0)
        samples = [
            self._sampled(*split, size, generator)
            for split, size in zip(splits, (self.pool, self.tested), strict=True)
        ]
        x, y = (torch.cat(parts) for parts in zip(*samples, strict=True))
        if tuple(x.shape[1:]) != self.shape:
            raise ParameterError(f"{self.name} has images of {tuple(x.shape[1:])}, not of {self.shape}.")
        classes = int(y.max()) + 1
        if self.second is not None:
            y, classes = torch.isin(y, torch.tensor(self.second)).long(), 2
        elif self.halves:
            y, classes = (y >= -(-classes // 2)).long(), 2
        return Images(x, y, self.pool, classes)

    def _fetched(self, rows: str = "") -> list[Labelled]:
        import datasets  # takes a second

        name, _, configuration = self.name.partition(":")
        revision = self.content
        if Path(self.name).is_dir():
            name, configuration, revision = self.name, "", None

        with explained(f"the images {self.name!r}", "data", name, ParameterError):
            parts = (
                load_without_code(
                    datasets.load_dataset, name, configuration or None, split=split, revision=revision
                )
                for split in (f"train{rows}", f"test{rows}")
            )
            return [_tensors(part) for part in parts]

    def _sampled(self, x: Tensor, y: Tensor, size: int, generator: torch.Generator) -> Labelled:
        if len(x) < size:
            raise ParameterError(f"{self.name} has {len(x)} images where {size} are wanted; choose fewer.")
        rows = torch.randperm(len(x), generator=generator)[:size]
        return x[rows], y[rows]


CIFAR_10 = ImageSource("uoft-cs/cifar10", 50_000, 10_000, shape=(3, 32, 32))


@cache
def _digits(pool: int) -> list[Labelled]:
    """Split the 1,797 digits of 8 x 8 pixels at random but reproducibly."""
    from sklearn.datasets import load_digits  # takes a third of a second, and few pages need it

    digits = load_digits()
    x, y = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16, torch.tensor(digits.target)
    order = torch.randperm(len(x), generator=generator_for("digits", 0))
    return [(x[rows], y[rows]) for rows in (order[:pool], order[pool:])]


def _tensors(data: Any) -> Labelled:
    """Convert a split of a data set: its first columns of the types `Image` and `ClassLabel`."""
    column = {type(feature).__name__: name for name, feature in reversed(data.features.items())}
    pictures = np.stack([np.atleast_3d(picture) for picture in data[column["Image"]]])
    x = torch.tensor(pictures).movedim(-1, 1).float() / 255
    return x.contiguous(), torch.tensor(data[column["ClassLabel"]][:])


def visiting_order(size: int, batch: int, steps: int, rng: torch.Generator) -> Int[Tensor, "step batch"]:
    """Positions of every batch: one permutation after the other, so that each occurs once per epoch."""
    epochs = -(-steps * batch // size)
    visits = torch.cat([torch.randperm(size, generator=rng) for _ in range(epochs)])
    return visits[: steps * batch].reshape(steps, batch)


def initial_weights(model: nn.Module, seed: int, gain: Callable[[Tensor], float]) -> dict[str, Tensor]:
    """Draw normal weights of variance `gain` over fan-in into a model, and zero biases; return them all."""
    rng = generator_for("initial parameters", seed)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            drawn = torch.randn(parameter.shape, generator=rng)
            parameter.data = drawn * (gain(parameter) / parameter[0].numel()) ** 0.5
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def multiplications(model: nn.Module, image: Float[Tensor, "1 *shape"]) -> float:
    """Multiplications of a forward pass of one image."""
    with FlopCounterMode(display=False) as counted:
        model(image)
    return counted.get_total_flops() / 2
