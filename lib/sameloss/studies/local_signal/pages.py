"""The pages of this study: what they may set, which runs they read, and what those found."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.local_signal.dynamics import STATEMENTS, checks
from sameloss.studies.local_signal.found import Found
from sameloss.studies.local_signal.settings import PARAMETERS, PRESETS, Settings, SignalSettings
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.statement import Judgement, statement_table


@dataclass
class SignalPage(Page[Settings]):
    """The page on training."""

    @property
    def signal(self) -> SignalSettings:
        """Return what decides the runs."""
        return self.settings.signal

    @property
    def seeds(self) -> int:
        """Return the number of seeds of stochastic descent."""
        return self.signal.seeds

    def runs(self) -> list[Run]:
        """Return all of them."""
        s = self.signal
        return [s.flow, s.phase_flows, s.best, s.dead, *s.descents]

    @cached_property
    def found(self) -> Found:
        """Return what they found."""
        s, get = self.signal, self.store.get
        seeds = pd.concat([get(run).assign(seed=run.seed) for run in s.descents], ignore_index=True)
        return Found(s, get(s.flow), get(s.phase_flows), get(s.best), get(s.dead), seeds)

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Return everything that is checked of the statements."""
        return checks(self.found)

    def statements(self) -> pd.DataFrame:
        """Return the statements about training, judged."""
        return statement_table(STATEMENTS, self.checks)

    @property
    def refuted(self) -> list[str]:
        """Return the statements that fail, in their own words."""
        table = self.statements()
        return [*table[table.verdict == str(Judgement.FAILS)].statement.str.rstrip(".")]


PLANS = {
    "ii3_local_signal": Plan(
        (
            "preset",
            "noise",
            "multiplier",
            "lr",
            "length",
            "batch",
            "steps",
            "seeds",
            "workers",
            "device",
            "artifacts",
        ),
        SignalPage,
    ),
}

STUDY = Study(PRESETS, PARAMETERS, PLANS)
