"""Truncated normals, small balls, several filters."""

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm, truncnorm

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.proofs.bounds import (
    FILTERS,
    STARTS,
    both_sides,
    erdos_bound,
    largest_mass,
    largest_noise_share,
    leading_bound,
    mills_bounds,
    moments,
    natural_number,
    noise_share,
    open_gates,
    printed_moments,
    projected,
    projected_by_integration,
    proof_log_k,
    rademacher_sums,
    several_filters,
    slabs,
    soft_moments,
    thresholded_share,
)
from sameloss.studies.local_signal.tangent.rows import threshold_at_signal
from sameloss.studies.local_signal.theory import Patches, soft_threshold

# Truncated Gaussians: an independent library, integration, and the printed forms where they are wrong.


@pytest.mark.parametrize("b", [-4.0, -0.5, 0.0, 0.7, 3.0])
@pytest.mark.parametrize("s", [0.2, 1.0])
def test_moments_are_those_of_a_truncated_gaussian(b, s):
    law = truncnorm(-b / s, np.inf, scale=s)
    found = moments(b, s)
    assert found.mean == pytest.approx(law.mean(), rel=1e-8)
    assert found.variance == pytest.approx(law.var(), rel=1e-6)
    assert found.second == pytest.approx(found.variance + found.mean**2, rel=1e-10)


def test_the_printed_form_is_right_below_zero_and_wrong_above():
    assert printed_moments(-0.8, 2.0) == moments(-0.8, 2.0)
    printed, true = moments(-1.0, 1.0), moments(1.0, 1.0)  # as printed: |b|/s
    assert (printed.mean, printed.second) == pytest.approx((1.525, 2.525), abs=5e-4)
    assert (true.mean, true.second) == pytest.approx((0.288, 0.712), abs=5e-4)


@pytest.mark.parametrize(("z", "c", "v"), [(1.0, 0.3, 1.2), (-2.0, 1.0, 0.05)])
def test_the_projection_is_the_conditional_mean(z, c, v):
    assert projected(z, c, v) == pytest.approx(projected_by_integration(z, c, v), abs=1e-12)
    assert projected(z, c, v) + projected(z, v, c) == pytest.approx(z)


def test_mills_ratio_lies_between_its_bounds_and_they_are_close():
    low, ratio, high = mills_bounds(np.linspace(0, 30, 301))
    assert (low <= ratio).all()
    assert (ratio <= high).all()
    assert (high / low).max() < 1.5
    assert ratio[0] == pytest.approx(np.sqrt(np.pi / 2))


@pytest.mark.parametrize(("b", "cut"), [(-0.5, np.inf), (-0.5, 2.0), (0.7, np.inf), (0.7, 1.5), (0.7, 1.0)])
def test_moments_after_the_threshold_by_integration(b, cut):
    s = 1.3
    kept = lambda z: abs(soft_threshold(s * z, b)) <= cut  # noqa: E731
    corners = sorted({abs(b) / s, cut / 2 / s, (cut - b) / s, 0.0})
    corners = [x for x in corners if 0 <= x < 9] + [9.0]

    def mean(of):
        pieces = pairwise(corners)
        return 2 * sum(
            quad(lambda z: of(abs(soft_threshold(s * z, b))) * kept(z) * norm.pdf(z), *ends)[0]
            for ends in pieces
        )

    mass = mean(lambda x: 1.0)
    found = soft_moments(b, s, cut)
    assert found.absolute == pytest.approx(mean(lambda x: x) / mass, rel=1e-6)
    assert found.variance == pytest.approx(mean(lambda x: x**2) / mass, rel=1e-6)
    assert found.passing == pytest.approx(mean(lambda x: float(x > 0)) / mass, rel=1e-6)


def test_the_noise_share_is_never_above_its_top():
    at, top = largest_noise_share()
    alphas = np.linspace(0, 9, 1000)
    assert max(noise_share(alpha) for alpha in alphas) <= top == pytest.approx(noise_share(at))
    assert all(thresholded_share(alpha) <= noise_share(alpha) for alpha in alphas)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: printed_moments(0.1, 1.0), r"needs b <= 0; got b = 0.1"),
        (lambda: moments(0.1, 0.0), "positive and finite; got 0"),
        (lambda: projected(1.0, 0.0, 0.0), r"c² \+ v² > 0"),
    ],
)
def test_faults_are_a_sentence(call, said):
    with pytest.raises(ParameterError, match=said):
        call()


# Small balls: enumeration, the counter-example to one reading, and slabs by simulation.


