"""The pages of this study: their parameters, the runs they read, and their results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from sameloss.measures.downstream import OptimalProbe
from sameloss.runs.measurements import Probing
from sameloss.runs.sampling import Downstream, HeldOutConditionals, LabelledSampling
from sameloss.store.location import results_folder
from sameloss.store.provenance import sealed
from sameloss.store.store import Run
from sameloss.studies.growing.claims import (
    FROM_SCRATCH,
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
)
from sameloss.studies.page import LAST, Page, PageSpec, Study


@dataclass
class _WithTables(Page[Settings]):
    """A page whose record is tables.

    They were computed before runs were kept, in five core-hours. When `make record` has computed the runs at
    `laptop-long`, this class and the tables can go.
    """

    def tables(self) -> dict[str, pd.DataFrame]:
        """The tables of the page's own runs."""
        raise NotImplementedError

    def read(self, tables: Mapping[str, pd.DataFrame], config: Settings) -> Any:
        """Results from tables."""
        raise NotImplementedError

    @cached_property
    def results(self) -> Any:
        return self.read(self.tables(), self.config)

    def recorded(self, preset: str) -> Any:
        folder, origin = results_folder() / preset / self.name, self.records()[preset]
        tables = {Path(name).stem: pd.read_csv(folder / name) for name in origin["files"]}
        return self.read(tables, self.presets[preset])

    def records(self) -> dict[str, dict[str, Any]]:
        path = results_folder() / self.record / self.name / "record.json"
        return {self.record: sealed(path)} if path.exists() else {}


@dataclass
class GrowingPage(_WithTables):
    """Growing once, by landscape-aware growing."""

    topics = TOPICS

    @property
    def held_out(self) -> HeldOutConditionals:
        return HeldOutConditionals(self.config.language, self.config.sentences, 0)

    def base(self, seed: int) -> GrowthBase:
        """The training of a shallow model."""
        return self.config.pretraining(self.config.shape, seed, self.config.base_steps)

    def grown_by(self, base: GrowthBase, operators: tuple[Operator, ...]) -> Candidates:
        c = self.config
        return Candidates(base, operators, c.added, c.steps, c.eval_steps, c.state, self.held_out)

    def candidates(self, seed: int) -> list[Candidates]:
        """A shallow model grown by every operator, `ensemble_size` of them per run, and not grown, last."""
        operators, size = self.config.operators, self.config.ensemble_size
        parts = [operators[first : first + size] for first in range(0, len(operators), size)]
        return [self.grown_by(self.base(seed), part) for part in (*parts, ())]

    def scratch(self, seed: int) -> Candidates:
        """A deep model trained from scratch for at most the FLOPs of a shallow one and one grown from it."""
        base, deep = self.base(seed), self.config.deep
        steps = max(1, int(base.flops / base.flops_of_step(deep)))
        return self.grown_by(self.config.pretraining(deep, seed, steps), ())

    def probings(self, seed: int) -> dict[str, Probing]:
        """Probes of all models of a seed at their end, and of an untrained deep model."""
        c, scratch = self.config, self.scratch(seed)
        tasks = Downstream(
            c.language.build().tasks, "posterior", c.train_sentences, c.test_sentences, probe_seeds=1, seed=0
        )
        about = LabelledSampling(c.language, tasks), OptimalProbe()
        members = {
            name: Member(run, at) for run in self.candidates(seed) for at, name in enumerate(run.names)
        }
        members[FROM_SCRATCH] = Member(scratch, 0)
        probings = {name: Probing(member, (c.steps,), *about) for name, member in members.items()}
        return probings | {UNTRAINED: Probing(scratch.root, (0,), *about)}

    def aged(self) -> dict[int, "GrowingPage"]:
        """The page for shallow models of other ages (steps)."""
        return {config.base_steps: replace(self, config=config) for config in self.config.aged}

    def runs(self) -> list[Run]:
        runs: list[Run] = []
        for seed in self.config.all_seeds:
            runs += [*self.candidates(seed), self.scratch(seed), *self.probings(seed).values()]
        for page in self.aged().values():
            runs += [run for seed in page.config.all_seeds for run in page.candidates(seed)]
        return runs

    def tables(self) -> dict[str, pd.DataFrame]:
        scratch = self._by_seed(lambda seed: [self.scratch(seed)]).assign(operator=FROM_SCRATCH)
        ages = [page._by_seed(page.candidates).assign(age=age) for age, page in self.aged().items()]
        return {
            "candidates": pd.concat([self._by_seed(self.candidates), scratch]),
            "downstream": pd.concat(
                pd.DataFrame({"task": probing.labelled.downstream.tasks}).assign(
                    accuracy=100 * self.store.get(probing).mean((0, 1, 2)), seed=seed, operator=name
                )
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
class StackingPage(_WithTables):
    """Growing in stages."""

    topics = STACKING_TOPICS

    @property
    def seeds(self) -> int:
        return self.config.stacks

    def stages(self, seed: int, way: str) -> list[Stage]:
        """The stages of a way to stack, after the first, or the last stage of a control.

        Training from scratch takes at most the FLOPs of stacking without trials.
        """
        c = self.config
        if way not in WAYS:
            last = self.stages(seed, "last")[-1]
            steps = max(1, int(last.flops / last.root.flops_of_step(last.shape)) - last.steps)
            base = last.base if way == NOT_GROWN else c.pretraining(last.shape, seed, steps)
            return [replace(last, base=base, operators=())]
        held_out = HeldOutConditionals(c.language, c.stage_sentences, 0)
        shape = replace(c.shape, layers=c.stage_layers)
        before: GrowthBase | Stage = c.pretraining(shape, seed, c.stage_steps)
        stages = []
        for number in range(1, len(c.depths)):
            operators, ends = c.stage_operators(way, number), number == len(c.depths) - 1
            lag = c.stage_lag if len(operators) > 1 else 0
            steps = c.last_steps if ends else c.stage_steps
            evals = c.stage_eval_steps if ends else (steps,)
            before = Stage(before, operators, c.stage_layers, steps, evals, c.state, held_out, lag, ends)
            stages.append(before)
        return stages

    def runs(self) -> list[Run]:
        return [self.stages(seed, way)[-1] for seed in self.config.stack_seeds for way in WAY_NAMES]

    def tables(self) -> dict[str, pd.DataFrame]:
        """Evaluations in all stages, by seed and way."""
        stages = (
            self.store.get(stage).table.assign(seed=seed, way=way, layers=stage.shape.layers)
            for seed in self.config.stack_seeds
            for way in WAY_NAMES
            for stage in self.stages(seed, way)
        )
        return {"stages": pd.concat(stages, ignore_index=True)}

    def read(self, tables: Mapping[str, pd.DataFrame], config: Settings) -> Stacks:
        return Stacks(config, tables["stages"])


_GROWING = "preset seeds base_steps steps lag label_noise state tolerance"

_STACKING = "preset stacks stage_steps last_steps stage_lag label_noise state tolerance"

SPECS = {
    "ii5_growing": PageSpec(GrowingPage, f"{_GROWING} {LAST}", record="laptop-long"),
    "ii5_stacking": PageSpec(StackingPage, f"{_STACKING} {LAST}", record="laptop-long"),
}

STUDY = Study(PRESETS, SPECS)
