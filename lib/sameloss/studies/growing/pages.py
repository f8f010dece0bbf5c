"""The pages of this study: what they may set, which runs they read, and what they found."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import pandas as pd

from sameloss.measures.downstream import OptimalProbe
from sameloss.runs.measurements import Probing, TraceMeasurement
from sameloss.runs.sampling import HeldOutConditionals, LabelledSampling
from sameloss.store.store import Run
from sameloss.studies.growing.claims import (
    FROM_NOTHING,
    PAID,
    STACKING_TOPICS,
    TOPICS,
    UNTRAINED,
    WAY_NAMES,
    Grown,
    Stacks,
    all_grown,
)
from sameloss.studies.growing.experiment import (
    NOT_GROWN,
    PRESETS,
    WAYS,
    Candidates,
    GrowingSettings,
    Growth,
    GrowthBase,
    Member,
    Operator,
    Settings,
    StackingSettings,
    Stage,
    growth_landscape,
    locality_measurement,
)
from sameloss.studies.page import Page, Plan, Study

TRACE_SENTENCES = 256


@dataclass
class _Growing(Page[Settings]):
    """What both pages share."""

    @property
    def settings(self) -> Growth:
        """Return the part of the configuration that this page is about."""
        raise NotImplementedError

    @property
    def seeds(self) -> int:
        """Return the number of models that are grown."""
        return self.settings.seeds

    @property
    def held_out(self) -> HeldOutConditionals:
        """Return the sentences on which all models are chosen and judged."""
        return self.settings.held_out

    @property
    def labelled(self) -> LabelledSampling:
        """Return what representations are read for: every task of the language."""
        language = self.settings.language
        return LabelledSampling(language, replace(self.config.downstream, tasks=language.build().tasks))

    def accuracies(self, probing: Probing) -> pd.DataFrame:
        """Return accuracies (%), a row a step and a column a task."""
        found = 100 * self.store.get(probing).correct.mean((1, 2))
        return pd.DataFrame(found, pd.Index(probing.steps, name="step"), probing.labelled.downstream.tasks)


@dataclass
class GrowingPage(_Growing):
    """The page on growing once: landscape-aware growing."""

    topics = TOPICS

    @property
    def settings(self) -> GrowingSettings:
        """Return what is grown, and how."""
        return self.config.growing

    @property
    def locality(self) -> Run:
        """Return what lies beyond a word's neighbours."""
        return locality_measurement(self.settings.language, min(self.settings.sentences, 500), 0)

    def base(self, seed: int) -> GrowthBase:
        """Return a shallow model."""
        return self.settings.base(self.settings.shape, seed, self.settings.optimisation.steps)

    def grown_by(self, base: GrowthBase, operators: tuple[Operator, ...]) -> Candidates:
        """Return a model grown by some operators; by none: not grown."""
        s = self.settings
        return Candidates(base, operators, s.added, s.steps, s.look_steps, s.carried, s.held_out)

    def candidates(self, seed: int) -> list[Candidates]:
        """Return a shallow model grown by every operator, so many of them as one."""
        operators, most = self.settings.operators, self.settings.together
        firsts = range(0, len(operators), most)
        return [self.grown_by(self.base(seed), operators[first : first + most]) for first in firsts]

    def not_grown(self, seed: int) -> Candidates:
        """Return the shallow model that goes on as it is."""
        return self.grown_by(self.base(seed), ())

    def compared(self, seed: int) -> list[Candidates]:
        """Return all models that begin with one shallow model."""
        return [*self.candidates(seed), self.not_grown(seed)]

    @property
    def equal_flops(self) -> int:
        """Return the steps from nothing that cost no more than a shallow model and one grown from it."""
        base = self.base(self.settings.first_seed)
        deep = base.flops_of_step(self.settings.deep)
        return int((base.flops + deep * self.settings.steps) / deep)

    def scratch(self, seed: int) -> Candidates:
        """Return a deep model trained from nothing, which costs what a shallow and one grown from it cost."""
        steps = max(1, self.equal_flops - self.settings.steps)
        return self.grown_by(self.settings.base(self.settings.deep, seed, steps), ())

    def landscape(self, seed: int) -> list[Run]:
        """Return the landscape where each operator puts the model."""
        return [growth_landscape(grown, self.settings.measured) for grown in self.candidates(seed)]

    def probings(self, seed: int) -> dict[str, Probing]:
        """Return probes of all models of a seed at their end, and of a deep one that no training made."""
        steps, scratch = (self.settings.steps,), self.scratch(seed)
        members = {name: Member(run, at) for run in self.compared(seed) for at, name in enumerate(run.names)}
        members[FROM_NOTHING] = Member(scratch, 0)
        found = {
            name: Probing(member, steps, self.labelled, OptimalProbe()) for name, member in members.items()
        }
        return found | {UNTRAINED: Probing(scratch.base, (0,), self.labelled, OptimalProbe())}

    def at_age(self, steps: int) -> "GrowingPage":
        """Return the page whose shallow models were trained for so many steps."""
        return replace(self, config=replace(self.config, growing=self.config.at_age(steps), ages=()))

    def runs(self) -> list[Run]:
        """Return all of them."""
        found: list[Run] = [self.locality]
        for seed in self.settings.all_seeds:
            found += [*self.compared(seed), self.scratch(seed), *self.landscape(seed)]
            found += self.probings(seed).values()
        for page in map(self.at_age, self.config.ages):
            found += [run for seed in page.settings.all_seeds for run in page.compared(seed)]
        return found

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return all that was found."""
        scratch = self._by_seed(lambda seed: [self.scratch(seed)]).assign(operator=FROM_NOTHING)
        aged = {age: self.at_age(age) for age in self.config.ages}
        ages = [page._by_seed(page.compared).assign(age=age) for age, page in aged.items()]
        return {
            "candidates": pd.concat([self._by_seed(self.compared), scratch]),
            "landscape": self._by_seed(self.landscape),
            "downstream": pd.concat(
                self.accuracies(probing)
                .reset_index()
                .melt("step", var_name="task", value_name="accuracy")
                .assign(seed=seed, operator=name)
                for seed in self.settings.all_seeds
                for name, probing in self.probings(seed).items()
            ),
            "ages": pd.concat(ages) if ages else pd.DataFrame({"age": []}),
        }

    def _by_seed(self, runs: Callable[[int], Sequence[Run]]) -> pd.DataFrame:
        """Return the tables of all seeds' runs under each other."""
        return pd.concat(
            self.store.get(run).assign(seed=seed) for seed in self.settings.all_seeds for run in runs(seed)
        )

    def read(self, tables: Mapping[str, pd.DataFrame], config: Settings) -> Grown:
        """Return what tables say, seeds first."""
        return all_grown(config, tables)


