"""Results of trainings of twins, and the thesis' claims and statements that they judge."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.statistics.intervals import UNDEFINED, Interval, seed_interval
from sameloss.studies.stability.experiment import Kind
from sameloss.studies.stability.theory import BOUNDED, exponent, gap_bound
from sameloss.studies.statement import Check, Statement, check_table
from sameloss.studies.verdict import OURS, Claim, Topic

# Results by seed and sample size, and their exponents.

Seeds = Float[np.ndarray, " seed"]

GAP, BETA = "gap cross-entropy", "beta cross-entropy"

MIDDLE = 1
"""The default of three stops, which corresponds to the thesis' 100,000 steps."""


@dataclass(frozen=True)
class Stability:
    """All measurements of twins."""

    kinds: Mapping[str, Kind]  # by name
    sizes: Sequence[int]  # m
    twins: pd.DataFrame  # columns of `twin_table` by kind, size, seed, pair and step
    falls: pd.DataFrame  # from `falls_of`

    @property
    def networks(self) -> list[str]:
        """Kinds that are not convex; all kinds if every one is convex."""
        return [name for name, kind in self.kinds.items() if not kind.network.convex] or list(self.kinds)

    def at(self, kind: str, stop: int = MIDDLE) -> pd.DataFrame:
        """Rows of a kind at a stop."""
        return self.twins[(self.twins.kind == kind) & (self.twins.step == self.kinds[kind].stops[stop])]

    def values(self, kind: str, measure: str, stop: int = MIDDLE) -> np.ndarray:
        """A measure by seed and size, the largest over pairs as in the thesis."""
        by_seed = self.at(kind, stop).groupby(["seed", "size"])[measure].max()
        return by_seed.unstack("size")[list(self.sizes)].to_numpy()

    def exponents(self, kind: str, measure: str, stop: int = MIDDLE) -> Seeds:
        """Exponent in the sample size, by seed."""
        return exponent(self.sizes, self.values(kind, measure, stop))

    def slower(self, kind: str, measure: str, than: str = GAP, stop: int = MIDDLE) -> Seeds:
        """Exponent of a measure minus that of another, by seed; positive where it falls less steeply."""
        return self.exponents(kind, measure, stop=stop) - self.exponents(kind, than, stop=stop)

    def worst_barrier(self, kind: str) -> Seeds:
        """Largest barrier on each seed's paths, in points of test accuracy."""
        falls = self.falls[(self.falls.kind == kind) & (self.falls.seen == "test")]
        return falls.groupby("seed").barrier.max().to_numpy()


def falls_of(paths: pd.DataFrame) -> pd.DataFrame:
    """Points by which accuracy falls between the ends of each path, below the worse of them.

    Args:
        paths: accuracies `test` and `trained` in [0, 1], by kind, size, seed, pair and alpha.

    Returns:
        The `barrier` by path and images `seen`, test or trained.

    """
    about = ["kind", "size", "seed", "pair"]
    ends, between = paths[paths.alpha.isin([0, 1])], paths[paths.alpha.between(0, 1)]
    lowest = [part.groupby(about, sort=False)[["test", "trained"]].min() for part in (ends, between)]
    falls = 100 * (lowest[0] - lowest[1])
    return falls.rename_axis(columns="seen").stack().rename("barrier").reset_index()


# The thesis' claims on stability (Karp 2024, Chapter 2).
#
# Exponents are b of a·m^b, fitted to logarithms, by seed, of the largest value over a seed's pairs. The
# numbers that survive in the text are for its own data and networks, those of the presets `gpu` and `paper`;
# for small ones only directions are judged. Tolerances were fixed before the runs that they judge.

PAGE = "ii2_stability"

LR, CONVEX = "logistic regression", "random features"
MLP, MOMENTUM, CNN, CNN_MOMENTUM = "perceptron", "perceptron, momentum", "CNN", "CNN, momentum"

THEIRS_LR, THEIRS_1A = "LR, MNIST", "1a: ResNet-20, SVHN"
THEIRS_2A, THEIRS_2B = "2a: ResNet-20, CIFAR-10", "2b: ResNet-20, momentum"

AGREE = 0.35
"""Largest difference between exponents that count as equal."""

CLEARLY = 0.3
"""Least difference of the exponent of parameters from that of the gap."""

LITTLE = 0.25
"""Exponents above minus this count as flat."""

POINTS = 2.0
"""Accuracy that a connecting path may lose (Frankle et al. 2020)."""

