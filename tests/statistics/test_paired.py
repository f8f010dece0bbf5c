"""Student's interval agrees with SciPy's; Holm's levels reject what the step-down test rejects."""

import numpy as np
import pytest
from scipy import stats

from sameloss.statistics.intervals import holm_levels, paired


def test_the_interval_is_scipys():
    values = np.random.default_rng(0).normal(1.0, 2.0, 9)
    ours = paired(values, 0.9)
    theirs = stats.ttest_1samp(values, 0.0)
    assert ours.p == pytest.approx(theirs.pvalue)
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval(0.9)))


def test_one_difference_has_no_interval():
    found = paired(np.array([2.0]))
    assert (found.mean, found.replicates) == (2.0, 1)
    assert np.isnan([found.low, found.high, found.p]).all()
    assert np.isnan(paired(np.array([])).mean)


def test_the_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(1)
    covered = [p.low <= 0.5 <= p.high for p in (paired(rng.normal(0.5, 1.0, 4)) for _ in range(2000))]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


def step_down(ps, alpha=0.05):
    """Holm's test as it is written down."""
    rejected, order = set(), np.argsort(ps)
    for rank, index in enumerate(order):
        if ps[index] > alpha / (len(ps) - rank):
            break
        rejected.add(index)
    return rejected


def test_an_interval_at_its_level_excludes_zero_where_the_step_down_test_rejects():
    rng = np.random.default_rng(2)
    for _ in range(200):
        ps = rng.uniform(0, 0.06, 5)
        levels = holm_levels(ps.tolist())
        rejected = {i for i, (p, level) in enumerate(zip(ps, levels, strict=True)) if p <= 1 - level}
        assert rejected == step_down(ps)


def test_what_has_no_p_value_comes_last():
    assert holm_levels([float("nan"), 0.001]) == pytest.approx([0.95, 0.975])
