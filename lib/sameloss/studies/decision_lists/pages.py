"""The page of this study: what it may set, and which runs it reads."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from sameloss.store.store import Run
from sameloss.studies.decision_lists import experiment
from sameloss.studies.decision_lists.experiment import FIRST_SEED, PRESETS, ListConfig, TaskShape
from sameloss.studies.decision_lists.statements import STATEMENTS, Tables, checks
from sameloss.studies.page import Page, PageSpec, Study

OTHER_TASKS = (TaskShape(12, 3, 3), TaskShape(20, 4, 3), TaskShape(40, 5, 4), TaskShape(100, 12, 4))
"""Further tasks for Theorem 4.3."""


@dataclass
class ListPage(Page[ListConfig]):
    """The page on decision lists learnt by attention."""

    exact, check = STATEMENTS, staticmethod(checks)

    def labelled(self) -> Iterator[tuple[str, Run, dict[str, Any]]]:
        """Yield every run, with its frame in `Tables` and labels for its rows there."""
        s = self.config
        readouts = tuple(sorted({*s.readouts, *s.shown}, reverse=True))
        yield "flows", experiment.list_flows(s.task, readouts, s.critical_words, s.horizon), {}
        yield "curves", experiment.list_curves(s.task, s.shown, s.horizon), {}
        yield "descents", experiment.list_descents(tuple(dict.fromkeys((s.task, *OTHER_TASKS)))), {}
        yield "proofs", experiment.list_proofs(s.cases, FIRST_SEED), {}
        for seed in s.all_seeds:
            label = {"seed": seed}
            for steps in map(s.steps_at, s.rates):
                run = experiment.list_sgd(s.task, s.readout, steps, s.looked, seed)
                yield "alone", run, {**label, "rate": steps.rate}
            yield "both", experiment.list_sgd(s.task, None, s.both, s.looked, seed), label

    def runs(self) -> list[Run]:
        return [run for _, run, _ in self.labelled()]

    @cached_property
    def results(self) -> Tables:
        frames: dict[str, list[pd.DataFrame]] = defaultdict(list)
        for name, run, labels in self.labelled():
            frames[name].append(self.store.get(run).assign(**labels))
        joined = {name: pd.concat(parts, ignore_index=True) for name, parts in frames.items()}
        return Tables(self.config, **joined)


STUDY = Study(PRESETS, {"ii4_decision_lists": PageSpec(ListPage)})
