"""How many labels the representations of a group need: the runs that ask, and what they found."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from sameloss.measures.downstream.online_code import FEW_LABELS
from sameloss.runs.probing import BaselineLabelBudget, LabelBudget
from sameloss.store.store import Run
from sameloss.studies.same_loss.groups import BASELINES, Group, Key
from sameloss.studies.same_loss.results import Results, by_protocol

NO_SIZE = "–"
"""The size of what no training made."""

Bits = dict[tuple[str, str], Float[np.ndarray, "model seed task"]]
"""Bits for the labels of all sentences of a probe seed, by size and `untrained` or `trained`, or by baseline.

The axis `model` are pre-training seeds; a baseline has a single one.
"""


def budgets(group: Group) -> dict[Key, LabelBudget]:
    """Return the runs for untrained and last models."""
    trained, steps = group.pretrainings(), (0, group.steps[-1])
    return {key: LabelBudget(run, steps, group.labelled, FEW_LABELS) for key, run in trained.items()}


def baseline_budgets(group: Group) -> dict[str, BaselineLabelBudget]:
    """Return the runs for what no training made."""
    return {name: BaselineLabelBudget(name, group.labelled, FEW_LABELS) for name in BASELINES}


def label_budget_runs(group: Group) -> list[Run]:
    """Return the runs of a group by the number of labels."""
    return [*budgets(group).values(), *baseline_budgets(group).values()]


def by_labels(results: Results) -> dict[int, Results]:
    """Return untrained and last models as solved probes of so many labelled sentences read them.

    Those of all labelled sentences are the probes that the group has, where these are solved ones.
    """
    group, get = results.group, results.store.get
    correct = {key: get(run).correct for key, run in budgets(group).items()}
    baselines = {name: get(run).correct for name, run in baseline_budgets(group).items()}
    *few, every = next(iter(budgets(group).values())).counts

    def read(at: int, steps: slice, drawn: Results | None = None) -> Results:
        return replace(
            results,
            group=replace(group, probe=FEW_LABELS),
            probes={key: own[steps, at] for key, own in correct.items()},
            baselines={name: own[:, at] for name, own in baselines.items()},
            gradient=float("nan"),
            drawn=drawn,
        )

    found = {n: read(at, slice(1, 2), read(at, slice(0, 1))) for at, n in enumerate(few)}
    return {**found, every: by_protocol(results, ["solved"])["solved"]}


def code_bits(results: Results) -> Bits:
    """Return what the labels of all sentences cost: see `code_lengths`."""
    group, get = results.group, results.store.get
    trained = {key: get(run).bits[:, -1] for key, run in budgets(group).items()}
    found = {
        (size, models): np.stack([trained[size, seed][at] for seed in range(group.seeds)])
        for size in group.sizes
        for at, models in enumerate(("untrained", "trained"))
    }
    return {
        **found,
        **{(NO_SIZE, name): get(run).bits[:, -1] for name, run in baseline_budgets(group).items()},
    }
