"""The page of this study: what it may set, and which runs it reads."""

from dataclasses import dataclass

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.manifold_flow.experiment import (
    FLOW_LANGUAGE,
    PRESETS,
    SMOOTH_LANGUAGE,
    ZEROS_LANGUAGE,
    AdamDrift,
    FlowConfig,
    Landscape,
    SGDDrift,
    ZeroConditionals,
)
from sameloss.studies.manifold_flow.statements import STATEMENTS, checks
from sameloss.studies.manifold_flow.tables import Tables
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.statement import statement_table


@dataclass
class FlowPage(Page[FlowConfig]):
    """The page on SGD and Adam along the minimisers of tiny models."""

    @property
    def sgd(self) -> SGDDrift:
        """Return SGD beside the flow of Theorem 3.3."""
        return SGDDrift(FLOW_LANGUAGE, FLOW_LANGUAGE.words, 3.0, self.config, 0)

    @property
    def adam(self) -> AdamDrift:
        """Return Adam beside its own flow."""
        return AdamDrift(FLOW_LANGUAGE, FLOW_LANGUAGE.words, 3.0, self.config, 0)

    @property
    def zeros(self) -> ZeroConditionals:
        """Return gradient flow with and without conditionals of zero."""
        return ZeroConditionals((ZEROS_LANGUAGE, SMOOTH_LANGUAGE), 0)

    @property
    def landscape(self) -> Landscape:
        """Return SGD on a loss of two parameters (Figure 4)."""
        starts = ((0.45, 1.35), (1.4, 0.0))
        return Landscape(0.7, starts, ("large", "small"), 0.04, 4, self.config.landscape_steps, 0)

    def runs(self) -> list[Run]:
        """Return all four."""
        return [self.sgd, self.adam, self.zeros, self.landscape]

    def tables(self) -> Tables:
        """Return what the statements are checked on."""
        return Tables(self.sgd, *map(self.store.get, (self.sgd, self.adam, self.zeros)))

    def statements(self) -> pd.DataFrame:
        """Return the statements of Section 3, judged."""
        return statement_table(STATEMENTS, checks(self.tables()))


STUDY = Study(PRESETS, {"03_implicit_bias": Plan(FlowPage)})
