"""Exponents: planted ones are found, and their intervals cover as often as they say."""

import numpy as np
import pytest

from sameloss.errors import ParameterError
from sameloss.statistics.bootstrap import seed_interval
from sameloss.studies.stability.theory import exponent, fitted

SIZES = (80, 160, 320, 640)


@pytest.mark.parametrize("b", [-1.2, 0.0, 0.8])
def test_a_planted_exponent_is_found(b):
    values = 3 * np.array(SIZES, float) ** b
    assert exponent(SIZES, values) == pytest.approx(b)
    a, found = fitted(SIZES, values)
    assert (a, found) == pytest.approx((3, b), abs=1e-6)


def test_intervals_over_seeds_cover_the_exponent_of_the_largest_of_pairs():
    """β of a pair is log-normal around a power law; of each seed the largest of six is taken."""
    rng, covered = np.random.default_rng(0), 0
    law = np.array(SIZES, float) ** -0.5
    for _ in range(500):
        seeds = rng.normal(size=(5, 1, 1))  # what a seed's initialisation does to all its pairs
        pairs = law[:, None] * np.exp(0.3 * seeds + 0.6 * rng.normal(size=(5, len(SIZES), 6)))
        found = seed_interval(exponent(SIZES, pairs.max(-1)))
        covered += found.low <= -0.5 <= found.high
    assert 0.92 <= covered / 500 <= 0.98


def test_the_thesis_fit_is_decided_by_the_smallest_sample():
    values = np.array([8.0, 1.0, 1.0, 1.0])
    assert fitted(SIZES, values)[1] < exponent(SIZES, values) < 0


def test_what_is_not_positive_has_no_exponent():
    assert np.isnan(exponent(SIZES, np.array([1.0, 0.5, -0.1, 0.2])))


@pytest.mark.parametrize("fit", [exponent, fitted])
def test_two_sizes_are_too_few(fit):
    with pytest.raises(
        ParameterError, match=r"^An exponent needs 3 sizes of samples at least; got \[10, 20, 20\]\.$"
    ):
        fit([10, 20, 20], np.ones(3))
