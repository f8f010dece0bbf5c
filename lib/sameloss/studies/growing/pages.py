"""The pages of this study: their parameters, the runs they read, and their results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import pandas as pd

from sameloss.measures.downstream import OptimalProbe
from sameloss.models.encoder import EncoderShape
from sameloss.runs.checkpoints import TrainedRun
from sameloss.runs.measurements import Probing, TraceMeasurement
from sameloss.runs.sampling import CorpusSampling, Downstream, HeldOutConditionals, LabelledSampling
from sameloss.store.store import Run
from sameloss.studies.growing.claims import (
    FROM_SCRATCH,
    PAID,
    STACKING_TOPICS,
    TOPICS,
    UNTRAINED,
    WAY_NAMES,
    Grown,
    Stacks,
    grown_from,
)
from sameloss.studies.growing.experiment import (
    NOT_GROWN,
    PRESETS,
    WAYS,
    Candidates,
    GrowthBase,
    Member,
    Operator,
    Settings,
    Stage,
    growth_landscape,
    locality_measurement,
)
from sameloss.studies.page import Page, PageSpec, Study
from sameloss.training.objectives import Objective

TRACE_SENTENCES = 256


@dataclass
class _GrowthPage(Page[Settings]):
    """What both pages share."""

    def from_nothing(self, shape: EncoderShape, seed: int, steps: int) -> GrowthBase:
        """A training from random weights at a constant rate."""
        c = self.config
        return GrowthBase(
            CorpusSampling(c.language, None, 0),
            shape,
            c.optimisation.lasting(steps),
            seed,
            checkpoints=(steps,),
            micro_batch=c.batch,
            resume_every=250,
            objective=Objective(label_noise=c.label_noise),
        )

    def probing(self, run: TrainedRun, steps: tuple[int, ...]) -> Probing:
        """Probes of a model for all tasks of the language."""
        c = self.config
        tasks = Downstream(
            c.language.build().tasks, "posterior", c.train_sentences, c.test_sentences, probe_seeds=1, seed=0
        )
        return Probing(run, steps, LabelledSampling(c.language, tasks), OptimalProbe())

    def accuracies(self, probing: Probing) -> pd.DataFrame:
        """Accuracies (%), one row per step and one column per task."""
        percent = 100 * self.store.get(probing).correct.mean((1, 2))
        return pd.DataFrame(percent, pd.Index(probing.steps, name="step"), probing.labelled.downstream.tasks)


@dataclass
class GrowingPage(_GrowthPage):
    """Growing once, by landscape-aware growing."""

    topics = TOPICS

    @property
    def held_out(self) -> HeldOutConditionals:
        return HeldOutConditionals(self.config.language, self.config.sentences, 0)

    @property
    def locality(self) -> Run:
        return locality_measurement(self.config.language, min(self.config.sentences, 500), 0)

    def base(self, seed: int) -> GrowthBase:
        """The training of a shallow model."""
        return self.from_nothing(self.config.shape, seed, self.config.base_steps)

    def grown_by(self, base: GrowthBase, operators: tuple[Operator, ...]) -> Candidates:
        c = self.config
        return Candidates(base, operators, c.added, c.steps, c.eval_steps, c.state, self.held_out)

    def candidates(self, seed: int) -> list[Candidates]:
        """A shallow model grown by every operator, `ensemble_size` of them per run."""
        operators, size = self.config.operators, self.config.ensemble_size
        return [
            self.grown_by(self.base(seed), operators[first : first + size])
            for first in range(0, len(operators), size)
        ]

    def not_grown(self, seed: int) -> Candidates:
        return self.grown_by(self.base(seed), ())

    def continued(self, seed: int) -> list[Candidates]:
        """Everything that continues one shallow model."""
        return [*self.candidates(seed), self.not_grown(seed)]

    def scratch(self, seed: int) -> Candidates:
        """A deep model trained from scratch for at most the FLOPs of a shallow one and one grown from it."""
        base, deep = self.base(seed), self.config.deep
        steps = max(1, int(base.flops / base.flops_of_step(deep)))
        return self.grown_by(self.from_nothing(deep, seed, steps), ())

    def landscape(self, seed: int) -> list[Run]:
        sentences = self.config.landscape_sentences
        return [growth_landscape(candidates, sentences) for candidates in self.candidates(seed)]

    def probings(self, seed: int) -> dict[str, Probing]:
        """Probes of all models of a seed at their end, and of an untrained deep model."""
        scratch, last = self.scratch(seed), (self.config.steps,)
        members = {name: Member(run, at) for run in self.continued(seed) for at, name in enumerate(run.names)}
        members[FROM_SCRATCH] = Member(scratch, 0)
        probings = {name: self.probing(member, last) for name, member in members.items()}
        return probings | {UNTRAINED: self.probing(scratch.base, (0,))}

    def aged(self) -> dict[int, "GrowingPage"]:
        """The page for shallow models of other ages (steps)."""
        return {config.base_steps: replace(self, config=config) for config in self.config.aged}

    def runs(self) -> list[Run]:
        runs: list[Run] = [self.locality]
        for seed in self.config.all_seeds:
            runs += [*self.continued(seed), self.scratch(seed), *self.landscape(seed)]
            runs += self.probings(seed).values()
        for page in self.aged().values():
            runs += [run for seed in page.config.all_seeds for run in page.continued(seed)]
        return runs

    def tables(self) -> dict[str, pd.DataFrame]:
        scratch = self._by_seed(lambda seed: [self.scratch(seed)]).assign(operator=FROM_SCRATCH)
        ages = [page._by_seed(page.continued).assign(age=age) for age, page in self.aged().items()]
        return {
            "candidates": pd.concat([self._by_seed(self.continued), scratch]),
            "landscape": self._by_seed(self.landscape),
            "downstream": pd.concat(
                self.accuracies(probing)
                .reset_index()
                .melt("step", var_name="task", value_name="accuracy")
                .assign(seed=seed, operator=name)
                for seed in self.config.all_seeds
                for name, probing in self.probings(seed).items()
            ),
            "ages": pd.concat(ages) if ages else pd.DataFrame({"age": []}),
        }

    def _by_seed(self, runs: Callable[[int], Sequence[Run]]) -> pd.DataFrame:
        """Concatenate the tables of each seed's runs."""
        return pd.concat(
            self.store.get(run).assign(seed=seed) for seed in self.config.all_seeds for run in runs(seed)
        )

    def read(self, tables: Mapping[str, pd.DataFrame], config: Settings) -> Grown:
        return grown_from(config, tables)


