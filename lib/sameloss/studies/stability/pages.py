"""The page of this study: what it may set, which runs it reads, and what they found."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.stability.claims import STATEMENTS, TOPICS, Stability, checks, falls_of, gap_bounds
from sameloss.studies.stability.experiment import PRESETS, StabilityConfig, TwinTraining


@dataclass
class StabilityPage(Page[StabilityConfig]):
    """The page on stability."""

    topics, exact = TOPICS, STATEMENTS

    @property
    def trainings(self) -> dict[tuple[str, int], TwinTraining]:
        """Return the twin trainings by kind and size."""
        s = self.config
        return {(kind.name, size): s.twins(kind, size) for kind in s.kinds for size in s.sizes}

    def runs(self) -> list[Run]:
        """Return all of them."""
        return [*self.trainings.values(), *self.config.all_swaps, self.config.ridge_swaps]

    def _stacked(self, name: str) -> pd.DataFrame:
        """Return that table of all twin trainings."""
        parts = self.trainings.items()
        tables = [self.store.get(run)[name].assign(kind=kind, size=m) for (kind, m), run in parts]
        return pd.concat(tables, ignore_index=True)

    @cached_property
    def paths(self) -> pd.DataFrame:
        """Return accuracies between twins, by kind, size, seed, pair and alpha."""
        return self._stacked("paths")

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return what pairs differ in, and by how much accuracy falls between them."""
        return {"twins": self._stacked("table"), "falls": falls_of(self.paths)}

    def read(self, tables: Mapping[str, pd.DataFrame], config: StabilityConfig) -> Stability:
        """Return what tables say."""
        return Stability(config.kinds, config.sizes, tables["twins"], tables["falls"])

    @cached_property
    def swaps(self) -> pd.DataFrame:
        """Return what all swaps of small samples change."""
        return pd.concat(self.store.get(run).assign(size=run.size) for run in self.config.all_swaps)

    @cached_property
    def ridge(self) -> pd.DataFrame:
        """Return the same of ridge regression."""
        table: pd.DataFrame = self.store.get(self.config.ridge_swaps)
        return table

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Return everything that is checked of the statements."""
        return checks(self.swaps, self.ridge, gap_bounds(self.results))


STUDY = Study(PRESETS, {"ii2_stability": Plan(StabilityPage, recorded=True)})
