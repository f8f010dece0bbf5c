"""Tidy tables drawn from finished runs: one row an observation, one column a quantity."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from sameloss.downstream.bootstrap import Resamples, percentile_interval
from sameloss.parallel import get_all
from sameloss.setting import Setting

SATURATED_KL = 0.02
"""A checkpoint counts as saturated from this KL (nats a masked token) downwards."""


@dataclass(frozen=True)
class Results:
    """The measurements of a setting, with the resamples all intervals of a page share."""

    setting: Setting
    probes: dict[tuple[str, int], np.ndarray]  # right or wrong, see `Probing`
    baselines: dict[str, np.ndarray]
    majority: dict[str, float]
    checkpoints: pd.DataFrame | None = None
    traces: pd.DataFrame | None = None

    @cached_property
    def resamples(self) -> Resamples:
        """Return the bootstrap resamples."""
        downstream = self.setting.preset.downstream
        return Resamples(self.setting.preset.seeds, downstream.probe_seeds, downstream.test)

    @property
    def sizes(self) -> tuple[str, ...]:
        """Return the sizes, smallest first."""
        return self.setting.sizes

    @property
    def steps(self) -> tuple[int, ...]:
        """Return the checkpoints' steps."""
        return self.setting.steps

    def task_index(self, task: str) -> int:
        """Return the position of a task."""
        return self.setting.preset.downstream.tasks.index(task)

    def correct(self, name: str, task: str, step: int | None = None) -> np.ndarray:
        """Return which test sentences are right, axes (pre-training seed, probe seed, sentence).

        Args:
            name: a size, or a baseline (which has one pre-training seed and no step).
            task: the downstream task.
            step: of the checkpoint; the last where None.

        """
        task_index = self.task_index(task)
        if name in self.baselines:
            return self.baselines[name][:1, :, :, task_index]
        at = -1 if step is None else self.steps.index(step)
        seeds = range(self.setting.preset.seeds)
        return np.stack([self.probes[name, seed][at, :, :, task_index] for seed in seeds])

    def replicates(self, name: str, task: str, step: int | None = None) -> np.ndarray:
        """Return the bootstrap replicates of an accuracy; arguments as for `correct`."""
        correct = self.correct(name, task, step)
        return self.resamples.accuracy(correct, pretrained=name not in self.baselines)

    def accuracy_table(self, task: str) -> pd.DataFrame:
        """Return accuracy (%) of every representation with its 95 % interval, last checkpoint."""
        share = 100 * self.majority[task]
        rows = [{"representation": "majority class", "accuracy": share, "low": share, "high": share}]
        for name in (*self.sizes, *self.baselines):
            mean = self.correct(name, task).mean()
            interval = percentile_interval(mean, self.replicates(name, task))
            low, high = 100 * interval.low, 100 * interval.high
            rows.append({"representation": name, "accuracy": 100 * interval.value, "low": low, "high": high})
        return pd.DataFrame(rows)


def collect(setting: Setting) -> Results:
    """Compute what is missing and gather everything the setting asks for."""
    store = setting.store
    get_all(store, setting.runs(), setting.preset.workers)
    probed = collect_probes(setting)
    traces = _by_run({k: store.get(run) for k, run in setting.traces().items()})
    saturations = _by_run({k: store.get(run) for k, run in setting.saturations().items()})
    gaps = _by_run({k: store.get(run) for k, run in setting.gaps().items()})
    checkpoints = _checkpoints(setting, saturations, _with_hessian(traces, gaps), probed.probes)
    return replace(probed, checkpoints=checkpoints, traces=traces)


def collect_probes(setting: Setting, steps: tuple[int, ...] | None = None) -> Results:
    """Compute what is missing and gather the probes alone, of some or all checkpoints."""
    probings, baselines = setting.probings(steps), setting.baselines()
    runs = [*probings.values(), *baselines.values(), setting.labelled]
    *found, (_, test) = get_all(setting.store, runs, setting.preset.workers)
    results = dict(zip([*probings, *baselines], found, strict=True))
    majority = {
        task: float(column.bincount().max() / len(column))
        for task, column in zip(setting.preset.downstream.tasks, test.labels.T, strict=True)
    }
    return Results(
        setting,
        {key: results[key] for key in probings},
        {name: results[name] for name in baselines},
        majority,
    )


def _by_run(tables: dict[tuple[str, int], pd.DataFrame]) -> pd.DataFrame:
    """Stack the tables of runs under their size and seed."""
    return pd.concat(
        [table.assign(size=size, seed=seed) for (size, seed), table in tables.items()],
        ignore_index=True,
    )


KEYS = ["size", "seed", "step"]
"""What tells checkpoints apart."""


def _with_hessian(traces: pd.DataFrame, gaps: pd.DataFrame) -> pd.DataFrame:
    """Return Fisher trace, gap and trace of the Hessian of each checkpoint.

    Their errors are independent: trace and gap use different sentences.
    """
    total = traces[traces.part == "total"]
    total = total.rename(columns={"mean": "trace", "standard_error": "trace_se"})[
        [*KEYS, "trace", "trace_se"]
    ]
    gaps = gaps.rename(columns={"mean": "gap", "standard_error": "gap_se"})[[*KEYS, "gap", "gap_se"]]
    table = total.merge(gaps, on=KEYS)
    return table.assign(hessian=table.trace + table.gap, hessian_se=np.hypot(table.trace_se, table.gap_se))


def fisher_and_hessian(checkpoints: pd.DataFrame) -> pd.DataFrame:
    """Return KL, Fisher trace, gap and trace of the Hessian by size and step, means over seeds.

    `standard_error` is the gap's, over sentences and directions.
    """
    grouped = checkpoints.assign(variance=checkpoints.gap_se**2).groupby(["size", "step"], sort=False)
    table = grouped[["kl_mean", "trace", "gap", "hessian", "variance"]].mean().reset_index()
    table["standard_error"] = np.sqrt(table.variance / checkpoints.seed.nunique())
    table["gap_percent"] = 100 * table.gap / table.trace
    columns = {"kl_mean": "KL", "trace": "Fisher", "hessian": "Hessian", "gap_percent": "gap (%)"}
    order = ["size", "step", "KL", "Fisher", "Hessian", "gap", "standard_error", "gap (%)"]
    return table.rename(columns=columns)[order]


def _checkpoints(setting, saturations, traces, probes) -> pd.DataFrame:
    """Return one row a checkpoint: KL and loss (nats), traces, accuracy of each task (points)."""
    table = saturations.merge(traces, on=KEYS)
    for index, task in enumerate(setting.preset.downstream.tasks):
        accuracy = {k: 100 * p[..., index].mean((1, 2)) for k, p in probes.items()}
        table[task] = np.concatenate([accuracy[key] for key in probes])
    table["parameters"] = table["size"].map({s: setting.preset.parameter_count(s) for s in setting.sizes})
    table["saturated"] = table.kl_mean <= SATURATED_KL
    return table
