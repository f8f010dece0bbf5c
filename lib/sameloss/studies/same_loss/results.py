"""What groups of models showed: checkpoints, traces, labels, enlarged forms."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple, cast, get_args

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.measures.downstream.online_code import FEW_LABELS
from sameloss.models.enlarge import KINDS, Tying, kind_law
from sameloss.runs.probing import BaselineLabelBudget, LabelBudget
from sameloss.statistics.bootstrap import (
    REPLICATES,
    UNDEFINED,
    Interval,
    Resamples,
    percentile_interval,
    seed_weights,
)
from sameloss.statistics.equal_kl import common_kl, weights_at
from sameloss.store.store import Run, Store
from sameloss.studies.same_loss.groups import BASELINES, Group, Key, lstms, protocols, widened

# Tidy tables drawn from finished runs: one row an observation, one column a quantity.

KEYS = ["size", "seed", "step"]
"""What tells checkpoints apart."""


@cache
def _resamples(model_seeds: int, probe_seeds: int, examples: int) -> Resamples:
    return Resamples(model_seeds, probe_seeds, examples)


def frame(store: Store, group: Group, kind: str) -> pd.DataFrame:
    """Return what a measurement found of a group: one row a checkpoint and part.

    Returns:
        `size`, `seed`, and the measurement's own columns: `step`, `part`, `mean`, `standard_error`, `count`.

    """
    runs = group.measured(kind)
    tables = [store.get(run).assign(size=size, seed=seed) for (size, seed), run in runs.items()]
    return pd.concat(tables, ignore_index=True)


def wide(found: pd.DataFrame) -> pd.DataFrame:
    """Return a measurement with one row a checkpoint and, of each part, the columns `<part>_mean`, ..."""
    table = found.pivot(index=KEYS, columns="part", values=["mean", "standard_error"])
    table.columns = [f"{part}_{quantity}" for quantity, part in table.columns]
    return found[KEYS].drop_duplicates().merge(table.reset_index(), on=KEYS)


@dataclass(frozen=True)
class Results:
    """The measurements of a group, with the resamples that all intervals of a page share."""

    group: Group
    store: Store
    probes: dict[Key, np.ndarray]  # right or wrong, see `Probed`
    baselines: dict[str, np.ndarray]
    majority: dict[str, float]
    gradient: float = float("nan")  # how far from their optimum probes are: the largest, see `Probed`
    drawn: "Results | None" = None  # of untrained models, where they are not the probings of step 0

    @property
    def sizes(self) -> tuple[str, ...]:
        """Return the sizes, smallest first."""
        return self.group.sizes

    @property
    def steps(self) -> tuple[int, ...]:
        """Return the checkpoints' steps."""
        return self.group.steps

    @cached_property
    def untrained(self) -> "Results":
        """Return the same models as they were drawn, before any training: the control of what it does."""
        return self.drawn or collect_probes(self.store, self.group, (0,))

    @property
    def resamples(self) -> Resamples:
        """Return the bootstrap resamples, the same for all results of these numbers."""
        downstream = self.group.settings.evaluation.downstream
        return _resamples(self.group.seeds, downstream.probe_seeds, downstream.test)

    def frame(self, kind: str) -> pd.DataFrame:
        """Return what a measurement found of the group: see `frame`."""
        return frame(self.store, self.group, kind)

    @cached_property
    def traces(self) -> pd.DataFrame:
        """Return the Fisher traces of all checkpoints, in total and in parts."""
        return self.frame("trace")

    @cached_property
    def checkpoints(self) -> pd.DataFrame:
        """Return one row a checkpoint: KL and loss (nats), traces, accuracy of each task (points).

        `kl_share` is the KL over the context information, the share of all there is to learn that is
        unlearnt.
        """
        total = self.traces[self.traces.part == "total"]
        total = total.rename(columns={"mean": "trace", "standard_error": "trace_se"})
        table = wide(self.frame("saturation")).merge(total[[*KEYS, "trace", "trace_se"]], on=KEYS)
        for index, task in enumerate(self.group.tasks):
            accuracies = [100 * right[..., index].mean((1, 2)) for right in self.probes.values()]
            table[task] = np.concatenate(accuracies)
        counts = {size: self.group.domain.parameter_count(size) for size in self.sizes}
        share = table.kl_mean / table.context_mean
        saturated = share <= self.group.settings.evaluation.saturated_share
        return table.assign(parameters=table["size"].map(counts), kl_share=share, saturated=saturated)

    @property
    def on_sampled_labels(self) -> pd.DataFrame:
        """Return the checkpoints after the last step with exact labels: steps alone tell them apart."""
        return self.checkpoints[self.checkpoints.step > self.group.exact_steps]

    @property
    def saturated_kl(self) -> float:
        """Return the KL (nats a masked token) up to which a checkpoint counts as saturated."""
        return self.group.settings.evaluation.saturated_share * float(self.checkpoints.context_mean.iloc[0])

    def correct(self, name: str, task: str, step: int | None = None) -> np.ndarray:
        """Return which test sentences are right, axes (pre-training seed, probe seed, sentence).

        Args:
            name: a size, or a baseline (which has one pre-training seed and no step).
            task: the downstream task.
            step: of the checkpoint; the last where None.

        """
        if name in self.baselines:
            return self.baselines[name][:1, :, :, self.group.tasks.index(task)]
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
        index = self.group.tasks.index(task)
        return [self.probes[size, seed][..., index] for seed in range(self.group.seeds)]

    def kls(self, size: str) -> list[np.ndarray]:
        """Return the KL of each seed's checkpoints, in nats a masked token."""
        runs = self.checkpoints[self.checkpoints["size"] == size].groupby("seed")
        return [run.sort_values("step").kl_mean.to_numpy(np.float64) for _, run in runs]

    def replicates(self, correct: np.ndarray, name: str) -> np.ndarray:
        """Return the bootstrap replicates of the accuracy of a size or a baseline."""
        return self.resamples.accuracy(correct, pretrained=name not in self.baselines)

    def accuracy_table(self, task: str) -> pd.DataFrame:
        """Return accuracy (%) of every representation with its 95 % interval, last checkpoint.

        Where there are several sizes, their untrained models stand below them.
        """
        share = 100 * self.majority[task]
        majority = {"representation": "majority class", "accuracy": share, "low": share, "high": share}
        trained = [self._percent(size, task) for size in self.sizes]
        if len(self.sizes) > 1:
            drawn = pd.DataFrame([self.untrained._percent(size, task) for size in self.sizes])
            control = drawn.assign(representation=drawn.representation + ", untrained")
        else:
            control = None
        table = pd.DataFrame([majority, *trained])
        return pd.concat([table, control, self.baseline_table(task)], ignore_index=True)

    def baseline_table(self, task: str) -> pd.DataFrame:
        """Return the rows of `accuracy_table` that no model has."""
        return pd.DataFrame([self._percent(name, task) for name in self.baselines])

    def _percent(self, name: str, task: str) -> dict[str, str | float]:
        """Return the accuracy (%) of a size or a baseline with its interval."""
        correct = self.correct(name, task)
        interval = percentile_interval(correct.mean(), self.replicates(correct, name))
        ends = dict(zip(("accuracy", "low", "high"), (100 * end for end in interval), strict=True))
        return {"representation": name, **ends}


