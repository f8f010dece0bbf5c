"""Models of `transformers`, called as those of this book."""

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    OPTConfig,
    OPTForCausalLM,
)

from sameloss.errors import ModelError
from sameloss.models.export import HuggingFaceModel

WORDS, LENGTH = 5, 4
SIZES = {"vocab_size": WORDS + 2, "max_position_embeddings": LENGTH, "num_hidden_layers": 1}
MODELS = {
    "bert": lambda: BertForMaskedLM(
        BertConfig(**SIZES, hidden_size=8, num_attention_heads=2, intermediate_size=8)
    ),
    "opt": lambda: OPTForCausalLM(
        OPTConfig(**SIZES, hidden_size=8, num_attention_heads=2, ffn_dim=8, word_embed_proj_dim=8)
    ),
}
TOKENS, POSITIONS = torch.tensor([[1, 0, 5, 2], [3, 4, 0, 1]]), torch.tensor([1, 2])


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(0)
    return MODELS[request.param]().double().eval()


@torch.no_grad()
def test_logits_are_those_of_the_words_at_the_position(model):
    found = HuggingFaceModel(model, WORDS)(TOKENS, POSITIONS)
    everywhere = model(input_ids=TOKENS, attention_mask=torch.ones_like(TOKENS)).logits
    expected = torch.stack([everywhere[0, 1, 1:6], everywhere[1, 2, 1:6]])
    torch.testing.assert_close(found, expected)


@torch.no_grad()
def test_padding_does_not_matter(model):
    wrapped = HuggingFaceModel(model, WORDS)
    padded = wrapped(TOKENS, POSITIONS, torch.tensor([3, 4]))
    changed = TOKENS.clone()
    changed[0, 3] = 4
    assert torch.equal(wrapped(changed, POSITIONS, torch.tensor([3, 4])), padded)
    torch.testing.assert_close(padded[:1], wrapped(TOKENS[:1, :3], POSITIONS[:1]))


def test_a_vocabulary_that_is_too_small_is_refused(model):
    HuggingFaceModel(model, WORDS + 1)
    with pytest.raises(ModelError, match=r"has 7 ids, too few for \[MASK\] and 7 words; it needs at least 8"):
        HuggingFaceModel(model, WORDS + 2)


@pytest.mark.parametrize(
    ("kind", "returned"),
    [
        (BertForSequenceClassification, r"logits of shape \(2, 2\)"),
        (BertForTokenClassification, r"logits of shape \(2, 4, 2\)"),
        (BertModel, "no logits"),
    ],
)
def test_another_head_is_refused_in_one_sentence(kind, returned):
    config = BertConfig(**SIZES, hidden_size=8, num_attention_heads=2, intermediate_size=8)
    wrapped = HuggingFaceModel(kind(config).eval(), WORDS)
    with pytest.raises(ModelError, match=rf"^The model returned {returned} for tokens of shape \(2, 4\); it"):
        wrapped(TOKENS, POSITIONS)
