"""Checkpoints interpolated to a common KL."""

import numpy as np
import pytest

from sameloss.errors import ParameterError, UnreachableKL
from sameloss.statistics.equal_kl import common_kl, weights_at


def test_functions_linear_in_log_kl_are_interpolated_exactly():
    kl = np.exp(np.array([-1.0, -1.3, -2.9, -3.0]))
    accuracy = 60 - 4 * np.log(kl)
    for target in np.geomspace(kl[-1], kl[0], 23)[1:-1]:
        weights = weights_at(kl, target)
        assert weights @ accuracy == pytest.approx(60 - 4 * np.log(target), rel=1e-12)
        assert weights.sum() == pytest.approx(1, rel=1e-12)
        assert weights.min() >= 0
        assert np.ptp(np.flatnonzero(weights)) <= 1


@pytest.mark.parametrize(
    ("kl", "target", "weights"),
    [
        ([0.4, 0.1, 0.4, 0.1, 0.025], 0.2, [0, 0, 0.5, 0.5, 0]),  # three crossings
        ([0.4, 0.1, 0.4], 0.2, [0, 0.5, 0.5]),  # on the way up
        ([0.1, 0.4, 0.1, 0.025], 0.1, [0, 0, 1, 0]),  # at a checkpoint twice
        ([0.4, 0.1, 0.1], 0.1, [0, 0, 1]),  # and the next
        ([0.4, 0.1, 0.2], 0.1, [0, 1, 0]),  # touched
        ([0.4, 0.1], 0.4, [1, 0]),
        ([0.4], 0.4, [1]),
    ],
)
def test_the_last_crossing_counts(kl, target, weights):
    np.testing.assert_allclose(weights_at(np.array(kl), target), weights, atol=1e-12)


def test_each_checkpoint_is_reached_exactly():
    for dtype in (np.float64, np.float32):
        kl = np.sort(np.random.default_rng(0).lognormal(-5, 2, 200))[::-1].astype(dtype)
        weights = np.stack([weights_at(kl, float(target)) for target in kl])
        np.testing.assert_array_equal(weights, np.eye(len(kl)))


@pytest.mark.parametrize("target", [0.009, 0.31, float("nan"), -1.0])
def test_targets_outside_the_range_are_unreachable(target):
    sentence = "nats is out of reach: this run's checkpoints span 0.01 to 0.3; choose a target in there, or"
    with pytest.raises(UnreachableKL, match=sentence):
        weights_at(np.array([0.3, 0.01, 0.02]), target)


@pytest.mark.parametrize("kl", [[], [0.1, 0.0], [0.1, -0.1], [0.1, float("nan")], [float("inf"), 0.1]])
def test_a_kl_without_logarithm_is_refused(kl):
    for compare in (lambda kl: weights_at(kl, 0.1), lambda kl: common_kl([np.array([0.2, 0.1]), kl])):
        with pytest.raises(ParameterError, match="positive and finite KL"):
            compare(np.array(kl, dtype=np.float64))


def test_the_common_kl_is_the_smallest_that_all_reach():
    rng = np.random.default_rng(1)
    runs = [rng.uniform(0.01, 0.02, 6) * np.geomspace(9, 1, 6) for _ in range(5)]
    target = common_kl(runs)
    assert [weights_at(kl, target).sum() for kl in runs] == pytest.approx([1] * 5)
    with pytest.raises(UnreachableKL):
        [weights_at(kl, target * (1 - 1e-12)) for kl in runs]


def test_ranges_may_share_one_kl_only():
    assert common_kl([np.array([0.3, 0.2]), np.array([0.2, 0.1])]) == 0.2


def test_runs_without_a_common_kl():
    with pytest.raises(UnreachableKL, match=r"one stays above 0\.2 nats, another below 0\.1; leave one out"):
        common_kl([np.array([0.3, 0.2]), np.array([0.1, 0.05])])
    with pytest.raises(UnreachableKL, match="give at least one"):
        common_kl([])