def collect(store: Store, group: Group) -> Results:
    """Gather what was found of a group; what is missing is computed."""
    return collect_probes(store, group, group.steps)


def collect_probes(store: Store, group: Group, steps: tuple[int, ...]) -> Results:
    """Gather results whose probes are of some checkpoints."""
    probed = {key: store.get(run) for key, run in group.probings(steps).items()}
    baselines = {name: store.get(run).correct for name, run in group.baselines().items()}
    _, test = store.get(group.labelled)
    columns = zip(group.tasks, test.labels.T, strict=True)
    majority = {task: float(column.bincount().max() / len(column)) for task, column in columns}
    probes = {key: found.correct for key, found in probed.items()}
    gradient = max(float(found.gradient.max()) for found in probed.values())
    return Results(group, store, probes, baselines, majority, gradient)


def by_protocol(results: Results, names: Iterable[str] | None = None) -> dict[str, Results]:
    """Return the models as some protocols of the probe, or all, read them; the last checkpoints at least."""
    every, last = protocols(results.group), results.steps[-1:]
    return {
        name: results if every[name] == results.group else collect_probes(results.store, every[name], last)
        for name in names or every
    }


def finetuned(results: Results) -> Results:
    """Return the results with fine-tuned models in the place of the probes; last checkpoints alone."""
    runs = results.group.measured("finetuning")
    return replace(results, probes={key: results.store.get(run) for key, run in runs.items()})


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


def with_hessian(results: Results) -> pd.DataFrame:
    """Return the checkpoints with the gap between Hessian and Fisher trace, and the Hessian's trace.

    Errors of trace and gap are independent: they use different sentences.
    """
    gaps = results.frame("gap").rename(columns={"mean": "gap", "standard_error": "gap_se"})
    table = results.checkpoints.merge(gaps[[*KEYS, "gap", "gap_se"]], on=KEYS)
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


# Traces of groups of models, as logarithms with their errors, and the excess of one over another.


class LogTraces(NamedTuple):
    """Logarithms of the traces of a group's seeds, and their standard errors."""

    value: Float[np.ndarray, " seed"]
    error: Float[np.ndarray, " seed"]


