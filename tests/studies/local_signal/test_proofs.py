"""Tangent kernels and lemmas: simulation, integration, closed forms, and recorded numbers."""

from dataclasses import replace
from itertools import pairwise
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import cho_factor
from scipy.stats import binom, norm, truncnorm

from sameloss.seeds import generator_for
from sameloss.studies.local_signal import proofs, tangent
from sameloss.studies.local_signal.experiment import proof_table
from sameloss.studies.local_signal.tangent import (
    PATCHES,
    TangentKernel,
    best_error,
    best_weights,
    covariance,
    good_start_probability,
    held_out_error,
    initial_filters,
    linear_error,
    one_filter_error,
    open_and_closed,
    rows_for_linear_error,
    rows_for_theorem,
    threshold_at_signal,
)
from sameloss.studies.local_signal.theory import (
    Filter,
    Patches,
    population,
    soft_threshold,
    threshold_error,
)

# Tangent kernels


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
    one, two = (best_error(threshold_at_signal(PATCHES, filters)) for filters in (w, twice))
    assert two == pytest.approx(one, abs=1e-6)
    opposite = np.vstack([w, -w])
    assert best_error(threshold_at_signal(PATCHES, opposite)) == pytest.approx(one, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_one_filter_has_the_closed_form(seed):
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
        error = best_error(replace(threshold_at_signal(PATCHES, filters(m)), thresholds=np.zeros(m)))
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
def test_held_out_images_agree_with_moments(m):
    kernel = threshold_at_signal(PATCHES, filters(m))
    found = held_out_error(kernel, 1000, generator_for("tangent test images", m))
    assert abs(found.mean - best_error(kernel)) < 4 * found.standard_error + 0.005
    assert found.standard_error < 0.01


def test_a_kernel_is_factored_only_once(monkeypatch):
    made, kernel = [], threshold_at_signal(PATCHES, filters(3))
    monkeypatch.setattr(tangent, "cho_factor", lambda sigma: made.append(0) or cho_factor(sigma))
    for function in (best_error, best_weights, open_and_closed):
        function(kernel)
    held_out_error(kernel, 2, generator_for("tangent test", 0))
    assert len(made) == 1


def test_recorded_shares_and_rows():
    shares = [good_start_probability(log(k)) for k in (1e3, 1e4, 1e6, 1e11)]
    assert shares == pytest.approx([0.0091, 0.0068, 0.0032, 0.00095], rel=0.01)
    assert good_start_probability(log(1000), finite=True) == pytest.approx(0.00569, abs=1e-5)
    assert rows_for_theorem() == pytest.approx(5.2e10, rel=0.01)
    assert rows_for_linear_error(0.49) == pytest.approx(2.11e17, rel=0.01)
    assert good_start_probability(log(1000), 0.3, finite=True) == pytest.approx(0.0646, abs=1e-4)


# Truncated Gaussians: an independent library, integration, and the printed forms where they are wrong.


@pytest.mark.parametrize("b", [-4.0, -0.5, 0.0, 0.7, 3.0])
def test_moments_are_those_of_a_truncated_gaussian(b):
    law, (mean, variance, second) = truncnorm(-b, np.inf), proofs.moments(b)
    assert mean == pytest.approx(law.mean(), rel=1e-8)
    assert variance == pytest.approx(law.var(), rel=1e-6)
    assert second == pytest.approx(variance + mean**2, rel=1e-10)


@pytest.mark.parametrize(("b", "cut"), [(-0.5, np.inf), (-0.5, 2.0), (0.7, np.inf), (0.7, 1.5), (0.7, 1.0)])
def test_moments_after_the_threshold_by_integration(b, cut):
    s = 1.3
    corners = sorted({abs(b) / s, cut / 2 / s, (cut - b) / s, 0.0})
    corners = [x for x in corners if 0 <= x < 9] + [9.0]

    def mean(power):
        def integrand(z):
            size = abs(soft_threshold(s * z, b))
            return size**power * (size <= cut) * norm.pdf(z)

        return 2 * sum(quad(integrand, *ends)[0] for ends in pairwise(corners))

    expected = [mean(power) / mean(0) for power in (1, 2)]
    np.testing.assert_allclose(proofs.soft_moments(b, s, cut), expected, rtol=1e-6)


def test_the_noise_bound_is_below_its_maximum():
    alphas = np.linspace(0, 9, 1000)
    top = proofs.noise_bound(1 / sqrt(3))
    assert proofs.noise_bound(alphas).max() <= top == pytest.approx(0.574, abs=1e-3)
    assert (norm.sf(alphas) / 2 <= proofs.noise_bound(alphas)).all()


# States and counter-examples.


@pytest.mark.parametrize("b", [-0.2, 0.3])
def test_a_state_by_simulation(b):
    k, c, v, count = 50, 0.8, 0.4, 20_000
    random = np.random.default_rng(0)
    a, across = random.normal(0, Patches(k).sigma, (2, count, k))
    z = c * a + v * across
    s = soft_threshold(z, b)
    f = s.sum(1) + soft_threshold(c, b)
    kept = (z >= -b).astype(float) + (z <= b)
    parts = -(a * kept).sum(1) / (1 + np.exp(f)) / c / log(k) ** 2  # of y = 1; of y = -1 it is the same
    found = proofs.at_state(k, Filter(c, v, b))
    assert abs(parts.mean() - found["noise"]) < 4 * parts.std() / sqrt(count)
    assert abs((abs(s.sum(1)) <= c + b + 10).mean() - found["within"]) < 4 * sqrt(0.25 / count)
    assert abs(s).mean() / s.std() == pytest.approx(found["width"], rel=0.01)
    assert k * s.var() / (c + b) ** 2 == pytest.approx(found["spread"], rel=0.02)


def test_bounds_hold_at_every_state_and_ours_is_nearly_reached():
    found = proofs.states()
    assert (found.noise >= 0).all()
    assert (found.noise <= found.ours + 1e-12).all()
    assert (found.noise / found.ours).max() > 0.99
    below = found[found.b <= 0]
    assert (below.noise <= below.printed).all()
    assert below.noise.max() <= 0.25
    assert (found[found.loss <= 1].within_g >= 0.8).all()


def test_counter_examples_are_recorded():
    found = proofs.counter_examples().set_index("of")
    dead = found.loc["lemB5"]
    assert (dead.alpha, 2 * sqrt(log(1000))) == pytest.approx((5.493, 5.257), abs=1e-3)
    assert 1 - dead.error == pytest.approx(1.97e-5, rel=0.01)
    assert dead.spread < 1e-4
    assert found.within["lemB8"] == 0
    assert found.loss["lemB8"] == pytest.approx(log(2))
    assert found.by_c["lem31"] > 0
    assert found.c["lem31"] < 1 / log(1000) ** 4
    assert found.error["lemB9"] > 0.99
    assert (found.by_b["lem33"] < -0.3).all()
    assert found.loss["lemB7"] < 1
    assert found.noise["noise-bound"] / found.printed["noise-bound"] == pytest.approx(4.64, abs=0.01)


# Along k.


@pytest.mark.parametrize(
    ("k", "by_b"), [(1000, -0.389), (2000, -0.262), (5000, -0.079), (10_000, 0.096), (100_000, 1.167)]
)
def test_recorded_gradients_by_b_at_an_error_of_one_in_a_hundred(k, by_b):
    assert proofs.at_error(k)["by_b_1"] == pytest.approx(by_b, abs=1e-3)


def test_where_the_lemmas_begin():
    turns = proofs.turns()
    steps = turns[~turns.exact].decades.round(2).tolist()
    assert steps == pytest.approx([3.2, 9.2, 70.8, 19.3, 44.86], abs=0.05)
    assert turns.decades[turns.step == "∇_b > 0 at c = 1/log⁴k"].item() == pytest.approx(17.515, abs=1e-3)
    assert proofs.least_rows() == 788
    assert exp(proofs.bias_turn(1.0)) == pytest.approx(6987, rel=1e-3)
    assert threshold_error(PATCHES, proofs.error_ratio(PATCHES)) == pytest.approx(0.01)


def test_the_loss_is_one_at_the_bound_on_c():
    c, ratio = proofs.loss_bound_on_c(1000), proofs.error_ratio(Patches(1000))
    assert c == pytest.approx(1358, abs=1)
    assert population(Patches(1000), Filter(c, 0.0, -ratio * c)).loss == pytest.approx(1, abs=1e-3)


def test_forms_for_large_k_are_limits_of_exact_ones():
    exact = proofs.at_error(10**6)
    assert proofs.gaussian_alpha(log(1e6)) == pytest.approx(exact["alpha"], abs=1e-3)
    assert proofs.small_signal_gradient(log(1e6), 0.03) == pytest.approx(exact["by_b_0.03"], abs=0.01)
    assert proofs.small_signal_gradient(log(1e6), log(1e6) ** -4) == pytest.approx(
        exact["by_b_lowest"], abs=1e-4
    )


def test_large_entries_by_their_definition():
    entries = 500 * 1000 * 10 * 2 * norm.sf(1 / Patches(1000).sigma)
    assert exp(proofs.log_large_entries(log(1000))) == pytest.approx(entries)


def test_every_part_has_its_key():
    assert len({proof_table(part).key for part in proofs.PARTS}) == len(proofs.PARTS)
