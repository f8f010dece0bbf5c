"""What was measured of images in noise, and the thesis' claims and statements, judged by it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sameloss.statistics.intervals import UNDEFINED, Interval, seed_interval
from sameloss.studies.local_signal_images.experiment import AMONG_ANIMALS, GAUSSIAN, Measure, Model, Setting
from sameloss.studies.local_signal_images.theory import ANY_CORNER, ANYWHERE, ONE_CORNER
from sameloss.studies.statement import Check, Statement, check_table
from sameloss.studies.verdict import Claim, Topic

# What was found on images, put side by side: accuracies by noise and placement, and what is kept of them.

ABOVE = 5.0
"""What has learnt nothing keeps nothing: so many points above chance the mean without noise has to be."""


@dataclass(frozen=True)
class ImageResults:
    """Everything that was measured.

    `table` has a row a size, placement, noise, seed, measure and what it is of, with its value; `lazy` one a
    seed and scale; `widths` one a width (channels of the last layer), seed, measure and what it is of.
    """

    table: pd.DataFrame
    lazy: pd.DataFrame
    widths: pd.DataFrame
    theirs: Setting | None = None  # the row of Table 3.1 whose data and network these are

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
        return Model.GCV if (self.table.of == Model.GCV).any() else Model.LINEARISED

    def at(self, placement: str, size: str | None = None) -> pd.DataFrame:
        """Return what was measured at a placement and a size; None: the page's."""
        return self.table[(self.table.placement == placement) & (self.table["size"] == (size or self.size))]

    @property
    def noises(self) -> list[float]:
        """Return the strengths of noise at the page's placement, the least first."""
        return sorted(set(self.at(self.placement).noise))

    def accuracies(self, of: str, placement: str, size: str | None = None) -> pd.DataFrame:
        """Return accuracies (%), a row a seed and a column a noise; of what is not there, none."""
        return 100 * by_seed(self.at(placement, size), "noise", Measure.ACCURACY, of)

    def kept(
        self, of: str, placement: str, size: str | None = None, *, above_chance: bool = False
    ) -> pd.Series:
        """Return the accuracy at most noise over that at none, in per cent, seed by seed.

        Not a number where that at none is hardly above chance; nothing where nothing was measured.

        Args:
            of: what predicts.
            placement: of images.
            size: image on background; None: the page's.
            above_chance: whether the share of the more frequent class is taken off both.

        """
        accuracies = self.accuracies(of, placement, size)
        if accuracies.shape[1] < 2:
            return pd.Series(dtype=float)
        above = accuracies - self.accuracies(Model.CHANCE, placement, size)
        least, most = ((above if above_chance else accuracies).iloc[:, end] for end in (0, -1))
        return 100 * most / least * (1 if above.iloc[:, 0].mean() >= ABOVE else np.nan)

    def active(self, measure: str, noise: float) -> pd.DataFrame:
        """Return shares of active neurons (%), a row a seed and a column a layer."""
        table = self.at(self.placement)
        return 100 * by_seed(table[table.noise == noise], "of", measure)

    def fall(self, noise: float) -> pd.DataFrame:
        """Return by how many points the share of active neurons falls in training, seed by layer."""
        return self.active(Measure.BEFORE, noise) - self.active(Measure.ACTIVE, noise)

    def of_lazy(self, measure: str = Measure.ACCURACY) -> pd.DataFrame:
        """Return what was measured in lazy training (%), a row a seed and a column a scale."""
        return 100 * self.lazy.pivot_table(index="seed", columns="scale", values=measure)

    def by_width(self, of: str, measure: str = Measure.ACCURACY) -> pd.DataFrame:
        """Return accuracies (%) of networks of several widths, a row a seed and a column a width."""
        return 100 * by_seed(self.widths, "width", measure, of)

    @property
    def above_kernel(self) -> pd.DataFrame:
        """Return by how many points networks are above their kernels, a row a seed and a column a width."""
        return self.by_width(Model.NETWORK) - self.by_width(Model.GCV)


