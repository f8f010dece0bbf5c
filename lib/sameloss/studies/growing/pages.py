"""The page of this study: what it may set, which runs it reads, and what it found."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from sameloss.models.encoder import EncoderShape
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.runs.sampling import CorpusSampling
from sameloss.store.store import Run
from sameloss.studies.evidence import Source, side_by_side
from sameloss.studies.growing.claims import CLAIMS, TOPICS, GrowthClaim
from sameloss.studies.growing.results import MEASURES, Grown
from sameloss.studies.growing.runs import (
    Candidates,
    GrowthBase,
    GrowthLandscape,
    LocalityMeasurement,
)
from sameloss.studies.growing.settings import (
    PARAMETERS,
    PRESETS,
    GrowingSettings,
    Operator,
    Settings,
    finished,
)
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.verdict import Judged, Topic, verdict_table
from sameloss.training.objectives import Objective

LANDSCAPE_SENTENCES = 32


@dataclass
class GrowingPage(Page[Settings]):
    """The page on landscape-aware growing."""

    @property
    def growing(self) -> GrowingSettings:
        """Return what decides the runs."""
        return self.settings.growing

    @property
    def held_out(self) -> HeldOutConditionals:
        """Return the sentences on which all models are chosen and judged."""
        return HeldOutConditionals(self.growing.language, self.growing.sentences, 0)

    @property
    def locality(self) -> LocalityMeasurement:
        """Return what lies beyond a word's neighbours."""
        return LocalityMeasurement(self.growing.language, min(self.growing.sentences, 500), 0)

    def base(self, seed: int) -> GrowthBase:
        """Return a shallow model."""
        return self._trained(self.growing.shape, seed, self.growing.optimisation.steps)

    def scratch(self, seed: int) -> Candidates:
        """Return a deep model trained from nothing, which costs what a shallow and one grown from it cost."""
        g = self.growing
        deep = self._trained(g.deep, seed, max(1, self.equal_flops - g.steps))
        return Candidates(deep, (), g.added, g.steps, g.look_steps, g.carried, self.held_out)

    def _trained(self, shape: EncoderShape, seed: int, steps: int) -> GrowthBase:
        g = self.growing
        return GrowthBase(
            CorpusSampling(g.language, None, 0),
            shape,
            g.optimisation.lasting(steps),
            seed,
            checkpoints=(steps,),
            micro_batch=g.optimisation.batch,
            resume_every=1000,
            objective=Objective(label_noise=g.label_noise),
        )

    @property
    def equal_flops(self) -> int:
        """Return the steps from nothing that cost no more than a shallow model and one grown from it."""
        g = self.growing
        shallow, deep = (s.flops(g.language.words, g.language.max_length) for s in (g.shape, g.deep))
        return int((shallow * g.optimisation.steps + deep * g.steps) / deep)

    def candidates(self, seed: int) -> list[Candidates]:
        """Return a shallow model grown by every operator, so many of them as one."""
        operators, most = self.growing.operators, self.growing.together
        firsts = range(0, len(operators), most)
        return [self.grown_by(seed, operators[first : first + most]) for first in firsts]

    def grown_by(self, seed: int, operators: tuple[Operator, ...]) -> Candidates:
        """Return a shallow model grown by some operators; by none: not grown."""
        g = self.growing
        return Candidates(
            self.base(seed), operators, g.added, g.steps, g.look_steps, g.carried, self.held_out
        )

    def landscape(self, seed: int) -> list[GrowthLandscape]:
        """Return the landscape where each operator puts the model."""
        return [GrowthLandscape(grown, LANDSCAPE_SENTENCES) for grown in self.candidates(seed)]

    def not_grown(self, seed: int) -> Candidates:
        """Return the shallow model that goes on as it is."""
        return self.grown_by(seed, ())

    def _tables(self, runs: Iterable[Run]) -> pd.DataFrame:
        """Return the tables of some runs under each other."""
        return pd.concat([self.store.get(run) for run in runs], ignore_index=True)

    def runs(self) -> list[Run]:
        """Return all of them."""
        return [self.locality, *(run for seed in self.growing.all_seeds for run in self._of_seed(seed))]

    def _of_seed(self, seed: int) -> list[Run]:
        return [*self.candidates(seed), self.not_grown(seed), self.scratch(seed), *self.landscape(seed)]

    @cached_property
    def grown(self) -> Grown:
        """Return what was found, seeds first."""
        seeds, names = self.growing.all_seeds, [operator.name for operator in self.growing.operators]
        tables = [self._tables(self.candidates(seed)) for seed in seeds]
        landscape = [self._tables(self.landscape(seed)).set_index("operator").loc[names] for seed in seeds]

        def wide(column: str) -> np.ndarray:
            found = [table.pivot(index="step", columns="operator", values=column)[names] for table in tables]
            return np.stack([table.to_numpy() for table in found])

        def alone(control: Callable[[int], Candidates]) -> np.ndarray:
            return np.stack([self.store.get(control(seed)).kl.to_numpy() for seed in seeds])

        return Grown(
            self.growing,
            wide("chosen_by"),
            wide("kl"),
            alone(self.not_grown),
            alone(self.scratch),
            {measure: np.stack([table[measure] for table in landscape]) for measure in MEASURES},
        )

    def verdicts(self) -> pd.DataFrame:
        """Return the thesis beside ours, one row a claim."""
        judged = [Judged(claim, claim.compute(self.grown)) for claim in CLAIMS]
        return verdict_table(judged, self.settings.tolerance)

    @property
    def topics(self) -> tuple[Topic[GrowthClaim], ...]:
        """Return the questions that the claims are about."""
        return TOPICS

    def evidence(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """Return the page's verdicts, with the number of shallow models behind them."""
        return side_by_side({Source(self.settings.name, self.growing.seeds): verdicts})


_NAMES = "preset seeds base_steps steps lag label_noise state tolerance max_hours workers device artifacts"

PLANS = {"ii5_growing": Plan(tuple(_NAMES.split()), GrowingPage)}

STUDY = Study(PRESETS, PARAMETERS, PLANS, finished=finished)
