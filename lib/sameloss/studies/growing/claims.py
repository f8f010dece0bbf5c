"""What growing and stacking showed, and the thesis' claims, judged by it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from sameloss.errors import UnreachableKL
from sameloss.statistics.equal_kl import common_kl, weights_at
from sameloss.statistics.intervals import UNDEFINED, Interval, seed_interval
from sameloss.statistics.prediction import (
    FEWEST,
    mean_correlation,
    random_regret,
    rank_correlation,
    recall,
    self_correlation,
)
from sameloss.studies.growing.experiment import (
    NOT_GROWN,
    WAYS,
    GrowingSettings,
    Operator,
    Settings,
    StackingSettings,
)
from sameloss.studies.verdict import Claim, Topic

# What the runs of growing found, as arrays over seeds, looks and operators.

EARLY = 0.05
"""The share of the steps after growing of the thesis' early loss: 5,000 of 100,000 (Figure 5.2)."""

MEASURES = {"gradient": "squared gradient norm", "trace": "Fisher trace", "eigenvalue": "top eigenvalue"}

FROM_NOTHING = "from nothing"
"""The name of a deep model that is trained from nothing, at equal FLOPs."""

UNTRAINED = "untrained"
"""The name of a deep model as it was drawn."""

TELLS = 0.8
"""The rank correlation with the final KL from which on a look counts as telling (the thesis' at step 200)."""

Seeds = Float[np.ndarray, " seed"]
Picked = Int[np.ndarray, " seed"]  # the operator that each seed has chosen
SeedLook = Float[np.ndarray, "seed look"]
Candidates = Float[np.ndarray, "seed look operator"]


