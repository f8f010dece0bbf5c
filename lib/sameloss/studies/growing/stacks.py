"""What the runs of stacking found: how each way ends, and what its models know at equal KL."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.errors import UnreachableKL
from sameloss.statistics.bootstrap import UNDEFINED, Interval, seed_interval
from sameloss.statistics.equal_kl import common_kl, weights_at
from sameloss.studies.growing.operators import NOT_GROWN
from sameloss.studies.growing.results import FROM_NOTHING
from sameloss.studies.growing.ways import WAYS, StackingSettings

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
