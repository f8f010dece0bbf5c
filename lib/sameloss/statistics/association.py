"""Do flatter checkpoints do better downstream? Associations with intervals that count trainings.

Figures 3, 5 and 10 give an r² over checkpoints. Checkpoints of one training are not independent, so
intervals here resample whole trajectories: all checkpoints of one training together, within each size.
The intervals are conditional on what does not vary between seeds: the sizes, the steps of the
checkpoints, the corpus and language, the test sentences. The associations are of traces, accuracies
and KL as measured: errors of measurement that differ between checkpoints weaken them and are not
removed.
"""

from collections.abc import Callable, Iterable
from functools import cache, reduce

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.stats import t

from sameloss.statistics.bootstrap import LEVEL, REPLICATES, UNDEFINED, Interval

ROUNDING = 1e-12
"""A variance that falls below this share of what it was is zero."""

Trajectory = Float[np.ndarray, "quantity _"]
"""One training: rows flatness (-log trace), accuracy (points) and perhaps log KL, a column a checkpoint."""

Trajectories = list[list[Trajectory]]
"""For each size its trainings."""

Moments = Float[np.ndarray, "draw variable variable"]
"""Sums over checkpoints of products of the rows of a trajectory and, last, of the constant one."""


def trajectories_of(table: pd.DataFrame, accuracy_column: str) -> Trajectories:
    """Collect the checkpoints of a table into one trajectory for each size and seed.

    Args:
        table: one row a checkpoint, with the columns size, seed, trace, the accuracy and, for
            `partial_r2`, kl_mean (nats a masked token).
        accuracy_column: the column that holds the accuracy (points).

    Returns:
        The trajectories of each size, sizes and seeds in the order of the table.

    >>> table = pd.DataFrame({"size": ["1K", "1K"], "seed": [0, 0], "trace": [1.0, np.e], "B": [70, 65]})
    >>> trajectories_of(table, "B")
    [[array([[-0., -1.],
           [70., 65.]])]]

    """
    quantities = [-np.log(table.trace), table[accuracy_column]]
    return _grouped(table, quantities + ([np.log(table.kl_mean)] if "kl_mean" in table else []))


def _grouped(table: pd.DataFrame, quantities: list[pd.Series]) -> Trajectories:
    """Stack the quantities as rows and split their columns by the table's sizes and seeds."""
    values = np.stack(quantities).astype(np.float64)
    return [
        [values[:, own.index] for _, own in part.groupby("seed")]
        for _, part in table.reset_index(drop=True).groupby("size", sort=False)
    ]


def signed_r2(trajectories: Trajectories) -> Interval:
    """Estimate r² of accuracy with flatness over all checkpoints, with the sign of r (Figures 3, 5, 10).

    What differs between sizes, or along training, counts as association, as in the figures.

    Args:
        trajectories: see `trajectories_of`.

    Returns:
        The signed r² with its 95 % interval. It is `UNDEFINED` where there are fewer than three
        trainings or two of a size, or where accuracy or flatness does not vary.

    >>> rise = np.array([0.0, 1.0, 2.0])
    >>> trainings = [np.stack([rise, 60 + level + 3 * rise]) for level in (0, 1, -1, 2, -2)]
    >>> [round(end, 3) for end in signed_r2([trainings])]
    [0.75, 0.133, 0.957]

    """
    return _squared(_interval(trajectories, lambda sizes: _fisher_z(_residual(_total(sizes)))))


def within_size_r2(trajectories: Trajectories) -> Interval:
    """Estimate the signed r² after each size's means are subtracted, so that sizes do not make it.

    What rises along training in all trajectories still counts.

    Args:
        trajectories: see `trajectories_of`.

    Returns:
        The signed r² with its 95 % interval, `UNDEFINED` where `signed_r2` is.

    """
    return _squared(_interval(trajectories, lambda sizes: _fisher_z(_total(map(_residual, sizes)))))


def partial_r2(trajectories: Trajectories) -> Interval:
    r"""Estimate the signed square of the partial correlation of accuracy and flatness given log KL.

    It is the correlation, over all checkpoints, of what regressions on log KL leave of either:

        corr(accuracy - a - b \log KL, flatness - c - d \log KL).

    Only linear dependence on log KL is removed, the same for all sizes.

    Args:
        trajectories: see `trajectories_of`, with log KL.

    Returns:
        The signed square with its 95 % interval. It is `UNDEFINED` where `signed_r2` is, below four
        checkpoints, without KL, and where log KL is constant or explains either quantity fully.

    """
    return _squared(_interval(trajectories, _partial_z))


def slope(trajectories: Trajectories) -> Interval:
    """Estimate the least-squares slope of accuracy on flatness, over all checkpoints.

    Args:
        trajectories: see `trajectories_of`.

    Returns:
        The points of accuracy gained where the trace falls by a factor e, with their 95 % interval,
        `UNDEFINED` where `signed_r2` is.

    >>> rise = np.array([0.0, 1.0, 2.0])
    >>> trainings = [np.stack([rise, 60 + gain * rise]) for gain in (3.0, 2.8, 3.2)]
    >>> [round(end, 2) for end in slope([trainings])]
    [3.0, 2.51, 3.49]

    """
    return _interval(trajectories, lambda sizes: _slope(_residual(_total(sizes))))


