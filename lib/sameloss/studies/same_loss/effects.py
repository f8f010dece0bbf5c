"""Effects with intervals, oriented so that a positive number supports the paper's claim.

Every effect is computed from `Results`; NaN ends mean that it cannot be computed from what there is
(one size only, one seed, no saturated checkpoint, no KL in common).
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float

from sameloss.errors import UnreachableKL
from sameloss.statistics.association import dose_slope, signed_r2, step_slope, trajectories_of
from sameloss.statistics.bootstrap import UNDEFINED, Interval, percentile_interval, seed_interval
from sameloss.studies.same_loss.results import (
    LogTraces,
    Results,
    excess,
    final,
    log_traces,
    log_traces_of,
    saturated,
    shared_kl,
)

T = TypeVar("T")


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
    """Return the accuracy of a size or baseline: at the last step, another one, or at a KL (of each seed).

    Raises:
        UnreachableKL: where a run's checkpoints do not enclose the KL.

    """
    correct = results.correct(name, task, step) if kl is None else results.correct_at(name, task, kl)
    return Accuracy(float(correct.mean()), results.replicates(correct, name))


def gain(pairs: list[tuple[Accuracy, Accuracy]]) -> Interval:
    """Return the mean of better - worse over (better, worse), in points."""
    if not pairs:
        return UNDEFINED
    value = float(np.mean([better.value - worse.value for better, worse in pairs]))
    replicates = np.mean([better.replicates - worse.replicates for better, worse in pairs], axis=0)
    return Interval(*(100 * end for end in percentile_interval(value, replicates)))


def _or_undefined(compute: Callable[[], Interval]) -> Interval:
    """Return what is computed, or an undefined effect where models cannot be taken at one loss."""
    try:
        return compute()
    except UnreachableKL:
        return UNDEFINED


# Sizes


def saturated_sizes(results: Results) -> list[str]:
    """Return the sizes that end saturated in every seed: those with "the same loss"."""
    return [size for size in results.sizes if saturated(results, size)]


def _ends(results: Results) -> tuple[str, str]:
    """Return the smallest and the largest size that end saturated in every seed."""
    good = saturated_sizes(results)
    if len(good) < 2:
        raise UnreachableKL("Fewer than two sizes end saturated, so none can be compared.")
    return good[0], good[-1]


def size_gain(results: Results, task: str) -> Interval:
    """Return the net gain of the largest saturated size over the smallest, both after all steps.

    Net of what untrained models of the two sizes show: wider models are read better before any training, too.
    """
    return _or_undefined(lambda: _size_gain(results, task, None))


def size_gain_matched(results: Results, task: str) -> Interval:
    """Return the same at the smallest KL that all runs of both sizes reach."""
    return _or_undefined(lambda: _size_gain(results, task, shared_kl([results], _ends(results))))


def _size_gain(results: Results, task: str, kl: float | None) -> Interval:
    small, large = _ends(results)
    return gain([(net_accuracy(results, large, task, kl), net_accuracy(results, small, task, kl))])


def net_accuracy(results: Results, size: str, task: str, kl: float | None = None) -> Accuracy:
    """Return a size's accuracy, last or at a KL, less that of its untrained models."""
    trained, drawn = accuracy(results, size, task, kl=kl), accuracy(results.untrained, size, task)
    return Accuracy(trained.value - drawn.value, trained.replicates - drawn.replicates)


def trained_over_baseline(results: Results, task: str, baseline: str = "lookup table") -> Interval:
    """Return the gain over a baseline that every saturated size has at least: the claim is about all."""
    lookup = accuracy(results, baseline, task)
    gains = [gain([(accuracy(results, size, task), lookup)]) for size in saturated_sizes(results)]
    return Interval(*(min(ends) for ends in zip(*gains, strict=True))) if gains else UNDEFINED


# Steps


def saturated_ends(results: Results) -> list[tuple[str, int, int]]:
    """Return (size, first saturated step, last step) of each size whose seeds all end saturated.

    A step counts as saturated when every seed is. Steps with exact labels do not count: what changes
    from them to the last might be due to the labels.
    """
    ends, counted = [], results.on_sampled_labels
    for size in results.sizes:
        own = counted[counted["size"] == size]
        table = own.groupby("step").saturated.all()
        last = results.steps[-1]
        first = next((int(step) for step, good in table.items() if good), last)
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
    counted = results.on_sampled_labels
    return step_slope(counted[counted.saturated], task)


