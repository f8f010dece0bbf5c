"""Do flatter checkpoints do better downstream? Associations with intervals that count runs.

Figures 3, 5 and 10 give an r² over checkpoints. Those of one run are not independent, so intervals
here resample whole runs, within each size. They are conditional on what does not vary between
seeds: the sizes, the steps of the checkpoints, the corpus and language, the test sentences. The
associations are of traces, accuracies and KL as measured: errors of measurement that differ
between checkpoints weaken them and are not removed.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.stats import t

from sameloss.statistics.bootstrap import LEVEL, REPLICATES, Interval

UNDEFINED = Interval(float("nan"), float("nan"), float("nan"))

ROUNDING = 1e-12
"""A variance that falls below this share of what it was is zero."""

Run = Float[np.ndarray, "quantity _"]
"""Rows flatness (-log trace), accuracy (points) and perhaps log KL; one column a checkpoint."""

Runs = list[list[Run]]
"""For each size its runs."""

Moments = Float[np.ndarray, "draw variable variable"]
"""Sums over checkpoints of products of the rows of a run and, last, of the constant one."""


def runs_of(table: pd.DataFrame, accuracy_column: str) -> Runs:
    """Return the runs of a table of checkpoints, by size.

    Args:
        table: one row a checkpoint: size, seed, trace, the accuracy and, for `partial_r2`, kl_mean.
        accuracy_column: where the accuracy (points) is.

    """
    quantities = [-np.log(table.trace), table[accuracy_column]]
    return _grouped(table, quantities + ([np.log(table.kl_mean)] if "kl_mean" in table else []))


def _grouped(table: pd.DataFrame, quantities: list[pd.Series]) -> Runs:
    """Return rows of quantities, split into the table's sizes and runs."""
    values = np.stack(quantities).astype(np.float64)
    return [
        [values[:, run.index] for _, run in part.groupby("seed")]
        for _, part in table.reset_index(drop=True).groupby("size", sort=False)
    ]


def signed_r2(runs: Runs) -> Interval:
    """Return r² of accuracy with flatness over all checkpoints, with the sign of r.

    What differs between sizes, or along training, counts as association, as in the figures.
    Undefined (NaN) below three runs or two of a size, or where one of the two is constant.
    """
    return _squared(_interval(runs, lambda sizes: _fisher_z(_residual(sum(sizes)))))


def within_size_r2(runs: Runs) -> Interval:
    """Return signed r² after subtracting each size's means: differences of sizes do not make it.

    What rises along training in all runs still counts. Undefined as `signed_r2`.
    """
    return _squared(_interval(runs, lambda sizes: _fisher_z(sum(map(_residual, sizes)))))


def partial_r2(runs: Runs) -> Interval:
    r"""Return the signed square of the partial correlation of accuracy and flatness given log KL.

    Over all checkpoints, the correlation of what regressions on log KL leave of either:

        corr(accuracy - a - b \log KL, flatness - c - d \log KL).

    Only linear dependence on log KL is removed, the same for all sizes. Undefined as `signed_r2`,
    and below four checkpoints, without KL, or where log KL is constant or explains either fully.
    """
    return _squared(_interval(runs, _partial_z))


def slope(runs: Runs) -> Interval:
    """Return the least-squares slope of accuracy on flatness, points an e-fold of the trace.

    Over all checkpoints; undefined as `signed_r2`.
    """
    return _interval(runs, lambda sizes: _slope(_residual(sum(sizes))))


def step_slope(table: pd.DataFrame, accuracy_column: str) -> Interval:
    """Return the points of accuracy gained for each doubling of the steps at equal KL.

    The coefficient of log2 step in a least-squares regression of accuracy on it and log KL, all taken as
    deviations from the mean of their run: what differs between runs does not count. Along one run log
    KL almost follows from the step, so intervals are wide. Undefined as `signed_r2`, and where log KL is
    constant or explains either.

    Args:
        table: one row a checkpoint: size, seed, step (positive), kl_mean and the accuracy.
        accuracy_column: where the accuracy (points) is.

    """
    quantities = [np.log2(table.step), table[accuracy_column], np.log(table.kl_mean)]
    runs = _grouped(table, [q - q.groupby([table["size"], table.seed]).transform("mean") for q in quantities])
    return _interval(runs, lambda sizes: _slope(_residual(_residual(sum(sizes)))))


