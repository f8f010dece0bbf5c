"""Estimates, Student's intervals over seeds and of paired differences, Holm's correction."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from sameloss.statistics.intervals import (
    LEVEL,
    UNDEFINED,
    Estimate,
    Interval,
    holm_levels,
    least,
    p_value,
    seed_interval,
    within,
)


def test_estimate_of_draws():
    estimate = Estimate.of(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert estimate.mean == 2.5
    assert estimate.standard_error == pytest.approx(math.sqrt(5 / 3) / 2)


def test_the_standard_error_is_scipys():
    values = torch.randn(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert Estimate.of(values).standard_error == pytest.approx(stats.sem(values.numpy()), rel=1e-12)


def test_the_error_of_one_draw_is_unknown():
    estimate = Estimate.of(torch.tensor([3.0]))
    assert (estimate.mean, estimate.count) == (3.0, 1)
    assert math.isnan(estimate.standard_error)


def test_sums_in_float32_keep_their_digits():
    values = torch.full((100_000,), 0.1)
    assert Estimate.of(values).mean == pytest.approx(float(values[0]), rel=1e-12)


def test_the_interval_over_seeds_is_students_whatever_their_order():
    values = np.array([0.1, 0.5, 0.3])
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert seed_interval(values) == pytest.approx((0.3, *expected))
    assert seed_interval(values[::-1]) == pytest.approx(seed_interval(values))
    assert f"{seed_interval([1.0]):.0f} {seed_interval([]):.0f}" == "1 –"


def test_interval_and_p_value_are_scipys():
    values = np.random.default_rng(0).normal(1.0, 2.0, 9)
    theirs = stats.ttest_1samp(values, 0.0)
    assert p_value(values) == pytest.approx(theirs.pvalue)
    assert seed_interval(values, 0.9)[1:] == pytest.approx(tuple(theirs.confidence_interval(0.9)))


def test_one_difference_has_no_interval():
    result = seed_interval([2.0])
    assert result.value == 2.0
    assert np.isnan([result.low, result.high, p_value(np.array([2.0]))]).all()
    assert np.isnan(seed_interval([]).value)


def test_the_interval_has_its_coverage():
    rng = np.random.default_rng(1)
    covered = [p.low <= 0.5 <= p.high for p in (seed_interval(rng.normal(0.5, 1.0, 4)) for _ in range(2000))]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


def step_down(ps, alpha=0.05):
    """Holm's test as published."""
    rejected, order = set(), np.argsort(ps)
    for rank, index in enumerate(order):
        if ps[index] > alpha / (len(ps) - rank):
            break
        rejected.add(index)
    return rejected


def test_intervals_at_their_level_exclude_zero_where_the_step_down_test_rejects():
    rng = np.random.default_rng(2)
    for _ in range(200):
        ps = rng.uniform(0, 0.06, 5)
        levels = holm_levels(ps.tolist())
        rejected = {i for i, (p, level) in enumerate(zip(ps, levels, strict=True)) if p <= 1 - level}
        assert rejected == step_down(ps)


def test_missing_p_values_come_last():
    assert holm_levels([float("nan"), 0.001]) == pytest.approx([0.95, 0.975])


# The smallest of several effects.


def test_an_effect_alone_is_the_smallest():
    values = [0.1, 0.7, 0.4]
    assert least([values]) == pytest.approx(seed_interval(values))
    assert math.isnan(least([]).value)
    assert all(math.isnan(end) for end in least([values, [math.nan, 1.0, 1.0]]))


@pytest.mark.parametrize(
    "means", [np.full(12, 0.5), np.array([0.5, *np.full(11, 5.0)]), np.linspace(0.5, 1, 12)]
)
def test_either_end_misses_the_smallest_effect_in_a_fortieth_at_most(means):
    """Of twelve with much noise; the mean of each seed's smallest misses it nearly always."""
    rng = np.random.default_rng(0)
    draws = means[:, None] + rng.normal(size=(400, 12, 15))
    found = np.array([least(list(draw)) for draw in draws])
    most = stats.binom.ppf(0.999, 400, (1 - LEVEL) / 2)
    assert (found[:, 1] > 0.5).sum() <= most
    assert (found[:, 2] < 0.5).sum() <= most
    if np.ptp(means) < 1:
        naive = np.array([seed_interval(draw.min(0)) for draw in draws])
        assert (naive[:, 2] < 0.5).mean() > 0.9


def test_the_smallest_effect_is_above_zero_where_each_effect_is():
    rng = np.random.default_rng(1)
    for draw in 0.6 + rng.normal(size=(50, 3, 15)):
        assert (least(list(draw)).low > 0) == all(seed_interval(values).low > 0 for values in draw)


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        (Interval(0.0, -0.1, 0.1), (0.35, 0.25, 0.35)),
        (Interval(-0.3, -0.4, -0.2), (0.05, -0.05, 0.15)),
        (Interval(0.5, 0.4, 0.6), (-0.15, -0.25, -0.05)),
    ],
)
def test_a_margin_counts_in_both_directions(difference, expected):
    assert within(difference, 0.35) == pytest.approx(expected)
    assert math.isnan(within(UNDEFINED, 0.35).value)
