"""What twin trainings showed, and the thesis' claims and statements, judged by it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.statistics.intervals import UNDEFINED, Interval, seed_interval
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
from sameloss.studies.stability.theory import BOUNDED, exponent, gap_bound
from sameloss.studies.statement import Check, Statement, check_table
from sameloss.studies.verdict import Claim, Topic

# What twin trainings found, put side by side: by seed and size, and as exponents of the size.

Seeds = Float[np.ndarray, " seed"]

GAP, BETA = "gap cross-entropy", "beta cross-entropy"

MIDDLE = 1
"""Of three stops the one that all is about where no other is named: the thesis' 100,000 steps."""


@dataclass(frozen=True)
class Stability:
    """Everything that was measured of twins."""

    kinds: tuple[Kind, ...]
    sizes: tuple[int, ...]
    twins: pd.DataFrame  # one row a kind, size, seed, pair and step, with the columns of `twin_table`
    falls: pd.DataFrame  # from `falls_of`

    def at(self, kind: Kind, stop: int = MIDDLE) -> pd.DataFrame:
        """Return what was measured of a kind at a stop."""
        return self.twins[(self.twins.kind == kind.name) & (self.twins.step == kind.stops[stop])]

    def values(self, kind: Kind, measure: str, over: str = "max", stop: int = MIDDLE) -> np.ndarray:
        """Return a measure by seed and size: of pairs the largest, as in the thesis, or what `over` names."""
        by_seed = self.at(kind, stop).groupby(["seed", "size"])[measure].agg(over)
        return by_seed.unstack("size")[list(self.sizes)].to_numpy()

    def exponents(self, kind: Kind, measure: str, over: str = "max", stop: int = MIDDLE) -> Seeds:
        """Return the exponent of the size of the sample, seed by seed."""
        return exponent(self.sizes, self.values(kind, measure, over, stop))

    def slower(self, kind: Kind, measure: str, than: str = GAP, stop: int = MIDDLE) -> Seeds:
        """Return by how much a measure falls less steeply with the size than another, seed by seed."""
        return self.exponents(kind, measure, stop=stop) - self.exponents(kind, than, stop=stop)

    def worst_barrier(self, kind: Kind) -> Seeds:
        """Return the largest fall of each seed's paths, in points of test accuracy."""
        falls = self.falls[(self.falls.kind == kind.name) & (self.falls.seen == "test")]
        return falls.groupby("seed").barrier.max().to_numpy()


def falls_of(paths: pd.DataFrame) -> pd.DataFrame:
    """Return by how many points accuracy falls between the ends of each path, below the worse of them.

    Args:
        paths: accuracies `test` and `trained` (shares) by kind, size, seed, pair and alpha.

    Returns:
        One row a path and kind of images `seen`, with its `barrier`.

    """
    about = ["kind", "size", "seed", "pair"]
    ends, between = paths[paths.alpha.isin([0, 1])], paths[paths.alpha.between(0, 1)]
    lowest = [part.groupby(about, sort=False)[["test", "trained"]].min() for part in (ends, between)]
    falls = 100 * (lowest[0] - lowest[1])
    return falls.rename_axis(columns="seen").stack().rename("barrier").reset_index()


def gap_bounds(found: Stability) -> pd.DataFrame:
    """Return gap and bound (2.1) for each bounded loss, model and size, from the largest over all pairs."""
    rows = []
    for kind, loss, size in product(found.kinds, BOUNDED, found.sizes):
        pairs = found.at(kind).query("size == @size")
        gap, beta = (float(pairs[f"{measure} {loss}"].max()) for measure in ("gap", "beta"))
        rows.append((kind.name, loss, size, gap, beta, gap_bound(beta, size)))
    return pd.DataFrame(rows, columns=["model", "loss", "m", "gap", "β", "bound"])


def over_seeds(values: Seeds) -> Interval:
    """Return the mean over seeds with its interval; undefined where a seed has no value."""
    return UNDEFINED if np.isnan(values).any() else seed_interval(values)


# The thesis' claims on stability (Karp 2024, Chapter 2), each with its tolerance and its effect.
#
# An exponent is b of a·m^b, fitted by logarithms seed by seed to the largest value of a seed's pairs. The
# numbers that survive in the text are of its own data and networks, which the presets `gpu` and `paper` have;
# of small ones its directions are judged. Tolerances are fixed before the runs that they judge.

PAGE = "ii2_stability"

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

EVERY = "every network"
"""In the place of a kind's name: all that are not convex."""

Effect = Callable[[Stability, Kind], Seeds]


def effect_of(name: str, effect: Effect) -> Callable[[Stability], Interval]:
    """Return the effect of a kind of training, or the least of `EVERY`; undefined where there is none."""

    def judged(found: Stability) -> Interval:
        kinds = [k for k in found.kinds if k.name == name or (name == EVERY and not k.network.convex)]
        return over_seeds(np.min([effect(found, kind) for kind in kinds], 0)) if kinds else UNDEFINED

    return judged


