"""The page of this study: what it may set, and which runs it reads."""

from dataclasses import dataclass

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.dyck import experiment
from sameloss.studies.dyck.experiment import PRESETS, DyckConfig, DyckTransfer
from sameloss.studies.dyck.statements import STATEMENTS
from sameloss.studies.page import Page, Plan, Study


@dataclass
class DyckPage(Page[DyckConfig]):
    """The page on the bracket language."""

    exact = STATEMENTS

    @property
    def transfer(self) -> DyckTransfer:
        """Return the probabilities of success."""
        return DyckTransfer(self.config)

    def runs(self) -> list[Run]:
        """Return the searches, transfer, random features, the training, and the checks of all but that."""
        searches = tuple(experiment.DyckMinimisation(self.config, width) for width in self.config.widths)
        features = experiment.DyckFeatures(self.config)
        checks = experiment.DyckChecks(self.config, searches, self.transfer, features)
        return [*searches, self.transfer, features, experiment.DyckTraining(self.config), checks]

    @property
    def checks(self) -> pd.DataFrame:
        """Return what all statements are judged by."""
        return self.store.get(self.runs()[-1])


STUDY = Study(PRESETS, {"05_dyck": Plan(DyckPage)})
