"""Results of trainings of twins, and the thesis' claims and statements that they judge."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.statistics.intervals import LEVEL, Interval, least, within
from sameloss.studies.stability.experiment import Kind
from sameloss.studies.stability.theory import BOUNDED, exponent, gap_bound
from sameloss.studies.statement import Check, check_table, statements_of
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
    twins: pd.DataFrame  # from `by_seed`, by kind, size, seed and step
    falls: pd.DataFrame  # from `falls_of`

    @property
    def networks(self) -> list[str]:
        """Kinds that are not convex; all kinds if every one is convex."""
        return [name for name, kind in self.kinds.items() if not kind.network.convex] or list(self.kinds)

    def at(self, kind: str, stop: int = MIDDLE) -> pd.DataFrame:
        """Rows of a kind at a stop."""
        return self.twins[(self.twins.kind == kind) & (self.twins.step == self.kinds[kind].stops[stop])]

    def values(self, kind: str, measure: str, stop: int = MIDDLE) -> np.ndarray:
        """A measure by seed and size."""
        return self.at(kind, stop).pivot_table(measure, "seed", "size")[list(self.sizes)].to_numpy()

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
"""Exponents above minus this count as flat, and effects within it as negligible."""

POINTS = 2.0
"""Accuracy that a connecting path may lose (Frankle et al. 2020)."""

FITTED = 0.005
"""Largest training error of a model that counts as fitted."""

EVERY = "every network"
"""In place of a kind's name: all that are not convex."""

Effect = Callable[[Stability, str], Seeds]
Judged = Callable[[Interval], Interval]


def effect_of(name: str, *effects: Effect, of: Judged = lambda own: own) -> Callable[..., Interval]:
    """The smallest effect for a kind of training, or for `EVERY` one; undefined where there is none."""

    def judged(results: Stability, level: float = LEVEL) -> Interval:
        kinds = [
            k for k in results.kinds if k == name or (name == EVERY and not results.kinds[k].network.convex)
        ]
        return least([effect(results, kind) for kind in kinds for effect in effects], level, of)

    return judged


def slower(measure: str, than: str = GAP, by: float = 0.0, stop: int = MIDDLE) -> Effect:
    """How much less steeply a measure falls than another, beyond a margin."""
    return lambda results, kind: results.slower(kind, measure, than, stop) - by


def above(measure: str, floor: float = 0.0) -> Effect:
    """By how much the exponent of a measure exceeds a floor."""
    return lambda results, kind: results.exponents(kind, measure) - floor


def steepness(measure: str) -> Effect:
    """Minus the exponent of a measure."""
    return lambda results, kind: -results.exponents(kind, measure)


def where_it_fits(effect: Effect) -> Effect:
    """An effect, undefined unless samples of all sizes have been fitted."""

    def judged(results: Stability, kind: str) -> Seeds:
        errors = results.at(kind).groupby("size")["trained error"].mean()
        return np.array([np.nan]) if errors.max() > FITTED else effect(results, kind)

    return judged


AGREES = partial(within, margin=AGREE)


def _claim(
    id: str, place: str, text: str, kind: str, *effects: Effect, of: Judged = lambda own: own, **more: Any
) -> Claim:
    return Claim(f"stab-{id}", place, text, PAGE, effect_of(kind, *effects, of=of), unit="exponent", **more)


_sign = partial(_claim, margin=LITTLE)
"""Claim that an effect is positive, however small."""


def _path(id: str, kind: str, models: str, connected: bool) -> Claim:
    """Claim that the accuracy on a line between some models stays, or that it falls."""
    place, less, sign = ("Fig. 2.4 (1a)", "less", 1) if connected else ("Fig. 2.4 (2b)", "more", -1)
    text = f"on a line{models}, accuracy falls by {less} than {POINTS:g} points"
    claim = _claim(id, place, text, kind, lambda results, kind: sign * (POINTS - results.worst_barrier(kind)))
    return replace(claim, unit="accuracy points")


NETWORKS = {"plain": MLP, "momentum": MOMENTUM, "cnn-plain": CNN, "cnn": CNN_MOMENTUM}
ALIKE = f"fall at the same rate (exponents within {AGREE})"
LESS = "falls less steeply than the gap"
MUCH_LESS = f"{LESS}, by {CLEARLY}"
APART = slower("distance", by=CLEARLY)
VARIATION = slower("others total variation", "gap Brier")
HARDLY = f"hardly falls: its exponent is above -{LITTLE}"

WHERE_FITTED = "where more parameters than examples are fitted"

