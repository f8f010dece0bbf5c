"""Effects with intervals, oriented so that a positive number supports the paper's claim.

Every effect is computed from `Results`; NaN ends mean that it cannot be computed from what there is
(one size only, one seed, no saturated checkpoint, no KL in common).
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.errors import UnreachableKL
from sameloss.statistics.association import signed_r2, step_slope, trajectories_of
from sameloss.statistics.bootstrap import REPLICATES, UNDEFINED, Interval, percentile_interval, seed_weights
from sameloss.statistics.equal_kl import weights_at
from sameloss.studies.same_loss.results import Results, final, saturated, shared_kl


class Accuracy(NamedTuple):
    """A mean accuracy and its bootstrap replicates, as shares; those of one page are paired."""

    value: float
    replicates: Float[np.ndarray, " replicate"]


def accuracy(
    results: Results,
    name: str,
    task: str,
    *,
    step: int | None = None,
    kl: float | list[float] | None = None,
) -> Accuracy:
    """Return the accuracy of a size or baseline: at the last step, another one, or at a KL (of each seed)."""
    correct = results.correct(name, task, step) if kl is None else results.correct_at(name, task, kl)
    replicates = results.resamples.accuracy(correct, pretrained=name not in results.baselines)
    return Accuracy(float(correct.mean()), replicates)


def gain(pairs: list[tuple[Accuracy, Accuracy]]) -> Interval:
    """Return the mean of better - worse over (better, worse), in points."""
    if not pairs:
        return UNDEFINED
    value = np.mean([better.value - worse.value for better, worse in pairs])
    replicates = np.mean([better.replicates - worse.replicates for better, worse in pairs], axis=0)
    return Interval(*(100 * end for end in percentile_interval(value, replicates)))


# Sizes


def _ends(results: Results) -> tuple[str, str] | None:
    """Return the smallest and the largest size that end saturated in every seed; None below two."""
    good = saturated_sizes(results)
    return (good[0], good[-1]) if len(good) > 1 else None


def saturated_sizes(results: Results) -> list[str]:
    """Return the sizes that end saturated in every seed: those with "the same loss"."""
    return [size for size in results.sizes if saturated(results, size)]


def size_gain(results: Results, task: str) -> Interval:
    """Return the gain of the largest saturated size over the smallest, both after all steps."""
    ends = _ends(results)
    return gain([tuple(accuracy(results, size, task) for size in ends[::-1])]) if ends else UNDEFINED


def size_gain_matched(results: Results, task: str) -> Interval:
    """Return the same at the smallest KL that all runs of both sizes reach."""
    ends, kl = _matched_ends(results)
    return UNDEFINED if kl is None else gain([tuple(accuracy(results, s, task, kl=kl) for s in ends[::-1])])


def _matched_ends(results: Results) -> tuple[tuple[str, str] | None, float | None]:
    """Return the two sizes to compare and the KL they share; None for what there is not."""
    ends = _ends(results)
    return ends, _shared([results], ends) if ends else None


def _shared(results: list[Results], sizes: tuple[str, ...] | None = None) -> float | None:
    """Return the KL to compare at, None where the runs have none in common."""
    try:
        return shared_kl(results, sizes)
    except UnreachableKL:
        return None


def trained_over_baseline(results: Results, task: str, baseline: str = "lookup table") -> Interval:
    """Return the gain over a baseline that every saturated size has at least: the claim is about all."""
    lookup = accuracy(results, baseline, task)
    gains = [gain([(accuracy(results, size, task), lookup)]) for size in saturated_sizes(results)]
    return Interval(*(min(ends) for ends in zip(*gains, strict=True))) if gains else UNDEFINED


# Steps


def saturated_ends(results: Results) -> list[tuple[str, int, int]]:
    """Return (size, first saturated step, last step) of each size whose seeds all end saturated.

    A step counts as saturated when every seed is.
    """
    ends = []
    for size in results.sizes:
        own = results.checkpoints[results.checkpoints["size"] == size]
        table = own.groupby("step").saturated.all()
        first = next((int(step) for step, good in table.items() if good), None)
        last = results.steps[-1]
        if saturated(results, size) and first != last:
            ends.append((size, first, last))
    return ends


def step_gain(results: Results, task: str) -> Interval:
    """Return the mean gain from the first saturated checkpoint to the last, over sizes."""
    return gain(
        [
            (accuracy(results, size, task, step=last), accuracy(results, size, task, step=first))
            for size, first, last in saturated_ends(results)
        ]
    )


def step_gain_matched(results: Results, task: str) -> Interval:
    """Return points gained for each doubling of the steps at equal KL, over saturated checkpoints."""
    return step_slope(results.checkpoints[results.checkpoints.saturated], task)


# Algorithms


Compared = Literal["after all steps", "at equal KL", "at its last KL"]
"""Where two algorithms are compared: at their ends; at the smallest KL that all runs of a size reach; or the
first at its end, the second where, seed by seed, it had that KL on its way."""


def arm_gain(first: Results, second: Results, task: str, compared: Compared = "after all steps") -> Interval:
    """Return the gain in accuracy of one algorithm over another, in points, the mean over their sizes."""
    return _arms(first, second, compared, partial(accuracy, task=task), gain)


def arm_trace_excess(first: Results, second: Results, compared: Compared = "after all steps") -> Interval:
    """Return trace(first) / trace(second) - 1 of two algorithms, the geometric mean over their sizes."""
    return _arms(first, second, compared, log_traces, excess)


def _arms(
    first: Results, second: Results, compared: Compared, measure: Callable, effect: Callable
) -> Interval:
    """Return an effect of what is measured of either algorithm at each size, where they are compared."""
    pairs = []
    for size in first.sizes:
        places = _places(first, second, size, compared)
        if places is None:
            return UNDEFINED
        pairs.append(tuple(measure(r, size, kl=kl) for r, kl in zip((first, second), places, strict=True)))
    return effect(pairs)


def _places(
    first: Results, second: Results, size: str, compared: Compared
) -> tuple[float | None, float | list[float] | None] | None:
    """Return the KLs at which the two are taken (None: after all steps); None where that cannot be."""
    if compared == "after all steps":
        return (None, None) if saturated(first, size) and saturated(second, size) else None
    if compared == "at equal KL":
        kl = _shared([first, second], (size,))
        return None if kl is None else (kl, kl)
    own = [float(kl[-1]) for kl in first.kls(size)]
    reach = [kl.min() <= target <= kl.max() for kl, target in zip(second.kls(size), own, strict=True)]
    return (None, own) if all(reach) else None


def equivalence(effect: Interval, margin: float) -> Interval:
    """Return margin - |effect|: positive where the effect is smaller than the margin in either direction.

    >>> equivalence(Interval(-0.5, -1.0, 0.25), margin=2.0)
    Interval(value=1.5, low=1.0, high=2.0)
    """
    largest = max(abs(effect.low), abs(effect.high))
    smallest = 0.0 if effect.low <= 0 <= effect.high else min(abs(effect.low), abs(effect.high))
    return Interval(margin - abs(effect.value), margin - largest, margin - smallest)


# Traces


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


def trace_falls_with_steps(results: Results) -> Interval:
    """Return trace(first saturated) / trace(last) - 1, averaged over sizes."""
    ends = saturated_ends(results)
    return excess(
        [
            (log_traces(results, size, step=first), log_traces(results, size, step=last))
            for size, first, last in ends
        ]
    )


def trace_falls_with_size(results: Results) -> Interval:
    """Return trace(smallest) / trace(largest) - 1 at the last step, over native parameters."""
    return smallest_over_largest(results, final(results))


def trace_falls_with_size_matched(results: Results) -> Interval:
    """Return the same at the smallest KL that both sizes reach."""
    ends, kl = _matched_ends(results)
    return UNDEFINED if kl is None else excess([tuple(log_traces(results, size, kl=kl) for size in ends)])


def smallest_over_largest(results: Results, last: pd.DataFrame) -> Interval:
    """Return the excess of the smallest size's trace over the largest's.

    Args:
        results: decide whether the two can be compared.
        last: one row a last checkpoint: size, seed, trace, trace_se.

    """
    ends = _ends(results)
    if ends is None:
        return UNDEFINED
    return excess([tuple(log_traces_of(last[last["size"] == size]) for size in ends)])


# Correlations


def size_correlation(results: Results, task: str) -> Interval:
    """Return the signed r² over the last, saturated checkpoints of all sizes (Figure 5)."""
    table = final(results)
    return signed_r2(trajectories_of(table[table.saturated], task))


def step_correlation(results: Results, task: str) -> Interval:
    """Return the signed r² over all saturated checkpoints (Figures 3 and 10)."""
    return signed_r2(trajectories_of(results.checkpoints[results.checkpoints.saturated], task))


# Saturation


def reaches_entropy(results: Results, limit: float, sizes: Iterable[str] | None = None) -> Interval:
    """Return `limit` - KL, in nats a token, of the size (of some or all) that is furthest from the entropy.

    Its interval is over pre-training seeds.
    """
    last, margins = final(results), []
    for size in sizes or results.sizes:
        kl = last[last["size"] == size].kl_mean.to_numpy()
        weights = seed_weights(len(kl), REPLICATES, np.random.default_rng(0))
        margins.append(percentile_interval(limit - kl.mean(), limit - kl.mean() - weights @ kl))
    return min(margins)
