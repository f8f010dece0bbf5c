"""The lemmas: bounds and moments by integration, gradients by simulation, recorded numbers."""

from dataclasses import replace
from itertools import pairwise, product
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2, norm, truncnorm

from sameloss.studies.local_signal.experiment import proof_table
from sameloss.studies.local_signal.proofs import (
    FILTERS,
    PARTS,
    STARTS,
    at_error,
    at_state,
    bias_turn,
    both_sides,
    counter_examples,
    erdos_bound,
    error_ratio,
    error_where_bias_turns,
    gaussian_alpha,
    joint_slabs,
    largest_mass,
    leading_bound,
    least_rows,
    log_large_entries,
    log_start_excess,
    loss_bound_on_c,
    maximum_excess,
    mills_bounds,
    moments,
    noise_share,
    projected_by_integration,
    several_filters,
    small_signal_gradient,
    soft_moments,
    states,
    turns,
)
from sameloss.studies.local_signal.tangent import threshold_at_signal
from sameloss.studies.local_signal.theory import Filter, Patches, accuracy, population, soft_threshold

# Truncated Gaussians: an independent library, integration, and the printed forms where they are wrong.


@pytest.mark.parametrize("b", [-4.0, -0.5, 0.0, 0.7, 3.0])
def test_moments_are_those_of_a_truncated_gaussian(b):
    law, found = truncnorm(-b, np.inf), moments(b)
    assert found.mean == pytest.approx(law.mean(), rel=1e-8)
    assert found.variance == pytest.approx(law.var(), rel=1e-6)
    assert found.second == pytest.approx(found.variance + found.mean**2, rel=1e-10)


@pytest.mark.parametrize(("z", "c", "v"), [(1.0, 0.3, 1.2), (-2.0, 1.0, 0.05)])
def test_the_projection_is_the_conditional_mean(z, c, v):
    along, across = projected_by_integration(z, c, v), projected_by_integration(z, v, c)
    assert along == pytest.approx(z * c**2 / (c**2 + v**2), abs=1e-12)
    assert along + across == pytest.approx(z)


def test_mills_ratio_lies_between_its_bounds_and_they_are_close():
    low, ratio, high = mills_bounds(np.linspace(0, 30, 301))
    assert (low <= ratio).all()
    assert (ratio <= high).all()
    assert (high / low).max() < 1.5
    assert ratio[0] == pytest.approx(np.sqrt(np.pi / 2))


@pytest.mark.parametrize(("b", "cut"), [(-0.5, np.inf), (-0.5, 2.0), (0.7, np.inf), (0.7, 1.5), (0.7, 1.0)])
def test_moments_after_the_threshold_by_integration(b, cut):
    s = 1.3
    corners = sorted({abs(b) / s, cut / 2 / s, (cut - b) / s, 0.0})
    corners = [x for x in corners if 0 <= x < 9] + [9.0]

    def mean(power):
        def integrand(z):
            own = abs(soft_threshold(s * z, b))
            return own**power * (own <= cut) * norm.pdf(z)

        return 2 * sum(quad(integrand, *ends)[0] for ends in pairwise(corners))

    expected = [mean(power) / mean(0) for power in (1, 2)]
    np.testing.assert_allclose(soft_moments(b, s, cut), expected, rtol=1e-6)


def test_the_noise_share_is_never_above_its_top():
    alphas = np.linspace(0, 9, 1000)
    top = noise_share(1 / sqrt(3))
    assert noise_share(alphas).max() <= top == pytest.approx(0.574, abs=1e-3)
    assert (norm.sf(alphas) / 2 <= noise_share(alphas)).all()


# Small balls: enumeration, the counter-example to one reading, and slabs by simulation.


def test_masses_are_counted_over_all_signs():
    weights = np.array([1.0, 2.5, 1.2])
    sums = np.array([np.dot(signs, weights) for signs in product((-1, 1), repeat=3)])
    most = max(((sums >= low) & (sums <= low + 3.0)).mean() for low in sums)
    assert largest_mass(weights, 1.5) == most


def test_a_closed_interval_of_length_two_refutes_one_reading():
    assert largest_mass(np.ones(3), 1.0) == 0.75
    assert leading_bound(3, 1) == pytest.approx(0.4607, abs=1e-4)
    assert leading_bound(3, 2) > 0.75


@pytest.mark.parametrize("half", [0.0, 0.4, 1.0, 1.5, 2.0])
def test_the_other_reading_holds_without_its_small_term(half):
    random, s = np.random.default_rng(0), int(half) + 1
    for n in range(1, 11):
        for weights in (np.ones(n), 1 + random.exponential(0.5, n)):
            assert largest_mass(weights, half) <= erdos_bound(n, s) + 1e-12
        assert erdos_bound(n, s) <= leading_bound(n, s)
    assert largest_mass(np.ones(10), half) == pytest.approx(erdos_bound(10, s))


def test_slabs_by_simulation_and_independence():
    x, z = np.random.default_rng(1).normal(size=(2, 200_000))
    found, apart = joint_slabs(0.5, 1.0, 0.6), joint_slabs(0.5, 1.0, 0.0)
    share = ((abs(x) >= 0.5) & (abs(0.6 * x + 0.8 * z) >= 1.0)).mean()
    assert abs(share - found) < 4 * np.sqrt(found / 200_000)
    assert found > apart == pytest.approx(4 * norm.sf(0.5) * norm.sf(1.0))


