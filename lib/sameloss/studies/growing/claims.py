"""The thesis' claims on growing (Karp 2024, Chapter 5), each with its number, its tolerance, and its effect.

Losses are KLs here, so their scale is another: numbers are compared where they are correlations or relative
regrets, and elsewhere only directions. Tolerances are fixed before the runs that they judge.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from sameloss.statistics.bootstrap import UNDEFINED, Interval, seed_interval
from sameloss.statistics.prediction import mean_correlation, rank_correlation
from sameloss.studies.growing.results import MEASURES, Grown
from sameloss.studies.verdict import Claim, Topic

PAGE = "ii5_growing"

OURS = "this book"

LITTLE_REGRET = 0.25
"""A relative regret below this counts as nearly the best operator."""

Seeds = Float[np.ndarray, " seed"]


@dataclass(frozen=True)
class GrowthClaim(Claim):
    """A claim about growing, judged where growing gains anything."""

    effect: Callable[[Grown], Interval]
    gated: bool = True  # whether it means nothing where depth gains nothing

    def compute(self, grown: Grown) -> Interval:
        """Return the effect; undefined where depth gains nothing and the claim is about who gains most."""
        return UNDEFINED if self.gated and not grown.headroom().low > 0 else self.effect(grown)


def early_correlation(grown: Grown) -> Interval:
    """Return the rank correlation of the early KL with the final one."""
    return mean_correlation(grown.correlations(grown.early))


def misleads(grown: Grown, *fillings: str) -> Interval:
    """Return minus the rank correlation of the initial KL with the final one, among some ways to begin."""
    among = grown.of(*fillings) if fillings else None
    found = mean_correlation(grown.correlations(0, among))
    return Interval(-found.value, -found.high, -found.low)


def rise(grown: Grown) -> Interval:
    """Return by how much the early KL predicts better than the initial one."""
    return seed_interval(grown.correlations(grown.early) - grown.correlations(0))


def _lag(grown: Grown) -> Seeds:
    return grown.regrets(grown.look(grown.settings.lag))


def disruption_pays(grown: Grown) -> Interval:
    """Return by how much what ends best begins above what disrupts least, in nats."""
    best = grown.final.argmin(1)
    first = grown.kl[:, 0]
    return seed_interval(first[np.arange(len(best)), best] - first.min(1))


def preserving_is_worse(grown: Grown) -> Interval:
    """Return by how much preserving operators end above copies, mean over each, in nats."""
    preserving, copies = grown.of("silent", "muted"), grown.of("duplicate")
    if not preserving.any():
        return UNDEFINED
    return seed_interval(grown.final[:, preserving].mean(1) - grown.final[:, copies].mean(1))


def beyond_landscape(grown: Grown) -> Interval:
    """Return by how much the early KL predicts better than the best of the measures of the landscape."""
    found = [
        [rank_correlation(own, final) for own, final in zip(grown.landscape[name], grown.final, strict=True)]
        for name in MEASURES
    ]
    return seed_interval(grown.correlations(grown.early) - np.max(found, 0))


def _claim(
    id: str, place: str, text: str, effect: Callable[[Grown], Interval], unit: str, value: float | None = None
) -> GrowthClaim:
    return GrowthClaim(f"grow-{id}", place, text, PAGE, effect, value=value, unit=unit)


def _regret_below(other: Callable[[Grown], Seeds]) -> Callable[[Grown], Interval]:
    """Return by how much LAG's relative regret is below another."""
    return lambda grown: seed_interval(other(grown) - _lag(grown))


RANKS, REGRET, NATS = "Spearman", "relative regret", "nats"

GAIN = Topic(
    "Growing: is there depth to gain?",
    (
        GrowthClaim("grow-headroom", OURS, "the best grown model ends below the one that did not grow", PAGE,
                    Grown.headroom, False, unit="log KL"),
        _claim("scratch", OURS, "at equal FLOPs, LAG's choice ends below a model trained from nothing",
               lambda grown: seed_interval(grown.scratch[:, -1] - grown.chosen()), NATS),
    ),
)  # fmt: skip

INITIAL = Topic(
    "Growing: does the loss right after it mislead?",
    (
        _claim("initial", "Fig. 5.2", "the initial loss orders operators backwards (minus the correlation)",
               misleads, RANKS, 0.418),
        _claim("initial-copies", OURS, "it does so among copies alone (minus the correlation)",
               lambda grown: misleads(grown, "duplicate"), RANKS),
        _claim("disruption", "§5.3.1", "what ends best begins above what disrupts least",
               disruption_pays, NATS),
        _claim("preserving", "§5.1", "operators that preserve the function end above copies",
               preserving_is_worse, NATS),
    ),
)  # fmt: skip

EARLY_LOSS = Topic(
    "Growing: does the loss soon after it tell which operator is best?",
    (
        _claim("early", "Fig. 5.2", "the loss after 5 % of the steps orders operators as the last one does",
               early_correlation, RANKS, 0.986),
        _claim("rise", "Fig. 5.2", "it does so better than the initial loss", rise, RANKS),
        _claim("landscape", OURS, "and better than gradient, trace and curvature at the beginning",
               beyond_landscape, RANKS),
        _claim("shared", OURS, "the final order is the same for every shallow model",
               Grown.shared_order, RANKS),
    ),
)  # fmt: skip

CHOICE = Topic(
    "Growing: does LAG choose well?",
    (
        _claim("lag", "Tab. 5.1", f"LAG's relative regret stays below {LITTLE_REGRET}",
               lambda grown: seed_interval(LITTLE_REGRET - _lag(grown)), REGRET),
        _claim("lag-lot", OURS, "it is below that of a choice by lot", _regret_below(Grown.by_lot), REGRET),
        _claim("lag-initial", "Tab. 5.1", "it is below that of choosing by the initial loss",
               _regret_below(lambda grown: grown.regrets(0)), REGRET, 0.7986),
        _claim("lag-last", "Tab. 5.1", "it is below that of the last layers once more, on top",
               _regret_below(lambda grown: grown.regrets_of(grown.settings.last)), REGRET, 0.5517),
    ),
)  # fmt: skip

TOPICS = (GAIN, INITIAL, EARLY_LOSS, CHOICE)
"""Questions and the claims about each, the most direct one first."""

CLAIMS = tuple(claim for topic in TOPICS for claim in topic.claims)
