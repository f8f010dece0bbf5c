"""Results on images in noise, and the thesis' claims and statements judged by them."""

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

# Results

# Percentage points above chance that a predictor needs without noise for its ratios to be defined.
ABOVE = 5.0


@dataclass(frozen=True)
class ImageResults:
    """Tables of the runs, with accuracies and ratios computed from them.

    `table` has a row per size, placement, noise, seed, measure and predictor or layer (`of`); `lazy` one per
    seed and scale; `widths` one per width (channels of the last layer), seed, measure and predictor.
    """

    table: pd.DataFrame
    lazy: pd.DataFrame
    widths: pd.DataFrame
    theirs: Setting | None = None  # the row of Table 3.1 with these data and this network

    @property
    def size(self) -> str:
        """The page's size, image-on-background as in Table B.1."""
        return str(self.table["size"].iloc[0])

    @property
    def placement(self) -> str:
        """The placement that is measured at every noise."""
        return str(self.table.placement.iloc[0])

    @property
    def kernel(self) -> str:
        """The predictor that stands for the tangent kernel: solved, or the linearised network."""
        return Model.GCV if (self.table.of == Model.GCV).any() else Model.LINEARISED

    def at(self, placement: str, size: str | None = None) -> pd.DataFrame:
        """Rows of a placement and a size (None: the page's)."""
        return self.table[(self.table.placement == placement) & (self.table["size"] == (size or self.size))]

    @property
    def noises(self) -> list[float]:
        """Noise levels at the page's placement, increasing."""
        return sorted(set(self.at(self.placement).noise))

    def accuracies(self, of: str, placement: str, size: str | None = None) -> pd.DataFrame:
        """Test accuracies (%) of a predictor, seed by noise; empty if it was not measured."""
        return 100 * by_seed(self.at(placement, size), "noise", Measure.ACCURACY, of)

    def kept(
        self, of: str, placement: str, size: str | None = None, *, above_chance: bool = False
    ) -> pd.Series:
        """Accuracy at most noise as a percentage of that without noise, by seed.

        NaN if the predictor is hardly above chance without noise; empty if it was not measured.

        Args:
            of: predictor.
            placement: of images.
            size: image-on-background; None: the page's.
            above_chance: subtract the frequency of the largest class from both accuracies.

        """
        accuracies = self.accuracies(of, placement, size)
        if accuracies.shape[1] < 2:
            return pd.Series(dtype=float)
        above = accuracies - self.accuracies(Model.CHANCE, placement, size)
        least, most = ((above if above_chance else accuracies).iloc[:, end] for end in (0, -1))
        return 100 * most / least * (1 if above.iloc[:, 0].mean() >= ABOVE else np.nan)

    def active(self, measure: str, noise: float) -> pd.DataFrame:
        """Active neurons (%), seed by layer."""
        table = self.at(self.placement)
        return 100 * by_seed(table[table.noise == noise], "of", measure)

    def fall(self, noise: float) -> pd.DataFrame:
        """Decrease of active neurons in training (percentage points), seed by layer."""
        return self.active(Measure.BEFORE, noise) - self.active(Measure.ACTIVE, noise)

    def of_lazy(self, measure: str = Measure.ACCURACY) -> pd.DataFrame:
        """A measurement of lazy training (%), seed by scale."""
        return 100 * self.lazy.pivot_table(index="seed", columns="scale", values=measure)

    def by_width(self, of: str, measure: str = Measure.ACCURACY) -> pd.DataFrame:
        """Accuracies (%), seed by width."""
        return 100 * by_seed(self.widths, "width", measure, of)

    @property
    def above_kernel(self) -> pd.DataFrame:
        """Accuracy of networks minus that of their kernels (percentage points), seed by width."""
        return self.by_width(Model.NETWORK) - self.by_width(Model.GCV)


def by_seed(table: pd.DataFrame, columns: str, measure: str, of: str | None = None) -> pd.DataFrame:
    """Pivot one measure to seed by `columns`, for one predictor or (None) for every row."""
    rows = table[(table.measure == measure) & ((table.of == of) | (of is None))]
    return rows.pivot_table(index="seed", columns=columns, values="value")


