"""The page of this study: what it may set, and which runs it reads."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.decision_lists.experiment import (
    PARTS,
    PRESETS,
    FigureStep,
    ListBlock,
    ListConfig,
    ListCurves,
    ListDepartures,
    ListDescents,
    ListFlows,
    ListProofs,
    ListSamples,
    ListSGD,
    TaskShape,
)
from sameloss.studies.decision_lists.statements import STATEMENTS, checks
from sameloss.studies.decision_lists.tables import Tables
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.statement import statement_table

OTHER_TASKS = (TaskShape(12, 3, 3), TaskShape(20, 4, 3), TaskShape(40, 5, 4), TaskShape(100, 12, 4))
"""On which Theorem 4.3 is tried beside the page's own."""


@dataclass
class ListPage(Page[ListConfig]):
    """The page on decision lists learnt by attention."""

    @property
    def seeds(self) -> int:
        """Return the number of seeds of everything drawn."""
        return self.config.seeds

    @property
    def flows(self) -> ListFlows:
        """Return the moments of perfection by read-out, L, n, m and rarity."""
        readouts = sorted({*self.config.readouts, *self.config.shown}, reverse=True)
        return ListFlows(self.config.task, tuple(readouts), self.config.sweeps)

    @property
    def curves(self) -> ListCurves:
        """Return scores and attention along the flows that are drawn."""
        return ListCurves(self.config.task, self.config.shown, self.config.sweeps.horizon)

    @property
    def descents(self) -> ListDescents:
        """Return gradient descent as Theorem 4.3 has it."""
        others = (task for task in OTHER_TASKS if task != self.config.task)
        return ListDescents((self.config.task, *others))

    @property
    def proofs(self) -> ListProofs:
        """Return the proofs' steps in random cases."""
        return ListProofs(self.config.cases, self.config.first_seed)

    @property
    def departures(self) -> list[ListDepartures]:
        """Return what happens where an assumption is dropped."""
        s = self.config
        return [ListDepartures(part, s.small, s.task, s.departures, s.first_seed) for part in PARTS]

    def steps(self, seed: int) -> FigureStep:
        """Return Figure 4.1's step on drawn sequences."""
        return FigureStep(self.config.task, self.config.drawn, seed)

    def alone(self, seed: int, rate: float) -> ListSGD:
        """Return SGD on W."""
        s = self.config
        return ListSGD(s.task, s.readout, s.steps_at(rate), s.looked, seed)

    def both(self, seed: int, task: TaskShape | None = None) -> ListSGD:
        """Return SGD on both matrices, on the page's task or on another one."""
        return ListSGD(task or self.config.task, None, self.config.both, self.config.looked, seed)

    def samples(self, seed: int) -> ListSamples:
        """Return training on fixed samples."""
        return ListSamples(self.config.samples, seed)

    def blocks(self) -> dict[tuple[int, bool, int], ListBlock]:
        """Return transformer blocks by layers, MLP and seed."""
        blocks = self.config.blocks
        first = self.config.first_seed
        return {
            (layers, mlp, seed): ListBlock(blocks, layers, mlp, seed)
            for layers in blocks.layers
            for mlp in (False, True)
            for seed in range(first, first + blocks.seeds)
        }

    def runs(self) -> list[Run]:
        """Return all of them."""
        of_seeds = [run for seed in self.config.all_seeds for run in self._of_seed(seed)]
        exact = [self.flows, self.curves, self.descents, self.proofs, *self.departures]
        return [*exact, *of_seeds, *self.blocks().values()]

    def _of_seed(self, seed: int) -> list[Run]:
        alone = [self.alone(seed, rate) for rate in self.config.rates]
        larger = [self.both(seed, task) for task in self.config.larger]
        return [self.steps(seed), *alone, self.both(seed), *larger, self.samples(seed)]

    @cached_property
    def tables(self) -> Tables:
        """Return what the statements are checked on."""
        get, rates = self.store.get, self.config.rates
        return Tables(
            self.config,
            get(self.flows),
            get(self.curves),
            get(self.descents),
            get(self.proofs),
            pd.concat(map(get, self.departures), ignore_index=True),
            self._by_seed(self.steps),
            pd.concat(
                self._by_seed(partial(self.alone, rate=rate)).assign(rate=self.config.steps_at(rate).rate)
                for rate in rates
            ),
            self._by_seed(self.both),
            self._by_seed(self.samples),
            pd.concat(
                get(run).assign(layers=layers, mlp=mlp, seed=seed)
                for (layers, mlp, seed), run in self.blocks().items()
            ),
            {task: self._by_seed(partial(self.both, task=task)) for task in self.config.larger},
        )

    def _by_seed(self, run: Callable[[int], Run]) -> pd.DataFrame:
        seeds: Iterable[int] = self.config.all_seeds
        return pd.concat((self.store.get(run(seed)).assign(seed=seed) for seed in seeds), ignore_index=True)

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Return everything that is checked of the statements."""
        return checks(self.tables)

    def statements(self) -> pd.DataFrame:
        """Return the statements of the chapter, judged."""
        return statement_table(STATEMENTS, self.checks)


STUDY = Study(PRESETS, {"ii4_decision_lists": Plan(ListPage)})