@dataclass(frozen=True)
class Grown:
    """KLs of all candidates (nats a masked token) on the pairs to choose by, and on those to judge by.

    A candidate that diverged has, from then on, the largest KL of its shallow model's.
    """

    settings: GrowingSettings
    chosen_by: Candidates
    kl: Candidates
    not_grown: SeedLook
    scratch: SeedLook  # trained from nothing at equal FLOPs: its last steps
    landscape: Mapping[str, Float[np.ndarray, "seed operator"]]
    accuracy: Float[np.ndarray, "seed operator"]  # at the end, mean over the tasks, %
    aged: Mapping[int, "Grown"] = field(default_factory=dict)  # by the steps of the shallow models
    diverged: tuple[str, ...] = ()

    @property
    def operators(self) -> tuple[Operator, ...]:
        """Return the operators, in the order of the last axis."""
        return self.settings.operators

    @property
    def steps(self) -> list[int]:
        """Return the steps after growing of all looks."""
        return list(self.settings.look_steps)

    @property
    def final(self) -> Float[np.ndarray, "seed operator"]:
        """Return the KL at the end."""
        return self.kl[:, -1]

    def look(self, step: float) -> int:
        """Return the look that is nearest to a step."""
        return int(np.argmin(np.abs(np.array(self.steps) - step)))

    @property
    def early(self) -> int:
        """Return the look at the thesis' early loss."""
        return self.look(EARLY * self.settings.steps)

    def of(self, *fillings: str) -> Bool[np.ndarray, " operator"]:
        """Tell which operators begin new layers so."""
        return np.array([operator.filling in fillings for operator in self.operators])

    def correlations(self, look: int, among: Bool[np.ndarray, " operator"] | None = None) -> Seeds:
        """Return each seed's rank correlation of the KL at a look with that at the end."""
        kept = np.ones(len(self.operators), dtype=bool) if among is None else among
        if kept.sum() < FEWEST:
            return np.full(len(self.kl), np.nan)
        return _rank_correlations(self.chosen_by[:, look, kept], self.final[:, kept])

    def picked(self, step: int | None = None) -> Picked:
        """Return which operator is chosen after some steps; None: after LAG's."""
        return self.chosen_by[:, self.look(self.settings.lag if step is None else step)].argmin(1)

    def on_top(self, filling: Any) -> Picked:
        """Return the choice that is one of the thesis' baselines, whatever the seed."""
        return np.full(len(self.final), self.operators.index(self.settings.on_top(filling)))

    @property
    def choices(self) -> dict[str, Picked]:
        """Return which operator each way to choose picks."""
        return {
            "oracle": self.final.argmin(1),
            f"LAG@{self.settings.lag}": self.picked(),
            "LAG@0": self.picked(0),
            "last layers once more, on top": self.on_top("duplicate"),
            "random layers on top": self.on_top("random"),
        }

    def chosen(self, step: int | None = None) -> Seeds:
        """Return the final KL of what is chosen after some steps; None: after LAG's."""
        return of_each(self.final, self.picked(step))

    def regret_of(self, picked: Picked) -> Seeds:
        """Return each seed's relative regret of a choice (equation 5.2)."""
        best, worst = self.final.min(1), self.final.max(1)
        return (of_each(self.final, picked) - best) / (worst - best)

    def by_lot(self) -> Seeds:
        """Return each seed's relative regret of a choice by lot."""
        return np.array([random_regret(final) for final in self.final])

    def headroom(self) -> Interval:
        """Return by how much the best grown model's log KL ends below that of the one not grown: the gate.

        The best one is chosen by the other half of the sentences: the least of many noisy numbers would
        gain where nothing is. The KLs of shallow models differ by factors, and so do the gains in nats.
        """
        return seed_interval(np.log(self.not_grown[:, -1] / self.chosen(self.settings.steps)))

    def spread(self) -> Seeds:
        """Return each seed's standard deviation of the final log KL over operators."""
        return np.log(self.final).std(1)

    def tells_from(self) -> Seeds:
        """Return the step from which on each seed's looks order operators nearly as the end does, or NaN."""
        found = np.stack([self.correlations(look) for look in range(len(self.steps))], 1) >= TELLS
        told = np.flip(np.cumprod(np.flip(found, 1), 1), 1)
        return np.where(told[:, -1], np.array(self.steps, dtype=float)[told.argmax(1)], np.nan)

    def ceiling(self) -> float:
        """Return the rank correlation of the last look with the end: of the two halves of the sentences.

        No earlier look can be expected to reach more.
        """
        return mean_correlation(self.correlations(len(self.steps) - 1)).value

    def correlation_curve(self) -> pd.DataFrame:
        """Return for each look mean correlation, recalls and relative regret, with intervals over seeds."""
        rows = []
        for look, step in enumerate(self.steps):
            rho = mean_correlation(self.correlations(look))
            regret = seed_interval(self.regret_of(self.picked(step)))
            named = {"correlation": rho, "regret": regret}
            ends = {f"{name}_{end}": v for name, found in named.items() for end, v in found._asdict().items()}
            pairs = list(zip(self.chosen_by[:, look], self.final, strict=True))
            recalls = {f"recall@{j}": np.mean([recall(*pair, among=j) for pair in pairs]) for j in (1, 2, 3)}
            rows.append({"step": step, **ends, **recalls})
        return pd.DataFrame(rows)

    def mean_self_correlation(self) -> Float[np.ndarray, "look look"]:
        """Return the map of Figure 5.3, mean over seeds."""
        return np.mean([self_correlation(own) for own in self.chosen_by], 0)

    def shared_order(self) -> Interval:
        """Return the mean rank correlation of the final orders of two seeds, with an interval over seeds."""
        if len(self.final) < 2:
            return UNDEFINED
        between = self_correlation(self.final)
        np.fill_diagonal(between, np.nan)
        return mean_correlation(np.nanmean(between, 1))


def of_each(values: Float[np.ndarray, "seed operator"], picked: Picked) -> Seeds:
    """Return each seed's value of the operator that it picked."""
    return values[np.arange(len(picked)), picked]


def _rank_correlations(
    early: Float[np.ndarray, "seed operator"], final: Float[np.ndarray, "seed operator"]
) -> Seeds:
    return np.array([rank_correlation(*pair) for pair in zip(early, final, strict=True)])


# What the runs of stacking found: how each way ends, and what its models know at equal KL.

PAID = "adaptive, trials paid"
"""The adaptive way whose last stage is shorter by what its trials took."""

WAY_NAMES = {
    **WAYS,
    PAID: "adaptive, its trials paid for",
    NOT_GROWN: "not grown in the last stage",
    FROM_NOTHING: "from nothing, equal FLOPs",
}
"""Ways to stack and what they are compared with, as tables call them."""


