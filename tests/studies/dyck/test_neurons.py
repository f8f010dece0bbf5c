"""Exact facts about single neurons and stacked inputs, by brute force and by numpy."""

from itertools import product

import numpy as np

from sameloss.studies.dyck.theory import (
    allowed_neurons,
    cyclic_matrix,
    exact_rank,
    pretraining_inputs,
    transferable_solution,
    wrong_activations,
)


def test_neurons_that_the_conditions_allow():
    """One of case 1, 2ᵀ of case 2, and 4T that Lemma F.3 leaves out; brute force at T = 4 over V^(p) too."""
    counts = allowed_neurons(6)
    assert counts == (1 + 2**6 + 4 * 6, 1 + 2**6, 1)
    inputs = pretraining_inputs(4)
    z = (inputs.tokens.sum(1)[inputs.target > 0] * 2).int().numpy()
    grid = np.array(list(product((-2, -1, 0, 1, 2), repeat=4)))
    halves = np.array(list(product((-1, 0, 1), repeat=4)))
    allowed = 0
    for brackets in grid:
        values = (z[:, :4] @ brackets)[:, None] + z[:, 4:] @ halves.T
        allowed += int(np.isin(values, (0, 4)).all(0).sum())
    assert allowed - 1 == allowed_neurons(4).all  # all but V = 0


def test_cyclic_matrices_have_full_rank():
    for k in range(1, 9):
        matrix = cyclic_matrix(k)
        assert matrix.sum(1).tolist() == [1] * (2 * k + 1)
        assert exact_rank(matrix) == np.linalg.matrix_rank(matrix) == 2 * k + 1
    assert exact_rank(np.ones((3, 4), dtype=int)) == 1


def test_activations_have_the_sign_of_the_target():
    inputs = pretraining_inputs(6)
    model = transferable_solution(6, 4)
    assert wrong_activations(model, inputs) == 0
    assert wrong_activations(model._replace(head=-model.head), inputs) == 480


def test_ranks_are_numpys():
    rng = np.random.default_rng(0)
    for rows, columns, rank in ((5, 7, 3), (7, 5, 5), (4, 4, 1)):
        matrix = rng.integers(-3, 4, (rows, rank)) @ rng.integers(-3, 4, (rank, columns))
        assert exact_rank(matrix) == np.linalg.matrix_rank(matrix)
    assert exact_rank(np.zeros((3, 2), dtype=int)) == 0
