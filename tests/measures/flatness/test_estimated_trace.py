"""Estimated traces: parts, factors, and errors that know of correlations."""

import pytest
import torch

from sameloss.measures.flatness.trace import Cost, EstimatedTrace, fisher_trace
from sameloss.models.masked_model import parameter_group

DRAWS = {"word.weight": torch.tensor([1.0, 3.0]), "head_bias": torch.tensor([5.0, 3.0])}


def test_parts_and_layers_add_up(tiny_model, masked):
    trace = fisher_trace(tiny_model, masked, estimator="exact")
    for split in (trace.parts, trace.layers):
        assert sum(part.mean for part in split.values()) == pytest.approx(trace.total.mean, rel=1e-12)
    assert set(trace.parts) == {"word embedding", "position", "LayerNorm", "attention", "MLP", "head"}
    assert set(trace.layers) == {"embedding", "layer 1", "head"}
    assert trace.by(parameter_group) == trace.parts


def test_the_error_of_a_sum_knows_of_correlations():
    """The parts vary, each with an error of 1; their sum does not."""
    trace = EstimatedTrace(DRAWS, Cost(2, 2, 0.0))
    assert trace.total == (6.0, 0.0, 2)
    assert trace.by(lambda name: name) == {"word.weight": (2.0, 1.0, 2), "head_bias": (4.0, 1.0, 2)}


def test_parts_can_have_factors():
    trace = EstimatedTrace(DRAWS, Cost(2, 2, 0.0))
    doubled = trace.scaled(lambda name: 2.0 if name == "word.weight" else 0.5)
    assert doubled.total == pytest.approx((6.0, 1.5, 2))
    assert doubled.cost == trace.cost
    assert trace.total.mean == 6.0


def test_layers_come_from_below():
    names = ("model.decoder.embed_tokens.weight", "model.decoder.final_layer_norm.bias")
    names += tuple(f"model.decoder.layers.{k}.fc1.bias" for k in (10, 1))
    found = EstimatedTrace(dict.fromkeys(names, torch.ones(2)), Cost(1, 1, 0.0))
    assert list(found.layers) == ["embedding", "layer 2", "layer 11", "head"]
