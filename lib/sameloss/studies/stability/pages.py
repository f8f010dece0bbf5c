"""The page of this study: what it may set, which runs it reads, and their results."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.page import Page, PageSpec, Study
from sameloss.studies.stability.claims import STATEMENTS, TOPICS, Stability, checks, falls_of
from sameloss.studies.stability.experiment import PRESETS, StabilityConfig, TwinTraining


@dataclass
class StabilityPage(Page[StabilityConfig]):
    """The page on stability."""

    topics, exact, check = TOPICS, STATEMENTS, staticmethod(checks)

    @property
    def trainings(self) -> dict[tuple[str, int], TwinTraining]:
        """Trainings of twins, by kind and sample size."""
        s = self.config
        return {(kind.name, size): s.twins(kind, size) for kind in s.kinds for size in s.sizes}

    def runs(self) -> list[Run]:
        return list(self.trainings.values())

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


STUDY = Study(PRESETS, {"ii2_stability": PageSpec(StabilityPage, recorded=True)})
