"""Results of growing and stacking, and the thesis' claims (Karp 2024, Chapter 5) judged by them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from sameloss.models.enlarge import Filling
from sameloss.statistics.intervals import LEVEL, UNDEFINED, Interval, seed_interval
from sameloss.statistics.prediction import FEWEST, mean_correlation, rank_correlation
from sameloss.studies.growing.experiment import NOT_GROWN, Growth, Operator
from sameloss.studies.verdict import OURS, Claim, Topic

# Growing once

EARLY = 0.05
"""The early loss of the thesis, as a fraction of the steps after growing: 5,000 of 100,000 (Figure 5.2)."""

FROM_SCRATCH = "from scratch"
"""The label of a deep model trained from random weights with equal FLOPs."""

UNTRAINED = "untrained"
"""The label of a deep model at initialisation."""

PREDICTIVE = 0.8
"""The rank correlation with the final KL from which an evaluation is predictive: the thesis' at step 200."""

Seeds = Float[np.ndarray, " seed"]
Choice = Int[np.ndarray, " seed"]  # index of the operator chosen for each seed
ByOperator = Float[np.ndarray, "seed operator"]
Candidates = Float[np.ndarray, "seed step operator"]


@dataclass(frozen=True)
class Grown:
    """KLs (nats per masked token) of all candidates, on the selection and the evaluation half.

    A candidate that diverged has the largest KL of its shallow model's candidates from then on.
    """

    growth: Growth
    chosen_by: Candidates
    kl: Candidates
    not_grown: Float[np.ndarray, "seed step"]
    scratch: Float[np.ndarray, "seed step"]  # trained from scratch with equal FLOPs: its last steps
    downstream: pd.DataFrame = field(default_factory=pd.DataFrame)  # seed, operator, task, accuracy (%)
    aged: Mapping[int, "Grown"] = field(default_factory=dict)  # by the steps of the shallow models

    @property
    def operators(self) -> tuple[Operator, ...]:
        return self.growth.operators

    @property
    def steps(self) -> list[int]:
        """Steps after growing of all evaluations."""
        return list(self.growth.looks)

    @property
    def final(self) -> ByOperator:
        return self.kl[:, -1]

    def nearest(self, step: float) -> int:
        """Index of the evaluation nearest to a step."""
        return int(np.argmin(np.abs(np.array(self.steps) - step)))

    @property
    def early(self) -> int:
        """Index of the evaluation at the thesis' early loss."""
        return self.nearest(EARLY * self.growth.steps)

    def of(self, *fillings: str) -> Bool[np.ndarray, " operator"]:
        """Mask of the operators with these fillings."""
        return np.array([operator.filling in fillings for operator in self.operators])

    def correlations(self, at: int, among: Bool[np.ndarray, " operator"] | None = None) -> Seeds:
        """Rank correlation of the KL at an evaluation with the final KL; NaN for too few operators."""
        mask = np.ones(len(self.operators), dtype=bool) if among is None else among
        if mask.sum() < FEWEST:
            return np.full(len(self.kl), np.nan)
        pairs = zip(self.chosen_by[:, at, mask], self.final[:, mask], strict=True)
        return np.array([rank_correlation(*pair) for pair in pairs])

    def choice(self, step: int | None = None) -> Choice:
        """Operators with the smallest KL at a step, by default LAG's."""
        return self.chosen_by[:, self.nearest(self.growth.lag if step is None else step)].argmin(1)

    def on_top(self, filling: Filling) -> Choice:
        """A baseline of the thesis: new layers on top, whatever the seed."""
        return np.full(len(self.final), self.operators.index(self.growth.on_top(filling)))

    def relative_regret(self, final: Seeds) -> Seeds:
        """Relative regret of final KLs (equation 5.2): 0 for the best operator, 1 for the worst."""
        best, worst = self.final.min(1), self.final.max(1)
        return (final - best) / (worst - best)

    def regret(self, choice: Choice) -> Seeds:
        return self.relative_regret(chosen(self.final, choice))

    def regret_below(self, other: Seeds | float) -> Interval:
        """By how much LAG's relative regret is below another."""
        return seed_interval(other - self.regret(self.choice()))

    def accuracies(self, models: Sequence[str]) -> pd.DataFrame:
        """Final accuracies (%) of one model per seed, in the order of seeds, by task."""
        by_model = self.downstream.pivot_table("accuracy", ["seed", "operator"], "task", sort=False)
        return by_model.loc[list(zip(self.growth.seeds, models, strict=True))]

    def named(self, choice: Choice) -> list[str]:
        return [self.operators[at].name for at in choice]

    def accuracy_above(self, other: Choice) -> Interval:
        """By how many points the accuracy of LAG's choice is above another's, mean over tasks."""
        ours, theirs = (
            self.accuracies(self.named(choice)).mean(axis=1).to_numpy() for choice in (self.choice(), other)
        )
        return seed_interval(ours - theirs)

    def headroom(self) -> Interval:
        """The gate: log ratio of the final KL of the model not grown to that of the best grown one.

        The best is chosen on the selection half; the minimum of many noisy numbers would show a gain where
        there is none. Logarithms, because the KLs of shallow models differ by factors.
        """
        best = self.choice(self.growth.steps)
        return seed_interval(np.log(self.not_grown[:, -1] / chosen(self.final, best)))

    def first_predictive_step(self) -> Seeds:
        """The step from which every evaluation of a seed is predictive; NaN if the last is not."""
        predictive = np.stack([self.correlations(at) for at in range(len(self.steps))], 1) >= PREDICTIVE
        onwards = np.flip(np.cumprod(np.flip(predictive, 1), 1), 1)
        return np.where(onwards[:, -1], np.array(self.steps, dtype=float)[onwards.argmax(1)], np.nan)

    def ceiling(self) -> float:
        """Rank correlation between the two halves at the end: a bound for earlier evaluations."""
        return mean_correlation(self.correlations(len(self.steps) - 1)).value


