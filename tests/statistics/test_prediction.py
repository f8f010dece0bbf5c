"""Early losses and final ones: planted orders, numbers by hand, and simulated coverage."""

import numpy as np
import pytest
from scipy import stats

from sameloss.errors import ParameterError
from sameloss.statistics.intervals import seed_interval
from sameloss.statistics.prediction import (
    mean_correlation,
    random_regret,
    rank_correlation,
    recall,
    regret,
    self_correlation,
    transition,
)

FINAL = np.array([3.0, 1.0, 2.0, 5.0])


def test_correlations_are_scipys_with_ties():
    early = np.array([1.0, 1.0, 2.0, 0.5])
    assert rank_correlation(early, FINAL) == pytest.approx(stats.spearmanr(early, FINAL).statistic)
    assert rank_correlation(FINAL, FINAL) == pytest.approx(1)
    assert rank_correlation(-FINAL, FINAL) == pytest.approx(-1)
    assert np.isnan(rank_correlation(np.ones(4), FINAL))


def test_two_candidates_have_no_correlation():
    with pytest.raises(ParameterError, match="needs at least 3 candidates; got 2"):
        rank_correlation(FINAL[:2], FINAL[:2])


def test_means_over_seeds_are_taken_in_z():
    found = mean_correlation(np.array([0.2, 0.6, np.nan, 0.9]))
    assert found == pytest.approx(tuple(np.tanh(seed_interval(np.arctanh([0.2, 0.6, 0.9])))))


def test_perfect_correlations_have_a_mean():
    assert mean_correlation(np.array([1.0, 1.0, 1.0])).value == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("seeds", [[], [0.3], [np.nan, np.nan]])
def test_one_seed_has_no_interval(seeds):
    found = mean_correlation(np.array(seeds, dtype=float))
    assert np.isnan(found.low)
    assert np.isnan(found.high)


def test_the_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    draws = np.tanh(0.5 + 0.3 * rng.standard_normal((1000, 5)))
    found = [mean_correlation(row) for row in draws]
    covered = np.mean([low <= np.tanh(0.5) <= high for _, low, high in found])
    assert 0.93 <= covered <= 0.97


def test_regret_by_hand():
    assert regret(FINAL, FINAL) == 0
    assert regret(np.array([1.0, 9.0, 9.0, 9.0]), FINAL) == 2
    assert random_regret(FINAL) == pytest.approx((2 + 0 + 1 + 4) / 4 / 4)


def test_a_choice_by_lot_has_the_random_regret():
    rng = np.random.default_rng(0)
    drawn = [regret(rng.permutation(4).astype(float), FINAL) / np.ptp(FINAL) for _ in range(4000)]
    assert np.mean(drawn) == pytest.approx(random_regret(FINAL), abs=0.03)


def test_recall_asks_for_the_best_in_the_end():
    early = np.array([1.0, 2.5, 2.0, 3.0])  # what ends best is third
    assert [recall(early, FINAL, among) for among in (1, 2, 3, 4)] == [False, False, True, True]


def test_a_planted_transition_is_found():
    """Six looks at one order, ten at another."""
    rng = np.random.default_rng(1)
    first, later = rng.permutation(12), rng.permutation(12)
    losses = np.array([first] * 6 + [later] * 10) + 0.3 * rng.standard_normal((16, 12))
    correlations = self_correlation(losses)
    assert np.diag(correlations) == pytest.approx(np.ones(16))
    assert correlations[0, -1] == pytest.approx(stats.spearmanr(losses[0], losses[-1]).statistic)
    at, gain = transition(correlations)
    assert at == 6
    assert gain > 0.5
