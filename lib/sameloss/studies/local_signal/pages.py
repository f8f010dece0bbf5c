"""The pages of this study: what they may set, which runs they read, and what those found."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.local_signal.experiment import PRESETS, SignalConfig
from sameloss.studies.local_signal.found import Found
from sameloss.studies.local_signal.proofs.lemmas import PARTS, ProofTable
from sameloss.studies.local_signal.proofs.statements import STATEMENTS as PROOFS
from sameloss.studies.local_signal.proofs.statements import Proofs
from sameloss.studies.local_signal.proofs.statements import checks as proof_checks
from sameloss.studies.local_signal.statements import STATEMENTS, checks
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.statement import statement_table


@dataclass
class SignalPage(Page[SignalConfig]):
    """The page on training."""

    @property
    def seeds(self) -> int:
        """Return the number of seeds of stochastic descent."""
        return self.config.seeds

    def runs(self) -> list[Run]:
        """Return all of them."""
        s = self.config
        return [s.flow, s.phase_flows, s.best, s.dead, *s.descents, s.tangent_rows]

    @cached_property
    def found(self) -> Found:
        """Return what they found."""
        s, get = self.config, self.store.get
        seeds = pd.concat([get(run).assign(seed=run.seed) for run in s.descents], ignore_index=True)
        return Found(s, get(s.flow), get(s.phase_flows), get(s.best), get(s.dead), seeds)

    @cached_property
    def tangent(self) -> pd.DataFrame:
        """Return the best errors of tangent kernels."""
        kernels: pd.DataFrame = self.store.get(self.config.tangent_rows)
        return kernels

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Return everything that is checked of the statements."""
        return checks(self.found)

    def statements(self) -> pd.DataFrame:
        """Return the statements about training, judged."""
        return statement_table(STATEMENTS, self.checks)


@dataclass
class ProofsPage(Page[SignalConfig]):
    """The page on the proofs, and on the tangent kernel."""

    @property
    def seeds(self) -> int:
        """Return the number of starts of tangent kernels."""
        return self.config.starts

    def runs(self) -> list[Run]:
        """Return all of them."""
        return [self.config.tangent_rows, *map(ProofTable, PARTS)]

    @cached_property
    def proofs(self) -> Proofs:
        """Return what they found."""
        states, rows, examples, turns, several = (self.store.get(ProofTable(part)) for part in PARTS)
        run = self.config.tangent_rows
        return Proofs(run.patches, states, rows, examples, turns, several, self.store.get(run))

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Return everything that is checked of the statements."""
        return proof_checks(self.proofs)

    def statements(self) -> pd.DataFrame:
        """Return the lemmas and theorems, judged."""
        return statement_table(PROOFS, self.checks)


_EVERY = "max_hours workers device artifacts"

PLANS = {
    "ii3_local_signal": Plan(SignalPage, f"preset noise multiplier lr length batch steps seeds {_EVERY}"),
    "ii3_proofs": Plan(ProofsPage, f"preset starts {_EVERY}"),
}

STUDY = Study(PRESETS, PLANS)
