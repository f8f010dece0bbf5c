"""The page of this study: what it may set, and which runs it reads."""

from dataclasses import dataclass

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.dyck.experiment import (
    PRESETS,
    DyckChecks,
    DyckConfig,
    DyckFeatures,
    DyckMinimisation,
    DyckTraining,
    DyckTransfer,
)
from sameloss.studies.dyck.statements import STATEMENTS
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.statement import statement_table


@dataclass
class DyckPage(Page[DyckConfig]):
    """The page on the bracket language."""

    @property
    def minimisations(self) -> tuple[DyckMinimisation, ...]:
        """Return the searches, one a width."""
        return tuple(DyckMinimisation(self.config, width) for width in self.config.widths)

    @property
    def transfer(self) -> DyckTransfer:
        """Return the probabilities of success."""
        return DyckTransfer(self.config)

    @property
    def features(self) -> DyckFeatures:
        """Return the random features."""
        return DyckFeatures(self.config)

    @property
    def training(self) -> DyckTraining:
        """Return the trainings."""
        return DyckTraining(self.config)

    @property
    def checks(self) -> DyckChecks:
        """Return the checks of all statements."""
        return DyckChecks(self.config, self.minimisations, self.transfer, self.features)

    def runs(self) -> list[Run]:
        """Return all of them."""
        return [*self.minimisations, self.transfer, self.features, self.training, self.checks]

    def statements(self) -> pd.DataFrame:
        """Return the statements of Section 5, judged."""
        return statement_table(STATEMENTS, self.store.get(self.checks))


STUDY = Study(PRESETS, {"05_dyck": Plan(DyckPage)})
