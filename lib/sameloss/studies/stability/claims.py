"""What twin trainings showed, and the thesis' claims and statements, judged by it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.statistics.bootstrap import UNDEFINED, Interval, seed_interval
from sameloss.studies.stability.experiment import (
    CNN,
    CNN_MOMENTUM,
    CONVEX,
    LR,
    MLP,
    MOMENTUM,
    THEIRS_1A,
    THEIRS_2A,
    THEIRS_2B,
    THEIRS_LR,
    Kind,
)
from sameloss.studies.stability.theory import BOUNDED, exponent
from sameloss.studies.stability.training import GRID, barrier
from sameloss.studies.statement import Check, Statement, check_table
from sameloss.studies.verdict import Claim, Judged, Topic

# What twin trainings found, put side by side: by seed and size, and as exponents of the size.

Seeds = Float[np.ndarray, " seed"]

T = TypeVar("T")

Over = Literal["max", "high", "mean"]
"""What is taken of a seed's pairs: the thesis takes the largest; `high` is their quantile of 80 %."""

HIGH = 0.8
"""Of six pairs it is the second largest."""

STOPS = 3

MIDDLE = 1
"""The stop that all is about where no other is named: the thesis' 100,000 steps."""


@dataclass(frozen=True)
class Stability:
    """Everything that was measured of twins."""

    kinds: tuple[Kind, ...]
    sizes: tuple[int, ...]
    table: pd.DataFrame  # one row a kind, size, seed, pair and step, with the columns of `twin_table`
    falls: pd.DataFrame  # from `falls_of`
    whole: bool = True  # with all kinds of its preset; a record may be older than one

    def kind(self, name: str) -> Kind | None:
        """Return a kind of training, if it is one of these."""
        return next((kind for kind in self.kinds if kind.name == name), None)

    @property
    def deep(self) -> tuple[Kind, ...]:
        """Return the kinds whose loss is not convex."""
        return tuple(kind for kind in self.kinds if kind.deep)

    def at(self, kind: Kind, stop: int = MIDDLE) -> pd.DataFrame:
        """Return what was measured of a kind at a stop."""
        return self.table[(self.table.kind == kind.name) & (self.table.step == kind.stops[stop])]

    def values(
        self, kind: Kind, measure: str, over: Over = "max", stop: int = MIDDLE
    ) -> Float[np.ndarray, "seed size"]:
        """Return a measure, of each seed's pairs the largest, a high quantile or the mean."""
        pairs = self.at(kind, stop).groupby(["seed", "size"])[measure]
        found = pairs.quantile(HIGH) if over == "high" else pairs.agg(over)
        return found.unstack("size")[list(self.sizes)].to_numpy()

    def exponents(self, kind: Kind, measure: str, over: Over = "max", stop: int = MIDDLE) -> Seeds:
        """Return the exponent of the size of the sample, seed by seed."""
        return exponent(self.sizes, self.values(kind, measure, over, stop))

    def slower(self, kind: Kind, measure: str, than: str, over: Over = "max", stop: int = MIDDLE) -> Seeds:
        """Return by how much a measure falls less steeply with the size than another, seed by seed."""
        return self.exponents(kind, measure, over, stop) - self.exponents(kind, than, over, stop)

    def barriers(self, kind: Kind, seen: str = "test") -> pd.DataFrame:
        """Return by how many points of accuracy each path falls, by size, seed and pair."""
        return self.falls[(self.falls.kind == kind.name) & (self.falls.seen == seen)]

    def worst_barrier(self, kind: Kind) -> Seeds:
        """Return the largest fall of each seed's paths, in points of test accuracy."""
        return self.barriers(kind).groupby("seed").barrier.max().to_numpy()