Statistic = Callable[[list[Moments]], Float[np.ndarray, " draw"]]
"""From the moments of each size to a number, for every draw at once."""


def _interval(runs: Runs, statistic: Statistic) -> Interval:
    r"""Return a statistic with its interval from resamples of whole runs within each size.

    The interval is the value plus and minus the resamples' standard deviation times

        \sqrt{n / (n - 1)} t_{0.975, ν},    n runs of the size with the fewest,

    because resamples of n runs understate their variance by (n - 1) / n, and it is known to as many
    degrees of freedom ν as there are runs more than sizes. It is not made of percentiles: with few runs
    a resampled r² is biased upwards, since runs lose variance when they are drawn twice, and sizes and
    steps do not. Resamples in which the statistic is undefined are left out.
    """
    seeds, freedom = min(map(len, runs), default=0), sum(map(len, runs)) - len(runs)
    if seeds < 2 or freedom + len(runs) < 3:
        return UNDEFINED
    origin = runs[0][0][:, :1]
    moments = [np.stack([_moments(run - origin) for run in size]) for size in runs]
    value = float(statistic([size.sum(0, keepdims=True) for size in moments])[0])
    if np.isnan(value):
        return UNDEFINED
    draws = _draws(tuple(map(len, runs)), REPLICATES)
    drawn = statistic([size[which].sum(1) for size, which in zip(moments, draws, strict=True)])
    half = (seeds / (seeds - 1)) ** 0.5 * t.ppf((1 + LEVEL) / 2, freedom) * drawn[np.isfinite(drawn)].std()
    return Interval(value, float(value - half), float(value + half))


@cache
def _draws(seeds: tuple[int, ...], count: int) -> list[Int[np.ndarray, "{count} _"]]:
    """Return, for each size, the runs in each resample: the same for all statistics of these runs."""
    rng = np.random.default_rng(0)
    drawn = [[rng.integers(0, runs, runs) for runs in seeds] for _ in range(count)]
    return [np.stack(size) for size in zip(*drawn, strict=True)]


def _squared(interval: Interval) -> Interval:
    """Return signed r² from Fisher's z."""
    return Interval(*(float(np.sign(z) * np.tanh(z) ** 2) for z in interval))


def _moments(run: Run) -> Float[np.ndarray, "variable variable"]:
    with_one = np.vstack([run, np.ones(run.shape[1])])
    return with_one @ with_one.T


def _residual(moments: Moments) -> Float[np.ndarray, "draw rest rest"]:
    """Return the moments of what a regression on the last variable leaves of the others.

    (On the constant: of deviations from the mean.) What is left is zero where it is only rounding.
    """
    pivot, cross = moments[..., -1:, -1:], moments[..., :-1, -1:]
    left = moments[..., :-1, :-1] - cross * cross.swapaxes(-1, -2) / np.where(pivot > 0, pivot, np.nan)
    before, after = (np.diagonal(both, axis1=-2, axis2=-1) for both in (moments[..., :-1, :-1], left))
    varies = after > ROUNDING * before
    return left * (varies[..., :, None] & varies[..., None, :])


def _fisher_z(moments: Moments) -> Float[np.ndarray, " draw"]:
    """Return artanh of the correlation of flatness and accuracy; NaN where one is constant."""
    product = moments[..., 0, 0] * moments[..., 1, 1]
    correlation = moments[..., 0, 1] / np.sqrt(np.where(product > 0, product, np.nan))
    return np.arctanh(np.clip(correlation, -0.9999, 0.9999))


def _slope(moments: Moments) -> Float[np.ndarray, " draw"]:
    """Return the slope of accuracy on flatness; NaN where one is constant."""
    varies = moments[..., 0, 0] * moments[..., 1, 1] > 0
    return moments[..., 0, 1] / np.where(varies, moments[..., 0, 0], np.nan)


def _partial_z(sizes: list[Moments]) -> Float[np.ndarray, " draw"]:
    """Return artanh of the partial correlation given the third row; NaN where it is undefined."""
    moments = sum(sizes)
    checkpoints = moments[..., -1, -1]
    if moments.shape[-1] < 4:
        return np.full(checkpoints.shape, np.nan)
    return np.where(checkpoints > 3, _fisher_z(_residual(_residual(moments))), np.nan)
