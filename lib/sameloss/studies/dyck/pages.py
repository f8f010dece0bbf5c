"""The page of this study and the runs it reads."""

from dataclasses import dataclass

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.dyck import experiment
from sameloss.studies.dyck.experiment import PRESETS, DyckConfig
from sameloss.studies.dyck.statements import STATEMENTS
from sameloss.studies.page import Page, PageSpec, Study


@dataclass
class DyckPage(Page[DyckConfig]):
    """The page on the bracket language."""

    exact = STATEMENTS

    @property
    def transfer(self) -> Run:
        return experiment.dyck_transfer(self.config)

    def runs(self) -> list[Run]:
        """Searches, transfer, random features, training, and checks computed from all but the training."""
        searches = tuple(experiment.dyck_minimisation(self.config, width) for width in self.config.widths)
        features = experiment.dyck_features(self.config)
        checks = experiment.DyckChecks(self.config, searches, self.transfer, features)
        return [*searches, self.transfer, features, experiment.dyck_training(self.config), checks]

    @property
    def checks(self) -> pd.DataFrame:
        return self.store.get(self.runs()[-1])


STUDY = Study(PRESETS, {"05_dyck": PageSpec(DyckPage)})
