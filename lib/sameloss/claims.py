"""The paper's claims as effects with intervals, oriented so that a positive number supports them.

Each function takes `Results` and returns an `Interval`; NaN ends mean that it cannot be computed
from what there is (one size only, no saturated checkpoint).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from sameloss.downstream.bootstrap import Interval
from sameloss.downstream.probe import ProbeSettings
from sameloss.paper import PUBLISHED
from sameloss.parallel import get_all
from sameloss.results import Results, collect_probes
from sameloss.verdicts import Verdict, judge

REPLICATES = 2000
UNDEFINED = Interval(float("nan"), float("nan"), float("nan"))


def accuracy_gain(
    results: Results, task: str, better: tuple[str, int | None], worse: tuple[str, int | None]
) -> Interval:
    """Return accuracy(better) - accuracy(worse) in points; each is (size or baseline, step)."""
    correct = [results.correct(name, task, step) for name, step in (better, worse)]
    value = correct[0].mean() - correct[1].mean()
    replicates = [results.resamples.accuracy(c) for c in correct]
    low_high = results.resamples.interval(value, replicates[0] - replicates[1])
    return Interval(*(100 * end for end in low_high))


def trained_over_baseline(results: Results, task: str, baseline: str = "lookup table") -> Interval:
    """Return the gain of the *least* favourable size over a baseline: the claim is about all sizes."""
    if not all(saturated(results, size) for size in results.sizes):
        return UNDEFINED
    gains = [accuracy_gain(results, task, (s, None), (baseline, None)) for s in results.sizes]
    return min(gains, key=lambda gain: gain.low)


def saturated(results: Results, size: str) -> bool:
    """Tell whether every seed of the size ends saturated; otherwise losses are not 'the same'."""
    return bool(final(results).query("size == @size").saturated.all())


def _sizes_comparable(results: Results) -> bool:
    ends = {results.sizes[0], results.sizes[-1]}
    return len(ends) == 2 and all(saturated(results, size) for size in ends)


def size_gain(results: Results, task: str) -> Interval:
    """Return the gain of the largest size over the smallest, both after all steps."""
    if not _sizes_comparable(results):
        return UNDEFINED
    return accuracy_gain(results, task, (results.sizes[-1], None), (results.sizes[0], None))


def first_saturated_step(results: Results, size: str) -> int | None:
    """Return the first checkpoint before the last at which every seed of the size is saturated."""
    table = results.checkpoints.query("size == @size").groupby("step").saturated.all()
    steps = [step for step, saturated in table.items() if saturated and step != results.steps[-1]]
    return int(steps[0]) if steps else None


def step_gain(results: Results, task: str) -> Interval:
    """Return the mean gain from the first saturated checkpoint to the last, over sizes that have one."""
    steps = {size: first_saturated_step(results, size) for size in results.sizes}
    steps = {size: step for size, step in steps.items() if step is not None}
    if not steps:
        return UNDEFINED
    values, replicates = [], []
    for size, step in steps.items():
        late, early = results.correct(size, task), results.correct(size, task, step)
        values.append(late.mean() - early.mean())
        replicates.append(results.resamples.accuracy(late) - results.resamples.accuracy(early))
    interval = results.resamples.interval(np.mean(values), np.mean(replicates, axis=0))
    return Interval(*(100 * end for end in interval))


def _resampled_seeds(results: Results) -> np.ndarray:
    seeds = results.setting.preset.seeds
    return np.random.default_rng(0).integers(0, seeds, (REPLICATES, seeds))


def _log_trace(results: Results, size: str, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Return log trace and its standard error for each seed."""
    rows = results.checkpoints.query("size == @size and step == @step").sort_values("seed")
    return np.log(rows.trace.to_numpy()), (rows.trace_se / rows.trace).to_numpy()


def trace_ratio(results: Results, pairs: list[tuple[tuple[str, int], tuple[str, int]]]) -> Interval:
    """Return log of trace(first) / trace(second), averaged over pairs of (size, step).

    Seeds are resampled, and each trace is shaken by its own standard error.
    """
    if not pairs:
        return UNDEFINED
    chosen, rng = _resampled_seeds(results), np.random.default_rng(1)
    values, replicates = [], []
    for pair in pairs:
        (first, e1), (second, e2) = (_log_trace(results, *which) for which in pair)
        difference, error = first - second, np.hypot(e1, e2)
        values.append(difference.mean())
        shaken = difference[chosen] + rng.normal(size=chosen.shape) * error[chosen]
        replicates.append(shaken.mean(1))
    return results.resamples.interval(np.mean(values), np.mean(replicates, axis=0))


def trace_falls_with_steps(results: Results) -> Interval:
    """Return mean log trace(first saturated) / trace(last)."""
    steps = {size: first_saturated_step(results, size) for size in results.sizes}
    last = results.steps[-1]
    return trace_ratio(results, [((s, k), (s, last)) for s, k in steps.items() if k is not None])


def trace_falls_with_size(results: Results) -> Interval:
    """Return trace(smallest) / trace(largest) - 1 at the last step, over native parameters."""
    if not _sizes_comparable(results):
        return UNDEFINED
    last, (small, *_, large) = results.steps[-1], results.sizes
    interval = trace_ratio(results, [((small, last), (large, last))])
    return Interval(*(float(np.expm1(end)) for end in interval))