def falls_of(paths: pd.DataFrame) -> pd.DataFrame:
    """Return by how many points accuracy falls between the ends of each path.

    Args:
        paths: accuracies `test` and `trained` (shares) by kind, size, seed, pair and alpha.

    Returns:
        One row a path and kind of images `seen`, with its `barrier`.

    """
    about = ["kind", "size", "seed", "pair"]
    rows = [
        (*where, seen, 100 * float(barrier(path.sort_values("alpha")[seen].to_numpy(), GRID)))
        for where, path in paths.groupby(about, sort=False)
        for seen in ("test", "trained")
    ]
    return pd.DataFrame(rows, columns=[*about, "seen", "barrier"])


def over_seeds(values: Seeds) -> Interval:
    """Return the mean over seeds with its interval; undefined where a seed has no value."""
    return UNDEFINED if not len(values) or np.isnan(values).any() else seed_interval(values)


def least(cases: Sequence[T], effect: Callable[[T], Seeds]) -> Seeds:
    """Return of every seed the least effect of some cases; of none nothing."""
    return np.min([effect(case) for case in cases], 0) if cases else np.array([])


# The thesis' claims on stability (Karp 2024, Chapter 2), each with its tolerance and its effect.
#
# An exponent is b of a·m^b, fitted by logarithms seed by seed to the largest value of a seed's pairs. The
# numbers that survive in the text are of its own data and networks, which the presets `gpu` and `paper` have;
# of small ones its directions are judged. Tolerances are fixed before the runs that they judge.

PAGE = "ii2_stability"

OURS = "this book"

AGREE = 0.35
"""Exponents that differ by less count as the same."""

CLEARLY = 0.3
"""By so much an exponent has to be above that of the gap where parameters are about."""

LITTLE = 0.25
"""An exponent above minus this is no fall to speak of."""

POINTS = 2.0
"""Of accuracy: what a connecting path may lose (Frankle et al. 2020)."""

FITTED = 0.005
"""A model that errs on no more of its sample has fitted it."""

CE = "cross-entropy"

GAP, BETA = f"gap {CE}", f"beta {CE}"


@dataclass(frozen=True)
class StabilityClaim(Claim):
    """A claim about twins."""

    effect: Callable[[Stability], Interval]


def agree(difference: Interval) -> Interval:
    """Return by how much a difference of exponents stays below `AGREE`, in whichever direction.

    >>> [round(end, 2) for end in agree(Interval(0.1, -0.05, 0.25))]
    [0.25, 0.1, 0.35]
    """
    value, low, high = difference
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return Interval(AGREE - abs(value), AGREE - max(abs(low), abs(high)), AGREE - nearest)


def of_kind(name: str, effect: Callable[[Stability, Kind], Seeds]) -> Callable[[Stability], Interval]:
    """Return an effect of one kind of training; undefined where there is none such."""

    def found(stability: Stability) -> Interval:
        kind = stability.kind(name)
        return UNDEFINED if kind is None else over_seeds(effect(stability, kind))

    return found


def of_deep(effect: Callable[[Stability, Kind], Seeds]) -> Callable[[Stability], Interval]:
    """Return the least effect of all kinds that are not convex, seed by seed; undefined where one lacks."""

    def found(stability: Stability) -> Interval:
        if not stability.whole:
            return UNDEFINED
        return over_seeds(least(stability.deep, lambda kind: effect(stability, kind)))

    return found


def slower(measure: str, than: str = GAP, by: float = 0.0) -> Callable[[Stability, Kind], Seeds]:
    """Return by how much a measure falls less steeply than another, beyond a margin."""
    return lambda found, kind: found.slower(kind, measure, than) - by


def exponent_above(measure: str, floor: float) -> Callable[[Stability, Kind], Seeds]:
    """Return by how much an exponent lies above a number."""
    return lambda found, kind: found.exponents(kind, measure) - floor


def at_every_stop(found: Stability, kind: Kind) -> Seeds:
    """Return the least advantage of the gap over β at the three stops."""
    return least(range(STOPS), lambda stop: found.slower(kind, BETA, GAP, stop=stop))


def without_z(loss: str) -> Callable[[Stability, Kind], Seeds]:
    """Return by how much β falls less steeply than the gap of the same loss, z left out."""
    return slower(f"others {loss}", f"gap {loss}")