@dataclass(frozen=True)
class Stacks:
    """The models of all ways to stack, a few times in the last stage."""

    settings: StackingSettings
    stages: pd.DataFrame  # seed, way, layers, operator, step (of the stage), kl (nats a masked token), flops
    known: pd.DataFrame  # seed, way, step (of the last stage), kl, trace, and accuracies (%) by task

    @property
    def tasks(self) -> list[str]:
        """Return the names of the tasks."""
        return [name for name in self.known.columns if name not in ("seed", "way", "step", "kl", "trace")]

    def ends(self, way: str) -> pd.DataFrame:
        """Return the last look of a way, by seed."""
        own = self.stages[self.stages.way == way]
        return own.groupby("seed").last().loc[list(self.settings.all_seeds)]

    def final(self, way: str) -> Seeds:
        """Return the KL at the end of a way."""
        return self.ends(way).kl.to_numpy()

    def headroom(self) -> Interval:
        """Return by how much the last stage's log KL ends below that of a model not grown in it: the gate."""
        return seed_interval(np.log(self.final(NOT_GROWN) / self.final("last")))

    def below(self, way: str, other: str) -> Interval:
        """Return by how much a way ends below another, in nats."""
        return seed_interval(self.final(other) - self.final(way))

    def at_equal_kl(self, way: str, other: str, what: str) -> Interval:
        """Return a way minus another at the smallest KL that both reach, pairs of one seed.

        Args:
            way: a way to stack.
            other: what it is compared with.
            what: a task (points), `accuracy` (their mean), or `trace` (as a logarithm).

        """
        values = self.known.assign(
            accuracy=self.known[self.tasks].mean(axis=1), trace=np.log(self.known.trace)
        )
        pairs = []
        for _, own in values.sort_values("step").groupby("seed"):
            runs = [own[own.way == name] for name in (way, other)]
            try:
                target = common_kl([run.kl.to_numpy() for run in runs])
            except UnreachableKL:
                continue
            one, another = (weights_at(run.kl.to_numpy(), target) @ run[what].to_numpy() for run in runs)
            pairs.append(one - another)
        return seed_interval(np.array(pairs)) if len(pairs) > 1 else UNDEFINED


# From tables, of a page's runs or of a record, to what the pages show.

Tables = Mapping[str, pd.DataFrame]


def all_grown(settings: Settings, tables: Tables) -> Grown:
    """Return what the tables of the page on growing say: see `pages.GrowingPage.tables`."""
    ages = {
        age: grown_in(settings.at_age(age), {"candidates": tables["ages"].query("age == @age")})
        for age in settings.ages
    }
    return grown_in(settings.growing, tables, ages)


def grown_in(settings: GrowingSettings, tables: Tables, aged: Mapping[int, Grown] | None = None) -> Grown:
    """Return what tables say of models that are grown at one age; what they lack is NaN."""
    names, seeds = [operator.name for operator in settings.operators], list(settings.all_seeds)
    looks = pd.MultiIndex.from_product([seeds, settings.look_steps])
    by_look = tables["candidates"].pivot_table(["kl", "chosen_by"], ["seed", "step"], "operator")
    by_look = by_look.reindex(looks)

    def column(name: str, operators: list[str]) -> Candidates:
        found = by_look[name].reindex(columns=operators).to_numpy()
        return found.reshape(len(seeds), len(settings.look_steps), len(operators))

    def by_operator(table: str, name: str) -> Float[np.ndarray, "seed operator"]:
        if table not in tables:
            return np.full((len(seeds), len(names)), np.nan)
        return tables[table].pivot_table(name, "seed", "operator").loc[seeds, names].to_numpy()

    kl = column("kl", names)
    lost = np.isnan(kl).any((0, 1))
    return Grown(
        settings,
        _ranked_last(column("chosen_by", names)),
        _ranked_last(kl),
        column("kl", [NOT_GROWN])[..., 0],
        column("kl", [FROM_NOTHING])[..., 0],
        {measure: by_operator("landscape", measure) for measure in MEASURES},
        by_operator("downstream", "accuracy"),
        aged or {},
        tuple(name for name, found in zip(names, lost, strict=True) if found),
    )


def _ranked_last(kl: Candidates) -> Candidates:
    """Put the largest KL of the same shallow model where one is missing."""
    return np.where(np.isnan(kl), np.nanmax(kl, (1, 2), keepdims=True), kl)


# The thesis' claims on growing (Karp 2024, Chapter 5), each with its number, its tolerance, and its effect.
#
# Losses are KLs here, so their scale is another: numbers are compared where they are correlations or relative
# regrets, and elsewhere only directions. Tolerances are fixed before the runs that they judge.

OURS = "this book"

LITTLE_REGRET = 0.25
"""A relative regret below this counts as nearly the best operator."""

RANKS, REGRET, NATS, POINTS, LOG = "Spearman", "relative regret", "nats", "points", "log ratio"

