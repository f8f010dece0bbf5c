"""The thesis' claims on growing (Karp 2024, Chapter 5), each with its number, its tolerance, and its effect.

Losses are KLs here, so their scale is another: numbers are compared where they are correlations or relative
regrets, and elsewhere only directions. Tolerances are fixed before the runs that they judge.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sameloss.statistics.bootstrap import UNDEFINED, Interval, seed_interval
from sameloss.statistics.prediction import mean_correlation, rank_correlation
from sameloss.studies.growing.results import FROM_NOTHING, MEASURES, TELLS, Grown
from sameloss.studies.growing.stacks import PAID, Stacks
from sameloss.studies.verdict import Claim, Judged, Topic

PAGE, STACKING = "ii5_growing", "ii5_stacking"

OURS = "this book"

LITTLE_REGRET = 0.25
"""A relative regret below this counts as nearly the best operator."""

Seeds = Float[np.ndarray, " seed"]


@dataclass(frozen=True)
class GrowthClaim(Claim):
    """A claim about growing, judged where growing gains anything."""

    effect: Callable[[Any], Interval]  # of `Grown`, on the page on stacking of `Stacks`
    gated: bool = True  # whether it means nothing where depth gains nothing
    ranks: bool = False  # whether it means nothing where sentences are too few to order operators

    def compute(self, found: Grown | Stacks) -> Interval:
        """Return the effect; undefined where depth gains nothing, or no look could order what it orders."""
        if self.gated and not found.headroom().low > 0:
            return UNDEFINED
        if self.ranks and isinstance(found, Grown) and not found.ceiling() >= TELLS:
            return UNDEFINED
        return self.effect(found)


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


def follows_loss(other: Callable[[Grown], Int[np.ndarray, " seed"]]) -> Callable[[Grown], Interval]:
    """Return by how many points LAG's choice reads downstream tasks better than another, mean over tasks."""
    return lambda grown: seed_interval(grown.accuracy_of(grown.picked()) - grown.accuracy_of(other(grown)))


def operators_agree(grown: Grown) -> Interval:
    """Return by how much less operators differ (log of their spread) at the last age than at the first."""
    if not grown.aged:
        return UNDEFINED
    young, old = (grown.aged[age] for age in (min(grown.aged), max(grown.aged)))
    return seed_interval(np.log(young.spread() / old.spread()))


def told_sooner(grown: Grown) -> Interval:
    """Return by which factor (its log) fewer steps tell the end at the last age than at the first."""
    if not grown.aged:
        return UNDEFINED
    young, old = (grown.aged[age].tells_from() for age in (min(grown.aged), max(grown.aged)))
    found = np.log((1 + young) / (1 + old))
    known = found[~np.isnan(found)]
    return seed_interval(known) if len(known) else UNDEFINED


def _claim(
    id: str,
    place: str,
    text: str,
    effect: Callable[[Grown], Interval],
    unit: str,
    value: float | None = None,
    gated: bool = True,
) -> GrowthClaim:
    ranks = unit in (RANKS, REGRET)
    return GrowthClaim(f"grow-{id}", place, text, PAGE, effect, gated, ranks, value=value, unit=unit)


def _regret_below(other: Callable[[Grown], Seeds]) -> Callable[[Grown], Interval]:
    """Return by how much LAG's relative regret is below another."""
    return lambda grown: seed_interval(other(grown) - _lag(grown))


RANKS, REGRET, NATS, POINTS, LOG = "Spearman", "relative regret", "nats", "points", "log ratio"

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
               _regret_below(lambda grown: grown.regret_of(grown.always(grown.settings.last))),
               REGRET, 0.5517),
    ),
)  # fmt: skip

KNOWS = Topic(
    "Growing: does what a model knows follow its loss?",
    (
        _claim("knows-initial", "Tab. C.1", "LAG's choice reads tasks better than that by the initial loss",
               follows_loss(lambda grown: grown.picked(0)), POINTS),
        _claim("knows-last", "Tab. C.1", "LAG's choice reads them better than the last layers on top",
               follows_loss(lambda grown: grown.always(grown.settings.last)), POINTS),
        _claim("knows-random", "Tab. C.1", "LAG's choice reads them better than random layers on top",
               follows_loss(lambda grown: grown.always(grown.settings.random_top)), POINTS),
    ),
)  # fmt: skip

AGE = Topic(
    "Growing: does it matter how long the shallow model was trained?",
    (
        _claim("age-spread", OURS, "the longer, the less operators differ in the end (log of the ratio)",
               operators_agree, LOG, gated=False),
        _claim("age-tells", "§5.1", "the longer, the sooner the end can be told (log of the ratio of steps)",
               told_sooner, LOG, gated=False),
    ),
)  # fmt: skip

TOPICS = (GAIN, INITIAL, EARLY_LOSS, CHOICE, KNOWS, AGE)
"""Questions and the claims about each, the most direct one first."""

CLAIMS = tuple(claim for topic in TOPICS for claim in topic.claims)


def _stacking(
    id: str, place: str, text: str, effect: Callable[[Stacks], Interval], unit: str, gated: bool = True
) -> GrowthClaim:
    return GrowthClaim(f"stack-{id}", place, text, STACKING, effect, gated, unit=unit)


def _below(way: str, other: str) -> Callable[[Stacks], Interval]:
    return lambda stacks: stacks.below(way, other)


def _equal_kl(what: str) -> Callable[[Stacks], Interval]:
    return lambda stacks: stacks.at_equal_kl("last", FROM_NOTHING, what)


STAGES = Topic(
    "Stacking: does it pay to choose at every stage?",
    (
        _stacking("adaptive", "Tab. C.2", "adaptive stacking ends below stacking the last layers",
                  _below("adaptive", "last"), NATS),
        _stacking("adaptive-paid", OURS, "it still does at equal FLOPs, its trials counted",
                  _below(PAID, "last"), NATS),
        _stacking("adaptive-middle", OURS, "adaptive stacking ends below repeating the middle",
                  _below("adaptive", "middle"), NATS),
        _stacking("adaptive-random", OURS, "adaptive stacking ends below random layers on top",
                  _below("adaptive", "random"), NATS),
    ),
)  # fmt: skip

WORTH = Topic(
    "Stacking: is it worth it?",
    (
        _stacking("headroom", OURS, "a model that grows in the last stage ends below one that does not",
                  Stacks.headroom, LOG, gated=False),
        _stacking("scratch", OURS, "stacking the last layers ends below training from nothing, equal FLOPs",
                  _below("last", FROM_NOTHING), NATS),
    ),
)  # fmt: skip

SAME_KL = Topic(
    "Stacking: does a grown model know the same at the same KL?",
    (
        _stacking("knows", OURS, "it reads tasks better than one trained from nothing, mean over tasks",
                  _equal_kl("accuracy"), POINTS, gated=False),
        _stacking("flatter", OURS, "its trace is smaller (minus the difference of logarithms)",
                  lambda stacks: stacks.at_equal_kl(FROM_NOTHING, "last", "trace"), LOG, gated=False),
    ),
)  # fmt: skip

STACKING_TOPICS = (STAGES, WORTH, SAME_KL)

STACKING_CLAIMS = tuple(claim for topic in STACKING_TOPICS for claim in topic.claims)


def judged(topics: Iterable[Topic[GrowthClaim]], found: Grown | Stacks) -> list[Judged]:
    """Return the claims of some questions with their effects."""
    return [Judged(claim, claim.compute(found)) for topic in topics for claim in topic.claims]
