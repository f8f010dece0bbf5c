"""The pages of this study: their parameters, runs and results."""

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.local_signal import statements
from sameloss.studies.local_signal.experiment import PRESETS, SignalConfig, proof_table
from sameloss.studies.local_signal.proofs import PARTS
from sameloss.studies.page import LAST, Page, PageSpec, Study


@dataclass
class SignalPage(Page[SignalConfig]):
    """The page on training."""

    exact, check = statements.TRAINING, staticmethod(statements.training_checks)

    def runs(self) -> list[Run]:
        return [*self.config.runs().values(), *self.config.descents.values()]

    @cached_property
    def results(self) -> statements.TrainingResults:
        tables = {name: self.store.get(run) for name, run in self.config.runs().items()}
        sgd = [self.store.get(run).assign(seed=seed) for seed, run in self.config.descents.items()]
        return statements.TrainingResults(self.config, sgd=pd.concat(sgd, ignore_index=True), **tables)


@dataclass
class ProofsPage(Page[SignalConfig]):
    """The page on the proofs and the tangent kernel."""

    exact, check = statements.PROOFS, staticmethod(statements.proof_checks)

    def runs(self) -> list[Run]:
        return [*map(proof_table, PARTS), self.config.runs()["tangent"]]

    @cached_property
    def results(self) -> statements.ProofResults:
        return statements.ProofResults(*map(self.store.get, self.runs()))


SPECS = {
    "ii3_local_signal": PageSpec(SignalPage, f"preset noise multiplier lr batch steps seeds {LAST}"),
    "ii3_proofs": PageSpec(ProofsPage, f"preset starts {LAST}"),
}

STUDY = Study(PRESETS, SPECS)
