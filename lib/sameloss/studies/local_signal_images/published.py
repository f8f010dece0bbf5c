"""What the thesis prints of its experiments on images: Tables 3.1 and B.1, and what its words say of them."""

from itertools import pairwise
from typing import NamedTuple

import pandas as pd

from sameloss.studies.local_signal_images.backgrounds import ANY_CORNER, ANYWHERE

NOISES = (0.0, 0.5, 1.0, 2.0)
"""σ of Gaussian backgrounds, the columns of Table B.1."""

WRN, NTK = "WRN", "NTK"


class Setting(NamedTuple):
    """One row of Table 3.1: of the accuracy without noise, what is kept at most noise, in per cent."""

    name: str
    placement: str
    network: float
    kernel: float


PLANTS_10 = Setting("CIFAR-10 on pictures of plants", ANYWHERE, 98.97, 69.75)
AMONG_ANIMALS = Setting("CIFAR vehicles among animals", ANY_CORNER, 97.25, 76.37)
PLANTS_2 = Setting("CIFAR-2 on pictures of plants", ANYWHERE, 99.79, 92.81)
GAUSSIAN = Setting("CIFAR-2 on Gaussian noise", ANYWHERE, 96.83, 85.54)

TABLE_3_1 = (PLANTS_10, AMONG_ANIMALS, PLANTS_2, GAUSSIAN)

TABLE_B_1: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {
    ("16-on-32", WRN): {
        "random place": (94.7, 94.0, 92.8, 91.7),
        "random corner": (94.3, 94.2, 92.7, 92.6),
        "fixed corner": (94.4, 94.3, 94.0, 92.9),
    },
    ("16-on-32", NTK): {
        "random place": (89.9, 87.3, 83.7, 76.9),
        "random corner": (91.6, 88.3, 84.5, 78.3),
        "fixed corner": (92.0, 88.8, 85.2, 80.0),
    },
    ("32-on-64", WRN): {
        "random place": (96.1, 96.2, 95.8, 94.9),
        "random corner": (96.5, 96.5, 96.5, 95.9),
        "fixed corner": (96.9, 96.6, 96.0, 95.6),
    },
    ("32-on-64", NTK): {
        "random place": (91.2, 89.4, 84.6, 82.2),
        "random corner": (91.8, 89.1, 85.3, 79.1),
        "fixed corner": (93.1, 91.0, 88.3, 82.9),
    },
}
"""Accuracies (%) on CIFAR-2 by size and model, placement, and σ: one run each."""

CHANCE = 60.0
"""Per cent of CIFAR-2 that is of its larger class, the animals."""


def long_table() -> pd.DataFrame:
    """Return Table B.1 with a row a number: size, model, placement, noise, accuracy (%)."""
    rows = [
        (size, model, placement, noise, accuracy)
        for (size, model), own in TABLE_B_1.items()
        for placement, accuracies in own.items()
        for noise, accuracy in zip(NOISES, accuracies, strict=True)
    ]
    return pd.DataFrame(rows, columns=["size", "model", "placement", "noise", "accuracy"])


def kept_table() -> pd.DataFrame:
    """Return of each row of Table B.1 what is kept at most noise, in per cent: raw, and above chance."""
    found = long_table().set_index(["size", "model", "placement", "noise"]).accuracy.unstack("noise")
    least, most = found[NOISES[0]], found[NOISES[-1]]
    kept = {"kept": 100 * most / least, "kept above chance": 100 * (most - CHANCE) / (least - CHANCE)}
    return pd.DataFrame(kept).reset_index()


def columns_of(order: tuple[str, ...]) -> int:
    """Return in how many of the 16 columns of Table B.1 each placement has more than the next one.

    Args:
        order: placements, the best one first.

    """
    found = long_table().set_index(["size", "model", "noise", "placement"]).accuracy.unstack("placement")
    falls = [found[better] > found[worse] for better, worse in pairwise(order)]
    return int(pd.concat(falls, axis=1).all(axis=1).sum())


def best_columns(placement: str) -> int:
    """Return in how many columns of Table B.1 no other placement has as much."""
    found = long_table().set_index(["size", "model", "noise", "placement"]).accuracy.unstack("placement")
    return int((found.drop(columns=placement).max(axis=1) < found[placement]).sum())


def size_gains() -> pd.DataFrame:
    """Return what larger images gain in points, by model, placement and noise."""
    found = long_table().set_index(["model", "placement", "noise", "size"]).accuracy.unstack("size")
    return (found["32-on-64"] - found["16-on-32"]).rename("gain").reset_index()


def loss_changes() -> pd.DataFrame:
    """Return by how many points less larger images lose to the most noise, by model and placement."""
    found = size_gains().set_index(["model", "placement", "noise"]).gain.unstack("noise")
    return (found[NOISES[-1]] - found[NOISES[0]]).rename("less lost").reset_index()
