"""What all masked language models share: embeddings, one output of the last block, a tied head."""

import inspect
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sameloss.models.masked_model import INITIAL_SCALE, MaskedLanguageModel, chosen

D, WORDS, LENGTH = 6, 5, 4


class Mean(nn.Module):
    """h + its mean over the sentence; the context counts the calls."""

    def forward(self, h, context, at=None):
        context.append(at)
        return chosen(h + h.mean(1, keepdim=True), at)


class Means(MaskedLanguageModel):
    def __init__(self):
        super().__init__(D, WORDS, LENGTH, (Mean() for _ in range(2)), nn.LayerNorm(D))
        self._initialise(torch.Generator().manual_seed(0))
        self.calls = []

    def context(self, tokens, lengths):
        self.calls.clear()
        return self.calls


@pytest.fixture
def model():
    model = Means().double()
    with torch.no_grad():
        model.head_bias.copy_(torch.arange(WORDS))
    return model


@pytest.fixture
def tokens():
    return torch.tensor([[1, 0, 2], [5, 3, 0]])


def test_features_by_hand(model, tokens):
    h = F.layer_norm(model.word.weight[tokens] + model.position.weight[:3], [D], eps=1e-12)
    for _ in range(2):
        h = h + h.mean(1, keepdim=True)
    torch.testing.assert_close(model.features(tokens), F.layer_norm(h, [D]))


def test_only_the_last_block_leaves_positions_out(model, tokens):
    at = torch.tensor([1, 2])
    one = model.features(tokens, at=at)
    assert [call is at for call in model.calls] == [False, True]
    torch.testing.assert_close(one[:, 0], model.features(tokens)[torch.arange(2), at])


def test_the_head_is_the_embedding_without_the_mask(model):
    h = torch.randn(3, D, generator=torch.Generator().manual_seed(1)).double()
    inner = F.layer_norm(F.gelu(model.head_dense(h)), [D], eps=1e-12)
    expected = torch.stack([inner @ model.word.weight[w] + (w - 1) for w in range(1, WORDS + 1)], -1)
    torch.testing.assert_close(model.head(h), expected)


def test_what_is_counted(model):
    embeddings, norms, head = (WORDS + 1 + LENGTH) * D, 3 * 2 * D, D * D + D + WORDS
    assert model.parameter_count == embeddings + norms + head
    assert model.max_length == LENGTH


def test_initial_values_are_berts():
    class Wide(Means):
        def __init__(self):
            MaskedLanguageModel.__init__(self, 200, 300, 20, [], nn.LayerNorm(200))
            self._initialise(torch.Generator().manual_seed(0))

    weights = Wide().state_dict()
    for name in ("word.weight", "position.weight", "head_dense.weight"):
        values = weights[name]
        assert values.std().item() == pytest.approx(INITIAL_SCALE, rel=5 / math.sqrt(2 * values.numel()))
        assert abs(values.mean().item()) < 4 * INITIAL_SCALE / math.sqrt(values.numel())
    assert all((value == 0).all() for name, value in weights.items() if name.endswith("bias"))
    assert all((value == 1).all() for name, value in weights.items() if name.endswith("norm.weight"))


def test_a_family_says_what_its_blocks_are_given(tokens):
    bare = MaskedLanguageModel(D, WORDS, LENGTH, [Mean()], nn.Identity())
    with pytest.raises(NotImplementedError):
        inspect.unwrap(MaskedLanguageModel.features)(bare, tokens)