def slower(measure: str, than: str = GAP, by: float = 0.0) -> Effect:
    """Return by how much a measure falls less steeply than another, beyond a margin."""
    return lambda found, kind: found.slower(kind, measure, than) - by


def without_z(loss: str) -> Effect:
    """Return by how much β falls less steeply than the gap of the same loss, z left out."""
    return slower(f"others {loss}", f"gap {loss}")


def above(measure: str, floor: float = 0.0) -> Effect:
    """Return by how much an exponent lies above a number."""
    return lambda found, kind: found.exponents(kind, measure) - floor


def steepness(measure: str) -> Effect:
    """Return minus the exponent of a measure."""
    return lambda found, kind: -found.exponents(kind, measure)


def at_every_stop(found: Stability, kind: Kind) -> Seeds:
    """Return the least advantage of the gap over β at the three stops."""
    return np.min([found.slower(kind, BETA, stop=stop) for stop in range(3)], 0)


def gaps_agree(found: Stability, kind: Kind) -> Seeds:
    """Return by how much exponents of the gap, of errors and of the loss, differ by less than `AGREE`."""
    return AGREE - np.abs(found.slower(kind, "gap 0-1"))


def where_it_fits(effect: Effect) -> Effect:
    """Return an effect, of nothing where the models have not fitted their samples of every size."""

    def judged(found: Stability, kind: Kind) -> Seeds:
        errors = found.at(kind).groupby("size")["trained error"].mean()
        return np.array([np.nan]) if errors.max() > FITTED else effect(found, kind)

    return judged


def agree(difference: Interval) -> Interval:
    """Return by how much a difference of exponents stays below `AGREE`, in whichever direction.

    >>> [round(end, 2) for end in agree(Interval(0.1, -0.05, 0.25))]
    [0.25, 0.1, 0.35]
    """
    value, low, high = difference
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return Interval(AGREE - abs(value), AGREE - max(abs(low), abs(high)), AGREE - nearest)


def _claim(id: str, place: str, text: str, kind: str, effect: Effect, value: float | None = None) -> Claim:
    return Claim(f"stab-{id}", place, text, PAGE, effect_of(kind, effect), unit="exponent", value=value)


def _every(id: str, place: str, text: str, effect: Effect) -> Claim:
    return _claim(id, place, f"{text} ({EVERY})", EVERY, effect)


def _lr(id: str, text: str, measure: str) -> Claim:
    """Return that a measure and the gap of logistic regression fall alike."""
    claim, difference = _claim(id, "Fig. 2.1", text, LR, slower(measure)), effect_of(LR, slower(measure))
    return replace(claim, effect=lambda found: agree(difference(found)))


def _path(id: str, kind: str, models: str, connected: bool) -> Claim:
    """Return that accuracy on a line between some models stays, or that it falls."""
    place, less, sign = ("Fig. 2.4 (1a)", "less", 1) if connected else ("Fig. 2.4 (2b)", "more", -1)
    text = f"accuracy on a line{models} falls by {less} than {POINTS:g} points"
    claim = _claim(id, place, text, kind, lambda found, kind: sign * (POINTS - found.worst_barrier(kind)))
    return replace(claim, unit="accuracy points")


NETWORKS = {"plain": MLP, "momentum": MOMENTUM, "cnn-plain": CNN, "cnn": CNN_MOMENTUM}
OURS = "this book"
LESS = "falls less steeply than the gap"
MUCH_LESS = f"{LESS}, by {CLEARLY}"
HARDLY = f"hardly falls: its exponent is above -{LITTLE}"
APART = slower("distance", by=CLEARLY)
NORM_APART = slower("normalised", by=CLEARLY)