@dataclass
class StackingPage(_Growing):
    """The page on growing stage after stage, and on what grown models know."""

    topics = STACKING_TOPICS

    @property
    def settings(self) -> StackingSettings:
        """Return what the stages are."""
        return self.config.stacking

    def stages(self, seed: int, way: str) -> list[Stage]:
        """Return the stages after the first of one way to stack."""
        s = self.settings
        before: GrowthBase | Stage = s.base(s.shape, seed, s.steps)
        found = []
        for stage in range(1, len(s.depths)):
            operators, last = s.tried(way, stage), stage == len(s.depths) - 1
            lag = s.lag if len(operators) > 1 else 0
            steps, looks = (s.last_steps, s.looks(s.last_steps)) if last else (s.steps, (s.steps,))
            before = Stage(before, operators, s.added, steps, looks, s.carried, s.held_out, lag, last)
            found.append(before)
        return found

    def last_stage(self, seed: int, way: str) -> Stage:
        """Return the last stage of a way to stack, or of what it is compared with.

        Where its trials are paid for, the adaptive way has a last stage that is shorter by what they took. A
        training from nothing takes no more than stacking without trials.
        """
        if way in WAYS:
            return self.stages(seed, way)[-1]
        fixed = self.last_stage(seed, "last")
        step = fixed.root.flops_of_step(fixed.shape)
        if way == PAID:
            adaptive = self.last_stage(seed, "adaptive")
            steps = max(1, fixed.steps - ceil((adaptive.flops - fixed.flops) / step))
            return replace(adaptive, steps=steps, looks=self.settings.looks(steps))
        if way == NOT_GROWN:
            return replace(fixed, operators=())
        steps = max(1, int(fixed.flops / step) - fixed.steps)
        return replace(fixed, base=self.settings.base(fixed.shape, seed, steps), operators=())

    def ends(self) -> Iterator[tuple[int, str, Stage]]:
        """Yield each seed, each way, and its last stage."""
        for seed in self.settings.all_seeds:
            yield from ((seed, way, self.last_stage(seed, way)) for way in WAY_NAMES)

    def runs(self) -> list[Run]:
        """Return all of them."""
        return [run for *_, end in self.ends() for run in (end, self.probing(end), self.trace(end))]

    def probing(self, end: Stage) -> Probing:
        """Return probes of a model along the last stage."""
        return Probing(end, end.looks, self.labelled, OptimalProbe())

    def trace(self, end: Stage) -> TraceMeasurement:
        """Return the trace of a model along the last stage."""
        return TraceMeasurement(end, TRACE_SENTENCES, 1, "exact", 0)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return the looks of all stages; KL, trace and accuracies along the last one; by seed and way."""
        looks, known = [], []
        for seed, way, end in self.ends():
            for stage in [*self.stages(seed, way)[:-1], end] if way in WAYS else [end]:
                table = self.store.get(stage).table
                looks.append(table.assign(seed=seed, way=way, layers=stage.shape.layers))
            kl = self.store.get(end).table.set_index("step").kl
            trace = self.store.get(self.trace(end)).query("split == 'total'").set_index("step")["mean"]
            read = self.accuracies(self.probing(end))
            known.append(read.assign(seed=seed, way=way, kl=kl, trace=trace).reset_index())
        return {"stages": pd.concat(looks, ignore_index=True), "known": pd.concat(known, ignore_index=True)}

    def read(self, tables: Mapping[str, pd.DataFrame], config: Settings) -> Stacks:
        """Return what tables say."""
        return Stacks(config.stacking, tables["stages"], tables["known"])


_EVERY = "max_hours workers device artifacts"

_GROWING = f"preset seeds base_steps steps lag label_noise state tolerance {_EVERY}"

_STACKING = f"preset stacks stage_steps last_steps stage_lag label_noise state tolerance {_EVERY}"

PLANS = {
    "ii5_growing": Plan(GrowingPage, _GROWING, recorded=True),
    "ii5_stacking": Plan(StackingPage, _STACKING, recorded=True),
}

STUDY = Study(PRESETS, PLANS)
