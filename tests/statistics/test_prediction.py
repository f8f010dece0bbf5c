"""Early and final losses, and selection rules: planted orders, numbers by hand, simulated coverage."""

import numpy as np
import pytest
from scipy import stats

from sameloss.errors import ParameterError
from sameloss.statistics.intervals import seed_interval
from sameloss.statistics.prediction import (
    choose_at,
    halve,
    mean_correlation,
    random_regret,
    rank_correlation,
    recall,
    regret,
    self_correlation,
    transition,
    when_settled,
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


def test_regret_by_hand():
    assert regret(FINAL, FINAL) == 0
    assert regret(np.array([1.0, 9.0, 9.0, 9.0]), FINAL) == 2
    assert random_regret(FINAL) == pytest.approx((2 + 0 + 1 + 4) / 4 / 4)


def test_random_choices_have_the_random_regret():
    rng = np.random.default_rng(0)
    drawn = [regret(rng.permutation(4).astype(float), FINAL) / np.ptp(FINAL) for _ in range(4000)]
    assert np.mean(drawn) == pytest.approx(random_regret(FINAL), abs=0.03)


def test_recall_is_of_the_best_in_the_end():
    early = np.array([1.0, 2.5, 2.0, 3.0])  # the one that ends best is third
    assert [recall(early, FINAL, among) for among in (1, 2, 3, 4)] == [False, False, True, True]


def test_a_planted_transition_is_found():
    """Six steps in one order, ten in another."""
    rng = np.random.default_rng(1)
    first, later = rng.permutation(12), rng.permutation(12)
    losses = np.array([first] * 6 + [later] * 10) + 0.3 * rng.standard_normal((16, 12))
    correlations = self_correlation(losses)
    assert np.diag(correlations) == pytest.approx(np.ones(16))
    assert correlations[0, -1] == pytest.approx(stats.spearmanr(losses[0], losses[-1]).statistic)
    at, gain = transition(correlations)
    assert at == 6
    assert gain > 0.5


STEPS = np.array([0, 1, 2, 4, 8, 16])


def planted(turn):
    """Losses of eight candidates: in reverse order before evaluation `turn`, then in final order."""
    final = np.arange(8.0)
    return np.stack([final if at >= turn else final[::-1] for at in range(len(STEPS))])


@pytest.mark.parametrize(("at", "candidate", "taken"), [(0, 7, 0), (2, 7, 14), (3, 0, 28), (5, 0, 112)])
def test_a_choice_costs_the_steps_of_all_others_until_then(at, candidate, taken):
    assert choose_at(planted(3), STEPS, at) == (candidate, taken)


def test_halving_costs_less_than_all_candidates_to_its_last_round():
    """7 others for two steps, 3 for two more, 1 for four more: 14 + 6 + 4."""
    assert halve(planted(0), STEPS, first=2) == (0, 24)
    assert choose_at(planted(0), STEPS, 4).others == 56


def test_halving_drops_candidates_that_are_bad_in_its_first_round():
    assert halve(planted(3), STEPS, first=2).candidate == 4  # the best of those that were better then
    assert halve(planted(3), STEPS, first=4).candidate == 0


def test_halving_ends_with_the_training():
    assert halve(planted(0), STEPS, first=16) == (0, 112)
    assert halve(planted(0), STEPS, first=99) == (0, 112)
    with pytest.raises(ParameterError, match=r"at least one step; got 0\.$"):
        halve(planted(0), STEPS, first=0)


@pytest.mark.parametrize(("turn", "candidate", "taken"), [(1, 0, 14), (3, 7, 14), (2, 0, 28)])
def test_a_choice_is_settled_once_it_has_lasted_for_half_of_the_steps(turn, candidate, taken):
    """Candidates that turn after step 2 are settled, wrongly, before."""
    assert when_settled(planted(turn), STEPS) == (candidate, taken)


def test_a_choice_that_never_settles_is_made_at_the_end():
    losses = np.stack([np.roll(np.arange(8.0), at) for at in range(len(STEPS))])
    assert when_settled(losses, STEPS) == choose_at(losses, STEPS, 5)
