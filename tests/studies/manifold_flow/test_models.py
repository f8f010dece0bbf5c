"""Small models whose minimisers and traces are known in closed form."""

import pytest
import torch

from sameloss.errors import ModelError
from sameloss.studies.manifold_flow.experiment import ZEROS_LANGUAGE
from sameloss.studies.manifold_flow.theory import (
    LogBilinear,
    Population,
    PowerSum,
    masked_population,
    onto_manifold,
)


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_closed_form_traces(population, start, away):
    """The log-bilinear one holds off the manifold too, the power sum's on it."""
    for theta in (start, away):
        closed = population.logits.trace(theta, population.weights)
        torch.testing.assert_close(closed, population.hessian(theta).trace(), rtol=1e-12, atol=0)
    words = torch.tensor([[0.7, 0.3]], dtype=torch.float64)
    two = Population(torch.ones(1, dtype=torch.float64), words, PowerSum())
    theta = onto_manifold(two, torch.tensor([0.4, 1.1], dtype=torch.float64), 1e-28)
    torch.testing.assert_close(PowerSum().trace(theta, 0.7), two.hessian(theta).trace(), rtol=1e-10, atol=0)


def test_logits_are_a_product_row_by_row():
    model = LogBilinear(contexts=2, words=3, rank=1)
    theta = torch.tensor([2.0, 3.0, 1.0, 10.0, 100.0]).double()
    assert model.parameters == len(theta)
    assert model(theta).tolist() == [[2, 20, 200], [3, 30, 300]]
    assert model(torch.stack([theta, theta]))[1].tolist() == model(theta).tolist()


def test_minimisers_predict_the_conditionals_however_unbalanced(population):
    traces = []
    for unbalance in (1.0, 3.0):
        theta = population.logits.minimiser(population.conditionals, drawn(), unbalance)
        predicted = population.logits(theta).softmax(-1)
        torch.testing.assert_close(predicted, population.conditionals, rtol=1e-10, atol=0)
        traces.append(float(population.logits.trace(theta, population.weights)))
    assert traces[1] > 1.5 * traces[0]


def test_power_sums_by_hand():
    assert PowerSum()(torch.tensor([1.0, 2.0])).tolist() == [[9.0, 0.0]]
    assert PowerSum(2).trace(torch.tensor([1.0, 2.0]), 0.5) == 0.25 * (4 + 16)


def test_what_no_parameters_attain_is_refused(population):
    with pytest.raises(ModelError, match="smooth the language"):
        LogBilinear(8, 4, 4).minimiser(masked_population(ZEROS_LANGUAGE.build())[1], drawn())
    with pytest.raises(ModelError, match="rank must be at least 2"):
        LogBilinear(6, 3, 1).minimiser(population.conditionals, drawn())
