"""The thesis' claims on stability (Karp 2024, Chapter 2), each with its tolerance and its effect.

An exponent is b of a·m^b, fitted by logarithms seed by seed to the largest value of a seed's pairs. The
numbers that survive in the text are of its own data and networks, which the presets `gpu` and `paper` have;
of small ones its directions are judged. Tolerances are fixed before the runs that they judge.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from sameloss.statistics.bootstrap import UNDEFINED, Interval
from sameloss.studies.stability.results import STOPS, Seeds, Stability, least, over_seeds
from sameloss.studies.stability.settings import (
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
from sameloss.studies.verdict import Claim, Judged, Topic

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
