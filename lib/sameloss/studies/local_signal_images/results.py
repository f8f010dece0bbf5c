"""What was found on images, put side by side: accuracies by noise and placement, and what is kept of them."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.statistics.bootstrap import UNDEFINED, Interval, seed_interval
from sameloss.studies.local_signal_images.published import Setting
from sameloss.studies.local_signal_images.runs import (
    ACCURACY,
    ACTIVE,
    BEFORE,
    CHANCE,
    GCV,
    LINEARISED,
    NETWORK,
)

Seeds = Float[np.ndarray, " seed"]

NOTHING = np.array([])

ABOVE = 0.05
"""What has learnt nothing keeps nothing: so much above chance the mean accuracy without noise has to be."""


OF_WIDTHS = ("measure", "of", "value", "width", "noise", "seed")
"""The columns of what was measured of several widths."""


@dataclass(frozen=True)
class ImageResults:
    """Everything that was measured.

    `table` has a row a size, placement, noise, seed, measure and what it is of, with its value; `lazy` one a
    seed and scale; `widths` one a width (channels of the last layer), seed, measure and what it is of.
    """

    table: pd.DataFrame
    lazy: pd.DataFrame
    theirs: Setting | None = None  # the row of Table 3.1 whose data and network these are
    widths: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=[*OF_WIDTHS]))

    @property
    def size(self) -> str:
        """Return the size that most is measured at, as Table B.1 calls it: image on background."""
        return str(self.table["size"].iloc[0])

    @property
    def placement(self) -> str:
        """Return the placement that is measured at every noise."""
        return str(self.table.placement.iloc[0])

    @property
    def kernel(self) -> str:
        """Return what stands for the tangent kernel: solved, or trained as a linearised network."""
        return GCV if (self.table.of == GCV).any() else LINEARISED

    def noises(self, placement: str, size: str | None = None) -> list[float]:
        """Return the strengths of noise that are measured, the least first."""
        return sorted(set(self.at(placement, size).noise))

    def at(self, placement: str, size: str | None = None) -> pd.DataFrame:
        """Return what was measured at a placement and a size; None: the page's."""
        return self.table[(self.table.placement == placement) & (self.table["size"] == (size or self.size))]

    def accuracies(self, of: str, placement: str, size: str | None = None) -> pd.DataFrame:
        """Return accuracies (shares), a row a seed and a column a noise; of what is not there, none."""
        found = self.at(placement, size)
        found = found[(found.measure == ACCURACY) & (found.of == of)]
        return found.pivot_table(index="seed", columns="noise", values="value")

    def kept(self, of: str, placement: str, size: str | None = None, *, above_chance: bool = False) -> Seeds:
        """Return the accuracy at most noise over that at none, in per cent, seed by seed.

        Not a number where that at none is hardly above chance.

        Args:
            of: what predicts.
            placement: of images.
            size: image on background; None: the page's.
            above_chance: whether the share of the more frequent class is taken off both.

        """
        found = self.accuracies(of, placement, size)
        if found.shape[1] < 2:
            return NOTHING
        chance = self.accuracies(CHANCE, placement, size)
        if (found - chance).iloc[:, 0].mean() < ABOVE:
            return np.full(len(found), np.nan)
        if above_chance:
            found = found - chance
        return 100 * (found.iloc[:, -1] / found.iloc[:, 0]).to_numpy()

    def fall(self, noise: float) -> Float[np.ndarray, "seed layer"]:
        """Return by how many points the share of active neurons falls in training, by layer."""
        own = self.at(self.placement)
        own = own[own.noise == noise]
        before, after = (
            own[own.measure == name].pivot_table(index="seed", columns="of", values="value", sort=False)
            for name in (BEFORE, ACTIVE)
        )
        return 100 * (before - after).to_numpy()

    def lazy_accuracies(self) -> pd.DataFrame:
        """Return accuracies (shares) in lazy training, a row a seed and a column a scale."""
        return self.lazy.pivot_table(index="seed", columns="scale", values=ACCURACY)

    def by_width(self, of: str, measure: str = ACCURACY) -> pd.DataFrame:
        """Return accuracies (shares) of networks of several widths, a row a seed and a column a width."""
        own = self.widths[(self.widths.measure == measure) & (self.widths.of == of)]
        return own.pivot_table(index="seed", columns="width", values="value")

    @property
    def above_kernel(self) -> pd.DataFrame:
        """Return by how many points networks are above their kernels, a row a seed and a column a width."""
        return 100 * (self.by_width(NETWORK) - self.by_width(GCV))


def difference(
    one: Float[np.ndarray, " one"], other: Float[np.ndarray, " other"]
) -> Float[np.ndarray, " both"]:
    """Return one minus other; nothing where one of them is not there."""
    return one - other if len(one) and len(other) else NOTHING


def over_seeds(values: Seeds) -> Interval:
    """Return the mean over seeds with its interval; undefined where a seed has no value."""
    return UNDEFINED if not len(values) or np.isnan(values).any() else seed_interval(values)
