"""The thesis' claims on images (Karp 2024, Chapter 3), each with its tolerance and its effect.

What is *kept* is the accuracy at most noise over that at none, seed by seed, in per cent; above chance where
the share of the more frequent class is taken off both. Published numbers are of the thesis' own data and
network, which the presets `gpu` and `paper` have; of small ones its directions are judged. Tolerances are
fixed before the runs that they judge.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from sameloss.statistics.bootstrap import UNDEFINED, Interval
from sameloss.studies.local_signal_images.backgrounds import ANY_CORNER, ANYWHERE, ONE_CORNER
from sameloss.studies.local_signal_images.published import AMONG_ANIMALS, GAUSSIAN, Setting
from sameloss.studies.local_signal_images.results import NOTHING, ImageResults, Seeds, difference, over_seeds
from sameloss.studies.local_signal_images.runs import AFTER, BEST, GCV, NETWORK
from sameloss.studies.verdict import Claim, Judged, Topic

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
