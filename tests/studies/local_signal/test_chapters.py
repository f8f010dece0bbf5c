"""What the chapters compute by themselves: several features, starts that die, small balls."""

from itertools import product
from math import comb

import numpy as np
import pytest
from cells import definitions

from sameloss.studies.local_signal.theory import Filter, Patches, best_threshold, soft_threshold

TRAINING, PROOFS = definitions("ii3_local_signal"), definitions("ii3_proofs")

# One filter for several features, and one for each, against drawn images.

FEATURES, IMAGES = 3, 4000


@pytest.mark.parametrize("each", [False, True])
def test_shares_are_those_of_drawn_images(each):
    """The best threshold's accuracy on images of three features, of y times one of them in a row each."""
    patches, random = Patches(300, 0.7), np.random.default_rng(0)
    y = random.choice([-1, 1], IMAGES)
    x = random.normal(0, patches.sigma, (IMAGES, 301, FEATURES))
    x[:, 0] = y[:, None] * np.eye(FEATURES)[random.integers(FEATURES, size=IMAGES)]
    if each:
        rows = Patches(3 * 300)
        ratio, expected = best_threshold(Patches(900, patches.sigma / rows.sigma))
        output, ours = soft_threshold(x, -ratio).sum((1, 2)), TRAINING.filter_each(patches, FEATURES)
    else:
        ratio, expected = best_threshold(Patches(300, 0.7 * np.sqrt(FEATURES)))
        w = np.ones(FEATURES) / np.sqrt(FEATURES)
        output = soft_threshold(x @ w, -ratio / np.sqrt(FEATURES)).sum(1)
        ours = TRAINING.one_filter(patches, FEATURES)
    right = (output * y > 0).mean()
    assert abs(right - expected) < 4 * np.sqrt(right * (1 - right) / IMAGES)
    assert ours == pytest.approx(expected) if each else ours >= expected - 1e-12


def test_one_filter_may_leave_features_out():
    """With so much noise that all are lost together, one feature and guesses are better."""
    patches = Patches(1000)
    assert TRAINING.one_filter(patches, 2) == pytest.approx(0.25 + best_threshold(patches)[1] / 2)
    assert TRAINING.one_filter(Patches(10_000), 2) > 0.999


def test_as_many_features_as_dimensions():
    patches = Patches(10**6)
    assert TRAINING.one_filter(patches, patches.dimension) < 0.52
    assert TRAINING.filter_each(patches, patches.dimension) > 0.99


def test_with_one_feature_it_is_the_best_filter():
    assert TRAINING.filter_each(Patches(1000), 1) == best_threshold(Patches(1000))[1]


# Starts from which descent never learns.


def test_a_negative_start_dies_at_a_small_rate_and_not_at_a_large_one():
    assert [TRAINING.dies(Patches(100), Filter(-0.5, 0.01, 0.0), lr) for lr in (0.005, 0.2)] == [True, False]
    assert not TRAINING.dies(Patches(100), Filter(0.5, 0.01, 0.0), 0.005)
    assert [TRAINING.dead_share(c, 2.0, 50, 3) for c in (-0.5, 0.5)] == [1, 0]
    assert 0 < TRAINING.dead_share(-0.5, 8.0) < TRAINING.dead_share(-0.5, 3.0) == 1


# Small balls: enumeration, the counter-example to one reading, and slabs by simulation.


def test_masses_are_counted_over_all_signs():
    weights = np.array([1.0, 2.5, 1.2])
    sums = np.array([np.dot(signs, weights) for signs in product((-1, 1), repeat=3)])
    most = max(((sums >= low) & (sums <= low + 3.0)).mean() for low in sums)
    assert PROOFS.largest_mass(weights, 1.5) == most


def test_a_closed_interval_of_length_two_refutes_one_reading():
    assert PROOFS.largest_mass(np.ones(3), 1.0) == 0.75
    assert PROOFS.largest_mass(np.ones(3), 0.99) == 0.375
    assert PROOFS.leading_bound(3, 1) == pytest.approx(0.4607, abs=1e-4)
    assert PROOFS.leading_bound(3, 2) > 0.75


@pytest.mark.parametrize("half", [0.0, 0.4, 1.0, 1.5, 2.0])
def test_the_other_reading_holds_without_its_small_term(half):
    """Erdős: with weights of at least one the s largest binomial coefficients are the most."""
    random, s = np.random.default_rng(0), int(half) + 1
    for n in range(1, 11):
        most = sum(sorted((comb(n, j) for j in range(n + 1)), reverse=True)[:s]) / 2**n
        assert PROOFS.largest_mass(np.ones(n), half) == pytest.approx(most)
        assert PROOFS.largest_mass(1 + random.exponential(0.5, n), half) <= most + 1e-12
        assert most <= PROOFS.leading_bound(n, s)


# Where the bias turns.


def test_the_error_at_which_the_bias_turns():
    assert PROOFS.error_where_bias_turns(1000) == pytest.approx(0.1468, abs=1e-4)