# Algorithms


class Compared(StrEnum):
    """Where two algorithms are compared."""

    ENDS = "after all steps"
    COOLED = "cooled to equal KL"  # both after all steps, whose KLs are equal within their error
    EQUAL_KL = "at equal KL"  # the smallest that all runs of a size reach


Places = tuple[float | None, float | list[float] | None]
"""The KL at which either of two algorithms is taken, perhaps one for each seed; None: after all steps."""


def _ends_of(first: Results, second: Results, size: str) -> Places:
    """Take both after all steps; losses are the same only where both are saturated."""
    if not (saturated(first, size) and saturated(second, size)):
        raise UnreachableKL("One of the two does not end saturated in every seed.")
    return None, None


def _equal_kl(first: Results, second: Results, size: str) -> Places:
    """Take both at the smallest KL that all their runs reach."""
    kl = shared_kl([first, second], (size,))
    return kl, kl


SAME_KL = 0.15
"""Share of a KL by which another may differ that counts as equal."""


def _cooled(first: Results, second: Results, size: str) -> Places:
    """Take both after all steps, if they are saturated and their KLs shown to be equal.

    They are where their difference and two standard errors of it stay within `SAME_KL`: so a noisier pair is
    refused, not taken for equal.
    """
    _ends_of(first, second, size)
    difference, error = kl_difference(first, second, size)
    margin = SAME_KL * final(second).kl_mean.mean()
    if not abs(difference) + 2 * error <= margin:  # of one seed the error is not known
        raise UnreachableKL(
            f"The KLs of the two differ by {difference:.2g} nats with a standard error of {error:.2g}: "
            f"they are not equal within {margin:.2g}."
        )
    return None, None


def kl_difference(first: Results, second: Results, size: str) -> tuple[float, float]:
    """Return the mean difference of two groups' last KLs (nats), and its standard error.

    The seeds are paired; the error counts their spread and that of the sentences.
    """
    own, other = (final(r)[lambda t: t["size"] == size].sort_values("seed") for r in (first, second))
    differences = own.kl_mean.to_numpy() - other.kl_mean.to_numpy()
    spread = differences.std(ddof=1) / np.sqrt(len(differences)) if len(differences) > 1 else np.nan
    sentences = np.hypot(own.kl_standard_error.mean(), other.kl_standard_error.mean())
    return float(differences.mean()), float(np.hypot(spread, sentences))


PLACES = {
    Compared.ENDS: _ends_of,
    Compared.COOLED: _cooled,
    Compared.EQUAL_KL: _equal_kl,
}


def arm_gain(first: Results, second: Results, task: str, compared: Compared = Compared.ENDS) -> Interval:
    """Return the gain in accuracy of one algorithm over another, in points, the mean over their sizes."""
    return _or_undefined(lambda: gain(_pairs(first, second, compared, partial(accuracy, task=task))))


def arm_trace_excess(first: Results, second: Results, compared: Compared = Compared.ENDS) -> Interval:
    """Return trace(first) / trace(second) - 1 of two algorithms, the geometric mean over their sizes."""
    return _or_undefined(lambda: excess(_pairs(first, second, compared, log_traces)))


def _pairs(
    first: Results, second: Results, compared: Compared, measure: Callable[..., T]
) -> list[tuple[T, T]]:
    """Return, for each size, what is measured of either algorithm where they are compared."""
    places = {size: PLACES[compared](first, second, size) for size in first.sizes}
    return [(measure(first, size, kl=a), measure(second, size, kl=b)) for size, (a, b) in places.items()]


def equivalence(effect: Interval, margin: float) -> Interval:
    """Return margin - |effect|: positive where the effect is smaller than the margin in either direction.

    >>> equivalence(Interval(-0.5, -1.0, 0.25), margin=2.0)
    Interval(value=1.5, low=1.0, high=2.0)
    """
    largest = max(abs(effect.low), abs(effect.high))
    smallest = 0.0 if effect.low <= 0 <= effect.high else min(abs(effect.low), abs(effect.high))
    return Interval(margin - abs(effect.value), margin - largest, margin - smallest)


# Traces


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
    return _or_undefined(lambda: excess([_ends_at_equal_kl(results)]))


def trace_of_larger_matched(results: Results) -> Interval:
    """Return trace(largest) / trace(smallest) - 1 there: the same the other way round."""
    return _or_undefined(lambda: excess([_ends_at_equal_kl(results)[::-1]]))


