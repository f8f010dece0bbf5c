"""What was measured of images in noise, and the thesis' claims and statements, judged by it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.statistics.bootstrap import UNDEFINED, Interval, seed_interval
from sameloss.studies.local_signal_images.backgrounds import ANY_CORNER, ANYWHERE, ONE_CORNER
from sameloss.studies.local_signal_images.experiment import (
    ACCURACY,
    ACTIVE,
    AFTER,
    BEFORE,
    BEST,
    CHANCE,
    GCV,
    LINEARISED,
    NETWORK,
)
from sameloss.studies.local_signal_images.published import (
    AMONG_ANIMALS,
    GAUSSIAN,
    NTK,
    TABLE_3_1,
    WRN,
    Setting,
    best_columns,
    columns_of,
    kept_table,
    loss_changes,
    size_gains,
)
from sameloss.studies.statement import Check, Statement, check_table
from sameloss.studies.verdict import Claim, Judged, Topic

# What was found on images, put side by side: accuracies by noise and placement, and what is kept of them.

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


# The thesis' claims on images (Karp 2024, Chapter 3), each with its tolerance and its effect.
#
# What is *kept* is the accuracy at most noise over that at none, seed by seed, in per cent; above chance
# where the share of the more frequent class is taken off both. Published numbers are of the thesis' own data
# and network, which the presets `gpu` and `paper` have; of small ones its directions are judged. Tolerances
# are fixed before the runs that they judge.

PAGE = "ii3_images"

OURS = "this book"

KEPT, POINTS, ACTIVE_POINTS = "points kept", "accuracy points", "points of neurons"

NEAR = 3.0
"""Accuracies that differ by less points count as the same."""

WRN_POINTS, NTK_POINTS = 3.0, 6.0
"""By so much ours may differ: another sample of noise, one run each of the thesis."""

Effect = Callable[[ImageResults], Interval]


@dataclass(frozen=True)
class ImageClaim(Claim):
    """A claim about images on backgrounds."""

    effect: Effect


def kept_more(
    one: str, other: str | None, placement: str, *, above_chance: bool = False, smaller: bool = False
) -> Effect:
    """Return by how many points one keeps more than another; None: than the tangent kernel."""

    def found(results: ImageResults) -> Interval:
        size = _other_size(results) if smaller else results.size
        if size is None:
            return UNDEFINED
        kept = [
            results.kept(of, placement, size, above_chance=above_chance)
            for of in (one, other or results.kernel)
        ]
        return over_seeds(difference(*kept))

    return found


def _other_size(results: ImageResults) -> str | None:
    return next((size for size in results.table["size"].unique() if size != results.size), None)


def of_theirs(setting: Setting, model: str | None) -> Effect:
    """Return what a model of the thesis keeps, in per cent; undefined of other data and networks."""

    def found(results: ImageResults) -> Interval:
        if results.theirs != setting:
            return UNDEFINED
        return over_seeds(results.kept(model or results.kernel, setting.placement))

    return found


def falls(layers: Callable[[np.ndarray], np.ndarray], *, noisy: bool = True) -> Effect:
    """Return by how many points the share of active neurons falls, of the layers behind the first."""

    def found(results: ImageResults) -> Interval:
        noises = results.noises(results.placement)
        fall = results.fall(noises[-1] if noisy else noises[0])
        return over_seeds(layers(fall[:, 1:])) if fall.shape[1] > 1 else UNDEFINED

    return found


def of_lazy(effect: Callable[[Seeds, Seeds, Seeds], Seeds]) -> Effect:
    """Return an effect of accuracies (%): at the least and at the largest scale, and the kernel's."""

    def found(results: ImageResults) -> Interval:
        if results.lazy.empty:
            return UNDEFINED
        lazy = 100 * results.lazy_accuracies()
        kernel = 100 * results.accuracies(GCV, results.placement)
        noise = float(results.lazy.noise.iloc[0])
        own = kernel[noise].to_numpy() if noise in kernel else NOTHING
        return (
            over_seeds(effect(lazy.iloc[:, 0].to_numpy(), lazy.iloc[:, -1].to_numpy(), own))
            if len(own)
            else UNDEFINED
        )

    return found


