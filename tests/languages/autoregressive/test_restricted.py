"""The next-token distribution over some of a model's tokens, against the model's own logits."""

import pytest
import torch

from sameloss.errors import LanguageError
from sameloss.languages.autoregressive import RestrictedModel, TeacherSpec

ALLOWED, END = (5, 3, 4), 2


@pytest.fixture
def model():
    return TeacherSpec(words=3, max_length=3, topics=2, d_model=4).build().model.model


@torch.no_grad()
def test_columns_are_the_models_own_probabilities_renormalised(model):
    tokens = torch.tensor([[0, 5, 3], [1, 4, 4]])
    found, _ = RestrictedModel(model, ALLOWED, END).log_probs(tokens, None)
    logits = model(tokens).logits[..., [*ALLOWED, END]]
    logits[:, 0, -1] = -torch.inf  # no sentence is empty
    torch.testing.assert_close(found, logits.log_softmax(-1), rtol=1e-10, atol=1e-12)
    assert (found[:, 0, -1] == -torch.inf).all()


@torch.no_grad()
def test_a_cache_stands_for_the_tokens_before(model):
    restricted = RestrictedModel(model, ALLOWED, END)
    tokens = torch.tensor([[0, 5, 3], [1, 4, 4]])
    whole, _ = restricted.log_probs(tokens, None)
    first, cache = restricted.log_probs(tokens[:, :1], None)
    rest, _ = restricted.log_probs(tokens[:, 1:], cache)
    torch.testing.assert_close(torch.cat([first, rest], 1), whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("allowed", "fault"), [((5, 6), r"lie in 0\.\.5; got \[5, 6, 2\]"), ((5, 2), "different tokens")]
)
def test_tokens_that_cannot_be_columns_are_refused(model, allowed, fault):
    with pytest.raises(LanguageError, match=fault):
        RestrictedModel(model, allowed, END)


def test_a_model_with_another_output_layer_is_refused(model):
    model.lm_head.register_forward_hook(lambda module, inputs, logits: 3 * logits)
    with pytest.raises(LanguageError, match="linear map"):
        RestrictedModel(model, ALLOWED, END)
