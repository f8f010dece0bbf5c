"""The law of the noise's sum, against numerical integration and simulation."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sameloss.studies.local_signal.theory import RowSum, soft_threshold

CASES = [(0.3, -0.2), (0.3, 0.0), (0.3, 0.15), (1.0, -2.5)]


@pytest.mark.parametrize(("s", "b"), CASES)
def test_one_rows_characteristic_function_is_its_integral(s, b):
    u, corners = np.array([0.1, 1.0, 7.0]), [-abs(b) / s, abs(b) / s]

    def integrand(z, frequency):
        return np.cos(frequency * soft_threshold(s * z, b)) * norm.pdf(z)

    expected = [quad(integrand, -12, 12, args=(own,), points=corners, limit=400)[0] for own in u]
    np.testing.assert_allclose(1 + RowSum(1, s, b).at(u).less_one, expected, atol=1e-9)


@pytest.mark.parametrize(("s", "b"), [case for case in CASES if case[1]])
def test_its_derivatives_are_those_of_differences(s, b):
    u, step = np.array([0.3, 2.0, 9.0]), 1e-6

    def psi(s, b):
        return RowSum(1, s, b).at(u).less_one

    found = RowSum(1, s, b).at(u)
    np.testing.assert_allclose(found.by_s, (psi(s + step, b) - psi(s - step, b)) / (2 * step), atol=1e-7)
    np.testing.assert_allclose(found.by_b, (psi(s, b + step) - psi(s, b - step)) / (2 * step), atol=1e-7)


def test_powers_keep_their_precision_where_few_rows_survive():
    row = RowSum(10, 1.0, -9.0).at(np.array([1.0]))
    assert row.power_less_one(10)[0] == pytest.approx(10 * row.less_one[0], rel=1e-12)
    assert -1e-16 < row.less_one[0] < 0


def test_shares_of_rows_that_survive():
    own = RowSum(3, 0.5, -1.0)
    assert own.surviving == pytest.approx(2 * norm.sf(2.0))
    assert own.atom == pytest.approx((1 - 2 * norm.sf(2.0)) ** 3)
    assert (RowSum(3, 0.5, 0.0).surviving, RowSum(3, 0.5, 0.2).atom) == (1.0, 0.0)
