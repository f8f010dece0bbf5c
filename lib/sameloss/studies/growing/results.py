"""What the runs of growing found, as arrays over seeds, looks and operators."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from sameloss.statistics.bootstrap import UNDEFINED, Interval, seed_interval
from sameloss.statistics.prediction import (
    FEWEST,
    mean_correlation,
    random_regret,
    rank_correlation,
    recall,
    self_correlation,
)
from sameloss.statistics.selection import Choice
from sameloss.studies.growing.operators import Operator
from sameloss.studies.growing.settings import GrowingSettings

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
