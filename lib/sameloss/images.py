"""Where images come from: scikit-learn's digits, or a data set of the hub or of a local folder."""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sameloss.checks import check_counts
from sameloss.errors import ParameterError
from sameloss.hub import commit_of, fetched, fingerprint_of
from sameloss.seeds import generator_for

DIGITS = "digits"

SPLITS = ("train", "test")

Part = tuple[Tensor, Tensor]
"""Images in [0, 1], and their labels."""


class Images(NamedTuple):
    """The pool that samples are drawn from, and the test set, below each other."""

    x: Float[Tensor, "row channel height width"]  # in [0, 1]
    y: Int[Tensor, " row"]
    pool: int  # rows before the test set
    classes: int

    @property
    def tested(self) -> int:
        """Return the number of images in the test set."""
        return len(self.x) - self.pool


@dataclass(frozen=True)
class ImageSource:
    """Which images; part of a run's key."""

    name: str = (
        DIGITS  # or a data set on the hub (its part behind a colon), or a folder that `datasets` reads
    )
    pool: int = 1300  # so many of its training images, drawn without replacement
    tested: int = 497  # and of its test images
    halves: bool = False  # whether the lower half of the classes is to be told from the upper
    shape: tuple[int, int, int] = (1, 8, 8)  # channels, rows, columns
    content: str | None = None  # the commit on the hub, or the hash of the files
    second: tuple[int, ...] | None = None  # classes that are to be told from all others
    only: tuple[int, ...] | None = None  # classes that are kept, numbered anew in this order

    def __post_init__(self) -> None:
        """Refuse no images."""
        check_counts(self, "pool", "tested")

    def known(self) -> "ImageSource":
        """Return the same with the shape and the content that it has today.

        Raises:
            ParameterError: where it cannot be fetched.
            LanguageError: for a folder that cannot be read, or is none of a data set.

        """
        if self.name == DIGITS:
            return self
        folder = Path(self.name)
        content = fingerprint_of([folder]) if folder.is_dir() else commit_of(_parted(self.name)[0], "dataset")
        (some, _), _ = replace(self, content=content)._fetched("[:1]")
        channels, rows, columns = some.shape[1:]
        return replace(self, content=content, shape=(channels, rows, columns))

    def load(self) -> Images:
        """Return the images.

        Raises:
            ParameterError: where they cannot be fetched, are too few, or of another shape.

        """
        if self.name == DIGITS:
            parts = _digits(self.pool, self.only)
        else:
            parts = [_of_classes(*part, self.only) for part in self._fetched()]
        rng, wanted = generator_for("images", 0), (self.pool, self.tested)
        chosen = [_chosen(*part, count, rng, self.name) for part, count in zip(parts, wanted, strict=True)]
        x, y = (torch.cat(both) for both in zip(*chosen, strict=True))
        if tuple(x.shape[1:]) != self.shape:
            raise ParameterError(f"{self.name} has images of {tuple(x.shape[1:])}, not of {self.shape}.")
        classes = int(y.max()) + 1
        if self.second is not None:
            y, classes = torch.isin(y, torch.tensor(self.second)).long(), 2
        elif self.halves:
            y, classes = (y >= -(-classes // 2)).long(), 2
        return Images(x, y, self.pool, classes)

    def _fetched(self, rows: str = "") -> list[Part]:
        import datasets  # takes a second

        local = Path(self.name).is_dir()
        name, part = (self.name, None) if local else _parted(self.name)
        revision = None if local else self.content

        def load() -> list[Part]:
            splits = [split + rows for split in SPLITS]
            return [_part(datasets.load_dataset(name, part, split=s, revision=revision)) for s in splits]

        parts: list[Part] = fetched(f"the images {self.name!r}", "data", name, load, ParameterError)
        return parts


def _parted(name: str) -> tuple[str, str | None]:
    """Return the name of a data set, and that of its part if there is one."""
    dataset, _, part = name.partition(":")
    return dataset, part or None


@cache
def _digits(pool: int, only: tuple[int, ...] | None) -> list[Part]:
    """Return the 1,797 digits of 8 by 8, or those of some classes, in two parts, drawn but always alike."""
    from sklearn.datasets import load_digits  # takes a third of a second, and other pages need none of it

    found = load_digits()
    x, y = torch.tensor(found.images, dtype=torch.float32)[:, None] / 16, torch.tensor(found.target)
    x, y = _of_classes(x, y, only)
    order = torch.randperm(len(x), generator=generator_for("digits", 0))
    return [(x[part], y[part]) for part in (order[:pool], order[pool:])]


def _of_classes(x: Tensor, y: Tensor, classes: tuple[int, ...] | None) -> Part:
    """Return the images of some classes, these numbered anew; of all for None."""
    if classes is None:
        return x, y
    at = y[:, None] == torch.tensor(classes)
    rows = at.any(1)
    return x[rows], at[rows].long().argmax(1)


def _chosen(x: Tensor, y: Tensor, wanted: int, rng: torch.Generator, name: str) -> Part:
    if len(x) < wanted:
        raise ParameterError(f"{name} has {len(x)} images where {wanted} are wanted; choose smaller numbers.")
    rows = torch.randperm(len(x), generator=rng)[:wanted]
    return x[rows], y[rows]


def _part(data: Any) -> Part:
    """Return pictures and labels of a data set, whatever these columns are called there."""
    kinds = {column: type(feature).__name__ for column, feature in data.features.items()}
    image, label = (
        next(name for name, own in kinds.items() if own == kind) for kind in ("Image", "ClassLabel")
    )
    pictures = np.stack([np.atleast_3d(picture) for picture in data[image]])
    x = torch.tensor(pictures).movedim(-1, 1).float() / 255
    return x.contiguous(), torch.tensor(data[label][:])