FITTED = 0.005
"""Largest training error of a model that counts as fitted."""

EVERY = "every network"
"""In place of a kind's name: all that are not convex."""

Effect = Callable[[Stability, str], Seeds]


def effect_of(name: str, effect: Effect) -> Callable[[Stability], Interval]:
    """The effect for a kind of training, or the least for `EVERY`; undefined where there is none."""

    def judged(results: Stability) -> Interval:
        kinds = [
            k for k in results.kinds if k == name or (name == EVERY and not results.kinds[k].network.convex)
        ]
        return seed_interval(np.min([effect(results, kind) for kind in kinds], 0)) if kinds else UNDEFINED

    return judged


def slower(measure: str, than: str = GAP, by: float = 0.0) -> Effect:
    """How much less steeply a measure falls than another, beyond a margin."""
    return lambda results, kind: results.slower(kind, measure, than) - by


def above(measure: str, floor: float = 0.0) -> Effect:
    """By how much the exponent of a measure exceeds a floor."""
    return lambda results, kind: results.exponents(kind, measure) - floor


def steepness(measure: str) -> Effect:
    """Minus the exponent of a measure."""
    return lambda results, kind: -results.exponents(kind, measure)


def at_every_stop(results: Stability, kind: str) -> Seeds:
    """How much less steeply β falls than the gap, at the stop where this is least."""
    return np.min([results.slower(kind, BETA, stop=stop) for stop in range(3)], 0)


def gaps_agree(results: Stability, kind: str) -> Seeds:
    """`AGREE` minus the difference of the exponents of the 0-1 gap and of the gap of the loss."""
    return AGREE - np.abs(results.slower(kind, "gap 0-1"))


def where_it_fits(effect: Effect) -> Effect:
    """An effect, undefined unless samples of all sizes have been fitted."""

    def judged(results: Stability, kind: str) -> Seeds:
        errors = results.at(kind).groupby("size")["trained error"].mean()
        return np.array([np.nan]) if errors.max() > FITTED else effect(results, kind)

    return judged


def agree(difference: Interval) -> Interval:
    """`AGREE` minus the absolute value of a difference of exponents.

    >>> [round(end, 2) for end in agree(Interval(0.1, -0.05, 0.25))]
    [0.25, 0.1, 0.35]
    """
    value, low, high = difference
    nearest = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return Interval(AGREE - abs(value), AGREE - max(abs(low), abs(high)), AGREE - nearest)


def _claim(id: str, place: str, text: str, kind: str, effect: Effect, value: float | None = None) -> Claim:
    return Claim(f"stab-{id}", place, text, PAGE, effect_of(kind, effect), unit="exponent", value=value)


def _every(id: str, place: str, text: str, effect: Effect) -> Claim:
    """Claim about all networks, judged by its least effect, seed by seed."""
    return _claim(id, place, f"{text} ({EVERY})", EVERY, effect)


def _lr(id: str, text: str, measure: str) -> Claim:
    """Claim that a measure and the gap of logistic regression fall alike."""
    claim = _claim(id, "Fig. 2.1", text, LR, slower(measure))
    return replace(claim, effect=lambda results: agree(claim.effect(results)))


def _path(id: str, kind: str, models: str, connected: bool) -> Claim:
    """Claim that the accuracy on a line between some models stays, or that it falls."""
    place, less, sign = ("Fig. 2.4 (1a)", "less", 1) if connected else ("Fig. 2.4 (2b)", "more", -1)
    text = f"on a line{models}, accuracy falls by {less} than {POINTS:g} points"
    claim = _claim(id, place, text, kind, lambda results, kind: sign * (POINTS - results.worst_barrier(kind)))
    return replace(claim, unit="accuracy points")


NETWORKS = {"plain": MLP, "momentum": MOMENTUM, "cnn-plain": CNN, "cnn": CNN_MOMENTUM}
LESS = "falls less steeply than the gap"
MUCH_LESS = f"{LESS}, by {CLEARLY}"
APART = slower("distance", by=CLEARLY)
VARIATION = slower("others total variation", "gap Brier")
HARDLY = f"hardly falls: its exponent is above -{LITTLE}"

_LOGISTIC = (
    _lr("lr-beta", f"β and the gap fall at the same rate (exponents within {AGREE})", BETA),
    _lr("lr-distance", f"distance and gap fall at the same rate (exponents within {AGREE})", "distance"),
    _claim(
        "lr-errors",
        "Fig. 2.1",
        "the gap of the 0-1 loss falls less steeply than that of the loss",
        LR,
        slower("gap 0-1"),
    ),
)