def over_seeds(values: ArrayLike) -> Interval:
    """Mean over seeds with its interval; undefined if there are no seeds or a value is NaN."""
    values = np.asarray(values, float)
    return UNDEFINED if not len(values) or np.isnan(values).any() else seed_interval(values)


# Claims on images (Karp 2024, Chapter 3)
#
# "Kept" is accuracy at most noise over accuracy without noise, by seed, in per cent; "above chance" subtracts
# the frequency of the largest class from both. Published numbers are judged only on the thesis' data and
# network (presets `gpu` and `paper`), directions everywhere. Tolerances were fixed before the runs.

NEAR = 3.0  # accuracies closer than this (percentage points) count as equal

# Tolerances (percentage points): another sample of noise here, a single run of each in the thesis.
WRN_POINTS, NTK_POINTS = 3.0, 6.0


def kept_more(
    results: ImageResults,
    one: str = Model.NETWORK,
    other: str | None = None,
    placement: str = ANYWHERE,
    size: int = 0,
    *,
    chance: bool = False,
) -> Interval:
    """Difference between what two predictors keep (points).

    Args:
        results: of the study.
        one: predictor.
        other: predictor it is compared with; None: the tangent kernel.
        placement: of images.
        size: 0 for the page's size, 1 for the next one measured.
        chance: compare accuracies above chance.

    """
    if len(sizes := list(results.table["size"].unique())) <= size:
        return UNDEFINED
    kept = partial(results.kept, placement=placement, size=sizes[size], above_chance=chance)
    return over_seeds(kept(one) - kept(other or results.kernel))


def active_falls(results: ImageResults, over: str = "mean", *, noisy: bool = True) -> Interval:
    """Decrease of active neurons (points), the mean or minimum over all layers but the first."""
    falls = results.fall(results.noises[-1 if noisy else 0])
    return over_seeds(falls.iloc[:, 1:].agg(over, axis=1))


def lazy_effect(results: ImageResults, id: str) -> Interval:
    """Effect of one of the claims `LAZY`, from the smallest and largest scale and the kernel."""
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
    """Advantage over its kernel (points) of the narrowest network, minus that of the widest."""
    above = results.above_kernel
    return UNDEFINED if above.empty else over_seeds(above.iloc[:, 0] - above.iloc[:, -1])


def published_kept(results: ImageResults, setting: Setting, of: str | None) -> Interval:
    """Accuracy kept (%) in a setting of the thesis; undefined for other data or networks."""
    same = results.theirs == setting
    return over_seeds(results.kept(of or results.kernel, setting.placement)) if same else UNDEFINED


Effect = Callable[[ImageResults], Interval]

OURS, POINTS = "this book", "accuracy points"


def _claim(id: str, text: str, effect: Effect, place: str, unit: str, **published: float) -> Claim:
    return Claim(f"img-{id}", place, text, "ii3_images", effect, unit=unit, **published)


def _kept(id: str, text: str, place: str = OURS, **options: Any) -> Claim:
    return _claim(id, text, partial(kept_more, **options), place, "points kept")


def _active(id: str, text: str, **options: Any) -> Claim:
    return _claim(id, text, partial(active_falls, **options), "Fig. 3.2", "points of neurons")


CORNERS = {"random-corner": ANY_CORNER, "fixed-corner": ONE_CORNER}

CHANCE_BEST: dict[str, Any] = {"other": Model.BEST, "chance": True}

MORE_THAN_BEST = "and above chance more than the kernel with the best λ, in a"