def test_sums_are_all_there():
    weights = np.array([1.0, 2.5, 1.2])
    by_hand = sorted(float(np.dot(signs, weights)) for signs in product((-1, 1), repeat=3))
    assert rademacher_sums(weights) == pytest.approx(np.array(by_hand))


def test_a_closed_interval_of_length_two_refutes_one_reading():
    assert largest_mass(np.ones(3), 1.0) == 0.75
    assert leading_bound(3, natural_number(1.0, strict_below=False)) == pytest.approx(0.4607, abs=1e-4)
    assert leading_bound(3, natural_number(1.0)) > 0.75


@pytest.mark.parametrize("half", [0.0, 0.4, 1.0, 1.5, 2.0])
def test_the_other_reading_holds_without_its_small_term(half):
    random = np.random.default_rng(0)
    for n in range(1, 11):
        s = natural_number(half)
        for weights in (np.ones(n), 1 + random.exponential(0.5, n)):
            mass = largest_mass(weights, half)
            assert mass <= erdos_bound(n, s) + 1e-12
            assert erdos_bound(n, s) <= leading_bound(n, s)
    assert largest_mass(np.ones(10), half) == pytest.approx(erdos_bound(10, natural_number(half)))


def test_slabs_by_simulation_and_independence():
    random = np.random.default_rng(1)
    x, z = random.normal(size=(2, 200_000))
    y = 0.6 * x + 0.8 * z
    found = slabs(0.5, 1.0, 0.6)
    share = ((abs(x) >= 0.5) & (abs(y) >= 1.0)).mean()
    assert abs(share - found.joint) < 4 * np.sqrt(found.joint / 200_000)
    assert found.joint > found.product
    assert slabs(0.5, 1.0, 0.0).joint == pytest.approx(found.product)
    assert slabs(0.5, 1.0, 1.0).joint == pytest.approx(slabs(0.0, 1.0, 0.0).product)


def test_the_proofs_own_rows():
    assert proof_log_k() / np.log(10) == pytest.approx(44.86, abs=0.01)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: rademacher_sums(np.array([0.5])), r"needs \|a_i\| >= 1; got 0.5"),
        (lambda: rademacher_sums(np.ones(17)), "At most 16 signs"),
        (lambda: slabs(1.0, 1.0, 1.5), "lies in"),
        (lambda: erdos_bound(0, 1), "n must be a whole number"),
    ],
)
def test_faults_are_a_sentence_of_small_ball(call, said):
    with pytest.raises(ParameterError, match=said):
        call()


# Both sides of Lemma B.12, against one filter's closed form and a count by hand.

PATCHES = Patches(1000)


def kernel(overlap):
    """One filter whose gate opens from `overlap` on, in units of σ."""
    along = overlap * PATCHES.sigma
    return threshold_at_signal(PATCHES, np.array([[along, np.sqrt(1 - along**2)]]))


@pytest.mark.parametrize("overlap", [0.2, 1.0, 2.0])
def test_one_filter_in_closed_form(overlap):
    own, x = kernel(overlap), np.random.default_rng(0).standard_normal((200_000, 2))
    found = both_sides(own, own.filters, x)
    same = 2 * norm.sf(overlap)
    assert found["same"] == pytest.approx(same, abs=5e-3)
    assert norm.cdf(found["strength"]) - norm.cdf(-found["strength"]) == pytest.approx(found["same"] / 2)
    # W along the filter: g(ε) is at least D where the gate is open, and Cσ g(w*) is far below
    assert found["heard"] == pytest.approx(found["same"], abs=1e-9)


def test_shares_are_counted_row_by_row():
    own = kernel(1.0)
    two = replace(own, filters=np.eye(2), thresholds=np.array([1.0, 0.5]), sees_signal=np.array([1.0, 0.0]))
    x = np.array([[2.0, 0.1], [2.0, 1.0], [0.1, 0.1], [-1.5, 0.2]])
    assert open_gates(two, x).tolist() == [[True, False], [True, True], [False, False], [True, False]]
    found = both_sides(two, np.array([[1.0, 0.0], [-2.0, 0.0]]), x)
    assert found["same"] == 0.5
    assert found["strength"] == pytest.approx(norm.ppf(0.625))
    assert found["heard"] == 0.75  # 2, 2 - 4, 0 and -1.5 beside 0.32


def test_every_set_of_gates_is_tried_and_q_falls_with_the_filters():
    found = several_filters(0)
    assert len(found) == sum(2 * STARTS * (2**m - 1) for m in FILTERS)
    assert (found.same / 2 <= found.heard).all()
    assert found.groupby("filters").same.median().is_monotonic_decreasing