def by_seed(table: pd.DataFrame, columns: str, measure: str, of: str | None = None) -> pd.DataFrame:
    """Return values of one measure, a row a seed; of all that it is `of`, or of one."""
    rows = table[(table.measure == measure) & ((table.of == of) | (of is None))]
    return rows.pivot_table(index="seed", columns=columns, values="value")


def over_seeds(values: ArrayLike) -> Interval:
    """Return the mean over seeds with its interval; undefined where a seed has no value."""
    values = np.asarray(values, float)
    return UNDEFINED if not len(values) or np.isnan(values).any() else seed_interval(values)


# The thesis' claims on images (Karp 2024, Chapter 3), each with its tolerance and its effect.
#
# What is *kept* is the accuracy at most noise over that at none, seed by seed, in per cent; above chance
# where the share of the more frequent class is taken off both. Published numbers are of the thesis' own data
# and network, which the presets `gpu` and `paper` have; of small ones its directions are judged. Tolerances
# are fixed before the runs that they judge.

Effect = Callable[[ImageResults], Interval]

NEAR = 3.0
"""Accuracies that differ by less points count as the same."""

WRN_POINTS, NTK_POINTS = 3.0, 6.0
"""By so much ours may differ: another sample of noise, one run each of the thesis."""


def kept_more(
    results: ImageResults,
    other: str | None = None,
    placement: str = ANYWHERE,
    *,
    one: str = Model.NETWORK,
    chance: bool = False,
    smaller: bool = False,
) -> Interval:
    """Return by how many points one keeps more than another (None: than the tangent kernel).

    Args:
        results: what was measured.
        other: what predicts, as `one`.
        placement: of images.
        one: what predicts.
        chance: whether it is taken off.
        smaller: whether images of another size than the page's are meant.

    """
    sizes = [*results.table["size"].unique(), "no other"]
    kept = [
        results.kept(of, placement, sizes[smaller], above_chance=chance)
        for of in (one, other or results.kernel)
    ]
    return over_seeds(kept[0] - kept[1])


def active_falls(results: ImageResults, over: str = "mean", *, noisy: bool = True) -> Interval:
    """Return by how many points the share of active neurons falls, over the layers behind the first."""
    falls = results.fall(results.noises[-1 if noisy else 0])
    return over_seeds(falls.iloc[:, 1:].agg(over, axis=1))


def of_lazy(results: ImageResults, id: str) -> Interval:
    """Return an effect of accuracies (%): at the least and at the largest scale, and the kernel's."""
    if results.lazy.empty:
        return UNDEFINED
    lazy = results.of_lazy()
    kernel = results.accuracies(Model.GCV, results.placement)[results.lazy.noise.iloc[0]]
    first, last = lazy.iloc[:, 0], lazy.iloc[:, -1]
    effects = {
        "lazy": (first - kernel).abs() - (last - kernel).abs(),
        "lazy-falls": first - last,
        "lazy-near": NEAR - (last - kernel).abs(),
    }
    return over_seeds(effects[id])


def narrows(results: ImageResults) -> Interval:
    """Return by how many points less the widest network is above its kernel than the narrowest."""
    above = results.above_kernel
    return UNDEFINED if above.empty else over_seeds(above.iloc[:, 0] - above.iloc[:, -1])


def of_theirs(results: ImageResults, setting: Setting, of: str | None) -> Interval:
    """Return what a model of the thesis keeps, in per cent; undefined of other data and networks."""
    same = results.theirs == setting
    return over_seeds(results.kept(of or results.kernel, setting.placement)) if same else UNDEFINED


OURS, POINTS = "this book", "accuracy points"


def _claim(id: str, text: str, effect: Effect, place: str, unit: str, **published: float) -> Claim:
    return Claim(f"img-{id}", place, text, "ii3_images", effect, unit=unit, **published)


def _kept(id: str, text: str, place: str = OURS, **how: Any) -> Claim:
    return _claim(id, text, partial(kept_more, **how), place, "points kept")


def _active(id: str, text: str, **how: Any) -> Claim:
    return _claim(id, text, partial(active_falls, **how), "Fig. 3.2", "points of neurons")


CORNERS = {"random-corner": ANY_CORNER, "fixed-corner": ONE_CORNER}