Effect = Callable[[Any], Interval]
"""Of `Grown`, or on the page on stacking of `Stacks`."""


def _claim(
    id: str,
    place: str,
    text: str,
    effect: Effect,
    unit: str,
    value: float | None = None,
    gated: bool = True,
) -> Claim:
    """Return a claim, undefined where depth gains nothing, and of ranks where sentences cannot order."""

    def where_depth_helps(results: Any) -> Interval:
        blind = unit in (RANKS, REGRET) and not results.ceiling() >= TELLS
        return effect(results) if results.headroom().low > 0 and not blind else UNDEFINED

    page = "ii5_growing" if id.startswith("grow-") else "ii5_stacking"
    return Claim(id, place, text, page, where_depth_helps if gated else effect, value=value, unit=unit)


def misleads(grown: Grown, *fillings: str) -> Interval:
    """Return minus the rank correlation of the initial KL with the final one, among some ways to begin."""
    found = mean_correlation(grown.correlations(0, grown.of(*fillings) if fillings else None))
    return Interval(-found.value, -found.high, -found.low)


def disruption_pays(grown: Grown) -> Interval:
    """Return by how much what ends best begins above what disrupts least, in nats."""
    first = grown.kl[:, 0]
    return seed_interval(of_each(first, grown.final.argmin(1)) - first.min(1))


def preserving_is_worse(grown: Grown) -> Interval:
    """Return by how much preserving operators end above copies, mean over each, in nats."""
    preserving, copies = grown.of("silent", "muted"), grown.of("duplicate")
    if not preserving.any():
        return UNDEFINED
    return seed_interval(grown.final[:, preserving].mean(1) - grown.final[:, copies].mean(1))


def beyond_landscape(grown: Grown) -> Interval:
    """Return by how much the early KL predicts better than the best of the measures of the landscape."""
    found = [_rank_correlations(grown.landscape[name], grown.final) for name in MEASURES]
    return seed_interval(grown.correlations(grown.early) - np.max(found, 0))


def landscape_correlation(grown: Grown, measure: str) -> Interval:
    """Return the rank correlation of a measure where operators put the model with the final KL."""
    return mean_correlation(_rank_correlations(grown.landscape[measure], grown.final))


def _less_regret(other: Callable[[Grown], Seeds]) -> Effect:
    """Return by how much LAG's relative regret is below another."""
    return lambda grown: seed_interval(other(grown) - grown.regret_of(grown.picked()))


def _knows_more(other: Callable[[Grown], Picked]) -> Effect:
    """Return by how many points LAG's choice reads downstream tasks better than another, mean over tasks."""
    return lambda grown: seed_interval(
        of_each(grown.accuracy, grown.picked()) - of_each(grown.accuracy, other(grown))
    )


def _by_age(smaller: Callable[[Grown], Seeds]) -> Effect:
    """Return by which factor (its log) something is smaller at the last age than at the first."""

    def effect(grown: Grown) -> Interval:
        if not grown.aged:
            return UNDEFINED
        found = np.log(smaller(grown.aged[min(grown.aged)]) / smaller(grown.aged[max(grown.aged)]))
        known = found[~np.isnan(found)]
        return seed_interval(known) if len(known) else UNDEFINED

    return effect


def _below(way: str, other: str) -> Effect:
    return lambda stacks: stacks.below(way, other)


def _topic(question: str, *claims: Claim) -> Topic:
    return Topic(question, claims)