def narrows(results: ImageResults) -> Interval:
    """Return by how many points less the widest network is above its kernel than the narrowest."""
    above = results.above_kernel
    return over_seeds((above.iloc[:, 0] - above.iloc[:, -1]).to_numpy()) if above.shape[1] > 1 else UNDEFINED


def comes_closer(first: Seeds, last: Seeds, kernel: Seeds) -> Seeds:
    """Return by how much nearer the accuracy at the largest scale is to the kernel's.

    >>> comes_closer(np.array([90.0]), np.array([81.0]), np.array([80.0]))
    array([9.])
    """
    return np.abs(first - kernel) - np.abs(last - kernel)


def _claim(
    id: str, place: str, text: str, effect: Effect, unit: str = KEPT, **published: float
) -> ImageClaim:
    return ImageClaim(f"img-{id}", place, text, PAGE, effect, unit=unit, **published)


CORNERS = {"random-corner": ANY_CORNER, "fixed-corner": ONE_CORNER}

KEEPS = Topic(
    "Images: does a network keep in noise the accuracy that its tangent kernel loses?",
    (
        _claim(
            "kept",
            "Table 3.1",
            "the network keeps more of its accuracy than its kernel (random place)",
            kept_more(NETWORK, None, ANYWHERE),
        ),
        _claim(
            "kept-best",
            OURS,
            "it keeps more than the kernel with the λ that is best on the test set",
            kept_more(NETWORK, BEST, ANYWHERE),
        ),
        _claim(
            "kept-chance",
            OURS,
            "above chance it keeps more than its kernel",
            kept_more(NETWORK, None, ANYWHERE, above_chance=True),
        ),
        _claim(
            "kept-chance-best",
            OURS,
            "above chance it keeps more than the kernel with the best λ",
            kept_more(NETWORK, BEST, ANYWHERE, above_chance=True),
        ),
        *(
            _claim(
                f"kept-{id}",
                "Table B.1",
                f"it keeps more of its accuracy in a {placement}",
                kept_more(NETWORK, None, placement),
            )
            for id, placement in CORNERS.items()
        ),
        *(
            _claim(
                f"kept-{id}-best",
                OURS,
                f"and above chance more than the kernel with the best λ, in a {placement}",
                kept_more(NETWORK, BEST, placement, above_chance=True),
            )
            for id, placement in CORNERS.items()
        ),
        _claim(
            "kept-size",
            "Table B.1",
            "it keeps more of its accuracy on images of another size (random place)",
            kept_more(NETWORK, None, ANYWHERE, smaller=True),
        ),
    ),
)

LEARNT = Topic(
    "Images: is what the network learnt in its kernel?",
    (
        _claim(
            "after",
            OURS,
            "the kernel at the trained parameters keeps more accuracy than that at the first (random place)",
            kept_more(AFTER, GCV, ANYWHERE),
        ),
    ),
)

SPARSE = Topic(
    "Images: do fewer neurons become active?",
    (
        _claim(
            "active",
            "Fig. 3.2",
            "behind the first layer the active share falls in training at most noise (mean of layers)",
            falls(lambda deeper: deeper.mean(1)),
            ACTIVE_POINTS,
        ),
        _claim(
            "active-every",
            "Fig. 3.2",
            "the active share falls in every layer behind the first",
            falls(lambda deeper: deeper.min(1)),
            ACTIVE_POINTS,
        ),
        _claim(
            "active-clean",
            "Fig. 3.2",
            "without noise the active share falls, too (mean of layers behind the first)",
            falls(lambda deeper: deeper.mean(1), noisy=False),
            ACTIVE_POINTS,
        ),
    ),
)

LAZY = Topic(
    "Images: does a network in lazy training become its kernel?",
    (
        _claim(
            "lazy",
            OURS,
            "as its output is scaled up, the network's accuracy comes closer to the kernel's",
            of_lazy(comes_closer),
            POINTS,
        ),
        _claim(
            "lazy-falls",
            OURS,
            "in lazy training the network's accuracy falls",
            of_lazy(lambda first, last, _: first - last),
            POINTS,
        ),
        _claim(
            "lazy-near",
            OURS,
            f"in lazy training the network comes to within {NEAR:g} points of its kernel",
            of_lazy(lambda _, last, kernel: NEAR - np.abs(last - kernel)),
            POINTS,
        ),
    ),
)