KEEPS = (
    _kept("kept", "the network keeps more of its accuracy than its kernel (random place)", "Table 3.1"),
    _kept(
        "kept-best", "it keeps more than the kernel with the λ that is best on the test set", other=Model.BEST
    ),
    _kept("kept-chance", "above chance it keeps more than its kernel", chance=True),
    _kept("kept-chance-best", "above chance it keeps more than the kernel with the best λ", **CHANCE_BEST),
    *(
        _kept(f"kept-{id}", f"it keeps more of its accuracy in a {place}", "Table B.1", placement=place)
        for id, place in CORNERS.items()
    ),
    *(
        _kept(f"kept-{id}-best", f"{MORE_THAN_BEST} {place}", placement=place, **CHANCE_BEST)
        for id, place in CORNERS.items()
    ),
    _kept(
        "kept-size",
        "it keeps more of its accuracy on images of another size (random place)",
        "Table B.1",
        size=1,
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

WIDTH_TEXT = "the widest network is above its kernel by less than the narrowest above its own"

WIDER = _claim("width", WIDTH_TEXT, narrows, OURS, POINTS)


def _own(id: str, setting: Setting) -> Iterator[Claim]:
    """Claims on both numbers of a row of Table 3.1."""
    network, kernel = setting.network, setting.kernel
    for model, of, text, value, points in (
        ("wrn", Model.NETWORK, f"the WRN keeps {network} % on {setting.name}", network, WRN_POINTS),
        ("ntk", None, f"its linearisation {kernel} %", kernel, NTK_POINTS),
    ):
        effect, tolerance = partial(published_kept, setting=setting, of=of), points / value
        yield _claim(f"own-{id}{model}", text, effect, "Table 3.1", "%", value=value, tolerance=tolerance)


TOPICS = (
    Topic("Images: does a network keep in noise the accuracy that its tangent kernel loses?", KEEPS),
    Topic("Images: is what the network learnt in its kernel?", (LEARNT,)),
    Topic("Images: do fewer neurons become active?", SPARSE),
    Topic(
        "Images: does a network in lazy training become its kernel?",
        tuple(_claim(id, text, partial(lazy_effect, id=id), OURS, POINTS) for id, text in LAZY.items()),
    ),
    Topic("Images: does a wider network come closer to its kernel?", (WIDER,)),
    # The other two rows of Table 3.1 are not judged: the pictures of plants that the thesis drew are unknown.
    Topic(
        "Images: the thesis' own data and network", (*_own("", GAUSSIAN), *_own("vehicles-", AMONG_ANIMALS))
    ),
)

# Printed tables, and statements about them

TABLE_3_1 = (
    Setting("CIFAR-10 on pictures of plants", ANYWHERE, 98.97, 69.75),
    AMONG_ANIMALS,
    Setting("CIFAR-2 on pictures of plants", ANYWHERE, 99.79, 92.81),
    GAUSSIAN,
)

SMALL, LARGE = "16-on-32", "32-on-64"

WRN, NTK = "WRN", "NTK"

# Accuracies (%) on CIFAR-2 by size, model and placement, and by σ of the noise; one run each.
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
    """Checks of the statements, computed from Table B.1."""
    least, most = table.columns[0], table.columns[-1]
    kept = (100 * table[most] / table[least])[SMALL].xs(ANYWHERE, level="placement")
    gains = table.loc[LARGE] - table.loc[SMALL]
    less_lost = gains[most] - gains[least]
    columns = table.stack().unstack("placement")  # a row per size, model and noise
    fixed, corner, place = (columns[name] for name in (ONE_CORNER, ANY_CORNER, ANYWHERE))
    cases, count = gains.size, len(columns)
    slack = 0.1 * count  # nine in ten count as virtually all
    rounding = 0.005  # Table 3.1 has two decimals
    in_order, fixed_best = (fixed > corner) & (corner > place), (fixed > corner) & (fixed > place)
    rows: list[tuple] = [
        ("ratios", "WRN: kept at most noise (%)", kept[WRN], GAUSSIAN.network, rounding),
        ("ratios", "NTK: kept at most noise (%)", kept[NTK], GAUSSIAN.kernel, rounding),
        ("larger", f"pairs of {cases} in which they are", int((gains > 0).sum().sum()), cases, 0),
        ("order", f"columns of {count} in this order", int(in_order.sum()), count, slack),
        ("order", "in which the fixed corner is the best", int(fixed_best.sum()), count, slack),
        (
            "order",
            "in which it is better than a random place",
            int((fixed > place).sum()),
            count,
            slack,
            False,
        ),
        # losses that differ by less than a point count as equal
        ("loss", "NTK: points less lost, mean of placements", less_lost[NTK].mean(), 0.0, 1.0),
        ("loss", "WRN: placements with less lost", int((less_lost[WRN] > 0).sum()), 3, 0),
        ("loss", "rows of 6 with less lost", int((less_lost > 0).sum()), 6, 0, False),
    ]
    return check_table([Check(f"img-{of}", *check) for of, *check in rows])
