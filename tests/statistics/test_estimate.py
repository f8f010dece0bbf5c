"""Means with their error."""

import math

import pytest
import torch
from scipy.stats import sem

from sameloss.statistics.intervals import Estimate


def test_estimate_of_draws():
    estimate = Estimate.of(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert estimate.mean == 2.5
    assert estimate.standard_error == pytest.approx(math.sqrt(5 / 3) / 2)


def test_the_error_is_that_of_scipy():
    values = torch.randn(50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert Estimate.of(values).standard_error == pytest.approx(sem(values.numpy()), rel=1e-12)


def test_one_draw_has_no_known_error():
    estimate = Estimate.of(torch.tensor([3.0]))
    assert (estimate.mean, estimate.count) == (3.0, 1)
    assert math.isnan(estimate.standard_error)


def test_sums_in_float32_keep_their_digits():
    values = torch.full((100_000,), 0.1)
    assert Estimate.of(values).mean == pytest.approx(float(values[0]), rel=1e-12)


def test_a_whole_population_has_no_error():
    values, weights = torch.tensor([1.0, 4.0]), torch.tensor([0.25, 0.75])
    assert Estimate.weighted(values, weights) == (3.25, 0.0, 2)
