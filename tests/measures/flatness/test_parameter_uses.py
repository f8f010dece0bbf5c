"""What a watched forward pass writes down; refusals are tested with the gradient norms made of it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sameloss.errors import ModelError
from sameloss.measures.flatness.gradient_norms import NO_ROW, Recorder

SENTENCES, TOKENS = 2, 3
WORDS = torch.tensor([[1, 4, 0], [2, 2, 4]])


class Tiny(nn.Module):
    """A tied embedding with padding, LayerNorm, positions that all sentences share, and a bare bias."""

    def __init__(self):
        super().__init__()
        self.word, self.position = nn.Embedding(5, 4, padding_idx=0), nn.Embedding(TOKENS, 4)
        self.norm, self.bias = nn.LayerNorm(4), nn.Parameter(torch.zeros(4))

    def forward(self, tokens):
        h = self.word(tokens) + self.position(torch.arange(TOKENS))
        return F.linear(self.norm(h) + self.bias, self.word.weight[1:])


def recorded(model, tokens):
    """Watch twice: the first pass tells which outputs all sentences share."""
    with (first := Recorder(model, len(tokens))):
        model(tokens)
    shared = [shape if shape == (TOKENS, 4) else None for shape in first.outputs]
    with (second := Recorder(model, len(tokens), shared)):
        model(tokens)
    assert not first.uses
    return second.uses


def test_every_use_is_written_down():
    uses = recorded(Tiny(), WORDS)
    assert [(use.parameter, use.kind) for use in uses] == [
        ("word.weight", "embedding"),
        ("position.weight", "embedding"),
        ("norm.weight", "gain"),
        ("norm.bias", "bias"),
        ("bias", "bias"),
        ("word.weight", "linear"),
    ]
    assert uses[-1].first_row == 1
    assert {use.first_row for use in uses[:-1]} == {0}


def test_factors_are_what_the_gradient_is_made_of():
    """For a linear layer its input, for a gain the normalised input, for an embedding its rows."""
    model = Tiny()
    embedding, position, gain, _, _, linear = recorded(model, WORDS)
    assert embedding.factor.squeeze(2).tolist() == [[1, 4, NO_ROW], [2, 2, 4]]
    assert position.factor.squeeze(2).tolist() == [[0, 1, 2]] * SENTENCES
    h = model.word(WORDS) + model.position(torch.arange(TOKENS))
    torch.testing.assert_close(gain.factor, F.layer_norm(h, (4,)))
    torch.testing.assert_close(linear.factor, model.norm(h) + model.bias)
    assert not any(use.factor.requires_grad for use in (gain, linear))


def test_the_model_computes_the_same_while_it_is_watched():
    model = Tiny()
    with Recorder(model, SENTENCES):
        watched = model(WORDS)
    assert torch.equal(watched, model(WORDS))


def test_a_frozen_parameter_is_not_watched():
    model = Tiny()
    model.bias.requires_grad_(False)
    assert "bias" not in {use.parameter for use in recorded(model, WORDS)}


def test_an_unknown_use_is_refused_by_name():
    model = Tiny()
    with Recorder(model, SENTENCES), pytest.raises(ModelError, match="Parameter bias of module itself"):
        model.bias.exp()
    with Recorder(model, SENTENCES), pytest.raises(ModelError, match="an index that is not a slice of rows"):
        model.word.weight[torch.tensor([1])]
