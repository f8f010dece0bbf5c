"""Flows of whole matrices: beside a column's, first times, and the token that is lost again."""

import numpy as np
import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.studies.decision_lists.proofs import (
    Matrices,
    all_sequences,
    lost_again,
    matrix_flow,
)
from sameloss.studies.decision_lists.theory import Column, cyclic_lists, flow, uniform_sets

TASK, SETS = cyclic_lists(9, 3), uniform_sets(9, 3)


def followed(readout, horizon, **given):
    fixed = TASK.read_out(readout)
    return matrix_flow(TASK, SETS, Matrices(torch.zeros_like(fixed), fixed), readout, horizon, **given)


@pytest.mark.parametrize("method", ["RK45", "LSODA"])
def test_it_is_the_flow_of_every_column(method):
    found, column = followed(30.0, 5.0, method=method), flow(Column(9, 3, 3, 30.0), 1e4)
    assert found.perfect == pytest.approx(column.natural(column.perfect), rel=1e-4)
    exact = column.scores(5.0 * (30 / 3) ** 2)
    scores = found.at(5.0).scores
    for token, own in enumerate(TASK.lists):
        np.testing.assert_allclose(scores[list(own), token], exact[:3], rtol=1e-4)


def test_both_matrices_move_only_if_asked_to():
    assert torch.equal(followed(30.0, 1.0).at(1.0).read_out, TASK.read_out(30.0))
    moved = followed(30.0, 1.0, trains_read_out=True).at(1.0).read_out - TASK.read_out(30.0)
    assert 0 < float(moved.abs().max()) < 1


def test_first_times_lie_between_two_steps_of_the_solver():
    found = followed(30.0, 5.0)
    for token in (0, 5):
        at = found.perfect_of(token)
        assert not found.wrong_of(token, at)
        assert found.wrong_of(token, at * (1 - 1e-6))
    assert np.isnan(found.first(lambda time: False))
    assert found.first(lambda time: True) == 0
    assert np.isnan(followed(30.0, 1e-3).perfect)


def test_all_sequences_with_their_repeats():
    rows, probabilities = all_sequences(4, 3)
    assert len({tuple(row) for row in rows.tolist()}) == 64
    assert float(probabilities.sum()) == pytest.approx(1)
    with pytest.raises(ParameterError, match="at most 200,000 are enumerated; take a smaller task"):
        all_sequences(27, 8)


def test_a_token_is_perfect_and_lost_again():
    task, sets = lost_again()
    fixed = task.read_out(1e5)
    step = 3 / (50 * 0.7829 * (1e10 / 8))  # the fiftieth part of 1/λ
    found = matrix_flow(task, sets, Matrices(torch.zeros_like(fixed), fixed), 1e5, 200 * step)
    assert found.wrong_of(0, 0.0)
    assert not found.wrong_of(0, step)
    assert not found.wrong_of(0, 30 * step)
    assert found.wrong_of(0, 100 * step)
