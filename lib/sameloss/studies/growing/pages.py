"""The pages of this study: what they may set, which runs they read, and what they found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import pandas as pd

from sameloss.measures.downstream.optimal_probe import OptimalProbe
from sameloss.models.encoder import EncoderShape
from sameloss.runs.flatness import TraceMeasurement
from sameloss.runs.held_out import HeldOutConditionals
from sameloss.runs.probing import Probing
from sameloss.runs.sampling import CorpusSampling, LabelledSampling
from sameloss.store.store import Run
from sameloss.studies.evidence import Source, beside_records
from sameloss.studies.growing.claims import (
    FROM_NOTHING,
    PAID,
    STACKING_TOPICS,
    TOPICS,
    UNTRAINED,
    Grown,
    GrowthClaim,
    Stacks,
    found_by_record,
    found_in,
    judged,
    stacks_in,
)
from sameloss.studies.growing.experiment import (
    NOT_GROWN,
    PARAMETERS,
    PRESETS,
    WAYS,
    Candidates,
    GrowingSettings,
    GrowthBase,
    GrowthLandscape,
    LocalityMeasurement,
    Member,
    Operator,
    Settings,
    StackingSettings,
    Stage,
    finished,
)
from sameloss.studies.page import Page, Plan, Study
from sameloss.studies.verdict import Topic, verdict_table
from sameloss.training.objectives import Objective

RESUME_EVERY = 250  # steps after which a training's state is saved

TRACE_SENTENCES = 256

NO_AGES = pd.DataFrame({"age": []})

ALL_WAYS = (*WAYS, PAID, NOT_GROWN, FROM_NOTHING)


def _base(of: GrowingSettings | StackingSettings, shape: EncoderShape, seed: int, steps: int) -> GrowthBase:
    """Return a training from nothing, at a rate that stays."""
    return GrowthBase(
        CorpusSampling(of.language, None, 0),
        shape,
        of.optimisation.lasting(steps),
        seed,
        checkpoints=(steps,),
        micro_batch=of.optimisation.batch,
        resume_every=RESUME_EVERY,
        objective=Objective(label_noise=of.label_noise),
    )


@dataclass
class _Growing(Page[Settings]):
    """What both pages share."""

    def labelled(self, of: GrowingSettings | StackingSettings) -> LabelledSampling:
        """Return what representations are read for: every task of the language."""
        tasks = of.language.build().tasks
        return LabelledSampling(of.language, replace(self.config.downstream, tasks=tasks))

    def accuracies(self, probing: Probing) -> pd.DataFrame:
        """Return accuracies (%) with the columns `step`, `task`, `accuracy`."""
        found = 100 * self.store.get(probing).correct.mean((1, 2))
        table = pd.DataFrame(found, pd.Index(probing.steps, name="step"), probing.labelled.downstream.tasks)
        return table.reset_index().melt("step", var_name="task", value_name="accuracy")

    @property
    def found(self) -> Grown | Stacks:
        """Return what the page's claims are about."""
        raise NotImplementedError

    def verdicts(self) -> pd.DataFrame:
        """Return the thesis beside ours, one row a claim."""
        return verdict_table(judged(self.topics, self.found), self.config.tolerance)

    def evidence(self, verdicts: pd.DataFrame) -> pd.DataFrame:
        """Return the page's verdicts, and those of every record, judged as this page is."""
        own, tolerance = Source(self.config.name, self.seeds), self.config.tolerance

        def of_record(preset: str) -> pd.DataFrame:
            return verdict_table(judged(self.topics, found_by_record(self.name, preset)), tolerance)

        return beside_records(own, verdicts, self.name, of_record)


