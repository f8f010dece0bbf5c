"""Tangent kernels: covariances by simulation, the closed form of one filter, held-out images, optimality."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
from scipy.linalg import cho_factor
from scipy.stats import binom, norm

from sameloss.seeds import generator_for
from sameloss.studies.local_signal import tangent
from sameloss.studies.local_signal.tangent import (
    PATCHES,
    TangentKernel,
    best_error,
    best_weights,
    covariance,
    held_out_error,
    initial_filters,
    linear_error,
    one_filter_error,
    one_filter_share,
    open_and_closed,
    rows_for_linear_error,
    rows_for_theorem,
    threshold_at_signal,
    without_threshold,
)


def filters(m, seed=0):
    return initial_filters(PATCHES, m, generator_for("tangent test", m, seed))


@pytest.mark.parametrize("thresholds", [[0.3, 1.0, 0.1], [0.0, 2.0, 0.5]])
def test_covariances_are_those_of_drawn_rows(thresholds):
    w = filters(3)
    kernel = TangentKernel(PATCHES, w, np.array(thresholds), np.ones(3), biased=True)
    x = np.random.default_rng(0).normal(size=(200_000, w.shape[1]))
    gates = abs(x @ w.T) >= kernel.thresholds
    copies = (x[:, None] * gates[..., None]).reshape(len(x), -1)
    features = np.concatenate([copies, np.sign(x @ w.T) * gates], 1)
    drawn, square = features.T @ features / len(x), (features**2).T @ features**2 / len(x)
    errors = np.sqrt((square - drawn**2) / len(x)) + 1e-4
    z = (drawn - covariance(kernel) / PATCHES.noise) / errors
    assert abs(z).max() < 4.5
    assert z.std() < 1.2


def test_equal_filters_are_one_filter():
    w = filters(1)
    twice = np.vstack([w, w])
    one, two = (best_error(threshold_at_signal(PATCHES, own)) for own in (w, twice))
    assert two == pytest.approx(one, abs=1e-6)
    opposite = np.vstack([w, -w])
    assert best_error(threshold_at_signal(PATCHES, opposite)) == pytest.approx(one, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_one_filter_is_the_closed_form(seed):
    w = filters(1, seed)
    overlap = abs(w[0, 0]) / PATCHES.sigma
    assert best_error(threshold_at_signal(PATCHES, w)) == pytest.approx(
        one_filter_error(log(1000), overlap), abs=1e-9
    )


def test_the_threshold_at_the_signal_is_best_for_one_filter():
    w = filters(1)
    at = abs(w[:, 0]) / PATCHES.sigma
    errors = [best_error(TangentKernel(PATCHES, w, at * x, np.ones(1))) for x in (0, 0.5, 0.9, 1.0)]
    assert errors == sorted(errors, reverse=True)


def test_few_rows_that_survive_are_counted():
    """W across one filter: given how many rows survive sums are Gaussian, so errors are a binomial mean."""
    overlap = 2.0
    t, p = overlap * PATCHES.sigma, 2 * norm.sf(overlap)
    count = np.arange(1, 1001)
    across = np.sqrt(1 - t**2) / (PATCHES.sigma * np.sqrt(count))
    exact = (binom.pmf(count, 1000, p) * norm.sf(across)).sum()
    gaussian = norm.sf(np.sqrt(1 - t**2) / (PATCHES.sigma * np.sqrt(1000 * p)))
    assert exact == pytest.approx(gaussian, abs=5e-3)
    assert one_filter_error(log(1000), overlap) < gaussian


def test_without_a_threshold_any_number_of_filters_is_linear():
    for m in (1, 4, 16):
        error = best_error(without_threshold(PATCHES, filters(m)))
        assert error == pytest.approx(linear_error(PATCHES), abs=1e-9)
    assert linear_error(PATCHES) == pytest.approx(norm.cdf(-1 / log(1000)), abs=1e-12)


def test_gradients_by_b_and_more_filters_only_help():
    w = filters(8)
    first = best_error(threshold_at_signal(PATCHES, w[:4]))
    assert best_error(threshold_at_signal(PATCHES, w)) < first
    assert best_error(replace(threshold_at_signal(PATCHES, w[:4]), biased=True)) < first
    assert best_error(open_and_closed(threshold_at_signal(PATCHES, w))) < best_error(
        threshold_at_signal(PATCHES, w)
    )


def test_no_other_weights_are_better():
    kernel = threshold_at_signal(PATCHES, filters(4))
    best, spread = best_weights(kernel), covariance(kernel)

    def ratio(weights):
        return kernel.signal @ weights / np.sqrt(weights @ spread @ weights)

    assert norm.sf(ratio(best)) == pytest.approx(best_error(kernel), abs=1e-9)
    random = np.random.default_rng(0)
    nudges = best + 0.1 * np.linalg.norm(best) / np.sqrt(len(best)) * random.normal(size=(50, len(best)))
    assert max(ratio(nudge) for nudge in nudges) < ratio(best)


def test_closing_gates_is_the_best_of_all_choices():
    kernel = threshold_at_signal(PATCHES, filters(4))
    found = open_and_closed(kernel)
    every = [np.array([int(bit) for bit in f"{code:04b}"], float) for code in range(1, 16)]
    errors = [best_error(TangentKernel(PATCHES, kernel.filters, kernel.thresholds, gates)) for gates in every]
    assert best_error(found) == pytest.approx(min(errors), abs=1e-9)


@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("biased", [False, True])
def test_held_out_images_agree_with_moments(m, biased):
    kernel = replace(threshold_at_signal(PATCHES, filters(m)), biased=biased)
    found = held_out_error(kernel, 1000, generator_for("tangent test images", m))
    assert abs(found.mean - best_error(kernel)) < 4 * found.standard_error + 0.005
    assert found.standard_error < 0.01


def test_a_kernel_is_factored_once(monkeypatch):
    """Its error, its gates and its held-out images ask for the same factor."""
    made, kernel = [], threshold_at_signal(PATCHES, filters(3))
    monkeypatch.setattr(tangent, "cho_factor", lambda found: made.append(0) or cho_factor(found))
    for asked in (best_error, best_weights, open_and_closed):
        asked(kernel)
    held_out_error(kernel, 2, generator_for("tangent test", 0))
    assert len(made) == 1


def test_recorded_shares_and_rows():
    shares = [one_filter_share(log(k)) for k in (1e3, 1e4, 1e6, 1e11)]
    assert shares == pytest.approx([0.0091, 0.0068, 0.0032, 0.00095], rel=0.01)
    assert one_filter_share(log(1000), finite=True) == pytest.approx(0.00569, abs=1e-5)
    assert rows_for_theorem() == pytest.approx(5.2e10, rel=0.01)
    assert rows_for_linear_error(0.49) == pytest.approx(2.11e17, rel=0.01)
    assert one_filter_share(log(1000), 0.3, finite=True) == pytest.approx(0.0646, abs=1e-4)
