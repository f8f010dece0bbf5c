"""The page of this study: what it may set, and which runs it reads."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.decision_lists.runs import ListCurves, ListDescents, ListFlows
from sameloss.studies.decision_lists.sampling import FigureStep, ListBlock, ListSamples, ListSGD
from sameloss.studies.decision_lists.settings import (
    PARAMETERS,
    PRESETS,
    ListSettings,
    Settings,
    TaskShape,
    finished,
)
from sameloss.studies.decision_lists.statements import STATEMENTS, checks
from sameloss.studies.decision_lists.tables import Tables
from sameloss.studies.decision_lists.trials import PARTS, ListDepartures, ListProofs
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.statement import statement_table

OTHER_TASKS = (TaskShape(12, 3, 3), TaskShape(20, 4, 3), TaskShape(40, 5, 4), TaskShape(100, 12, 4))
"""On which Theorem 4.3 is tried beside the page's own."""


@dataclass
class ListPage(Page[Settings]):
    """The page on decision lists learnt by attention."""

    @property
    def lists(self) -> ListSettings:
        """Return what decides the runs."""
        return self.settings.lists

    @property
    def seeds(self) -> int:
        """Return the number of seeds of everything drawn."""
        return self.lists.seeds

    @property
    def flows(self) -> ListFlows:
        """Return the moments of perfection by read-out, L, n, m and rarity."""
        readouts = sorted({*self.lists.readouts, *self.lists.shown, self.lists.sgd_readout}, reverse=True)
        return ListFlows(self.lists.task, tuple(readouts), self.lists.sweeps)

    @property
    def curves(self) -> ListCurves:
        """Return scores and attention along the flows that are drawn."""
        return ListCurves(self.lists.task, self.lists.shown, self.lists.sweeps.horizon)

    @property
    def descents(self) -> ListDescents:
        """Return gradient descent as Theorem 4.3 has it."""
        others = (task for task in OTHER_TASKS if task != self.lists.task)
        return ListDescents((self.lists.task, *others))

    @property
    def proofs(self) -> ListProofs:
        """Return the proofs' steps in random cases."""
        return ListProofs(self.lists.cases, self.lists.first_seed)

    @property
    def departures(self) -> list[ListDepartures]:
        """Return what happens where an assumption is dropped."""
        s = self.lists
        return [ListDepartures(part, s.small, s.task, s.departures, s.first_seed) for part in PARTS]

    def steps(self, seed: int) -> FigureStep:
        """Return Figure 4.1's step on drawn sequences."""
        return FigureStep(self.lists.task, self.lists.drawn, seed)

    def alone(self, seed: int, rate: float) -> ListSGD:
        """Return SGD on W."""
        s = self.lists
        return ListSGD(s.task, s.sgd_readout, s.steps_at(rate), s.looked, seed)

    def both(self, seed: int, task: TaskShape | None = None) -> ListSGD:
        """Return SGD on both matrices, on the page's task or on another one."""
        return ListSGD(task or self.lists.task, None, self.lists.both, self.lists.looked, seed)

    def samples(self, seed: int) -> ListSamples:
        """Return training on fixed samples."""
        return ListSamples(self.lists.samples, seed)

    def blocks(self) -> dict[tuple[int, bool, int], ListBlock]:
        """Return transformer blocks by layers, MLP and seed."""
        blocks = self.lists.blocks
        first = self.lists.first_seed
        return {
            (layers, mlp, seed): ListBlock(blocks, layers, mlp, seed)
            for layers in blocks.layers
            for mlp in (False, True)
            for seed in range(first, first + blocks.seeds)
        }

    def runs(self) -> list[Run]:
        """Return all of them."""
        of_seeds = [run for seed in self.lists.all_seeds for run in self._of_seed(seed)]
        exact = [self.flows, self.curves, self.descents, self.proofs, *self.departures]
        return [*exact, *of_seeds, *self.blocks().values()]

    def _of_seed(self, seed: int) -> list[Run]:
        alone = [self.alone(seed, rate) for rate in self.lists.rates]
        larger = [self.both(seed, task) for task in self.lists.larger]
        return [self.steps(seed), *alone, self.both(seed), *larger, self.samples(seed)]

    @cached_property
    def tables(self) -> Tables:
        """Return what the statements are checked on."""
        get, rates = self.store.get, self.lists.rates
        return Tables(
            self.lists,
            get(self.flows),
            get(self.curves),
            get(self.descents),
            get(self.proofs),
            pd.concat(map(get, self.departures), ignore_index=True),
            self._by_seed(self.steps),
            pd.concat(
                self._by_seed(partial(self.alone, rate=rate)).assign(rate=self.lists.steps_at(rate).rate)
                for rate in rates
            ),
            self._by_seed(self.both),
            self._by_seed(self.samples),
            pd.concat(
                get(run).assign(layers=layers, mlp=mlp, seed=seed)
                for (layers, mlp, seed), run in self.blocks().items()
            ),
            {task: self._by_seed(partial(self.both, task=task)) for task in self.lists.larger},
        )

    def _by_seed(self, run: Callable[[int], Run]) -> pd.DataFrame:
        seeds: Iterable[int] = self.lists.all_seeds
        return pd.concat((self.store.get(run(seed)).assign(seed=seed) for seed in seeds), ignore_index=True)

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Return everything that is checked of the statements."""
        return checks(self.tables)

    def statements(self) -> pd.DataFrame:
        """Return the statements of the chapter, judged."""
        return statement_table(STATEMENTS, self.checks)


PLANS = {
    "ii4_decision_lists": Plan(
        (
            "preset",
            "vocabulary",
            "length",
            "list_length",
            "readout",
            "steps",
            "batch",
            "seeds",
            "max_hours",
            "workers",
            "device",
            "artifacts",
        ),
        ListPage,
    ),
}

STUDY = Study(PRESETS, PARAMETERS, PLANS, finished=finished)
