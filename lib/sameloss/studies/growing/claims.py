"""What growing and stacking showed, and the thesis' claims, judged by it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from sameloss.errors import StoreError, UnreachableKL
from sameloss.statistics.bootstrap import UNDEFINED, Interval, seed_interval
from sameloss.statistics.equal_kl import common_kl, weights_at
from sameloss.statistics.prediction import (
    FEWEST,
    Choice,
    mean_correlation,
    random_regret,
    rank_correlation,
    recall,
    self_correlation,
)
from sameloss.studies.growing.experiment import (
    NOT_GROWN,
    PRESETS,
    WAYS,
    GrowingSettings,
    Operator,
    Settings,
    StackingSettings,
)
from sameloss.studies.recorded import recorded
from sameloss.studies.verdict import Claim, Judged, Topic

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


Rule = Callable[[Float[np.ndarray, "look operator"], Int[np.ndarray, " look"]], Choice]
"""A way to choose among candidates, from what is seen of them: see `statistics.selection`."""


@dataclass(frozen=True)
class Grown:
    """KLs of all candidates (nats a masked token) on the pairs to choose by, and on those to judge by.

    A candidate that diverged has, from then on, the largest KL of its shallow model's.
    """

    settings: GrowingSettings
    chosen_by: Float[np.ndarray, "seed look operator"]
    kl: Float[np.ndarray, "seed look operator"]
    not_grown: Float[np.ndarray, "seed look"]
    scratch: Float[np.ndarray, "seed look"]  # trained from nothing at equal FLOPs: its last steps
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

    def at(self, operator: Operator) -> int:
        """Return where an operator stands."""
        return self.operators.index(operator)

    def correlations(
        self, look: int, among: Bool[np.ndarray, " operator"] | None = None
    ) -> Float[np.ndarray, " seed"]:
        """Return each seed's rank correlation of the KL at a look with that at the end."""
        kept = slice(None) if among is None else among
        if np.ones(len(self.operators), dtype=bool)[kept].sum() < FEWEST:
            return np.full(len(self.kl), np.nan)
        pairs = zip(self.chosen_by[:, look, kept], self.final[:, kept], strict=True)
        return np.array([rank_correlation(early, final) for early, final in pairs])

    def always(self, operator: Operator) -> Int[np.ndarray, " seed"]:
        """Return the choice that is one operator, whatever the seed."""
        return np.full(len(self.final), self.at(operator))

    def regret_of(self, picked: Int[np.ndarray, " seed"]) -> Float[np.ndarray, " seed"]:
        """Return each seed's relative regret of a choice (equation 5.2)."""
        best, worst = self.final.min(1), self.final.max(1)
        return (_of_each(self.final, picked) - best) / (worst - best)

    def regrets(self, look: int) -> Float[np.ndarray, " seed"]:
        """Return each seed's relative regret of choosing at a look."""
        return self.regret_of(self.chosen_by[:, look].argmin(1))

    def by_lot(self) -> Float[np.ndarray, " seed"]:
        """Return each seed's relative regret of a choice by lot."""
        return np.array([random_regret(final) for final in self.final])

    def picked(self, step: int | None = None) -> Int[np.ndarray, " seed"]:
        """Return which operator is chosen after some steps; None: after LAG's."""
        return self.chosen_by[:, self.look(self.settings.lag if step is None else step)].argmin(1)

    def chosen(self, step: int | None = None) -> Float[np.ndarray, " seed"]:
        """Return the final KL of what is chosen after some steps; None: after LAG's."""
        return _of_each(self.final, self.picked(step))

    def selected(self, rule: Rule) -> pd.DataFrame:
        """Return each seed's relative regret of a rule, and its cost over that of one grown model."""
        steps = np.array(self.steps)
        choices = [rule(own, steps) for own in self.chosen_by]
        regret = self.regret_of(np.array([choice.candidate for choice in choices]))
        cost = np.array([choice.others for choice in choices]) / self.settings.steps
        return pd.DataFrame({"regret": regret, "cost": cost})

    def operator_share(self) -> float:
        """Return the share of the final log KL's variance within shallow models that all of them agree on.

        It is the intraclass correlation of operators, from a two-way layout without repetition: 1 where one
        order serves every shallow model, 0 and below where it is the shallow model's own. One seed has none.
        """
        seeds, operators = self.final.shape
        if seeds < 2:
            return float("nan")
        log = np.log(self.final) - np.log(self.final).mean(1, keepdims=True)
        between = seeds * log.mean(0).var(ddof=1)
        rest = ((log - log.mean(0)) ** 2).sum() / ((seeds - 1) * (operators - 1))
        return float((between - rest) / (between + (seeds - 1) * rest))

    def accuracy_of(self, picked: Int[np.ndarray, " seed"]) -> Float[np.ndarray, " seed"]:
        """Return the mean accuracy (%) of one operator a seed at the end."""
        return _of_each(self.accuracy, picked)

    def headroom(self) -> Interval:
        """Return by how much the best grown model's log KL ends below that of the one not grown: the gate.

        The best one is chosen by the other half of the sentences: the least of many noisy numbers would
        gain where nothing is. The KLs of shallow models differ by factors, and so do the gains in nats.
        """
        return seed_interval(np.log(self.not_grown[:, -1] / self.chosen(self.settings.steps)))

    def spread(self) -> Float[np.ndarray, " seed"]:
        """Return each seed's standard deviation of the final log KL over operators."""
        return np.log(self.final).std(1)

    def tells_from(self) -> Float[np.ndarray, " seed"]:
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
            rho, regret = mean_correlation(self.correlations(look)), seed_interval(self.regrets(look))
            named = {"correlation": rho, "regret": regret}
            ends = {f"{name}_{end}": v for name, found in named.items() for end, v in found._asdict().items()}
            rows.append({"step": step, **ends, **{f"recall@{j}": self._recall(look, j) for j in (1, 2, 3)}})
        return pd.DataFrame(rows)

    def _recall(self, look: int, among: int) -> float:
        pairs = zip(self.chosen_by[:, look], self.final, strict=True)
        return float(np.mean([recall(early, final, among) for early, final in pairs]))

    def mean_self_correlation(self) -> Float[np.ndarray, "look look"]:
        """Return the map of Figure 5.3, mean over seeds."""
        return np.mean([self_correlation(own) for own in self.chosen_by], 0)

    def shared_order(self) -> Interval:
        """Return the mean rank correlation of the final orders of two seeds, with an interval over seeds."""
        seeds = len(self.final)
        if seeds < 2:
            return UNDEFINED
        between = np.full((seeds, seeds), np.nan)
        for one in range(seeds):
            for other in range(one):
                found = rank_correlation(self.final[one], self.final[other])
                between[one, other] = between[other, one] = found
        return mean_correlation(np.nanmean(between, 1))


