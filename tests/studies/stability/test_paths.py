"""Lines between models: their ends, what is lost between, and lines that cannot be drawn."""

import numpy as np
import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.studies.stability.training import GRID, accuracies_along, along, barrier, check_grid


def test_the_grid_is_the_thesis():
    assert (len(GRID), GRID[0], GRID[-1], GRID[25], GRID[50]) == (76, -1.0, 2.0, 0.0, 1.0)


def test_the_ends_of_a_line_are_the_models():
    first, second = ({"w": torch.full((2,), value)} for value in (3.0, 7.0))
    assert along(first, second, 1.0)["w"].tolist() == [3, 3]
    assert along(first, second, 0.0)["w"].tolist() == [7, 7]
    assert along(first, second, 0.25)["w"].tolist() == [6, 6]


def test_accuracies_are_of_every_pair_at_every_point():
    weights = {"w": torch.tensor([0.0, 1.0, 4.0, 0.0])}
    found = accuracies_along(weights, lambda stack: stack["w"], (-1.0, 0.0, 1.0))
    assert found.tolist() == [[2.0, -4.0], [1.0, 0.0], [0.0, 4.0]]


def test_a_barrier_is_what_lies_between_the_ends_alone():
    alphas = (-1.0, 0.0, 0.5, 1.0, 2.0)
    found = barrier(np.array([[0.0, 0.0], [0.9, 0.8], [0.4, 0.9], [0.7, 0.9], [0.0, 0.0]]), alphas)
    assert found == pytest.approx([0.3, 0.0])


def test_a_grid_needs_its_ends():
    with pytest.raises(ParameterError, match="0 and 1 must be among"):
        check_grid((0.0, 0.5))


def test_models_of_different_shapes_have_no_line():
    with pytest.raises(ParameterError, match="No line joins models of different shapes"):
        along({"w": torch.zeros(2)}, {"w": torch.zeros(3)}, 0.5)
