"""The trace relative to the weights: by hand, and under changes of whole tensors."""

import pytest
import torch
from tiny_models import hessian_diagonal, reparametrised
from torch import nn

from sameloss.errors import ParameterError
from sameloss.measures.flatness.hessian import unflattened
from sameloss.measures.flatness.trace import Cost, EstimatedTrace, relative_trace


def test_relative_trace_by_hand():
    model = nn.ModuleDict({"a": nn.Linear(1, 2)})
    with torch.no_grad():
        model["a"].weight.copy_(torch.tensor([[3.0], [4.0]]))  # squared norm 25
        model["a"].bias.copy_(torch.tensor([1.0, 1.0]))  # 2
    draws = {"a.weight": torch.tensor([1.0, 2.0]), "a.bias": torch.tensor([10.0, 0.0])}
    result = relative_trace(model, EstimatedTrace(draws, Cost(2, 2, 0.0)))
    assert result == pytest.approx((47.5, 2.5, 2))  # of 25 + 20 and 50


@pytest.mark.parametrize(
    "name", ["LayerNorm gains × 2", "embedding × 2", "heads rotated", "neurons permuted"]
)
def test_relative_trace_is_invariant_where_whole_tensors_change(tiny_model, masked, name):
    def measured(model):
        parts = unflattened(model, hessian_diagonal(model, masked))
        draws = {part: value.sum().expand(2) for part, value in parts.items()}
        return relative_trace(model, EstimatedTrace(draws, Cost(2, 2, 0.0))).mean

    assert measured(reparametrised(tiny_model, name)) == pytest.approx(measured(tiny_model), rel=1e-9)


@pytest.mark.parametrize(
    ("fault", "draws"),
    [(r"it has \['strange.weight'\]", {"strange.weight": torch.ones(2)}), ("it has none", {})],
)
def test_the_trace_of_another_model_is_refused(tiny_model, fault, draws):
    with pytest.raises(ParameterError, match=fault):
        relative_trace(tiny_model, EstimatedTrace(draws, Cost(2, 2, 0.0)))