def _ends_at_equal_kl(results: Results) -> tuple[LogTraces, LogTraces]:
    """Return the traces of the smallest and of the largest size at the smallest KL that both reach."""
    small, large = ends = _ends(results)
    kl = shared_kl([results], ends)
    return log_traces(results, small, kl=kl), log_traces(results, large, kl=kl)


def smallest_over_largest(results: Results, last: pd.DataFrame) -> Interval:
    """Return the excess of the smallest size's trace over the largest's.

    Args:
        results: decide whether the two can be compared.
        last: one row a last checkpoint: size, seed, trace, trace_se.

    """

    def compute() -> Interval:
        small, large = (log_traces_of(last[last["size"] == size]) for size in _ends(results))
        return excess([(small, large)])

    return _or_undefined(compute)


# Correlations


def size_correlation(results: Results, task: str) -> Interval:
    """Return the signed r² over the last checkpoints of all saturated sizes (Figure 5)."""
    return signed_r2(trajectories_of(ends_of_sizes(results), task))


def ends_of_sizes(results: Results) -> pd.DataFrame:
    """Return the last checkpoints of the saturated sizes; none of fewer than three sizes.

    Of two sizes a correlation would be their difference, and of one the spread of its seeds.
    """
    table, good = final(results), saturated_sizes(results)
    return table[table["size"].isin(good if len(good) > 2 else [])]


def step_correlation(results: Results, task: str) -> Interval:
    """Return the signed r² over all saturated checkpoints (Figures 3 and 10)."""
    counted = results.on_sampled_labels
    return signed_r2(trajectories_of(counted[counted.saturated], task))


# Saturation


def reaches_entropy(results: Results, limit: float, sizes: Iterable[str] | None = None) -> Interval:
    """Return `limit` - KL, in nats a token, of the size (of some or all) that is furthest from the entropy.

    Its interval is over pre-training seeds. It is undefined where one of the sizes does not end saturated:
    a training that is too short says nothing of where a longer one ends.
    """
    sizes = tuple(sizes or results.sizes)
    if not saturated(results, *sizes):
        return UNDEFINED
    last, margins = final(results), []
    for size in sizes:
        margins.append(seed_interval(limit - last[last["size"] == size].kl_mean.to_numpy()))
    return min(margins)


def last_fall_of_log_kl(results: Results) -> Interval:
    """Return by how much log KL falls over the last doubling of the steps, the mean over saturated sizes."""
    sizes, last, exact = saturated_sizes(results), results.steps[-1], results.group.exact_steps
    before = max((step for step in results.steps if exact < step <= last / 2), default=None)
    if before is None or not sizes:
        return UNDEFINED
    kl = results.checkpoints.pivot(index="seed", columns=["size", "step"], values="kl_mean")
    return seed_interval(np.mean([np.log(kl[size, before] / kl[size, last]) for size in sizes], axis=0))


def less_than(limit: float, effect: Interval) -> Interval:
    """Return limit - effect: positive where the effect stays below the limit.

    >>> less_than(2.0, Interval(0.5, 0.25, 1.0))
    Interval(value=1.5, low=1.0, high=1.75)
    """
    return Interval(limit - effect.value, limit - effect.high, limit - effect.low)


# Sweeps


def equally_cooled(treated: Iterable[Results]) -> list[Results]:
    """Return the treated groups whose KL is equal to that of the first, which is among them."""
    untreated, *others = treated
    excesses = [arm_trace_excess(other, untreated, Compared.COOLED) for other in others]
    return [untreated, *(o for o, e in zip(others, excesses, strict=True) if not np.isnan(e.value))]


def dose_response(treated: Iterable[Results], task: str) -> Interval:
    """Return the points of accuracy gained where a treatment makes the trace fall by a factor e.

    Args:
        treated: cooled groups of one size, the untreated one first; those of another KL are left out.
        task: downstream task.

    """
    last = pd.concat([final(results) for results in equally_cooled(treated)], ignore_index=True)
    return dose_slope(last, task)


def strongest_saturated(sweep: Iterable[Results]) -> Results | None:
    """Return the last of a sweep, ordered by strength, whose seeds all end saturated.

    The rule by which one of a sweep is judged: it looks at the loss alone.
    """
    good = [results for results in sweep if saturated(results, *results.sizes)]
    return good[-1] if good else None
