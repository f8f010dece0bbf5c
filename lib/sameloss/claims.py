"""The paper's claims as effects with intervals, oriented so that a positive number supports them.

Each function takes `Results` and returns an `Interval`; NaN ends mean that it cannot be computed
from what there is (one size only, no saturated checkpoint).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm, t

from sameloss.downstream.bootstrap import LEVEL, REPLICATES, Interval, percentile_interval, seed_weights
from sameloss.flatness_tables import AS_THE_PAPER, enlarged_totals, enlarged_traces, law_alone
from sameloss.paper import PUBLISHED
from sameloss.parallel import get_all
from sameloss.results import Results, collect_probes
from sameloss.verdicts import Verdict, judge

UNDEFINED = Interval(float("nan"), float("nan"), float("nan"))


def accuracy_gain(
    results: Results, task: str, better: tuple[str, int | None], worse: tuple[str, int | None]
) -> Interval:
    """Return accuracy(better) - accuracy(worse) in points; each is (size or baseline, step)."""
    return _mean_gain(results, task, [(better, worse)])


def _mean_gain(results: Results, task: str, pairs: list) -> Interval:
    """Return the mean of accuracy(better) - accuracy(worse) over pairs, in points."""
    if not pairs:
        return UNDEFINED
    values, replicates = [], []
    for (name, step), (other, other_step) in pairs:
        values.append(
            results.correct(name, task, step).mean() - results.correct(other, task, other_step).mean()
        )
        replicates.append(results.replicates(name, task, step) - results.replicates(other, task, other_step))
    interval = percentile_interval(np.mean(values), np.mean(replicates, axis=0))
    return Interval(*(100 * end for end in interval))


def trained_over_baseline(results: Results, task: str, baseline: str = "lookup table") -> Interval:
    """Return the gain over a baseline that every size has at least: the claim is about all sizes."""
    if not all(saturated(results, size) for size in results.sizes):
        return UNDEFINED
    gains = [accuracy_gain(results, task, (s, None), (baseline, None)) for s in results.sizes]
    return Interval(*(min(ends) for ends in zip(*gains, strict=True)))


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


def saturated_ends(results: Results) -> list[tuple[str, int, int]]:
    """Return (size, first saturated step, last step) of each size whose seeds all end saturated.

    A step counts as saturated when every seed is.
    """
    ends = []
    for size in results.sizes:
        table = results.checkpoints.query("size == @size").groupby("step").saturated.all()
        first = next((int(step) for step, good in table.items() if good), None)
        last = results.steps[-1]
        if saturated(results, size) and first != last:
            ends.append((size, first, last))
    return ends


def step_gain(results: Results, task: str) -> Interval:
    """Return the mean gain from the first saturated checkpoint to the last, over sizes."""
    ends = saturated_ends(results)
    return _mean_gain(results, task, [((size, last), (size, first)) for size, first, last in ends])


def trace_excess(table: pd.DataFrame, pairs: list[tuple[tuple[str, int], tuple[str, int]]]) -> Interval:
    """Return trace(first) / trace(second) - 1, the geometric mean over pairs of (size, step).

    Pre-training seeds vary as in `seed_weights`, and each trace by its standard error.

    Args:
        table: one row a checkpoint: size, seed, step, trace, trace_se.
        pairs: the checkpoints to compare, of all seeds.

    """
    if not pairs:
        return UNDEFINED
    rng = np.random.default_rng(0)
    weights = seed_weights(table.seed.nunique(), REPLICATES, rng)
    values, replicates = [], []
    for pair in pairs:
        (first, first_error), (second, second_error) = (_log_trace(table, *which) for which in pair)
        difference, error = first - second, np.hypot(first_error, second_error)
        noise = (rng.normal(size=weights.shape) * error).mean(1)
        values.append(difference.mean())
        replicates.append(difference.mean() + weights @ difference + noise)
    interval = percentile_interval(np.mean(values), np.mean(replicates, axis=0))
    return Interval(*(float(np.expm1(end)) for end in interval))


def _log_trace(table: pd.DataFrame, size: str, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Return log trace and its standard error for each seed."""
    rows = table.query("size == @size and step == @step").sort_values("seed")
    return np.log(rows.trace.to_numpy()), (rows.trace_se / rows.trace).to_numpy()


def trace_falls_with_steps(results: Results) -> Interval:
    """Return trace(first saturated) / trace(last) - 1, averaged over sizes."""
    ends = saturated_ends(results)
    return trace_excess(results.checkpoints, [((size, first), (size, last)) for size, first, last in ends])


def trace_falls_with_size(results: Results) -> Interval:
    """Return trace(smallest) / trace(largest) - 1 at the last step, over native parameters."""
    return _smallest_over_largest(results, results.checkpoints)