TOPICS = (
    Topic("Stability: is logistic regression as stable as its generalisation gap suggests?", (
        _claim("lr-beta", "Fig. 2.1", f"β and the gap {ALIKE}", LR, slower(BETA), of=AGREES),
        _claim("lr-distance", "Fig. 2.1", f"distance and gap {ALIKE}", LR, slower("distance"), of=AGREES),
        _sign("lr-errors", "Fig. 2.1", "the gap of the 0-1 loss falls less steeply than that of the loss", LR,
              slower("gap 0-1")),
    )),
    Topic("Stability: is the loss of networks at single images unstable?", (
        *(_sign(f"beta-{id}", "Fig. 2.2", f"{m}: β {LESS}", m, slower(BETA)) for id, m in NETWORKS.items()),
        _claim("beta-flat", "Fig. 2.2 (2a)", f"with momentum β {HARDLY}", MOMENTUM, above(BETA, -LITTLE)),
        _sign("beta-bounded", OURS, f"z left out, the total variation {LESS} of a bounded loss ({EVERY})",
              EVERY, VARIATION),
        _sign("beta-others", OURS, f"z left out, β of the cross-entropy {LESS} ({EVERY})", EVERY,
              slower("others cross-entropy")),
        _sign("stops", "Figs. A.5 to A.10", f"wherever training stops, β {LESS} ({EVERY})", EVERY,
              *(slower(BETA, stop=stop) for stop in range(3))),
        _claim("gaps", "Figs. 2.2, A.3", f"the gaps of 0-1 loss and loss {ALIKE} ({EVERY})", EVERY,
               slower("gap 0-1"), of=AGREES),
    )),
    Topic("Stability: are the parameters of networks unstable?", (
        *(_claim(f"distance-{id}", "Fig. 2.3", f"{m}: the distance {MUCH_LESS}", m, APART)
          for id, m in NETWORKS.items() if m != MOMENTUM),
        _sign("distance-momentum", "Fig. 2.3", "with momentum the distance grows with the sample", MOMENTUM,
              above("distance")),
        _sign("norm", "Fig. A.12", f"norms of parameters grow with the sample ({EVERY})", EVERY,
              above("norm")),
        _claim("normalised", "Fig. A.13", f"divided by the norm, the distance {MUCH_LESS} ({EVERY})", EVERY,
               slower("normalised", by=CLEARLY)),
    )),
    Topic("Stability: does a straight line connect the solutions of twins?", (
        _path("path-plain", MLP, " between perceptrons", connected=True),
        _path("path-momentum", MOMENTUM, " between perceptrons with momentum", connected=False),
        _path("path-cnn", CNN, " between CNNs", connected=True),
        _path("path-cnn-momentum", CNN_MOMENTUM, " between CNNs with momentum", connected=False),
    )),
    Topic("Stability: is a convex problem with a wide basin unstable, too?", (
        _sign("convex", "Section 2.5", f"β {LESS} {WHERE_FITTED}", CONVEX, where_it_fits(slower(BETA))),
        _claim("convex-distance", "Section 2.5", f"the distance {LESS} {WHERE_FITTED}, by {CLEARLY}", CONVEX,
               where_it_fits(APART)),
    )),
    Topic("Stability: the thesis' own trainings", (  # of data and networks that these presets have
        _claim("own-lr", "Fig. 2.1", "logistic regression, MNIST: the gap falls as m^-1.13", THEIRS_LR,
               steepness(GAP), value=1.13),
        _claim("own-lr-errors", "Fig. 2.1", "logistic regression, MNIST: the 0-1 gap falls as m^-0.82",
               THEIRS_LR, steepness("gap 0-1"), value=0.82),
        _sign("own-1a", "Fig. 2.2 (1a)", f"ResNet-20, SVHN: β {LESS}", THEIRS_1A, slower(BETA)),
        _claim("own-2a-gap", "Fig. A.3 (2a)",
               "ResNet-20, CIFAR-10: the gap falls as m^-0.48, -0.44, -0.42 to -0.45", THEIRS_2A,
               steepness(GAP), value=0.45),
        _claim("own-2a", "Fig. A.3 (2a)", f"ResNet-20, CIFAR-10: β {HARDLY}", THEIRS_2A,
               above(BETA, -LITTLE)),
        _claim("own-2b", "Fig. 2.2 (2b)", "ResNet-20, CIFAR-10, momentum: β falls as m^-0.17", THEIRS_2B,
               steepness(BETA), value=0.17),
        _path("own-1a-path", THEIRS_1A, " between ResNet-20s, SVHN", connected=True),
        _path("own-2b-path", THEIRS_2B, " between ResNet-20s, CIFAR-10, momentum", connected=False),
    ), ("gpu", "paper")),
)  # fmt: skip


# The statement that the thesis starts from, and its checks.

STATEMENTS = statements_of("ii2_stability")


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
