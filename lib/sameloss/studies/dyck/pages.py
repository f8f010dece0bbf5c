"""The page of this study and the runs it reads."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.dyck import experiment
from sameloss.studies.dyck.experiment import PRESETS, DyckConfig
from sameloss.studies.dyck.statements import STATEMENTS, checks
from sameloss.studies.page import Page, PageSpec, Study


@dataclass
class DyckPage(Page[DyckConfig]):
    """The page on the bracket language."""

    exact = STATEMENTS

    def runs(self) -> list[Run]:
        """Searches by width, transfer, random features, and training."""
        s = self.config
        searches = (experiment.dyck_minimisation(s, width) for width in s.widths)
        others = experiment.dyck_transfer(s), experiment.dyck_features(s), experiment.dyck_training(s)
        return [*searches, *others]

    @cached_property
    def checks(self) -> pd.DataFrame:
        s, (*searches, transfer, features) = self.config, map(self.store.get, self.runs()[:-1])
        tables = pd.concat(searches), transfer, features
        return checks(s.length, s.width, *tables, s.generator("checks"))


STUDY = Study(PRESETS, {"05_dyck": PageSpec(DyckPage)})