def gain(headroom: Interval) -> Interval:
    """Reduction of the final KL (%), from the log ratio of the KL without growth to that with it.

    >>> f"{gain(Interval(np.log(2), 0.0, np.log(4))):.0f}"
    '50 (0 to 75)'
    """
    return Interval(*(100 * (1 - np.exp(-end)) for end in headroom))


def chosen(values: ByOperator, choice: Choice) -> Seeds:
    """Each seed's value of its chosen operator."""
    return values[np.arange(len(choice)), choice]


def grown_from(growth: Growth, tables: Mapping[str, pd.DataFrame], aged: Growth | None = None) -> Grown:
    """Join the tables of runs, computed or recorded; missing entries are NaN.

    Args:
        growth: of all `candidates`.
        tables: `candidates`, with the model from scratch; perhaps `downstream` and `ages`.
        aged: how the models in `ages` grow.

    """
    by_step = tables["candidates"].pivot_table(["kl", "chosen_by"], ["seed", "step"], "operator")
    by_step = by_step.reindex(pd.MultiIndex.from_product([growth.seeds, growth.looks]))

    def by_candidate(column: str, *operators: str) -> Candidates:
        values = by_step[column].reindex(columns=operators).to_numpy()
        return values.reshape(len(growth.seeds), -1, len(operators))

    def worst_if_diverged(kl: Candidates) -> Candidates:
        return np.where(np.isnan(kl), np.nanmax(kl, (1, 2), keepdims=True), kl)

    names = [operator.name for operator in growth.operators]
    ages = tables.get("ages", pd.DataFrame({"age": []}))
    return Grown(
        growth,
        worst_if_diverged(by_candidate("chosen_by", *names)),
        worst_if_diverged(by_candidate("kl", *names)),
        by_candidate("kl", NOT_GROWN)[..., 0],
        by_candidate("kl", FROM_SCRATCH)[..., 0],
        tables.get("downstream", pd.DataFrame()),
        {age: grown_from(aged or growth, {"candidates": own}) for age, own in ages.groupby("age")},
    )


