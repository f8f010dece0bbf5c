"""Results on images in noise, and the thesis' claims and statements judged by them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from sameloss.statistics.intervals import UNDEFINED, Interval, least, seed_interval, within
from sameloss.studies.local_signal_images.experiment import Measure, Model
from sameloss.studies.local_signal_images.theory import ANY_CORNER, ANYWHERE, ONE_CORNER
from sameloss.studies.statement import Check, check_table, statements_of
from sameloss.studies.verdict import OURS, Claim, Topic

# Results

# Percentage points above chance that a predictor needs without noise for its ratios to be defined.
ABOVE = 5.0


@dataclass(frozen=True)
class ImageResults:
    """Tables of the runs, with accuracies and ratios computed from them.

    `table` has a row per size, placement, noise, seed, measure and predictor or layer (`of`), the page's own
    size and placement first; `lazy` one per seed and scale.
    """

    table: pd.DataFrame
    lazy: pd.DataFrame
    theirs: bool = False  # whether data and network are the thesis' own

    @property
    def places(self) -> list[tuple[str, str]]:
        """Pairs of placement and size (image-on-background as in Table B.1), the page's own first."""
        about = self.table[["placement", "size"]].drop_duplicates()
        return list(about.itertuples(index=False, name=None))

    @property
    def kernel(self) -> str:
        """The predictor that stands for the tangent kernel: solved, or the linearised network."""
        return Model.GCV if (self.table.of == Model.GCV).any() else Model.LINEARISED

    @property
    def noises(self) -> list[float]:
        """Noise levels at the page's placement, increasing."""
        return sorted(set(self.table.noise))

    def measured(self, measure: str, of: str, *place: str) -> pd.DataFrame:
        """A measure (%) of a predictor or layer, seed by noise; empty if there is none.

        Args:
            measure: to look up.
            of: predictor or layer.
            place: placement and size; none: the page's own.

        """
        placement, size = place or self.places[0]
        rows = self.table[(self.table.placement == placement) & (self.table["size"] == size)]
        rows = rows[(rows.measure == measure) & (rows.of == of)]
        return 100 * rows.pivot_table(index="seed", columns="noise", values="value")

    def accuracies(self, of: str, *place: str) -> pd.DataFrame:
        """Test accuracies (%) of a predictor, seed by noise."""
        return self.measured(Measure.ACCURACY, of, *place)

    def kept(self, of: str, *place: str, above_chance: bool = False) -> pd.Series:
        """Accuracy at most noise as a percentage of that without noise, by seed.

        NaN if the predictor is hardly above chance without noise; empty if it was not measured.

        Args:
            of: predictor.
            place: placement and size; none: the page's own.
            above_chance: subtract the frequency of the largest class from both accuracies.

        """
        accuracies = self.accuracies(of, *place)
        if accuracies.shape[1] < 2:
            return pd.Series(dtype=float)
        above = accuracies - self.accuracies(Model.CHANCE, *place)
        least, most = ((above if above_chance else accuracies).iloc[:, end] for end in (0, -1))
        return 100 * most / least * (1 if above.iloc[:, 0].mean() >= ABOVE else np.nan)

    def active(self, measure: str, noise: float) -> pd.DataFrame:
        """Active neurons (%) before or after training, seed by layer."""
        layers = sorted(set(self.table[self.table.measure == measure].of))
        return pd.DataFrame({layer: self.measured(measure, layer)[noise] for layer in layers})

    def fall(self, noise: float) -> pd.DataFrame:
        """Decrease of active neurons in training (percentage points), seed by layer."""
        return self.active(Measure.BEFORE, noise) - self.active(Measure.ACTIVE, noise)

    def of_lazy(self, measure: str = Measure.ACCURACY) -> pd.DataFrame:
        """A measurement of lazy training (%), seed by scale."""
        return 100 * self.lazy.pivot_table(index="seed", columns="scale", values=measure)


# Claims on images (Karp 2024, Chapter 3)
#
# "Kept" is accuracy at most noise over accuracy without noise, by seed, in per cent; "above chance" subtracts
# the frequency of the largest class from both. Published numbers are judged only on the thesis' data and
# network (presets `gpu` and `paper`), directions everywhere. Tolerances were fixed before the runs.

NEAR = 3.0  # accuracies closer than this (percentage points) count as equal


def kept_more(
    results: ImageResults,
    placement: str = ANYWHERE,
    size: int = 0,
    one: str = Model.NETWORK,
    other: str | None = None,
    **how: Any,
) -> Interval:
    """Difference between what two predictors keep (points).

    Args:
        results: of the study.
        placement: of images.
        size: 0 for the page's size, 1 for the next one measured.
        one: predictor.
        other: predictor it is compared with; None: the tangent kernel.
        how: arguments of `ImageResults.kept`.

    """
    sizes = results.table["size"].unique()
    place = placement, sizes[size] if size < len(sizes) else ""
    others = results.kept(other or results.kernel, *place, **how)
    return seed_interval(results.kept(one, *place, **how) - others)


def active_falls(results: ImageResults, *, every: bool = False, noise: int = -1) -> Interval:
    """Decrease of active neurons (points) after the first layer: the mean over layers, or the smallest."""
    falls = results.fall(results.noises[noise]).iloc[:, 1:]
    return least([falls[layer] for layer in falls]) if every else seed_interval(falls.mean(axis=1))