@dataclass
class StackingPage(_GrowthPage):
    """Growing in stages, and what grown models know."""

    topics = STACKING_TOPICS

    @property
    def seeds(self) -> int:
        return self.config.stacks

    def stages(self, seed: int, way: str) -> list[Stage]:
        """The stages of a way to stack, after the first."""
        c = self.config
        held_out = HeldOutConditionals(c.language, c.stage_sentences, 0)
        shape = replace(c.shape, layers=c.stage_layers)
        before: GrowthBase | Stage = self.from_nothing(shape, seed, c.stage_steps)
        stages = []
        for number in range(1, len(c.depths)):
            operators, last = c.stage_operators(way, number), number == len(c.depths) - 1
            lag = c.stage_lag if len(operators) > 1 else 0
            steps = c.last_steps if last else c.stage_steps
            evals = c.stage_eval_steps(steps) if last else (steps,)
            before = Stage(before, operators, c.stage_layers, steps, evals, c.state, held_out, lag, last)
            stages.append(before)
        return stages

    def last_stage(self, seed: int, way: str) -> Stage:
        """The last stage of a way to stack or of a control.

        With its trials paid for, the adaptive way has a last stage that is shorter by their FLOPs. Training
        from scratch takes at most the FLOPs of stacking without trials.
        """
        if way in WAYS:
            return self.stages(seed, way)[-1]
        fixed = self.last_stage(seed, "last")
        flops = fixed.root.flops_of_step(fixed.shape)
        if way == PAID:
            adaptive = self.last_stage(seed, "adaptive")
            steps = max(1, fixed.steps - ceil((adaptive.flops - fixed.flops) / flops))
            return replace(adaptive, steps=steps, looks=self.config.stage_eval_steps(steps))
        if way == NOT_GROWN:
            return replace(fixed, operators=())
        steps = max(1, int(fixed.flops / flops) - fixed.steps)
        return replace(fixed, base=self.from_nothing(fixed.shape, seed, steps), operators=())

    def ends(self) -> Iterator[tuple[int, str, Stage]]:
        """All seeds, ways and their last stages."""
        for seed in self.config.stack_seeds:
            yield from ((seed, way, self.last_stage(seed, way)) for way in WAY_NAMES)

    def measurements(self, end: Stage) -> tuple[Probing, TraceMeasurement]:
        """Probes and Fisher trace of a model along the last stage."""
        return self.probing(end, end.looks), TraceMeasurement(end, TRACE_SENTENCES, 1, "exact", 0)

    def runs(self) -> list[Run]:
        return [run for *_, end in self.ends() for run in (end, *self.measurements(end))]

    def tables(self) -> dict[str, pd.DataFrame]:
        """Evaluations in all stages; KL, trace and accuracies along the last one; by seed and way."""
        stages, known = [], []
        for seed, way, end in self.ends():
            for stage in [*self.stages(seed, way)[:-1], end] if way in WAYS else [end]:
                table = self.store.get(stage).table
                stages.append(table.assign(seed=seed, way=way, layers=stage.shape.layers))
            probing, trace = self.measurements(end)
            kl = self.store.get(end).table.set_index("step").kl
            total = self.store.get(trace).query("split == 'total'").set_index("step")["mean"]
            table = self.accuracies(probing).assign(seed=seed, way=way, kl=kl, trace=total)
            known.append(table.reset_index())
        return {"stages": pd.concat(stages, ignore_index=True), "known": pd.concat(known, ignore_index=True)}

    def read(self, tables: Mapping[str, pd.DataFrame], config: Settings) -> Stacks:
        return Stacks(config, tables["stages"], tables["known"])


_EVERY = "max_hours workers device artifacts"

_GROWING = f"preset seeds base_steps steps lag label_noise state tolerance {_EVERY}"

_STACKING = f"preset stacks stage_steps last_steps stage_lag label_noise state tolerance {_EVERY}"

SPECS = {
    "ii5_growing": PageSpec(GrowingPage, _GROWING, recorded=True),
    "ii5_stacking": PageSpec(StackingPage, _STACKING, recorded=True),
}

STUDY = Study(PRESETS, SPECS)
