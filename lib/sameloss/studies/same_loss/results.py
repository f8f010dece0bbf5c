"""Tidy tables drawn from finished runs: one row an observation, one column a quantity."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd

from sameloss.statistics.bootstrap import Resamples, percentile_interval
from sameloss.statistics.equal_kl import common_kl, weights_at
from sameloss.store.pool import get_all
from sameloss.studies.same_loss.groups import Setting


@cache
def _resamples(model_seeds: int, probe_seeds: int, examples: int) -> Resamples:
    return Resamples(model_seeds, probe_seeds, examples)


@dataclass(frozen=True)
class Results:
    """The measurements of a setting, with the resamples all intervals of a page share."""

    setting: Setting
    probes: dict[tuple[str, int], np.ndarray]  # right or wrong, see `Probing`
    baselines: dict[str, np.ndarray]
    majority: dict[str, float]
    checkpoints: pd.DataFrame | None = None
    traces: pd.DataFrame | None = None

    @property
    def resamples(self) -> Resamples:
        """Return the bootstrap resamples, the same for all results of these numbers."""
        downstream = self.setting.preset.downstream
        return _resamples(self.setting.preset.seeds, downstream.probe_seeds, downstream.test)

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
        if name in self.baselines:
            return self.baselines[name][:1, :, :, self.task_index(task)]
        at = -1 if step is None else self.steps.index(step)
        return np.stack([run[at] for run in self._along(name, task)])

    def correct_at(self, name: str, task: str, kl: float | list[float]) -> np.ndarray:
        """Return the same, interpolated to a KL (or one for each seed): a sentence is then right to a share.

        Raises:
            UnreachableKL: where a run's checkpoints do not enclose it.

        """
        kls = self.kls(name)
        runs = zip(self._along(name, task), kls, np.broadcast_to(kl, len(kls)), strict=True)
        return np.stack([np.einsum("s,spe->pe", weights_at(own, target), run) for run, own, target in runs])

    def _along(self, size: str, task: str) -> list[np.ndarray]:
        """Return for each seed which test sentences are right, axes (step, probe seed, sentence)."""
        seeds = range(self.setting.preset.seeds)
        return [self.probes[size, seed][..., self.task_index(task)] for seed in seeds]

    def kls(self, size: str) -> list[np.ndarray]:
        """Return the KL of each seed's checkpoints, in nats a masked token."""
        runs = self.checkpoints[self.checkpoints["size"] == size].groupby("seed")
        return [run.sort_values("step").kl_mean.to_numpy(np.float64) for _, run in runs]

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


def final(results: Results) -> pd.DataFrame:
    """Return the last checkpoint of every run."""
    return results.checkpoints[results.checkpoints.step == results.steps[-1]]


def saturated(results: Results, *sizes: str) -> bool:
    """Tell whether every seed of some sizes ends saturated; otherwise losses are not 'the same'."""
    last = final(results)
    return bool(last[last["size"].isin(sizes)].saturated.all())


def shared_kl(results: Iterable[Results], sizes: Iterable[str] | None = None) -> float:
    """Return the smallest KL that every run of the results (or of some of their sizes) reaches.

    Raises:
        UnreachableKL: where there is none.

    """
    return common_kl([kl for r in results for size in sizes or r.sizes for kl in r.kls(size)])


def collect_all(settings: list[Setting]) -> list[Results]:
    """Compute what is missing of all settings together, which keeps all cores busy, and gather it."""
    first = settings[0]
    get_all(first.store, [run for s in settings for run in s.runs()], first.preset.workers)
    return [_gathered(setting) for setting in settings]


def collect(setting: Setting) -> Results:
    """Compute what is missing and gather everything the setting asks for."""
    (results,) = collect_all([setting])
    return results


def _gathered(setting: Setting) -> Results:
    store = setting.store
    probed = collect_probes(setting)
    traces = _by_run({k: store.get(run) for k, run in setting.traces().items()})
    saturations = _by_run({k: store.get(run) for k, run in setting.saturations().items()})
    total = traces[traces.part == "total"].rename(columns={"mean": "trace", "standard_error": "trace_se"})
    table = saturations.merge(total[[*KEYS, "trace", "trace_se"]], on=KEYS)
    return replace(probed, checkpoints=_checkpoints(setting, table, probed.probes), traces=traces)


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


def collect_finetuned(setting: Setting) -> Results:
    """Compute what is missing and gather the fine-tuned models, in the place of the probes."""
    runs, probed = setting.finetunings(), collect_probes(setting, setting.steps[-1:])
    found = get_all(setting.store, list(runs.values()), setting.preset.workers)
    return replace(probed, probes=dict(zip(runs, found, strict=True)))


def _by_run(tables: dict[tuple[str, int], pd.DataFrame]) -> pd.DataFrame:
    """Stack the tables of runs under their size and seed."""
    return pd.concat(
        [table.assign(size=size, seed=seed) for (size, seed), table in tables.items()],
        ignore_index=True,
    )


KEYS = ["size", "seed", "step"]
"""What tells checkpoints apart."""


def with_hessian(results: Results) -> pd.DataFrame:
    """Return the checkpoints with the gap between Hessian and Fisher trace, and the Hessian's trace.

    Errors of trace and gap are independent: they use different sentences.
    """
    runs = results.setting.gaps()
    found = get_all(results.setting.store, list(runs.values()), results.setting.preset.workers)
    gaps = _by_run(dict(zip(runs, found, strict=True)))
    gaps = gaps.rename(columns={"mean": "gap", "standard_error": "gap_se"})[[*KEYS, "gap", "gap_se"]]
    table = results.checkpoints.merge(gaps, on=KEYS)
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


def _checkpoints(setting, table, probes) -> pd.DataFrame:
    """Return one row a checkpoint: KL and loss (nats), traces, accuracy of each task (points)."""
    for index, task in enumerate(setting.preset.downstream.tasks):
        accuracy = {k: 100 * p[..., index].mean((1, 2)) for k, p in probes.items()}
        table[task] = np.concatenate([accuracy[key] for key in probes])
    table["parameters"] = table["size"].map({s: setting.preset.parameter_count(s) for s in setting.sizes})
    table["saturated"] = table.kl_mean <= setting.preset.saturated_kl
    return table