@dataclass
class GrowingPage(_Growing):
    """The page on growing once: landscape-aware growing."""

    @property
    def growing(self) -> GrowingSettings:
        """Return what decides the runs."""
        return self.config.growing

    @property
    def seeds(self) -> int:
        """Return the number of shallow models."""
        return self.growing.seeds

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
        return _base(self.growing, self.growing.shape, seed, self.growing.optimisation.steps)

    def scratch(self, seed: int) -> Candidates:
        """Return a deep model trained from nothing, which costs what a shallow and one grown from it cost."""
        g = self.growing
        deep = _base(g, g.deep, seed, max(1, self.equal_flops - g.steps))
        return Candidates(deep, (), g.added, g.steps, g.look_steps, g.carried, self.held_out)

    @property
    def equal_flops(self) -> int:
        """Return the steps from nothing that cost no more than a shallow model and one grown from it."""
        base, g = self.base(self.growing.first_seed), self.growing
        deep = base.flops_of_step(g.deep)
        return int((base.flops + deep * g.steps) / deep)

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

    def not_grown(self, seed: int) -> Candidates:
        """Return the shallow model that goes on as it is."""
        return self.grown_by(seed, ())

    def landscape(self, seed: int) -> list[GrowthLandscape]:
        """Return the landscape where each operator puts the model."""
        return [GrowthLandscape(grown, self.growing.measured) for grown in self.candidates(seed)]

    def probings(self, seed: int) -> dict[str, Probing]:
        """Return probes of all models of a seed at their end, and of a deep one that no training made."""
        labelled, steps = self.labelled(self.growing), (self.growing.steps,)
        members = {
            name: Member(run, at)
            for run in [*self.candidates(seed), self.not_grown(seed)]
            for at, name in enumerate(run.names)
        }
        members[FROM_NOTHING] = Member(self.scratch(seed), 0)
        found = {name: Probing(member, steps, labelled, OptimalProbe()) for name, member in members.items()}
        return found | {UNTRAINED: Probing(self.scratch(seed).base, (0,), labelled, OptimalProbe())}

    def at_age(self, steps: int) -> "GrowingPage":
        """Return the page whose shallow models were trained for so many steps."""
        growing = self.config.at_age(steps)
        return replace(self, config=replace(self.config, growing=growing, ages=()))

    def runs(self) -> list[Run]:
        """Return all of them."""
        own = [run for seed in self.growing.all_seeds for run in self._of_seed(seed)]
        return [self.locality, *own, *(run for age in self.config.ages for run in self.at_age(age)._aged())]

    def _of_seed(self, seed: int) -> list[Run]:
        return [
            *self._grown_and_not(seed),
            self.scratch(seed),
            *self.landscape(seed),
            *self.probings(seed).values(),
        ]

    def _aged(self) -> list[Run]:
        return [run for seed in self.growing.all_seeds for run in self._grown_and_not(seed)]

    def _grown_and_not(self, seed: int) -> list[Candidates]:
        return [*self.candidates(seed), self.not_grown(seed)]

    @cached_property
    def tables(self) -> dict[str, pd.DataFrame]:
        """Return all that was found, by the names of `record_tables`."""
        seeds = self.growing.all_seeds
        ages = [self.at_age(age).grown_alone().assign(age=age) for age in self.config.ages]
        return {
            "candidates": self.growth(),
            "landscape": self._by_seed(self.landscape),
            "downstream": pd.concat(
                self.accuracies(probing).assign(seed=seed, operator=name)
                for seed in seeds
                for name, probing in self.probings(seed).items()
            ),
            "ages": pd.concat(ages) if ages else NO_AGES,
        }

    def record_tables(self) -> dict[str, pd.DataFrame]:
        """Return all that was found, as tables: what a record keeps."""
        return self.tables

    def growth(self) -> pd.DataFrame:
        """Return the KL of candidates and controls at every look, with the columns of `runs.Candidates`."""
        scratch = self._by_seed(lambda seed: [self.scratch(seed)])
        return pd.concat([self.grown_alone(), scratch.assign(operator=FROM_NOTHING)])

    def grown_alone(self) -> pd.DataFrame:
        """Return the same without a model from nothing."""
        return self._by_seed(self._grown_and_not)

    def _by_seed(self, runs: Callable[[int], Sequence[Run]]) -> pd.DataFrame:
        """Return the tables of all seeds' runs under each other."""
        return pd.concat(
            self.store.get(run).assign(seed=seed) for seed in self.growing.all_seeds for run in runs(seed)
        )

    @cached_property
    def grown(self) -> Grown:
        """Return what was found, seeds first."""
        return found_in(self.config, self.tables)

    @property
    def found(self) -> Grown:
        """Return the same, as claims ask for it."""
        return self.grown

    @property
    def topics(self) -> tuple[Topic[GrowthClaim], ...]:
        """Return the questions that the claims are about."""
        return TOPICS