def _of_each(
    values: Float[np.ndarray, "seed operator"], picked: Int[np.ndarray, " seed"]
) -> Float[np.ndarray, " seed"]:
    """Return each seed's value of the operator that it picked."""
    return values[np.arange(len(picked)), picked]


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

LEADING = ("seed", "way", "step", "kl", "trace")

Seeds = Float[np.ndarray, " seed"]


@dataclass(frozen=True)
class Stacks:
    """The models of all ways to stack, a few times in the last stage."""

    settings: StackingSettings
    stages: pd.DataFrame  # seed, way, layers, operator, step (of the stage), kl (nats a masked token), flops
    known: pd.DataFrame  # seed, way, step (of the last stage), kl, trace, and accuracies (%) by task

    @property
    def tasks(self) -> list[str]:
        """Return the names of the tasks."""
        return [name for name in self.known.columns if name not in LEADING]

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
        pairs = [self._pair(seed, (way, other), what) for seed in self.settings.all_seeds]
        found = np.array([pair for pair in pairs if not np.isnan(pair)])
        return seed_interval(found) if len(found) > 1 else UNDEFINED

    def _pair(self, seed: int, ways: tuple[str, str], what: str) -> float:
        own = self.known[self.known.seed == seed]
        runs = [own[own.way == way].sort_values("step") for way in ways]
        kls = [run.kl.to_numpy() for run in runs]
        try:
            target = common_kl(kls)
        except UnreachableKL:
            return float("nan")
        one, other = (weights_at(kl, target) @ self._of(run, what) for kl, run in zip(kls, runs, strict=True))
        return float(one - other)

    def _of(self, run: pd.DataFrame, what: str) -> np.ndarray:
        if what == "trace":
            return np.log(run.trace.to_numpy())
        return run[self.tasks].mean(axis=1).to_numpy() if what == "accuracy" else run[what].to_numpy()


# From tables, of a page's runs or of a record, to what the pages show.

Tables = Mapping[str, pd.DataFrame]

SeedLook = Float[np.ndarray, "seed look"]