def flatness_correlation(results: Results, task: str, table: pd.DataFrame) -> Interval:
    """Return the signed r² of accuracy with flatness (minus log trace) over some checkpoints.

    The interval resamples whole pre-trainings: checkpoints of one run are not independent. It is
    undefined below four runs.
    """
    runs = [part for _, part in table.groupby(["size", "seed"], sort=False)]
    if len(runs) < 4:
        return UNDEFINED
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, len(runs), (REPLICATES, len(runs)))
    replicates = [_signed_r2(pd.concat([runs[i] for i in row]), task) for row in drawn]
    replicates = np.array(replicates)
    defined = replicates[np.isfinite(replicates)]
    if not len(defined):
        return UNDEFINED
    return results.resamples.interval(_signed_r2(table, task), defined)


def size_correlation(results: Results, task: str) -> Interval:
    """Return the signed r² over the last, saturated checkpoints of all sizes (Figure 5)."""
    table = final(results)
    return flatness_correlation(results, task, table[table.saturated])


def step_correlation(results: Results, task: str) -> Interval:
    """Return the signed r² over all saturated checkpoints (Figures 3 and 10)."""
    return flatness_correlation(results, task, results.checkpoints[results.checkpoints.saturated])


def correlation_table(results: Results, tasks: tuple[str, ...]) -> pd.DataFrame:
    """Return, for each task, both signed r² with interval, number of checkpoints and of runs."""
    parts = {
        "last checkpoints (Fig. 5)": (size_correlation, final(results)),
        "all checkpoints (Fig. 3, 10)": (step_correlation, results.checkpoints),
    }
    rows = []
    for task in tasks:
        for over, (correlate, table) in parts.items():
            table = table[table.saturated]
            counts = {"saturated": len(table), "runs": len(table.groupby(["size", "seed"]))}
            r2 = correlate(results, task)
            rows.append(
                {"task": task, "over": over, **counts, "signed r²": r2.value, "low": r2.low, "high": r2.high}
            )
    return pd.DataFrame(rows)


def protocol_gains(results: Results, task: str, others: dict[str, ProbeSettings]) -> pd.DataFrame:
    """Return each size's gain over the lookup table at the last step under several probe protocols.

    Args:
        results: measured with the standard probe.
        task: the downstream task.
        others: further protocols by name.

    """
    setting, last = results.setting, results.steps[-1:]
    changed = {name: setting.with_probe(probe) for name, probe in others.items()}
    runs = [run for other in changed.values() for run in other.probing_runs(last)]
    get_all(setting.store, runs, setting.preset.workers)
    probed = {name: collect_probes(other, last) for name, other in changed.items()}
    rows = []
    for name, other in {"standard": results, **probed}.items():
        lookup = 100 * other.correct("lookup table", task).mean()
        for size in setting.sizes:
            gain = accuracy_gain(other, task, (size, None), ("lookup table", None))
            rows.append({"protocol": name, "lookup table": lookup, "size": size, **gain._asdict()})
    return pd.DataFrame(rows)


def _signed_r2(table: pd.DataFrame, task: str) -> float:
    x, y = -np.log(table.trace.to_numpy()), table[task].to_numpy()
    spread = x.std() * y.std()
    if spread == 0:
        return float("nan")
    r = ((x - x.mean()) * (y - y.mean())).mean() / spread
    return float(np.sign(r) * r**2)


def final(results: Results) -> pd.DataFrame:
    """Return the last checkpoint of every run."""
    return results.checkpoints[results.checkpoints.step == results.steps[-1]]


@dataclass(frozen=True)
class Claim:
    """A published claim this book computes: how, and where it stands."""

    chapter: str
    task: int | None  # which of the preset's tasks: 0, 1, 2 for the paper's A, B, C
    effect: Callable[..., Interval]

    def task_name(self, results: Results) -> str | None:
        """Return the task's name; the last task where the preset has fewer."""
        tasks = results.setting.preset.downstream.tasks
        return None if self.task is None else tasks[min(self.task, len(tasks) - 1)]

    def compute(self, results: Results) -> Interval:
        """Return the effect."""
        task = self.task_name(results)
        return self.effect(results) if task is None else self.effect(results, task)


CLAIMS: dict[str, Claim] = {
    "fig1": Claim("02_existence", 2, step_gain),
    "fig2": Claim("02_existence", 1, size_gain),
    "fig9": Claim("02_existence", 0, size_gain),
    "tab1-lookup-A": Claim("02_existence", 0, trained_over_baseline),
    "tab1-lookup-B": Claim("02_existence", 1, trained_over_baseline),
    "fig3-trace": Claim("04_flatness", None, trace_falls_with_steps),
    "fig5-trace": Claim("04_flatness", None, trace_falls_with_size),
    "fig5-r2": Claim("04_flatness", 1, size_correlation),
}


def verdict_table(results: Results, chapter: str | None = None) -> pd.DataFrame:
    """Return paper beside ours: one row a published claim, with a computed verdict.

    Args:
        results: what was measured.
        chapter: only the claims of this chapter; where None everything published.

    """
    rows = []
    for name, published in PUBLISHED.items():
        claim = CLAIMS.get(name)
        if chapter and (claim is None or claim.chapter != chapter):
            continue
        effect = claim.compute(results) if claim else UNDEFINED
        verdict = judge(effect, published) if claim else Verdict.NOT_YET
        rows.append(
            {
                "id": name,
                "place": published.place,
                "claim": published.claim,
                "paper": published.value,
                "unit": published.unit,
                "task": claim.task_name(results) if claim else None,
                "ours": effect.value,
                "low": effect.low,
                "high": effect.high,
                "verdict": str(verdict),
            }
        )
    return pd.DataFrame(rows)