# Growing in stages


@dataclass(frozen=True)
class Stacks:
    """The evaluations of all ways to stack."""

    stages: pd.DataFrame  # seed, way, layers, operator, step (of the stage), kl (nats), flops

    def ends(self, way: str) -> pd.DataFrame:
        """The last evaluation of a way, by seed."""
        return self.stages[self.stages.way == way].groupby("seed").last()

    def final(self, way: str) -> Seeds:
        return self.ends(way).kl.to_numpy()

    def headroom(self) -> Interval:
        """The gate: log ratio of the final KL without growth in the last stage to that with it."""
        return seed_interval(np.log(self.final(NOT_GROWN) / self.final("last")))

    def below(self, way: str, other: str, level: float = LEVEL) -> Interval:
        """By how much a way ends below another (nats)."""
        return seed_interval(self.final(other) - self.final(way), level)


# Claims, each with its number, its tolerance, and its effect.
#
# KLs are on another scale than the thesis' losses: numbers are compared for correlations and relative
# regrets, elsewhere only directions. Tolerances were fixed before the runs.

LITTLE_REGRET = 0.25
"""A relative regret below this counts as nearly the best operator."""

NEARLY = 0.004
"""A difference this small between the ends of stacks (nats) is negligible: 5 % of their final KL."""

RANKS, REGRET, NATS, POINTS, LOG = "Spearman", "relative regret", "nats", "points", "log ratio"

Effect = Callable[..., Interval]  # of `Grown` or `Stacks`


def _claim(
    id: str, place: str, text: str, effect: Effect, unit: str, value: float | None = None, **more: Any
) -> Claim:
    """A claim about `Grown` or `Stacks`.

    Claims about the order of operators are undefined where depth gains nothing, or where the two halves of
    the sentences disagree: then there is no order to predict.
    """

    def gate(grown: Grown) -> Interval:
        ordered = grown.headroom().low > 0 and grown.ceiling() >= PREDICTIVE
        return effect(grown) if ordered else UNDEFINED

    page = "ii5_growing" if id.startswith("grow-") else "ii5_stacking"
    gated = unit in (RANKS, REGRET)
    return Claim(id, place, text, page, gate if gated else effect, value=value, unit=unit, **more)


def disruption_pays(grown: Grown) -> Interval:
    """By how much the initial KL of the operator that ends best is above the operators' mean (nats).

    It cannot be below the smallest one, so that a comparison with that would confirm anything.
    """
    initial = grown.kl[:, 0]
    return seed_interval(chosen(initial, grown.final.argmin(1)) - initial.mean(1))


def preserving_is_worse(grown: Grown) -> Interval:
    """By how much function-preserving operators end above copies, mean over each (nats)."""
    preserving, copies = grown.of("silent", "muted"), grown.of("duplicate")
    if not preserving.any():
        return UNDEFINED
    return seed_interval(grown.final[:, preserving].mean(1) - grown.final[:, copies].mean(1))


def predictable_sooner_with_age(grown: Grown) -> Interval:
    """Log ratio of the first predictive step (plus 1) at the first age to that at the last."""
    if not grown.aged:
        return UNDEFINED
    young, old = (1 + grown.aged[age].first_predictive_step() for age in (min(grown.aged), max(grown.aged)))
    ratios = np.log(young / old)
    known = ratios[~np.isnan(ratios)]
    return seed_interval(known) if len(known) else UNDEFINED