def gaps_agree(found: Stability, kind: Kind) -> Seeds:
    """Return by how much exponents of the gap, of errors and of the loss, differ by less than `AGREE`."""
    return AGREE - np.abs(found.slower(kind, "gap 0-1", GAP))


def where_it_fits(effect: Callable[[Stability], Interval], name: str) -> Callable[[Stability], Interval]:
    """Return an effect, undefined where the models have not fitted their samples of every size."""

    def found(stability: Stability) -> Interval:
        kind = stability.kind(name)
        if kind is None or stability.at(kind).groupby("size")["trained error"].mean().max() > FITTED:
            return UNDEFINED
        return effect(stability)

    return found


EXPONENT, ACCURACY = "exponent", "accuracy points"


def _claim(
    id: str,
    place: str,
    text: str,
    effect: Callable[[Stability], Interval],
    unit: str = EXPONENT,
    value: float | None = None,
) -> StabilityClaim:
    return StabilityClaim(f"stab-{id}", place, text, PAGE, effect, unit=unit, value=value)


def steepness(measure: str) -> Callable[[Stability, Kind], Seeds]:
    """Return minus the exponent of a measure."""
    return lambda found, kind: -found.exponents(kind, measure)


def _lr_agrees(measure: str) -> Callable[[Stability], Interval]:
    difference = of_kind(LR, slower(measure))
    return lambda found: agree(difference(found))


AS_STABLE = Topic(
    "Stability: is logistic regression as stable as it generalises?",
    (
        _claim(
            "lr-beta", "Fig. 2.1", f"β and the gap fall alike (exponents within {AGREE})", _lr_agrees(BETA)
        ),
        _claim(
            "lr-distance", "Fig. 2.1", f"parameters and the gap do (within {AGREE})", _lr_agrees("distance")
        ),
        _claim(
            "lr-errors",
            "Fig. 2.1",
            "the 0-1 gap falls less steeply than that of the loss",
            of_kind(LR, slower("gap 0-1")),
        ),
    ),
)

NETWORKS = {"plain": MLP, "momentum": MOMENTUM, "cnn-plain": CNN, "cnn": CNN_MOMENTUM}

LESS = "falls less steeply than the gap"

LOSSES = Topic(
    "Stability: do networks keep the loss at single images unstable?",
    (
        *(
            _claim(f"beta-{id}", "Fig. 2.2", f"{name}: β {LESS}", of_kind(name, slower(BETA)))
            for id, name in NETWORKS.items()
        ),
        _claim(
            "beta-flat",
            "Fig. 2.2 (2a)",
            f"with momentum β hardly falls: its exponent is above -{LITTLE}",
            of_kind(MOMENTUM, exponent_above(BETA, -LITTLE)),
        ),
        _claim(
            "beta-bounded",
            OURS,
            f"the total variation, z left out, {LESS} of a bounded loss (every network)",
            of_deep(slower("others total variation", "gap Brier")),
        ),
        *(
            _claim(
                f"beta-{id}",
                OURS,
                f"β of {name}, z left out, {LESS} (every network)",
                of_deep(without_z(loss)),
            )
            for id, loss, name in (
                ("others", CE, "the cross-entropy"),
                ("clipped", "clipped", "the clipped cross-entropy"),
                ("brier", "Brier", "the Brier score"),
            )
        ),
        _claim(
            "stops", "Figs. A.5 to A.10", f"β {LESS} at all stops (every network)", of_deep(at_every_stop)
        ),
        _claim(
            "gaps",
            "Figs. 2.2, A.3",
            f"the 0-1 gap and that of the loss fall alike (within {AGREE}, every network)",
            of_deep(gaps_agree),
        ),
    ),
)