@dataclass
class StackingPage(_Growing):
    """The page on growing stage after stage, and on what grown models know."""

    @property
    def stacking(self) -> StackingSettings:
        """Return what decides the runs."""
        return self.config.stacking

    @property
    def seeds(self) -> int:
        """Return the number of first stages."""
        return self.stacking.seeds

    @property
    def held_out(self) -> HeldOutConditionals:
        """Return the sentences on which operators are chosen and models judged."""
        return HeldOutConditionals(self.stacking.language, self.stacking.sentences, 0)

    def stages(self, seed: int, way: str) -> list[Stage]:
        """Return the stages after the first of one way to stack."""
        s = self.stacking
        before: GrowthBase | Stage = _base(s, s.shape, seed, s.steps)
        found = []
        for stage in range(1, len(s.depths)):
            operators, last = s.tried(way, stage), stage == len(s.depths) - 1
            lag = s.lag if len(operators) > 1 else 0
            steps, looks = (s.last_steps, s.looks) if last else (s.steps, (s.steps,))
            before = Stage(before, operators, s.added, steps, looks, s.carried, self.held_out, lag, last)
            found.append(before)
        return found

    def last_stage(self, seed: int, way: str) -> Stage:
        """Return the last stage of a way to stack, or of what it is compared with."""
        if way == PAID:
            return self._paid(seed)
        if way == NOT_GROWN:
            return replace(self.last_stage(seed, "last"), operators=())
        return self._from_nothing(seed) if way == FROM_NOTHING else self.stages(seed, way)[-1]

    def _paid(self, seed: int) -> Stage:
        """Return the adaptive way with a last stage shorter by what all its trials took.

        Raises:
            ParameterError: where trials take more than the last stage has.

        """
        adaptive, fixed = self.last_stage(seed, "adaptive"), self.last_stage(seed, "last")
        extra = ceil((adaptive.flops - fixed.flops) / adaptive.root.flops_of_step(adaptive.shape))
        settings = replace(self.stacking, last_steps=max(1, fixed.steps - extra))
        return replace(adaptive, steps=settings.last_steps, looks=settings.looks)

    def _from_nothing(self, seed: int) -> Stage:
        """Return the end of a training from nothing that takes no more than stacking without trials."""
        fixed = self.last_stage(seed, "last")
        steps = int(fixed.flops / fixed.root.flops_of_step(fixed.shape)) - fixed.steps
        base = _base(self.stacking, fixed.shape, seed, max(1, steps))
        return replace(fixed, base=base, operators=())

    def runs(self) -> list[Run]:
        """Return all of them."""
        return [run for seed in self.stacking.all_seeds for run in self._of_seed(seed)]

    def _of_seed(self, seed: int) -> list[Run]:
        ends = [self.last_stage(seed, way) for way in ALL_WAYS]
        return [*ends, *(run for end in ends for run in (self.probing(end), self.trace(end)))]

    def probing(self, end: Stage) -> Probing:
        """Return probes of a model along the last stage."""
        return Probing(end, end.looks, self.labelled(self.stacking), OptimalProbe())

    def trace(self, end: Stage) -> TraceMeasurement:
        """Return the trace of a model along the last stage."""
        return TraceMeasurement(end, TRACE_SENTENCES, 1, "exact", 0)

    def record_tables(self) -> dict[str, pd.DataFrame]:
        """Return all that was found, as tables: what a record keeps."""
        return {"stages": self._stages(), "known": self._known()}

    def _stages(self) -> pd.DataFrame:
        """Return the looks of all stages that somebody has gone through, by seed and way."""
        rows = []
        for seed in self.stacking.all_seeds:
            for way in ALL_WAYS:
                end = self.last_stage(seed, way)
                stages = [*self.stages(seed, way)[:-1], end] if way in WAYS else [end]
                rows += [
                    self.store.get(stage).table.assign(seed=seed, way=way, layers=stage.shape.layers)
                    for stage in stages
                ]
        return pd.concat(rows, ignore_index=True)

    def _known(self) -> pd.DataFrame:
        """Return KL, trace and accuracies of all models along the last stage."""
        rows = []
        for seed in self.stacking.all_seeds:
            for way in ALL_WAYS:
                end = self.last_stage(seed, way)
                kl = self.store.get(end).table.set_index("step").kl
                trace = self.store.get(self.trace(end)).query("split == 'total'").set_index("step")["mean"]
                read = self.accuracies(self.probing(end)).pivot(
                    index="step", columns="task", values="accuracy"
                )
                rows.append(read.assign(seed=seed, way=way, kl=kl, trace=trace).reset_index())
        return pd.concat(rows, ignore_index=True)

    @cached_property
    def stacks(self) -> Stacks:
        """Return what was found."""
        return stacks_in(self.config, self.record_tables())

    @property
    def found(self) -> Stacks:
        """Return the same, as claims ask for it."""
        return self.stacks

    @property
    def topics(self) -> tuple[Topic[GrowthClaim], ...]:
        """Return the questions that the claims are about."""
        return STACKING_TOPICS


_EVERY = "max_hours workers device artifacts"

_GROWING = f"preset seeds base_steps steps lag label_noise state tolerance {_EVERY}"

_STACKING = f"preset stacks stage_steps last_steps stage_lag label_noise state tolerance {_EVERY}"

PLANS = {
    "ii5_growing": Plan(GrowingPage, _GROWING, recorded=True),
    "ii5_stacking": Plan(StackingPage, _STACKING, recorded=True),
}

STUDY = Study(PRESETS, PLANS, parameters=PARAMETERS, finished=finished)
