"""Early and final losses: planted orders, numbers by hand, simulated coverage."""

import numpy as np
import pytest
from scipy import stats

from sameloss.errors import ParameterError
from sameloss.statistics.intervals import seed_interval
from sameloss.statistics.prediction import mean_correlation, rank_correlation

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
    interval = mean_correlation(np.array([0.2, 0.6, np.nan, 0.9]))
    assert interval == pytest.approx(tuple(np.tanh(seed_interval(np.arctanh([0.2, 0.6, 0.9])))))


def test_perfect_correlations_have_a_mean():
    assert mean_correlation(np.array([1.0, 1.0, 1.0])).value == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("seeds", [[], [0.3], [np.nan, np.nan]])
def test_one_seed_has_no_interval(seeds):
    interval = mean_correlation(np.array(seeds, dtype=float))
    assert np.isnan([interval.low, interval.high]).all()


def test_the_interval_has_its_coverage():
    rng = np.random.default_rng(0)
    draws = np.tanh(0.5 + 0.3 * rng.standard_normal((1000, 5)))
    intervals = [mean_correlation(row) for row in draws]
    covered = np.mean([low <= np.tanh(0.5) <= high for _, low, high in intervals])
    assert 0.93 <= covered <= 0.97