def enlarged_trace_falls_with_size(results: Results) -> Interval:
    """Return the same with all models enlarged to one width as in App. B.1."""
    totals = enlarged_totals(enlarged_traces(results.setting))
    return _smallest_over_largest(results, totals[totals.comparison == AS_THE_PAPER])


def _smallest_over_largest(results: Results, table: pd.DataFrame) -> Interval:
    if not _sizes_comparable(results):
        return UNDEFINED
    last, (small, *_, large) = results.steps[-1], results.sizes
    return trace_excess(table, [((small, last), (large, last))])


def flatness_correlation(table: pd.DataFrame, task: str) -> Interval:
    """Return the signed r² of accuracy with flatness (minus log trace) over some checkpoints.

    The interval resamples whole pre-trainings (checkpoints of one run are not independent) within
    each size: it is conditional on these sizes. Deviations of Fisher's z are widened, because the
    few seeds of a size understate their spread. It needs three runs, and two seeds of each size.
    """
    sizes = [
        [np.stack([-np.log(run.trace), run[task]]) for _, run in part.groupby("seed")]
        for _, part in table.groupby("size", sort=False)
    ]
    seeds, freedom = min(map(len, sizes), default=0), sum(map(len, sizes)) - len(sizes)
    if seeds < 2 or freedom + len(sizes) < 3:
        return UNDEFINED
    rng = np.random.default_rng(0)
    drawn = np.array([_fisher_z([_resampled(runs, rng) for runs in sizes]) for _ in range(REPLICATES)])
    value = _fisher_z(sizes)
    if np.isnan(value):
        return UNDEFINED
    tail = (1 + LEVEL) / 2
    widening = (seeds / (seeds - 1)) ** 0.5 * t.ppf(tail, freedom) / norm.ppf(tail)
    interval = percentile_interval(value, value + widening * (drawn[np.isfinite(drawn)] - value))
    return Interval(*(float(np.sign(z) * np.tanh(z) ** 2) for z in interval))


def _resampled(runs: list[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    return [runs[i] for i in rng.integers(0, len(runs), len(runs))]


def _fisher_z(sizes: list[list[np.ndarray]]) -> float:
    """Return artanh of the correlation between the two rows of all runs; NaN where one is constant."""
    flatness, accuracy = np.hstack([run for runs in sizes for run in runs])
    if flatness.std() == 0 or accuracy.std() == 0:
        return float("nan")
    return float(np.arctanh(np.clip(np.corrcoef(flatness, accuracy)[0, 1], -0.9999, 0.9999)))


def comparison_table(results: Results, traces: pd.DataFrame) -> pd.DataFrame:
    """Return the excess of the smallest size's trace over the largest's, in each way to compare them.

    `law alone` is the excess if both had the same native parts.
    """
    totals, rows = enlarged_totals(traces), []
    for name, alone in law_alone(traces, results.setting).items():
        interval = _smallest_over_largest(results, totals[totals.comparison == name])
        rows.append({"comparison": name, **interval._asdict(), "law alone": alone})
    return pd.DataFrame(rows).rename(columns={"value": "excess"})


def size_correlation(results: Results, task: str) -> Interval:
    """Return the signed r² over the last, saturated checkpoints of all sizes (Figure 5)."""
    table = final(results)
    return flatness_correlation(table[table.saturated], task)


def step_correlation(results: Results, task: str) -> Interval:
    """Return the signed r² over all saturated checkpoints (Figures 3 and 10)."""
    return flatness_correlation(results.checkpoints[results.checkpoints.saturated], task)


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
            counts["sizes"] = table["size"].nunique()
            r2 = correlate(results, task)
            rows.append(
                {"task": task, "over": over, **counts, "signed r²": r2.value, "low": r2.low, "high": r2.high}
            )
    return pd.DataFrame(rows)


def protocol_gains(results: Results, task: str) -> pd.DataFrame:
    """Return each size's gain over the lookup table at the last step under several probe protocols."""
    setting, last = results.setting, results.steps[-1:]
    get_all(setting.store, setting.protocol_runs(), setting.preset.workers)
    probed = {
        name: collect_probes(setting.with_probe(probe), last) for name, probe in setting.protocols.items()
    }
    rows = []
    for name, other in {"standard": results, **probed}.items():
        lookup = 100 * other.correct("lookup table", task).mean()
        for size in setting.sizes:
            gain = accuracy_gain(other, task, (size, None), ("lookup table", None))
            rows.append({"protocol": name, "lookup table": lookup, "size": size, **gain._asdict()})
    return pd.DataFrame(rows)


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
    "fig5-enlarged": Claim("b2_enlargement", None, enlarged_trace_falls_with_size),
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
