"""The page of this study: its parameters and runs."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.manifold_flow.experiment import (
    FLOW_LANGUAGE,
    PRESETS,
    AdamDrift,
    FlowConfig,
    Landscape,
    SGDDrift,
)
from sameloss.studies.manifold_flow.statements import STATEMENTS, checks
from sameloss.studies.page import Page, PageSpec, Study

INSTANCE = (FLOW_LANGUAGE, FLOW_LANGUAGE.words, 3.0)  # language, rank, and how unbalanced the factors are


@dataclass
class FlowPage(Page[FlowConfig]):
    """The page on SGD and Adam along the minimisers of tiny models."""

    exact = STATEMENTS

    @property
    def sgd(self) -> SGDDrift:
        """SGD beside the flow of Theorem 3.3."""
        return SGDDrift(*INSTANCE, self.config, 0)

    @property
    def landscape(self) -> Landscape:
        """SGD on a loss of two parameters (Figure 4)."""
        starts = ((0.45, 1.35), (1.4, 0.0))
        return Landscape(0.7, starts, ("large", "small"), 0.04, 4, self.config.landscape_steps, 0)

    def runs(self) -> list[Run]:
        """SGD, Adam beside its own flow, and the landscape."""
        return [self.sgd, AdamDrift(*INSTANCE, self.config, 0), self.landscape]

    @cached_property
    def checks(self) -> pd.DataFrame:
        return checks(self.sgd, *map(self.store.get, self.runs()[:2]))


STUDY = Study(PRESETS, {"03_implicit_bias": PageSpec(FlowPage)})