MORE_THAN_BEST = "and above chance more than the kernel with the best λ, in a"

KEEPS = (
    _kept("kept", "the network keeps more of its accuracy than its kernel (random place)", "Table 3.1"),
    _kept(
        "kept-best", "it keeps more than the kernel with the λ that is best on the test set", other=Model.BEST
    ),
    _kept("kept-chance", "above chance it keeps more than its kernel", chance=True),
    _kept(
        "kept-chance-best",
        "above chance it keeps more than the kernel with the best λ",
        other=Model.BEST,
        chance=True,
    ),
    *(
        _kept(f"kept-{id}", f"it keeps more of its accuracy in a {place}", "Table B.1", placement=place)
        for id, place in CORNERS.items()
    ),
    *(
        _kept(f"kept-{id}-best", f"{MORE_THAN_BEST} {place}", other=Model.BEST, placement=place, chance=True)
        for id, place in CORNERS.items()
    ),
    _kept(
        "kept-size",
        "it keeps more of its accuracy on images of another size (random place)",
        "Table B.1",
        smaller=True,
    ),
)

LEARNT = _kept(
    "after",
    "the kernel at the trained parameters keeps more accuracy than that at the first (random place)",
    one=Model.AFTER,
    other=Model.GCV,
)

SPARSE = (
    _active(
        "active", "behind the first layer the active share falls in training at most noise (mean of layers)"
    ),
    _active("active-every", "the active share falls in every layer behind the first", over="min"),
    _active(
        "active-clean",
        "without noise the active share falls, too (mean of layers behind the first)",
        noisy=False,
    ),
)

LAZY = {
    "lazy": "as its output is scaled up, the network's accuracy comes closer to the kernel's",
    "lazy-falls": "in lazy training the network's accuracy falls",
    "lazy-near": f"in lazy training the network comes to within {NEAR:g} points of its kernel",
}

WIDTH = "the widest network is above its kernel by less than the narrowest above its own"


def _own(id: str, setting: Setting) -> Iterator[Claim]:
    """Yield the two numbers of a row of Table 3.1."""
    network, kernel = setting.network, setting.kernel
    for model, of, text, value, points in (
        ("wrn", Model.NETWORK, f"the WRN keeps {network} % on {setting.name}", network, WRN_POINTS),
        ("ntk", None, f"its linearisation {kernel} %", kernel, NTK_POINTS),
    ):
        effect, share = partial(of_theirs, setting=setting, of=of), points / value
        yield _claim(f"own-{id}{model}", text, effect, "Table 3.1", "%", value=value, tolerance=share)


TOPICS = (
    Topic("Images: does a network keep in noise the accuracy that its tangent kernel loses?", KEEPS),
    Topic("Images: is what the network learnt in its kernel?", (LEARNT,)),
    Topic("Images: do fewer neurons become active?", SPARSE),
    Topic(
        "Images: does a network in lazy training become its kernel?",
        tuple(_claim(id, text, partial(of_lazy, id=id), OURS, POINTS) for id, text in LAZY.items()),
    ),
    Topic(
        "Images: does a wider network come closer to its kernel?",
        (_claim("width", WIDTH, narrows, OURS, POINTS),),
    ),
    # Two rows of Table 3.1 are not judged: which pictures of plants the thesis drew is not known.
    Topic(
        "Images: the thesis' own data and network",
        (*_own("", GAUSSIAN), *_own("vehicles-", AMONG_ANIMALS)),
    ),
)

# What the thesis prints of these experiments, and what its words say of that: counts and ratios.

TABLE_3_1 = (
    Setting("CIFAR-10 on pictures of plants", ANYWHERE, 98.97, 69.75),
    AMONG_ANIMALS,
    Setting("CIFAR-2 on pictures of plants", ANYWHERE, 99.79, 92.81),
    GAUSSIAN,
)

SMALL, LARGE = "16-on-32", "32-on-64"

WRN, NTK = "WRN", "NTK"