PARAMETERS = Topic(
    "Stability: do networks keep parameters unstable?",
    (
        *(
            _claim(
                f"distance-{id}",
                "Fig. 2.3",
                f"{name}: the distance {LESS}, by {CLEARLY}",
                of_kind(name, slower("distance", by=CLEARLY)),
            )
            for id, name in NETWORKS.items()
            if name != MOMENTUM
        ),
        _claim(
            "distance-momentum",
            "Fig. 2.3",
            "with momentum it grows with the sample",
            of_kind(MOMENTUM, exponent_above("distance", 0.0)),
        ),
        _claim(
            "norm",
            "Fig. A.12",
            "norms grow with the sample (every network)",
            of_deep(exponent_above("norm", 0.0)),
        ),
        _claim(
            "normalised",
            "Fig. A.13",
            f"over the norm it {LESS}, by {CLEARLY} (every network)",
            of_deep(slower("normalised", by=CLEARLY)),
        ),
    ),
)

PATHS = Topic(
    "Stability: does a line connect what twins end in?",
    (
        _claim(
            "path-plain",
            "Fig. 2.4 (1a)",
            f"accuracy on a line between perceptrons falls by less than {POINTS:g} points",
            of_kind(MLP, lambda found, kind: POINTS - found.worst_barrier(kind)),
            ACCURACY,
        ),
        _claim(
            "path-momentum",
            "Fig. 2.4 (2b)",
            f"accuracy on a line between perceptrons with momentum falls by more than {POINTS:g} points",
            of_kind(MOMENTUM, lambda found, kind: found.worst_barrier(kind) - POINTS),
            ACCURACY,
        ),
        _claim(
            "path-cnn",
            "Fig. 2.4 (1a)",
            f"accuracy on a line between CNNs falls by less than {POINTS:g} points",
            of_kind(CNN, lambda found, kind: POINTS - found.worst_barrier(kind)),
            ACCURACY,
        ),
        _claim(
            "path-cnn-momentum",
            "Fig. 2.4 (2b)",
            f"accuracy on a line between CNNs with momentum falls by more than {POINTS:g} points",
            of_kind(CNN_MOMENTUM, lambda found, kind: found.worst_barrier(kind) - POINTS),
            ACCURACY,
        ),
    ),
)

WIDE = Topic(
    "Stability: is a convex problem with a wide basin unstable, too?",
    (
        _claim(
            "convex",
            "Section 2.5",
            f"β {LESS} where more parameters than examples are fitted",
            where_it_fits(of_kind(CONVEX, slower(BETA)), CONVEX),
        ),
        _claim(
            "convex-distance",
            "Section 2.5",
            f"and the distance does, by {CLEARLY}",
            where_it_fits(of_kind(CONVEX, slower("distance", by=CLEARLY)), CONVEX),
        ),
    ),
)

OWN = Topic(
    "Stability: the thesis' own trainings",
    (
        _claim(
            "own-lr", "Fig. 2.1", "the gap falls as m^-1.13", of_kind(THEIRS_LR, steepness(GAP)), value=1.13
        ),
        _claim(
            "own-lr-errors",
            "Fig. 2.1",
            "the 0-1 gap as m^-0.82",
            of_kind(THEIRS_LR, steepness("gap 0-1")),
            value=0.82,
        ),
        _claim("own-1a", "Fig. 2.2 (1a)", f"β {LESS}", of_kind(THEIRS_1A, slower(BETA))),
        _claim(
            "own-2a-gap",
            "Fig. A.3 (2a)",
            "the gap falls as m^-0.48, -0.44, -0.42 to -0.45",
            of_kind(THEIRS_2A, steepness(GAP)),
            value=0.45,
        ),
        _claim(
            "own-2a",
            "Fig. A.3 (2a)",
            f"β hardly falls: its exponent is above -{LITTLE}",
            of_kind(THEIRS_2A, exponent_above(BETA, -LITTLE)),
        ),
        _claim(
            "own-2b", "Fig. 2.2 (2b)", "β falls as m^-0.17", of_kind(THEIRS_2B, steepness(BETA)), value=0.17
        ),
        _claim(
            "own-1a-path",
            "Fig. 2.4 (1a)",
            f"accuracy on a line falls by less than {POINTS:g} points",
            of_kind(THEIRS_1A, lambda found, kind: POINTS - found.worst_barrier(kind)),
            ACCURACY,
        ),
        _claim(
            "own-2b-path",
            "Fig. 2.4 (2b)",
            f"accuracy on a line falls by more than {POINTS:g} points",
            of_kind(THEIRS_2B, lambda found, kind: found.worst_barrier(kind) - POINTS),
            ACCURACY,
        ),
    ),
)
"""Of data and networks that the presets `gpu` and `paper` have."""