WIDTH = Topic(
    "Images: does a wider network come closer to its kernel?",
    (
        _claim(
            "width",
            OURS,
            "the widest network is above its kernel by less than the narrowest above its own",
            narrows,
            POINTS,
        ),
    ),
)


def _own(id: str, setting: Setting) -> tuple[ImageClaim, ImageClaim]:
    """Return the two numbers of a row of Table 3.1."""
    network, kernel = setting.network, setting.kernel
    return (
        _claim(
            f"own-{id}wrn",
            "Table 3.1",
            f"the WRN keeps {network} % on {setting.name}",
            of_theirs(setting, NETWORK),
            "%",
            value=network,
            tolerance=WRN_POINTS / network,
        ),
        _claim(
            f"own-{id}ntk",
            "Table 3.1",
            f"its linearisation {kernel} %",
            of_theirs(setting, None),
            "%",
            value=kernel,
            tolerance=NTK_POINTS / kernel,
        ),
    )


OWN = Topic(
    "Images: the thesis' own data and network",
    (*_own("", GAUSSIAN), *_own("vehicles-", AMONG_ANIMALS)),
)
"""Of data and network that the presets `gpu` and `paper` have. Two rows of the table are not judged: which
pictures of plants the thesis drew is not known."""

TOPICS = (KEEPS, LEARNT, SPARSE, LAZY, WIDTH, OWN)


def judged(found: ImageResults) -> Iterable[Judged]:
    """Return every claim with its effect."""
    for topic in TOPICS:
        for claim in topic.claims:
            yield Judged(claim, claim.effect(found))


# What is exact about the printed tables, judged: counts and ratios that can be computed from them.

ROUNDING = 0.005
"""Per cent: Table 3.1 has two decimals."""

LEAST = 0.9
"""A share of the columns that counts as virtually all."""

NO_MORE = 1.0
"""Points by which losses may change and still count as equal."""

COLUMNS = 16
"""Of Table B.1: two sizes, two models and four strengths of noise, for each placement."""

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


def checks() -> pd.DataFrame:
    """Return everything that is checked."""
    return check_table([*_ratios(), _larger(), *_order(), *_losses()])


def _ratios() -> list[Check]:
    printed = next(row for row in TABLE_3_1 if row.name == "CIFAR-2 on Gaussian noise")
    kept = kept_table().query("size == '16-on-32' and placement == @ANYWHERE").set_index("model").kept
    return [
        Check("img-ratios", f"{model}: kept at most noise (%)", float(kept[model]), value, ROUNDING)
        for model, value in ((WRN, printed.network), (NTK, printed.kernel))
    ]


def _larger() -> Check:
    gains = size_gains().gain
    return Check(
        "img-larger", f"pairs of {len(gains)} in which they are", int((gains > 0).sum()), len(gains), 0
    )


def _order() -> list[Check]:
    whole = columns_of((ONE_CORNER, ANY_CORNER, ANYWHERE))
    slack = COLUMNS * (1 - LEAST)
    return [
        Check("img-order", f"columns of {COLUMNS} in this order", whole, COLUMNS, slack),
        Check("img-order", "in which the fixed corner is the best", best_columns(ONE_CORNER), COLUMNS, slack),
        Check(
            "img-order",
            "in which it is better than a random place",
            columns_of((ONE_CORNER, ANYWHERE)),
            COLUMNS,
            slack,
            printed=False,
        ),
    ]


def _losses() -> list[Check]:
    changes = loss_changes().set_index(["model", "placement"])["less lost"]
    printed = [
        Check(
            "img-loss", "NTK: points less lost, mean of placements", float(changes[NTK].mean()), 0.0, NO_MORE
        ),
        Check("img-loss", "WRN: placements with less lost", int((changes[WRN] > 0).sum()), 3, 0),
    ]
    both = Check("img-loss", "rows of 6 with less lost", int((changes > 0).sum()), 6, 0, printed=False)
    return [*printed, both]