_LOSSES = (
    *(_claim(f"beta-{id}", "Fig. 2.2", f"{m}: β {LESS}", m, slower(BETA)) for id, m in NETWORKS.items()),
    _claim("beta-flat", "Fig. 2.2 (2a)", f"with momentum β {HARDLY}", MOMENTUM, above(BETA, -LITTLE)),
    _every("beta-bounded", OURS, f"z left out, the total variation {LESS} of a bounded loss", VARIATION),
    _every("beta-others", OURS, f"z left out, β of the cross-entropy {LESS}", slower("others cross-entropy")),
    _every("stops", "Figs. A.5 to A.10", f"wherever training stops, β {LESS}", at_every_stop),
    _every(
        "gaps",
        "Figs. 2.2, A.3",
        f"the gaps of 0-1 loss and loss fall at the same rate, within {AGREE}",
        gaps_agree,
    ),
)

_PARAMETERS = (
    *(
        _claim(f"distance-{id}", "Fig. 2.3", f"{m}: the distance {MUCH_LESS}", m, APART)
        for id, m in NETWORKS.items()
        if m != MOMENTUM
    ),
    _claim(
        "distance-momentum",
        "Fig. 2.3",
        "with momentum the distance grows with the sample",
        MOMENTUM,
        above("distance"),
    ),
    _every("norm", "Fig. A.12", "norms of parameters grow with the sample", above("norm")),
    _every(
        "normalised",
        "Fig. A.13",
        f"divided by the norm, the distance {MUCH_LESS}",
        slower("normalised", by=CLEARLY),
    ),
)

_PATHS = (
    _path("path-plain", MLP, " between perceptrons", connected=True),
    _path("path-momentum", MOMENTUM, " between perceptrons with momentum", connected=False),
    _path("path-cnn", CNN, " between CNNs", connected=True),
    _path("path-cnn-momentum", CNN_MOMENTUM, " between CNNs with momentum", connected=False),
)

WHERE_FITTED = "where more parameters than examples are fitted"

_CONVEX = (
    _claim("convex", "Section 2.5", f"β {LESS} {WHERE_FITTED}", CONVEX, where_it_fits(slower(BETA))),
    _claim(
        "convex-distance",
        "Section 2.5",
        f"the distance {LESS} {WHERE_FITTED}, by {CLEARLY}",
        CONVEX,
        where_it_fits(APART),
    ),
)

_THESIS = (  # of data and networks that the presets `gpu` and `paper` have
    _claim("own-lr", "Fig. 2.1", "the gap falls as m^-1.13", THEIRS_LR, steepness(GAP), 1.13),
    _claim(
        "own-lr-errors", "Fig. 2.1", "the 0-1 gap falls as m^-0.82", THEIRS_LR, steepness("gap 0-1"), 0.82
    ),
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
)

TOPICS = (
    Topic("Stability: is logistic regression as stable as its generalisation gap suggests?", _LOGISTIC),
    Topic("Stability: is the loss of networks at single images unstable?", _LOSSES),
    Topic("Stability: are the parameters of networks unstable?", _PARAMETERS),
    Topic("Stability: does a straight line connect the solutions of twins?", _PATHS),
    Topic("Stability: is a convex problem with a wide basin unstable, too?", _CONVEX),
    Topic("Stability: the thesis' own trainings", _THESIS),
)


# The statement that the thesis starts from, and its checks.

STATEMENTS = {
    "bound": Statement(
        "(2.1)",
        "for a bounded loss the gap is at most β log m log(m/δ) + √(log(1/δ)/m), with 1 for the constant",
    ),
}


def checks(results: Stability) -> pd.DataFrame:
    """The largest gap over its bound (2.1) by bounded loss, over all models and sizes."""
    sizes, rows = np.array(results.sizes), []
    for loss in BOUNDED:
        gaps, betas = (
            np.array([results.values(kind, f"{measure} {loss}").max(0) for kind in results.kinds], float)
            for measure in ("gap", "beta")
        )
        text = f"{loss}: the largest gap over the bound, all sizes and models"
        rows.append(Check("bound", text, float((gaps / gap_bound(betas, sizes)).max()), 0.5, 0.5))
    return check_table(rows)