def found_in(settings: Settings, tables: Tables) -> Grown:
    """Return what the tables of the page on growing say: see `pages.GrowingPage.record_tables`."""
    ages = {
        age: grown_in(settings.at_age(age), {"candidates": tables["ages"].query("age == @age")})
        for age in settings.ages
    }
    return grown_in(settings.growing, tables, aged=ages)


def grown_in(settings: GrowingSettings, tables: Tables, **more: Any) -> Grown:
    """Return what tables say of models that are grown at one age; what they lack is NaN."""
    names = [operator.name for operator in settings.operators]
    by_look = partial(_by_look, tables["candidates"], settings)
    kl, chosen_by = (
        np.stack([by_look(name, column) for name in names], -1) for column in ("kl", "chosen_by")
    )
    lost = np.isnan(kl).any((0, 1))

    def by_operator(table: str, column: str) -> Float[np.ndarray, "seed operator"]:
        found = tables.get(table)
        if found is None:
            return np.full((settings.seeds, len(names)), np.nan)
        return found.pivot_table(column, "seed", "operator").loc[list(settings.all_seeds), names].to_numpy()

    return Grown(
        settings,
        _ranked_last(chosen_by),
        _ranked_last(kl),
        by_look(NOT_GROWN, "kl"),
        by_look(FROM_NOTHING, "kl"),
        {measure: by_operator("landscape", measure) for measure in MEASURES},
        by_operator("downstream", "accuracy"),
        diverged=tuple(name for name, found in zip(names, lost, strict=True) if found),
        **more,
    )


def _by_look(table: pd.DataFrame, settings: GrowingSettings, operator: str, column: str) -> SeedLook:
    """Return a column of one operator, or control."""
    wanted = pd.MultiIndex.from_product([settings.all_seeds, settings.look_steps])
    kept = table[table.operator == operator].set_index(["seed", "step"])[column]
    return kept.reindex(wanted).to_numpy().reshape(settings.seeds, len(settings.look_steps))


def _ranked_last(kl: Float[np.ndarray, "seed look operator"]) -> Float[np.ndarray, "seed look operator"]:
    """Put the largest KL of the same shallow model where one is missing."""
    return np.where(np.isnan(kl), np.nanmax(kl, (1, 2), keepdims=True), kl)


def stacks_in(settings: Settings, tables: Tables) -> Stacks:
    """Return what the tables of the page on stacking say: see `pages.StackingPage.record_tables`."""
    return Stacks(settings.stacking, tables["stages"], tables["known"])


class Reading(NamedTuple):
    """What makes a page's results, of which tables, and which seeds the first of them has to hold."""

    made: Callable[[Settings, Tables], Grown | Stacks]
    tables: tuple[str, ...]
    seeds: Callable[[Settings], range]


READ = {
    "ii5_growing": Reading(
        found_in,
        ("candidates", "landscape", "downstream", "ages"),
        lambda settings: settings.growing.all_seeds,
    ),
    "ii5_stacking": Reading(stacks_in, ("stages", "known"), lambda settings: settings.stacking.all_seeds),
}


def found_by_record(page: str, preset: str) -> Any:
    """Return what a record of a page says.

    Raises:
        StoreError: where it was made with other seeds than the preset has.

    """
    reading, settings = READ[page], PRESETS[preset]
    tables = {name: recorded(name, preset, page) for name in reading.tables}
    there, wanted = set(tables[reading.tables[0]].seed), set(reading.seeds(settings))
    if there != wanted:
        raise StoreError(
            f"The record of {page} at {preset} holds the seeds {sorted(there)}, and the preset has "
            f"{sorted(wanted)}; record it again: make record PRESET={preset} PAGE={page}."
        )
    return reading.made(settings, tables)


# The thesis' claims on growing (Karp 2024, Chapter 5), each with its number, its tolerance, and its effect.
#
# Losses are KLs here, so their scale is another: numbers are compared where they are correlations or relative
# regrets, and elsewhere only directions. Tolerances are fixed before the runs that they judge.

PAGE, STACKING = "ii5_growing", "ii5_stacking"

OURS = "this book"

LITTLE_REGRET = 0.25
"""A relative regret below this counts as nearly the best operator."""


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


def judged(topics: Iterable[Topic[GrowthClaim]], found: Grown | Stacks) -> list[Judged]:
    """Return the claims of some questions with their effects."""
    return [Judged(claim, claim.compute(found)) for topic in topics for claim in topic.claims]
