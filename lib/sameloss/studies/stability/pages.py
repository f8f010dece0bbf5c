"""The page of this study: what it may set, which runs it reads, and what they found."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.evidence import Source, beside_records
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.recorded import recorded
from sameloss.studies.stability.claims import (
    PAGE,
    STATEMENTS,
    TOPICS,
    Stability,
    StabilityClaim,
    checks,
    falls_of,
    judged,
)
from sameloss.studies.stability.experiment import PRESETS, Found, StabilityConfig, TwinTraining
from sameloss.studies.stability.tables import MEASURES, gap_bounds
from sameloss.studies.statement import statement_table
from sameloss.studies.verdict import Topic, verdict_table

RECORDED = (
    *("kind", "size", "seed", "pair", "step", "error", "trained error"),
    *MEASURES.values(),
    *("gap clipped", "gap Brier", "others clipped", "others Brier", "others total variation"),
)
"""The columns of a record."""


@dataclass
class StabilityPage(Page[StabilityConfig]):
    """The page on stability."""

    @property
    def seeds(self) -> int:
        """Return the number of seeds of initialisation, order and pairs."""
        return self.config.seeds

    @property
    def trainings(self) -> dict[tuple[str, int], TwinTraining]:
        """Return the twin trainings by kind and size."""
        s = self.config
        return {(kind.name, size): s.training(kind, size) for kind in s.kinds for size in s.sizes}

    def runs(self) -> list[Run]:
        """Return all of them."""
        return [*self.trainings.values(), *self.config.all_swaps, self.config.ridge_swaps]

    @cached_property
    def _read(self) -> dict[tuple[str, int], Found]:
        return {about: self.store.get(run) for about, run in self.trainings.items()}

    @cached_property
    def paths(self) -> pd.DataFrame:
        """Return accuracies between twins, by kind, size, seed, pair and alpha."""
        return _stacked((about, own.paths) for about, own in self._read.items())

    @cached_property
    def found(self) -> Stability:
        """Return what twins differ in."""
        table = _stacked((about, own.table) for about, own in self._read.items())
        return Stability(self.config.kinds, self.config.sizes, table, falls_of(self.paths))

    def record_tables(self) -> dict[str, pd.DataFrame]:
        """Return what claims are judged by: what a record keeps."""
        return {"twins": self.found.table[[*RECORDED]], "falls": self.found.falls}

    def evidence(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """Return the page's verdicts, and those of every record, judged as this page is."""
        own, tolerance = Source(self.config.name, self.seeds), self.config.tolerance
        return beside_records(
            own, verdicts, self.name, lambda preset: verdict_table(judged(found_by_record(preset)), tolerance)
        )

    @cached_property
    def swaps(self) -> pd.DataFrame:
        """Return what all swaps of small samples change."""
        return pd.concat(self.store.get(run).assign(size=run.size) for run in self.config.all_swaps)

    @cached_property
    def ridge(self) -> pd.DataFrame:
        """Return the same of ridge regression."""
        found: pd.DataFrame = self.store.get(self.config.ridge_swaps)
        return found

    @property
    def topics(self) -> tuple[Topic[StabilityClaim], ...]:
        """Return the questions that the claims are about."""
        return TOPICS

    def verdicts(self) -> pd.DataFrame:
        """Return the thesis beside ours, one row a claim."""
        return verdict_table(judged(self.found), self.config.tolerance)

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Return everything that is checked of the statements."""
        return checks(self.swaps, self.ridge, gap_bounds(self.found))

    def statements(self) -> pd.DataFrame:
        """Return the exact statements, judged."""
        return statement_table(STATEMENTS, self.checks)


def found_by_record(preset: str) -> Stability:
    """Return what a record says of twins: of the kinds and measures that it has."""
    settings = PRESETS[preset]
    table, falls = (recorded(name, preset, PAGE) for name in ("twins", "falls"))
    kinds = tuple(kind for kind in settings.kinds if kind.name in set(table.kind))
    measures = table.reindex(columns=[*RECORDED])
    return Stability(kinds, settings.sizes, measures, falls, whole=kinds == settings.kinds)


def _stacked(parts: Iterable[tuple[tuple[str, int], pd.DataFrame]]) -> pd.DataFrame:
    return pd.concat([table.assign(kind=kind, size=size) for (kind, size), table in parts], ignore_index=True)


STUDY = Study(PRESETS, {"ii2_stability": Plan(StabilityPage, recorded=True)})