TABLE_B_1 = pd.DataFrame(
    {
        (SMALL, WRN, ANYWHERE): (94.7, 94.0, 92.8, 91.7),
        (SMALL, WRN, ANY_CORNER): (94.3, 94.2, 92.7, 92.6),
        (SMALL, WRN, ONE_CORNER): (94.4, 94.3, 94.0, 92.9),
        (SMALL, NTK, ANYWHERE): (89.9, 87.3, 83.7, 76.9),
        (SMALL, NTK, ANY_CORNER): (91.6, 88.3, 84.5, 78.3),
        (SMALL, NTK, ONE_CORNER): (92.0, 88.8, 85.2, 80.0),
        (LARGE, WRN, ANYWHERE): (96.1, 96.2, 95.8, 94.9),
        (LARGE, WRN, ANY_CORNER): (96.5, 96.5, 96.5, 95.9),
        (LARGE, WRN, ONE_CORNER): (96.9, 96.6, 96.0, 95.6),
        (LARGE, NTK, ANYWHERE): (91.2, 89.4, 84.6, 82.2),
        (LARGE, NTK, ANY_CORNER): (91.8, 89.1, 85.3, 79.1),
        (LARGE, NTK, ONE_CORNER): (93.1, 91.0, 88.3, 82.9),
    },
    index=(0.0, 0.5, 1.0, 2.0),
).T.rename_axis(["size", "model", "placement"])
"""Accuracies (%) on CIFAR-2 by size and model, placement, and σ of the noise: one run each."""

CHANCE_B_1 = 60.0
"""Per cent of CIFAR-2 that is of its larger class, the animals."""

STATEMENTS = {
    "img-ratios": Statement(
        "Table 3.1", "what CIFAR-2 on Gaussian noise keeps follows from Table B.1, random place, 16-on-32"
    ),
    "img-larger": Statement("Appendix B.4", "larger images are classified better, in all cases"),
    "img-order": Statement(
        "Appendix B.4",
        "in virtually all cases a fixed corner is easier than a random corner, and that than a random place",
        "in virtually all cases a fixed corner is easier than a random place",
    ),
    "img-loss": Statement(
        "Appendix B.4",
        "on larger images noise takes less from the WRN, and as much from the NTK",
        "on larger images noise takes less from both, for every placement",
    ),
}


def checks(table: pd.DataFrame = TABLE_B_1) -> pd.DataFrame:
    """Return everything that is checked of Table B.1."""
    least, most = table.columns[0], table.columns[-1]
    kept = (100 * table[most] / table[least])[SMALL].xs(ANYWHERE, level="placement")
    gains = table.loc[LARGE] - table.loc[SMALL]
    less_lost = gains[most] - gains[least]
    columns = table.stack().unstack("placement")  # a row a size, model and strength of noise
    fixed, corner, place = (columns[name] for name in (ONE_CORNER, ANY_CORNER, ANYWHERE))
    cases, count = gains.size, len(columns)
    slack = 0.1 * count  # nine in ten count as virtually all
    ratio, rounding = "kept at most noise (%)", 0.005  # of Table 3.1, which has two decimals
    return check_table(
        [
            Check("img-ratios", f"{WRN}: {ratio}", kept[WRN], GAUSSIAN.network, rounding),
            Check("img-ratios", f"{NTK}: {ratio}", kept[NTK], GAUSSIAN.kernel, rounding),
            Check(
                "img-larger", f"pairs of {cases} in which they are", int((gains > 0).sum().sum()), cases, 0
            ),
            *(
                Check("img-order", text, int(held.sum()), count, slack, printed=printed)
                for text, held, printed in (
                    (f"columns of {count} in this order", (fixed > corner) & (corner > place), True),
                    ("in which the fixed corner is the best", (fixed > corner) & (fixed > place), True),
                    ("in which it is better than a random place", fixed > place, False),
                )
            ),
            # losses that change by less than a point count as equal
            Check("img-loss", "NTK: points less lost, mean of placements", less_lost[NTK].mean(), 0.0, 1.0),
            Check("img-loss", "WRN: placements with less lost", int((less_lost[WRN] > 0).sum()), 3, 0),
            Check("img-loss", "rows of 6 with less lost", int((less_lost > 0).sum()), 6, 0, printed=False),
        ]
    )
