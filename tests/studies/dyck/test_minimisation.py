"""The search for the flattest solution finds the bound, or says that it failed."""

import pytest
import torch

from sameloss.errors import NotConverged
from sameloss.studies.dyck.search import minimise_trace, random_start, to_zero_loss
from sameloss.studies.dyck.theory import (
    ZERO_LOSS,
    Transformer,
    hessian_trace,
    lower_bound,
    pretraining_inputs,
    pretraining_loss,
)


def test_the_search_finds_the_bound():
    found = minimise_trace(6, 3, 2, 350, torch.Generator().manual_seed(0))
    inputs = pretraining_inputs(6)
    solved = pretraining_loss(found, inputs) < ZERO_LOSS
    ratios = (hessian_trace(found, inputs) / lower_bound(6, 3))[solved]
    assert 1 - 1e-9 < float(ratios.min()) < 1.1


def test_a_search_that_fails_says_so():
    """Two neurons from seed 0 end with the same sign."""
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(NotConverged, match="None of 1 restarts reached zero loss in 1 steps"):
        minimise_trace(6, 2, 1, 1, generator)


def test_many_models_stay_one_tuple():
    assert Transformer(*random_start(6, 2, 3, torch.Generator(), 1)).model(1).width == 2


def test_starts_are_random_of_the_asked_spread():
    start = random_start(6, 40, 50, torch.Generator().manual_seed(0), rank=3, spread=(3.0, 0.1))
    assert [tuple(part.shape) for part in start] == [(50, 3, 12), (50, 3, 12), (50, 40, 12), (50, 40)]
    spreads = [float(part.std()) for part in start]
    assert spreads == pytest.approx([0.5, 0.5, 3.0, 0.1], rel=0.05)


def test_a_close_solution_is_reached_and_attention_left_alone():
    inputs = pretraining_inputs(6).rows(torch.arange(0, 240, 30))
    model = random_start(6, 12, 1, torch.Generator().manual_seed(0), rank=2).model(0)
    close = to_zero_loss(model, inputs)
    assert pretraining_loss(close, inputs) < ZERO_LOSS < pretraining_loss(model, inputs)
    torch.testing.assert_close((close.query, close.key), (model.query, model.key))
    assert (close.head - model.head).norm() < 3 * model.head.norm()