def lazy_effect(results: ImageResults, *, near: bool = False) -> Interval:
    """By how much a network in lazy training comes closer to its linearisation, or than `NEAR` (points).

    The linearisation is trained in the same way, not solved: a solved kernel is another training.
    """
    if results.lazy.empty:
        return UNDEFINED
    above = results.of_lazy() - results.of_lazy("limit")
    if near:
        return within(seed_interval(above.iloc[:, -1]), NEAR)
    return seed_interval(above.iloc[:, 0].abs() - above.iloc[:, -1].abs())


def published_kept(results: ImageResults, of: str | None) -> Interval:
    """Accuracy kept (%); undefined for other data or networks than the thesis'."""
    return seed_interval(results.kept(of or results.kernel)) if results.theirs else UNDEFINED


def _topic(question: str, unit: str, effect: Callable[..., Interval], *claims: tuple[Any, ...]) -> Topic:
    """Claims about one effect, each with its id, place, text and arguments of the effect."""
    made = (
        Claim(f"img-{id}", place, text, "ii3_images", partial(effect, **how), unit=unit)
        for id, place, text, how in claims
    )
    return Topic(f"Images: {question}", tuple(made))


def _own(id: str, of: str | None, name: str, kept: float, points: float) -> Claim:
    """A number of Table 3.1; it is from one run, and on another sample of noise than here."""
    text, effect = f"{name} keeps {kept} % for CIFAR-2 on Gaussian noise", partial(published_kept, of=of)
    about = (f"img-own-{id}", "Table 3.1", text, "ii3_images", effect)
    return Claim(*about, value=kept, unit="%", tolerance=points / kept)


LEARNT = {"one": Model.AFTER, "other": Model.GCV}
BEST_ABOVE = {"other": Model.BEST, "above_chance": True}

LAZY = "as its output is scaled up, the network's accuracy comes closer to that of its linearisation"
LAZY_NEAR = f"in lazy training the network comes to within {NEAR:g} points of its linearisation"

TOPICS = (
    _topic(
        "in noise, does a network keep the accuracy that its tangent kernel loses?", "points kept", kept_more,
        ("kept", "Table 3.1", "the network keeps more of its accuracy than its kernel (random place)", {}),
        ("kept-chance", OURS, "above chance, the network keeps more than its kernel", {"above_chance": True}),
        ("kept-chance-best", OURS, "above chance it keeps more than the kernel with the best λ", BEST_ABOVE),
        ("kept-random-corner", "Table B.1", "it keeps more in a random corner", {"placement": ANY_CORNER}),
        ("kept-fixed-corner", "Table B.1", "it keeps more in a fixed corner", {"placement": ONE_CORNER}),
        ("kept-size", "Table B.1", "the network keeps more (another size, random place)", {"size": 1}),
    ),
    _topic(
        "is what the network learnt in its kernel?", "points kept", kept_more,
        ("after", OURS, "the kernel at the trained parameters keeps more than the initial one", LEARNT),
    ),
    _topic(
        "do fewer neurons become active?", "points of neurons", active_falls,
        ("active", "Fig. 3.2", "after layer 1, training lowers the share of active neurons (mean)", {}),
        ("active-every", "Fig. 3.2", "the share falls in every layer after the first", {"every": True}),
        ("active-clean", "Fig. 3.2", "without noise the active share falls, too (mean)", {"noise": 0}),
    ),
    _topic(
        "does a network in lazy training become its linearisation?", "accuracy points", lazy_effect,
        ("lazy", OURS, LAZY, {}), ("lazy-near", OURS, LAZY_NEAR, {"near": True}),
    ),
    Topic("Images: the thesis' own data and network", (
        _own("wrn", Model.NETWORK, "the WRN", 96.83, points=3.0),
        _own("ntk", None, "its linearisation", 85.54, points=6.0),
    ), ("gpu", "paper")),
)  # fmt: skip

# A printed table, and statements about it

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

STATEMENTS = statements_of("ii3_images")


def checks(table: pd.DataFrame = TABLE_B_1) -> pd.DataFrame:
    """Checks of the statements, computed from Table B.1."""
    gains = table.loc[LARGE] - table.loc[SMALL]
    less_lost = gains[2.0] - gains[0.0]
    columns = table.stack().unstack("placement")  # a row per size, model and noise
    fixed, corner, place = (columns[name] for name in (ONE_CORNER, ANY_CORNER, ANYWHERE))
    cases, count = gains.size, len(columns)
    slack = 0.1 * count  # nine in ten count as virtually all
    in_order, fixed_best = (fixed > corner) & (corner > place), (fixed > corner) & (fixed > place)
    rows: list[tuple] = [
        ("larger", f"pairs of {cases} in which they are", (gains > 0).sum().sum(), cases, 0),
        ("order", f"columns of {count} in this order", in_order.sum(), count, slack),
        ("order", "in which the fixed corner is the best", fixed_best.sum(), count, slack),
        ("order", "in which it is better than a random place", (fixed > place).sum(), count, slack, False),
        # losses that differ by less than a point count as equal
        ("loss", "NTK: points less lost, mean of placements", less_lost[NTK].mean(), 0.0, 1.0),
        ("loss", "WRN: placements with less lost", (less_lost[WRN] > 0).sum(), 3, 0),
        ("loss", "rows of 6 with less lost", (less_lost > 0).sum(), 6, 0, False),
    ]
    return check_table([Check(f"img-{of}", text, float(value), *rest) for of, text, value, *rest in rows])