TOPICS = (
    _topic(
        "Growing: is there depth to gain?",
        _claim("grow-headroom", OURS, "the best grown model ends below the one that did not grow",
               Grown.headroom, "log KL", gated=False),
        _claim("grow-scratch", OURS, "at equal FLOPs, LAG's choice ends below a model trained from nothing",
               lambda grown: seed_interval(grown.scratch[:, -1] - grown.chosen()), NATS),
    ),
    _topic(
        "Growing: does the loss right after it mislead?",
        _claim("grow-initial", "Fig. 5.2",
               "the initial loss orders operators backwards (minus the correlation)", misleads, RANKS, 0.418),
        _claim("grow-initial-copies", OURS, "it does so among copies alone (minus the correlation)",
               lambda grown: misleads(grown, "duplicate"), RANKS),
        _claim("grow-disruption", "§5.3.1", "what ends best begins above what disrupts least",
               disruption_pays, NATS),
        _claim("grow-preserving", "§5.1", "operators that preserve the function end above copies",
               preserving_is_worse, NATS),
    ),
    _topic(
        "Growing: does the loss soon after it tell which operator is best?",
        _claim("grow-early", "Fig. 5.2",
               "the loss after 5 % of the steps orders operators as the last one does",
               lambda grown: mean_correlation(grown.correlations(grown.early)), RANKS, 0.986),
        _claim("grow-rise", "Fig. 5.2", "it does so better than the initial loss",
               lambda grown: seed_interval(grown.correlations(grown.early) - grown.correlations(0)), RANKS),
        _claim("grow-landscape", OURS, "and better than gradient, trace and curvature at the beginning",
               beyond_landscape, RANKS),
        _claim("grow-shared", OURS, "the final order is the same for every shallow model",
               Grown.shared_order, RANKS),
    ),
    _topic(
        "Growing: does LAG choose well?",
        _claim("grow-lag", "Tab. 5.1", f"LAG's relative regret stays below {LITTLE_REGRET}",
               _less_regret(lambda grown: np.full(len(grown.kl), LITTLE_REGRET)), REGRET),
        _claim("grow-lag-lot", OURS, "it is below that of a choice by lot",
               _less_regret(Grown.by_lot), REGRET),
        _claim("grow-lag-initial", "Tab. 5.1", "it is below that of choosing by the initial loss",
               _less_regret(lambda grown: grown.regret_of(grown.picked(0))), REGRET, 0.7986),
        _claim("grow-lag-last", "Tab. 5.1", "it is below that of the last layers once more, on top",
               _less_regret(lambda grown: grown.regret_of(grown.on_top("duplicate"))), REGRET, 0.5517),
    ),
    _topic(
        "Growing: does what a model knows follow its loss?",
        _claim("grow-knows-initial", "Tab. C.1",
               "LAG's choice reads tasks better than that by the initial loss",
               _knows_more(lambda grown: grown.picked(0)), POINTS),
        _claim("grow-knows-last", "Tab. C.1", "LAG's choice reads them better than the last layers on top",
               _knows_more(lambda grown: grown.on_top("duplicate")), POINTS),
        _claim("grow-knows-random", "Tab. C.1", "LAG's choice reads them better than random layers on top",
               _knows_more(lambda grown: grown.on_top("random")), POINTS),
    ),
    _topic(
        "Growing: does it matter how long the shallow model was trained?",
        _claim("grow-age-spread", OURS, "the longer, the less operators differ in the end (log of the ratio)",
               _by_age(Grown.spread), LOG, gated=False),
        _claim("grow-age-tells", "§5.1",
               "the longer, the sooner the end can be told (log of the ratio of steps)",
               _by_age(lambda grown: 1 + grown.tells_from()), LOG, gated=False),
    ),
)  # fmt: skip
"""Questions and the claims about each, the most direct one first."""

CLAIMS = tuple(claim for topic in TOPICS for claim in topic.claims)

STACKING_TOPICS = (
    _topic(
        "Stacking: does it pay to choose at every stage?",
        _claim("stack-adaptive", "Tab. C.2", "adaptive stacking ends below stacking the last layers",
               _below("adaptive", "last"), NATS),
        _claim("stack-adaptive-paid", OURS, "it still does at equal FLOPs, its trials counted",
               _below(PAID, "last"), NATS),
        _claim("stack-adaptive-middle", OURS, "adaptive stacking ends below repeating the middle",
               _below("adaptive", "middle"), NATS),
        _claim("stack-adaptive-random", OURS, "adaptive stacking ends below random layers on top",
               _below("adaptive", "random"), NATS),
    ),
    _topic(
        "Stacking: is it worth it?",
        _claim("stack-headroom", OURS, "a model that grows in the last stage ends below one that does not",
               Stacks.headroom, LOG, gated=False),
        _claim("stack-scratch", OURS,
               "stacking the last layers ends below training from nothing, equal FLOPs",
               _below("last", FROM_NOTHING), NATS),
    ),
    _topic(
        "Stacking: does a grown model know the same at the same KL?",
        _claim("stack-knows", OURS, "it reads tasks better than one trained from nothing, mean over tasks",
               lambda stacks: stacks.at_equal_kl("last", FROM_NOTHING, "accuracy"), POINTS, gated=False),
        _claim("stack-flatter", OURS, "its trace is smaller (minus the difference of logarithms)",
               lambda stacks: stacks.at_equal_kl(FROM_NOTHING, "last", "trace"), LOG, gated=False),
    ),
)  # fmt: skip
