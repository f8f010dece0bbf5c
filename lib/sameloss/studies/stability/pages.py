"""The page of this study: what it may set, which runs it reads, and their results."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.page import Page, PageSpec, Study
from sameloss.studies.stability.claims import STATEMENTS, TOPICS, Stability, checks, falls_of, gap_bounds
from sameloss.studies.stability.experiment import PRESETS, StabilityConfig, TwinTraining


@dataclass
class StabilityPage(Page[StabilityConfig]):
    """The page on stability."""

    topics, exact = TOPICS, STATEMENTS

    @property
    def trainings(self) -> dict[tuple[str, int], TwinTraining]:
        """Trainings of twins, by kind and sample size."""
        s = self.config
        return {(kind.name, size): s.twins(kind, size) for kind in s.kinds for size in s.sizes}

    def runs(self) -> list[Run]:
        s = self.config
        return [*self.trainings.values(), *s.logistic_swaps.values(), s.ridge_swaps]

    def _stacked(self, name: str) -> pd.DataFrame:
        """One table of all trainings of twins."""
        parts = self.trainings.items()
        tables = [self.store.get(run)[name].assign(kind=kind, size=size) for (kind, size), run in parts]
        return pd.concat(tables, ignore_index=True)

    @cached_property
    def paths(self) -> pd.DataFrame:
        """Accuracies between twins, by kind, size, seed, pair and alpha."""
        return self._stacked("paths")

    def tables(self) -> dict[str, pd.DataFrame]:
        return {"twins": self._stacked("table"), "falls": falls_of(self.paths)}

    def read(self, tables: Mapping[str, pd.DataFrame], config: StabilityConfig) -> Stability:
        return Stability(config.kinds, config.sizes, tables["twins"], tables["falls"])

    @cached_property
    def swaps(self) -> pd.DataFrame:
        """All swaps of logistic regression."""
        runs = self.config.logistic_swaps.items()
        return pd.concat(self.store.get(run).assign(size=size) for size, run in runs)

    @cached_property
    def ridge(self) -> pd.DataFrame:
        """All swaps of ridge regression."""
        table: pd.DataFrame = self.store.get(self.config.ridge_swaps)
        return table

    @cached_property
    def checks(self) -> pd.DataFrame:
        return checks(self.swaps, self.ridge, gap_bounds(self.results))


STUDY = Study(PRESETS, {"ii2_stability": PageSpec(StabilityPage, recorded=True)})
