"""The pages of this study: what they may set, which runs they read, and what those found."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.local_signal import statements
from sameloss.studies.local_signal.experiment import PRESETS, SignalConfig, proof_table
from sameloss.studies.local_signal.proofs import PARTS
from sameloss.studies.page import Page, Plan, Study


@dataclass
class SignalPage(Page[SignalConfig]):
    """The page on training."""

    exact = statements.TRAINING

    def runs(self) -> list[Run]:
        """Return all of them."""
        return [*self.config.runs().values(), *self.config.descents.values()]

    @cached_property
    def results(self) -> statements.Found:
        """Return what they found."""
        single = {name: self.store.get(run) for name, run in self.config.runs().items()}
        seeds = [self.store.get(run).assign(seed=seed) for seed, run in self.config.descents.items()]
        return statements.Found(self.config, sgd=pd.concat(seeds, ignore_index=True), **single)

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Return everything that is checked of the statements."""
        return statements.training_checks(self.results)


@dataclass
class ProofsPage(Page[SignalConfig]):
    """The page on the proofs, and on the tangent kernel."""

    exact = statements.PROOFS

    @property
    def seeds(self) -> int:
        """Return the number of starts of tangent kernels."""
        return self.config.starts

    def runs(self) -> list[Run]:
        """Return all of them."""
        return [*map(proof_table, PARTS), self.config.runs()["tangent"]]

    @cached_property
    def results(self) -> statements.Proofs:
        """Return what they found."""
        return statements.Proofs(*map(self.store.get, self.runs()))

    @cached_property
    def checks(self) -> pd.DataFrame:
        """Return everything that is checked of the statements."""
        return statements.proof_checks(self.results)


_EVERY = "max_hours workers device artifacts"

PLANS = {
    "ii3_local_signal": Plan(SignalPage, f"preset noise multiplier lr length batch steps seeds {_EVERY}"),
    "ii3_proofs": Plan(ProofsPage, f"preset starts {_EVERY}"),
}

STUDY = Study(PRESETS, PLANS)