CLAIMS = {
    "is logistic regression as stable as it generalises?": [
        _lr("lr-beta", f"β and the gap fall alike (exponents within {AGREE})", BETA),
        _lr("lr-distance", f"parameters and the gap do (within {AGREE})", "distance"),
        _claim(
            "lr-errors",
            "Fig. 2.1",
            "the 0-1 gap falls less steeply than that of the loss",
            LR,
            slower("gap 0-1"),
        ),
    ],
    "do networks keep the loss at single images unstable?": [
        *(_claim(f"beta-{id}", "Fig. 2.2", f"{m}: β {LESS}", m, slower(BETA)) for id, m in NETWORKS.items()),
        _claim("beta-flat", "Fig. 2.2 (2a)", f"with momentum β {HARDLY}", MOMENTUM, above(BETA, -LITTLE)),
        _every(
            "beta-bounded",
            OURS,
            f"the total variation, z left out, {LESS} of a bounded loss",
            slower("others total variation", "gap Brier"),
        ),
        _every(
            "beta-others", OURS, f"β of the cross-entropy, z left out, {LESS}", without_z("cross-entropy")
        ),
        _every(
            "beta-clipped", OURS, f"β of the clipped cross-entropy, z left out, {LESS}", without_z("clipped")
        ),
        _every("beta-brier", OURS, f"β of the Brier score, z left out, {LESS}", without_z("Brier")),
        _every("stops", "Figs. A.5 to A.10", f"β {LESS} at all stops", at_every_stop),
        _claim(
            "gaps",
            "Figs. 2.2, A.3",
            f"the 0-1 gap and that of the loss fall alike (within {AGREE}, {EVERY})",
            EVERY,
            gaps_agree,
        ),
    ],
    "do networks keep parameters unstable?": [
        *(
            _claim(f"distance-{id}", "Fig. 2.3", f"{name}: the distance {MUCH_LESS}", name, APART)
            for id, name in NETWORKS.items()
            if name != MOMENTUM
        ),
        _claim(
            "distance-momentum",
            "Fig. 2.3",
            "with momentum it grows with the sample",
            MOMENTUM,
            above("distance"),
        ),
        _every("norm", "Fig. A.12", "norms grow with the sample", above("norm")),
        _every("normalised", "Fig. A.13", f"over the norm it {MUCH_LESS}", NORM_APART),
    ],
    "does a line connect what twins end in?": [
        _path("path-plain", MLP, " between perceptrons", connected=True),
        _path("path-momentum", MOMENTUM, " between perceptrons with momentum", connected=False),
        _path("path-cnn", CNN, " between CNNs", connected=True),
        _path("path-cnn-momentum", CNN_MOMENTUM, " between CNNs with momentum", connected=False),
    ],
    "is a convex problem with a wide basin unstable, too?": [
        _claim(
            "convex",
            "Section 2.5",
            f"β {LESS} where more parameters than examples are fitted",
            CONVEX,
            where_it_fits(slower(BETA)),
        ),
        _claim(
            "convex-distance",
            "Section 2.5",
            f"and the distance does, by {CLEARLY}",
            CONVEX,
            where_it_fits(APART),
        ),
    ],
    "the thesis' own trainings": [  # of data and networks that the presets `gpu` and `paper` have
        _claim("own-lr", "Fig. 2.1", "the gap falls as m^-1.13", THEIRS_LR, steepness(GAP), 1.13),
        _claim("own-lr-errors", "Fig. 2.1", "the 0-1 gap as m^-0.82", THEIRS_LR, steepness("gap 0-1"), 0.82),
        _claim("own-1a", "Fig. 2.2 (1a)", f"β {LESS}", THEIRS_1A, slower(BETA)),
        _claim(
            "own-2a-gap",
            "Fig. A.3 (2a)",
            "the gap falls as m^-0.48, -0.44, -0.42 to -0.45",
            THEIRS_2A,
            steepness(GAP),
            0.45,
        ),
        _claim("own-2a", "Fig. A.3 (2a)", f"β {HARDLY}", THEIRS_2A, above(BETA, -LITTLE)),
        _claim("own-2b", "Fig. 2.2 (2b)", "β falls as m^-0.17", THEIRS_2B, steepness(BETA), 0.17),
        _path("own-1a-path", THEIRS_1A, "", connected=True),
        _path("own-2b-path", THEIRS_2B, "", connected=False),
    ],
}

TOPICS = tuple(Topic(f"Stability: {question}", tuple(claims)) for question, claims in CLAIMS.items())


# What is exact about stability, judged: suprema over all swaps, and the bounds that promise them.

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
        bounds: from `gap_bounds`.

    """
    nearest = min(swaps.drawn, key=lambda count: abs(count - 40))  # pairs that the thesis draws
    drawn = swaps[(swaps.drawn == nearest) & (swaps["loss"] != "0-1")]  # which is 1 once an answer changes
    text = "{0}, m = {1}: the largest of {2} random swaps (median) over that of all"
    columns = zip(drawn["loss"], drawn["size"], drawn.drawn, drawn["median"] / drawn.exact, strict=True)
    rows = [Check("swaps", text.format(*about), share, 0.7, 0.3) for *about, share in columns]  # 40 to 100 %
    for row in swaps[swaps["loss"] == "cross-entropy"].drop_duplicates("size").itertuples():
        distance, change = row.distance / row.bound, row.exact / (row.slope * row.bound)
        rows.append(
            Check("hrs", f"m = {row.size}: distance of parameters over its bound", distance, 0.5, 0.5)
        )
        rows.append(Check("hrs", f"m = {row.size}: change of the loss over its bound", change, 0.5, 0.5))
    broken = int((ridge.change > ridge.bound).sum())
    rows.append(Check("be", f"cases of {len(ridge)} in which a swap changes more", broken, 0, 0))
    for loss, largest in (bounds.gap / bounds.bound).groupby(bounds["loss"]).max().items():
        text = f"{loss}: the largest gap over the bound, all sizes and models"
        rows.append(Check("bound", text, largest, 0.5, 0.5))
    return check_table(rows)