def step_slope(table: pd.DataFrame, accuracy_column: str) -> Interval:
    """Estimate the points of accuracy gained for each doubling of the steps at equal KL.

    They are the coefficient of log2 step in a least-squares regression of accuracy on log2 step and log
    KL. All three are taken as deviations from the mean of their trajectory, so that what differs between
    trainings does not count. Along one training log KL almost follows from the step, so intervals are
    wide.

    Args:
        table: one row a checkpoint, with the columns size, seed, step (positive), kl_mean (nats a masked
            token) and the accuracy.
        accuracy_column: the column that holds the accuracy (points).

    Returns:
        The points with their 95 % interval. It is `UNDEFINED` where `signed_r2` is, and where log KL is
        constant or explains either quantity.

    """
    quantities = [np.log2(table.step), table[accuracy_column], np.log(table.kl_mean)]
    centred = [q - q.groupby([table["size"], table.seed]).transform("mean") for q in quantities]
    return _interval(_grouped(table, centred), lambda sizes: _slope(_residual(_residual(_total(sizes)))))


def dose_slope(table: pd.DataFrame, accuracy_column: str) -> Interval:
    """Estimate the slope of accuracy on flatness over treatments of the same models, within seeds.

    Flatness and accuracy are taken as deviations from the mean of their seed, so that what differs between
    seeds does not count.

    Args:
        table: one row a model, with the columns size, seed, trace and the accuracy.
        accuracy_column: the column that holds the accuracy (points).

    Returns:
        The points of accuracy gained where a treatment makes the trace fall by a factor e, with their 95 %
        interval over seeds, `UNDEFINED` where `signed_r2` is.

    >>> treated = {"trace": 3 * [np.e, 1.0], "B": [70, 72, 80, 83, 60, 61]}
    >>> table = pd.DataFrame({"size": "1K", "seed": [0, 0, 1, 1, 2, 2], **treated})
    >>> [round(end, 2) for end in dose_slope(table, "B")]
    [2.0, -0.47, 4.47]

    """
    quantities = [-np.log(table.trace), table[accuracy_column].astype(np.float64)]
    centred = [q - q.groupby([table["size"], table.seed]).transform("mean") for q in quantities]
    return _interval(_grouped(table, centred), lambda sizes: _slope(_residual(_total(sizes))))


Statistic = Callable[[list[Moments]], Float[np.ndarray, " draw"]]
"""From the moments of each size to a number, for every draw at once."""


def _interval(trajectories: Trajectories, statistic: Statistic) -> Interval:
    r"""Return a statistic with its interval from resamples of whole trajectories within each size.

    The interval is the value plus and minus the resamples' standard deviation times

        \sqrt{n / (n - 1)} t_{0.975, ν},    n trajectories of the size with the fewest,

    because resamples of n trajectories understate their variance by (n - 1) / n, and it is known to as
    many degrees of freedom ν as there are trajectories more than sizes. It is not made of percentiles:
    with few trajectories a resampled r² is biased upwards, since they lose variance when they are drawn
    twice, and sizes and steps do not. Resamples in which the statistic is undefined are left out.
    """
    counts = [len(size) for size in trajectories]
    seeds, freedom = min(counts, default=0), sum(counts) - len(counts)
    if seeds < 2 or sum(counts) < 3:
        return UNDEFINED
    origin = trajectories[0][0][:, :1]
    moments = [np.stack([_moments(own - origin) for own in size]) for size in trajectories]
    value = float(statistic([size.sum(0, keepdims=True) for size in moments])[0])
    if np.isnan(value):
        return UNDEFINED
    draws = _draws(tuple(counts), REPLICATES)
    drawn = statistic([size[which].sum(1) for size, which in zip(moments, draws, strict=True)])
    half = (seeds / (seeds - 1)) ** 0.5 * t.ppf((1 + LEVEL) / 2, freedom) * drawn[np.isfinite(drawn)].std()
    return Interval(value, float(value - half), float(value + half))


@cache
def _draws(seeds: tuple[int, ...], count: int) -> list[Int[np.ndarray, "{count} _"]]:
    """Draw, for each size, the seeds in each resample: the same ones for all statistics."""
    rng = np.random.default_rng(0)
    drawn = [[rng.integers(0, own, own) for own in seeds] for _ in range(count)]
    return [np.stack(size) for size in zip(*drawn, strict=True)]


def _squared(interval: Interval) -> Interval:
    """Turn Fisher's z of a correlation into its signed square."""
    return Interval(*(float(np.sign(z) * np.tanh(z) ** 2) for z in interval))


def _moments(trajectory: Trajectory) -> Float[np.ndarray, "variable variable"]:
    with_one = np.vstack([trajectory, np.ones(trajectory.shape[1])])
    return with_one @ with_one.T


def _total(sizes: Iterable[Moments]) -> Moments:
    return reduce(np.add, sizes)


def _residual(moments: Moments) -> Float[np.ndarray, "draw rest rest"]:
    """Return the moments of what a regression on the last variable leaves of the others.

    A regression on the constant leaves deviations from the mean. What is left only by rounding is zero.
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
    moments = _total(sizes)
    checkpoints = moments[..., -1, -1]
    if moments.shape[-1] < 4:
        return np.full(checkpoints.shape, np.nan)
    return np.where(checkpoints > 3, _fisher_z(_residual(_residual(moments))), np.nan)