TOPICS = (
    Topic("Growing: is there depth to gain?", (
        _claim("grow-headroom", OURS,
               "the best grown model ends at a lower KL than the one that did not grow",
               Grown.headroom, LOG),
        _claim("grow-scratch", OURS,
               "at equal FLOPs, LAG's choice ends at a lower KL than a model trained from scratch",
               lambda grown: seed_interval(grown.scratch[:, -1] - chosen(grown.final, grown.choice())),
               NATS),
    )),
    Topic("Growing: does the loss right after it mislead?", (
        _claim("grow-initial", "Fig. 5.2",
               "the initial loss orders operators backwards (minus the correlation)",
               lambda grown: mean_correlation(-grown.correlations(0)), RANKS, 0.418),
        _claim("grow-disruption", "§5.3.1",
               "the operator that ends best disrupts more than operators do on average",
               disruption_pays, NATS),
        _claim("grow-preserving", "§5.1",
               "operators that preserve the function end at a higher KL than copies of layers",
               preserving_is_worse, NATS),
    )),
    Topic("Growing: does the loss soon after it predict which operator is best?", (
        _claim("grow-early", "Fig. 5.2",
               "the loss after 5 % of the steps orders operators as the last one does",
               lambda grown: mean_correlation(grown.correlations(grown.early)), RANKS, 0.986),
        _claim("grow-rise", "Fig. 5.2",
               "the loss after 5 % of the steps orders operators better than the initial loss",
               lambda grown: seed_interval(grown.correlations(grown.early) - grown.correlations(0)), RANKS),
    )),
    Topic("Growing: does LAG choose well?", (
        _claim("grow-lag", "Tab. 5.1", f"LAG's relative regret stays below {LITTLE_REGRET}",
               lambda grown: grown.regret_below(LITTLE_REGRET), REGRET),
        _claim("grow-lag-lot", OURS, "LAG's relative regret is below that of a random choice",
               lambda grown: grown.regret_below(grown.relative_regret(grown.final.mean(1))), REGRET),
        _claim("grow-lag-initial", "Tab. 5.1",
               "LAG's relative regret is below that of choosing by the initial loss",
               lambda grown: grown.regret_below(grown.regret(grown.choice(0))), REGRET, 0.7986),
        _claim("grow-lag-last", "Tab. 5.1",
               "LAG's relative regret is below that of repeating the last layers on top",
               lambda grown: grown.regret_below(grown.regret(grown.on_top("duplicate"))), REGRET, 0.5517),
    )),
    Topic("Growing: do probes of the model with the lower loss read more?", (
        _claim("grow-knows-initial", "Tab. C.1",
               "probes of LAG's choice are more accurate than of the choice by the initial loss",
               lambda grown: grown.accuracy_above(grown.choice(0)), POINTS),
        _claim("grow-knows-last", "Tab. C.1",
               "probes of LAG's choice are more accurate than with the last layers on top",
               lambda grown: grown.accuracy_above(grown.on_top("duplicate")), POINTS),
        _claim("grow-knows-random", "Tab. C.1",
               "probes of LAG's choice are more accurate than with random layers on top",
               lambda grown: grown.accuracy_above(grown.on_top("random")), POINTS),
    )),
    Topic("Growing: does it matter how long the shallow model was trained?", (
        _claim("grow-age-tells", "§5.1",
               "the older it is, the sooner its final loss can be predicted (log ratio of steps)",
               predictable_sooner_with_age, LOG),
    )),
)  # fmt: skip

STACKING_TOPICS = (
    Topic("Stacking: does it pay to choose at every stage?", (
        _claim("stack-adaptive", "Tab. C.2",
               "adaptive stacking ends at a lower KL than stacking the last layers",
               lambda stacks, level=LEVEL: stacks.below("adaptive", "last", level), NATS, margin=NEARLY),
    )),
    Topic("Stacking: is it worth it?", (
        _claim("stack-headroom", OURS,
               "a model that grows in the last stage ends at a lower KL than one that does not",
               Stacks.headroom, LOG),
        _claim("stack-scratch", OURS,
               "at equal FLOPs, stacking the last layers ends at a lower KL than training from scratch",
               lambda stacks: stacks.below("last", FROM_SCRATCH), NATS),
    )),
)  # fmt: skip