TOPICS = (AS_STABLE, LOSSES, PARAMETERS, PATHS, WIDE, OWN)


def judged(found: Stability) -> Iterable[Judged]:
    """Return every claim with its effect."""
    for topic in TOPICS:
        for claim in topic.claims:
            yield Judged(claim, claim.effect(found))


# What is exact about stability, judged: suprema over all swaps, and the bounds that promise them.

SAMPLED = (0.4, 1.0)
"""Between these the largest of 40 random swaps is expected to lie, as a share of the largest of all."""

THEIRS = 40
"""Pairs that the thesis draws."""

STATEMENTS = {
    "swaps": Statement(
        "Section 2.3",
        "40 random swaps estimate a supremum: their largest change is 40 to 100 % of that of all swaps",
    ),
    "hrs": Statement(
        "Hardt et al. (2016), Theorem 3.8",
        "parameters of logistic regressions of twins are at most 2Lηt/m apart, and their losses L times that",
    ),
    "be": Statement(
        "Bousquet and Elisseeff (2002), Theorem 22",
        "a swap changes the squared loss of ridge regression by at most L²κ²/(λm)",
    ),
    "bound": Statement(
        "(2.1)",
        "for a bounded loss the gap is at most β log m log(m/δ) + √(log(1/δ)/m), with 1 for the constant",
    ),
}


def checks(swaps: pd.DataFrame, ridge: pd.DataFrame, bounds: pd.DataFrame) -> pd.DataFrame:
    """Return everything that is checked.

    Args:
        swaps: the tables of `AllSwaps` with a column `size`.
        ridge: that of `RidgeSwaps`.
        bounds: `gap` and `bound` by model, loss and size.

    """
    return check_table([*_swaps(swaps), *_descent(swaps), _ridge(ridge), *_bounds(bounds)])


def _swaps(swaps: pd.DataFrame) -> list[Check]:
    nearest = min(swaps.drawn, key=lambda count: abs(count - THEIRS))
    theirs = swaps[
        (swaps.drawn == nearest) & (swaps["loss"] != "0-1")
    ]  # which is 1 as soon as an answer changes
    seen = theirs["median"] / theirs.exact
    middle, half = sum(SAMPLED) / 2, (SAMPLED[1] - SAMPLED[0]) / 2
    rows = zip(theirs["loss"], theirs["size"], theirs.drawn, seen, strict=True)
    text = "{0}, m = {1}: the largest of {2} random swaps (median) over that of all"
    return [Check("swaps", text.format(*about), float(share), middle, half) for *about, share in rows]


def _descent(swaps: pd.DataFrame) -> list[Check]:
    found = []
    for size, own in swaps.groupby("size"):
        first = own[own["loss"] == "cross-entropy"].iloc[0]
        for what, value, bound in (
            ("distance of parameters", first.distance, first.bound),
            ("change of the loss", first.exact, first.slope * first.bound),
        ):
            found.append(Check("hrs", f"m = {size}: {what} over its bound", value / bound, 0.5, 0.5))
    return found


def _ridge(ridge: pd.DataFrame) -> Check:
    broken = int((ridge.change > ridge.bound).sum())
    return Check("be", f"cases of {len(ridge)} in which a swap changes more", broken, 0, 0)


def _bounds(bounds: pd.DataFrame) -> list[Check]:
    return [
        Check(
            "bound",
            f"{name}: the largest gap over the bound, all sizes and models",
            float((own.gap / own.bound).max()),
            0.5,
            0.5,
        )
        for name, own in bounds.groupby("loss")
        if name in BOUNDED
    ]
