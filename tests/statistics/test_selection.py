"""Choices on losses that were planted."""

import numpy as np
import pytest

from sameloss.errors import ParameterError
from sameloss.statistics.prediction import choose_at, halve, when_settled

STEPS = np.array([0, 1, 2, 4, 8, 16])


def planted(turn):
    """Eight candidates that are ordered backwards until a look, and as they end from there on."""
    final = np.arange(8.0)
    return np.stack([final if look >= turn else final[::-1] for look in range(len(STEPS))])


@pytest.mark.parametrize(("look", "candidate", "taken"), [(0, 7, 0), (2, 7, 14), (3, 0, 28), (5, 0, 112)])
def test_a_choice_at_one_look_costs_all_others_until_then(look, candidate, taken):
    assert choose_at(planted(3), STEPS, look) == (candidate, taken)


def test_halving_costs_less_than_all_candidates_to_its_last_round():
    """7 others for two steps, 3 for two more, 1 for four more: 14 + 6 + 4."""
    assert halve(planted(0), STEPS, first=2) == (0, 24)
    assert choose_at(planted(0), STEPS, 4).others == 56


def test_halving_loses_what_looks_bad_in_its_first_round():
    assert halve(planted(3), STEPS, first=2).candidate == 4  # the best of those that looked better
    assert halve(planted(3), STEPS, first=4).candidate == 0


def test_halving_ends_with_the_training():
    assert halve(planted(0), STEPS, first=16) == (0, 112)
    assert halve(planted(0), STEPS, first=99) == (0, 112)
    with pytest.raises(ParameterError, match=r"at least one step; got 0\.$"):
        halve(planted(0), STEPS, first=0)


@pytest.mark.parametrize(("turn", "candidate", "taken"), [(1, 0, 14), (3, 7, 14), (2, 0, 28)])
def test_a_choice_is_settled_when_it_has_lasted_for_half_of_the_steps(turn, candidate, taken):
    """Candidates that turn after step 2 have been settled, wrongly, before."""
    assert when_settled(planted(turn), STEPS) == (candidate, taken)


def test_what_never_settles_is_decided_at_the_end():
    losses = np.stack([np.roll(np.arange(8.0), look) for look in range(len(STEPS))])
    assert when_settled(losses, STEPS) == choose_at(losses, STEPS, 5)
