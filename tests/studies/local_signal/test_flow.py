"""Exact flow and descent: recorded numbers, agreement with each other, and the best filter."""

import numpy as np
import pytest

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.theory import (
    Filter,
    Patches,
    Rates,
    accuracy,
    best_threshold,
    descend,
    flow,
    is_dead,
    may_die,
    population,
    thesis_rates,
)

START = Filter(1e-6, 1e-6, 0.0)


def test_a_flow_is_the_limit_of_descent():
    patches, start = Patches(100), Filter(0.2, 0.1, -0.05)
    coarse, fine = (descend(patches, start, Rates(0.4 / n, 0.004 / n), 50 * n).iloc[-1] for n in (4, 8))
    exact = flow(patches, start, Rates(0.4, 0.004), np.array([0.0, 50.0])).iloc[-1]
    for name in ("c", "b"):
        assert abs(fine[name] - exact[name]) < abs(coarse[name] - exact[name]) < 0.02 * abs(exact[name])


def test_descent_takes_the_gradient():
    patches, rates = Patches(30), Rates(0.1, 0.02)
    table = descend(patches, Filter(0.3, 0.2, -0.1), rates, 1)
    found = population(patches, Filter(0.3, 0.2, -0.1))
    np.testing.assert_allclose(
        table.iloc[1][["c", "v", "b"]],
        [0.3 - 0.1 * found.by_c, 0.2 - 0.1 * found.by_v, -0.1 - 0.02 * found.by_b],
    )
    assert table.loss[0] == found.loss


def test_the_settings_of_figure_33():
    """An independent pilot had these, by inverse Fourier transforms of the density at 999 rows of noise."""
    patches = Patches(1000)
    table = flow(patches, START, thesis_rates(patches, 0.1), np.array([0.0, 1.0, 1000.0, 10_000.0]))
    np.testing.assert_allclose(table.c[1:], [0.0290, 0.2247, 0.8549], rtol=2e-3)
    np.testing.assert_allclose(table.b[2:], [-0.0658, -0.3766], rtol=2e-3)
    np.testing.assert_allclose(table.accuracy[1:], [0.558, 0.653, 0.7825], atol=1e-3)


@pytest.mark.parametrize(("k", "best"), [(100, 0.628), (300, 0.773), (700, 0.982), (800, 0.991), (3000, 1.0)])
def test_the_best_filter(k, best):
    ratio, found = best_threshold(Patches(k))
    assert found == pytest.approx(best, abs=6e-4)
    around = [
        accuracy(Patches(k), Filter(1.0, v, b)) for v in (0.0, 0.1, 0.5) for b in np.linspace(-1, 1, 41)
    ]
    assert found >= max(around) - 1e-9
    assert 0 < ratio < 1


def test_a_negative_start_dies_at_a_small_rate_and_not_at_a_large_one():
    patches, start = Patches(100), Filter(-0.5, 0.01, 0.0)
    ends = {}
    for lr in (0.005, 0.2):
        last = descend(patches, start, thesis_rates(patches, lr), round(5 / lr)).iloc[-1]
        ends[lr] = is_dead(Filter(last.c, last.v, last.b))
    assert ends == {0.005: True, 0.2: False}
    assert may_die(patches, start, 0.005)
    assert not may_die(patches, start, 0.2)
    assert not may_die(patches, Filter(0.5, 0.01, 0.0), 0.005)


def test_rates_are_positive():
    with pytest.raises(ParameterError, match="w must be positive and finite; got 0"):
        Rates(0.0, 0.1)