# Both sides of Lemma B.12, against one filter's closed form and a count by hand.


def kernel(overlap):
    """One filter whose gate opens from `overlap` on, in units of σ."""
    along = overlap * Patches(1000).sigma
    return threshold_at_signal(Patches(1000), np.array([[along, np.sqrt(1 - along**2)]]))


@pytest.mark.parametrize("overlap", [0.2, 1.0, 2.0])
def test_one_filter_in_closed_form(overlap):
    own, x = kernel(overlap), np.random.default_rng(0).standard_normal((200_000, 2))
    found = both_sides(own, own.filters, x)
    assert found["same"] == pytest.approx(2 * norm.sf(overlap), abs=5e-3)
    assert norm.cdf(found["strength"]) - norm.cdf(-found["strength"]) == pytest.approx(found["same"] / 2)
    # W along the filter: g(ε) is at least D where the gate is open, and Cσ g(w*) is far below
    assert found["heard"] == pytest.approx(found["same"], abs=1e-9)


def test_shares_are_counted_row_by_row():
    two = replace(
        kernel(1.0), filters=np.eye(2), thresholds=np.array([1.0, 0.5]), sees_signal=np.array([1.0, 0.0])
    )
    x = np.array([[2.0, 0.1], [2.0, 1.0], [0.1, 0.1], [-1.5, 0.2]])  # open: the first, both, none, the first
    found = both_sides(two, np.array([[1.0, 0.0], [-2.0, 0.0]]), x)
    assert found["same"] == 0.5
    assert found["strength"] == pytest.approx(norm.ppf(0.625))
    assert found["heard"] == 0.75  # 2, 2 - 4, 0 and -1.5 beside 0.32


def test_every_set_of_gates_is_tried_and_q_falls_with_the_filters():
    found = several_filters(0)
    assert len(found) == sum(2 * STARTS * (2**m - 1) for m in FILTERS)
    assert (found.same / 2 <= found.heard).all()
    assert found.groupby("filters").same.median().is_monotonic_decreasing


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
    found = at_state(k, Filter(c, v, b))
    assert abs(parts.mean() - found["noise"]) < 4 * parts.std() / sqrt(count)
    assert abs((abs(s.sum(1)) <= c + b + 10).mean() - found["within"]) < 4 * sqrt(0.25 / count)
    assert abs(s).mean() / s.std() == pytest.approx(found["width"], rel=0.01)
    assert k * s.var() / (c + b) ** 2 == pytest.approx(found["spread"], rel=0.02)


def test_bounds_hold_at_every_state_and_ours_is_nearly_reached():
    found = states()
    assert (found.noise >= 0).all()
    assert (found.noise <= found.ours + 1e-12).all()
    assert (found.noise / found.ours).max() > 0.99
    below = found[found.b <= 0]
    assert (below.noise <= below.printed).all()
    assert below.noise.max() <= 0.25
    assert (found[found.loss <= 1].within_g >= 0.8).all()


def test_counter_examples_are_recorded():
    found = counter_examples().set_index("of")
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
    assert at_error(k)["by_b_1"] == pytest.approx(by_b, abs=1e-3)


def test_where_the_lemmas_begin():
    found = turns()
    proofs = found[~found.exact].decades.round(2).tolist()
    assert proofs == pytest.approx([3.2, 9.2, 70.8, 19.3, 44.86], abs=0.05)
    assert found.decades[found.step == "∇_b > 0 at c = 1/log⁴k"].item() == pytest.approx(17.515, abs=1e-3)
    assert least_rows() == 788
    assert exp(bias_turn(1.0)) == pytest.approx(6987, rel=1e-3)
    assert error_where_bias_turns(1000) == pytest.approx(0.1468, abs=1e-4)
    assert accuracy(Patches(1000), Filter(1.0, 0.0, -error_ratio(Patches(1000)))) == pytest.approx(0.99)


def test_the_loss_is_one_at_the_bound_on_c():
    c, ratio = loss_bound_on_c(1000), error_ratio(Patches(1000))
    assert c == pytest.approx(1358, abs=1)
    assert population(Patches(1000), Filter(c, 0.0, -ratio * c)).loss == pytest.approx(1, abs=1e-3)


def test_forms_for_large_k_are_limits_of_exact_ones():
    exact = at_error(10**6)
    assert gaussian_alpha(log(1e6)) == pytest.approx(exact["alpha"], abs=1e-3)
    assert small_signal_gradient(log(1e6), 0.03) == pytest.approx(exact["by_b_0.03"], abs=0.01)
    assert small_signal_gradient(log(1e6), log(1e6) ** -4) == pytest.approx(exact["by_b_lowest"], abs=1e-4)


def test_maxima_and_starts_by_their_definition():
    tail = norm.sf(2 * sqrt(log(10)))
    expected = 10 * (1 - (1 - tail) ** 10), 5 * (1 - (1 - 2 * tail) ** 10)
    assert maximum_excess(10) == pytest.approx(expected)
    assert log_start_excess(5, 3) == pytest.approx(log(chi2.sf(15, 3) / (6 * exp(-2.5))))
    entries = 500 * 1000 * 10 * 2 * norm.sf(1 / Patches(1000).sigma)
    assert exp(log_large_entries(log(1000))) == pytest.approx(entries)


def test_every_part_has_its_key():
    assert len({proof_table(part).key for part in PARTS}) == len(PARTS)