def log_traces(
    results: Results, size: str, *, step: int | None = None, kl: float | list[float] | None = None
) -> LogTraces:
    """Return a size's traces: at the last step, another one, or at a KL (of each seed).

    Between checkpoints the logarithm is interpolated.
    """
    step = results.steps[-1] if step is None else step
    table = results.checkpoints[results.checkpoints["size"] == size]
    if kl is None:
        return log_traces_of(table[table.step == step])
    runs = [run.sort_values("step") for _, run in table.groupby("seed")]
    targets = np.broadcast_to(kl, len(runs))
    weights = [weights_at(r.kl_mean.to_numpy(np.float64), at) for r, at in zip(runs, targets, strict=True)]
    along = [log_traces_of(run, by="step") for run in runs]
    values = [w @ t.value for w, t in zip(weights, along, strict=True)]
    errors = [np.hypot.reduce(w * t.error) for w, t in zip(weights, along, strict=True)]
    return LogTraces(np.array(values), np.array(errors))


def log_traces_of(rows: pd.DataFrame, by: str = "seed") -> LogTraces:
    """Return the traces of a table's rows (trace, trace_se), ordered by a column."""
    rows = rows.sort_values(by)
    return LogTraces(np.log(rows.trace.to_numpy()), (rows.trace_se / rows.trace).to_numpy())


def excess(pairs: list[tuple[LogTraces, LogTraces]]) -> Interval:
    """Return trace(first) / trace(second) - 1, the geometric mean over pairs.

    Pre-training seeds vary as in `seed_weights`, and each trace by its standard error.
    """
    if not pairs:
        return UNDEFINED
    rng = np.random.default_rng(0)
    weights = seed_weights(len(pairs[0][0].value), REPLICATES, rng)
    values, replicates = [], []
    for first, second in pairs:
        difference, error = first.value - second.value, np.hypot(first.error, second.error)
        noise = (rng.normal(size=weights.shape) * error).mean(1)
        values.append(difference.mean())
        replicates.append(difference.mean() + weights @ difference + noise)
    interval = percentile_interval(np.mean(values), np.mean(replicates, axis=0))
    return Interval(*(float(np.expm1(end)) for end in interval))


# How many labels the representations of a group need: the runs that ask, and what they found.

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


# Traces of different sizes made comparable: in which parameters they are taken (Appendix B.1).


class Way(NamedTuple):
    """A way to compare the traces of different sizes."""

    form: str  # of the measurement: native, paper, balanced or relative
    part: str  # of it that counts
    label: str  # in tables and figures


WAYS = {
    "native": Way("native", "total", "native parameters"),
    "native-rest": Way("native", "without embeddings", "native, without embeddings"),
    "enlarged": Way("paper", "total", "enlarged, embedding / k (the paper's)"),
    "enlarged-balanced": Way("balanced", "total", "enlarged, embedding / √k"),
    "enlarged-rest": Way("paper", "without embeddings", "enlarged, without embeddings"),
    "relative": Way("relative", "total", "relative trace"),
}
"""The ways, by name."""


def enlarged_totals(traces: pd.DataFrame) -> pd.DataFrame:
    """Return one row a checkpoint and way to compare: trace and its standard error.

    Args:
        traces: the measurement `enlargement` of a group, see `results.frame`.

    """
    rows = [
        traces[(traces.form == way.form) & (traces.part == way.part)].assign(way=name)
        for name, way in WAYS.items()
    ]
    table = pd.concat(rows, ignore_index=True)
    table = table.rename(columns={"mean": "trace", "standard_error": "trace_se"})
    return table[[*KEYS, "way", "trace", "trace_se"]]


def accuracy_and_enlarged(results: Results) -> pd.DataFrame:
    """Return the last checkpoints with their accuracies once for each way to compare traces.

    LSTMs are compared natively alone.
    """
    if lstms(results.group):
        return final(results).assign(way="native")
    totals = enlarged_totals(results.frame("enlargement"))
    return final(results).drop(columns=["trace", "trace_se"]).merge(totals, on=KEYS)


def law_alone(traces: pd.DataFrame, group: Group) -> pd.Series:
    """Return the excess of the smallest size's trace if its native parts were those of the largest.

    In per unit, by way to compare: what the enlargement does by itself.
    """
    ratio = widened(group) // group.domain.shapes[group.sizes[0]].d_model
    largest = traces[(traces["size"] == group.sizes[-1]) & (traces.form == "native")]
    parts = largest[largest.part.isin(KINDS)].groupby("part")["mean"].mean()

    def excess(way: Way) -> float:
        counted = parts.drop("embedding") if way.part == "without embeddings" else parts
        tied = cast(Tying, way.form) if way.form in get_args(Tying) else None
        law = {kind: kind_law(kind, ratio, tied) if tied else 1.0 for kind in counted.index}
        return float((counted * pd.Series(law)).sum() / counted.sum() - 1)

    return pd.Series({name: excess(way) for name, way in WAYS.items()})
