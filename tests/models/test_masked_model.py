"""What all masked language models share: embeddings, last block, tied head; parameter names; shapes."""

import inspect
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForMaskedLM, OPTConfig, OPTForCausalLM

from sameloss.errors import ParameterError
from sameloss.models.bilstm import BiLSTM, BiLSTMShape
from sameloss.models.encoder import Encoder, EncoderShape, PostBlock
from sameloss.models.masked_model import (
    GROUPS,
    INITIAL_SCALE,
    MaskedLanguageModel,
    Shape,
    chosen,
    parameter_group,
)

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


def test_only_the_last_block_drops_positions(model, tokens):
    at = torch.tensor([1, 2])
    one = model.features(tokens, at=at)
    assert [call is at for call in model.calls] == [False, True]
    torch.testing.assert_close(one[:, 0], model.features(tokens)[torch.arange(2), at])


def test_the_head_is_the_embedding_without_the_mask(model):
    h = torch.randn(3, D, generator=torch.Generator().manual_seed(1)).double()
    inner = F.layer_norm(F.gelu(model.head_dense(h)), [D], eps=1e-12)
    expected = torch.stack([inner @ model.word.weight[w] + (w - 1) for w in range(1, WORDS + 1)], -1)
    torch.testing.assert_close(model.head(h), expected)


def test_counts(model):
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


def test_the_context_is_abstract(tokens):
    bare = MaskedLanguageModel(D, WORDS, LENGTH, [Mean()], nn.Identity())
    with pytest.raises(NotImplementedError):
        inspect.unwrap(MaskedLanguageModel.features)(bare, tokens)


# --- Groups and depths of parameters ---

TINY = {"vocab_size": 7, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
MODELS = {
    "encoder": lambda: EncoderShape(8, 2, 2, 16).build(5, 4),
    "LSTM": lambda: BiLSTMShape(8, 2).build(5, 4),
    "BERT": lambda: BertForMaskedLM(BertConfig(**TINY, intermediate_size=8)),
    "OPT": lambda: OPTForCausalLM(OPTConfig(**TINY, ffn_dim=8, word_embed_proj_dim=8)),
}
COMMON = {"word embedding", "position", "LayerNorm"}
GROUPS_OF = {
    "encoder": COMMON | {"attention", "MLP", "head"},
    "LSTM": COMMON | {"LSTM", "head"},
    "BERT": COMMON | {"attention", "MLP", "head"},
    "OPT": COMMON | {"attention", "MLP"},
}


def names_of(family):
    with torch.device("meta"):
        return [name for name, _ in MODELS[family]().named_parameters()]


@pytest.mark.parametrize("family", MODELS)
def test_every_parameter_has_a_group(family):
    assert {parameter_group(name) for name in names_of(family)} == GROUPS_OF[family] <= set(GROUPS)


def test_groups_of_an_encoders_block():
    block = {name: parameter_group(name) for name in names_of("encoder") if name.startswith("blocks.1.")}
    assert {name.split(".")[2]: group for name, group in block.items()} == {
        "attention_norm": "LayerNorm",
        "attention": "attention",
        "mlp_norm": "LayerNorm",
        "mlp_in": "MLP",
        "mlp_out": "MLP",
    }


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("transformer.h.1.mlp.c_fc.weight", "MLP"),
        ("transformer.h.0.ln_1.weight", "LayerNorm"),
        ("transformer.wte.weight", "word embedding"),
        ("transformer.wpe.weight", "position"),
        ("distilbert.transformer.layer.0.ffn.lin1.weight", "MLP"),
        ("vocab_projector.bias", "head"),
        ("albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight", "MLP"),
        ("model.embeddings.tok_embeddings.weight", "word embedding"),
        ("encoder.block.1.layer.1.DenseReluDense.wi.weight", "MLP"),
        ("layers.1.linear2.weight", "MLP"),
        ("layers.0.norm1.bias", "LayerNorm"),
    ],
)
def test_names_of_other_families_are_known(name, group):
    """GPT-2, DistilBERT, ALBERT, ModernBERT, T5, and PyTorch's own encoder."""
    assert parameter_group(name) == group


def test_unknown_names_are_other():
    assert parameter_group("bias") == "other"


# --- Shapes ---

SHAPES = [EncoderShape(8, 2, 1, 16), EncoderShape(6, 3, 3, 10), BiLSTMShape(8, 1), BiLSTMShape(6, 3)]
T = 7

every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@every_shape
def test_counts_are_those_of_the_model(shape):
    model = shape.build(WORDS, T)
    matrices = [p for name, p in model.named_parameters() if "blocks" in name and p.ndim == 2]
    assert shape.matrix_parameters == sum(matrix.numel() for matrix in matrices)
    assert shape.parameter_count(WORDS, T) == sum(p.numel() for p in model.parameters())


@every_shape
def test_a_seed_makes_the_model_that_the_class_makes(shape):
    kind = {EncoderShape: Encoder, BiLSTMShape: BiLSTM}[type(shape)]
    built, made = shape.build(WORDS, T, 3).state_dict(), kind(shape, WORDS, T, 3).state_dict()
    assert all(torch.equal(built[name], made[name]) for name in made)


def test_norm_and_dropout_reach_the_encoder():
    model = SHAPES[1].build(WORDS, T, norm="post", dropout=0.5)
    assert all(isinstance(block, PostBlock) and block.dropout == 0.5 for block in model.blocks)


@pytest.mark.parametrize("shape", SHAPES[:2], ids=str)
def test_operations_of_an_encoder_are_those_that_pytorch_counts(shape):
    model = shape.build(WORDS, T, seed=0)
    masked, positions = torch.ones(1, T, dtype=torch.long), torch.tensor([2])
    with FlopCounterMode(display=False) as counter:
        model(masked, positions).sum().backward()
    assert shape.flops(WORDS, T) == counter.get_total_flops()


def test_operations_of_an_lstm_by_hand():
    """Two directions of four gates, each reading d numbers and d/2 of its own; then the head."""
    gates = 2 * 4 * 4 * (8 + 4)
    assert BiLSTMShape(8, 1).flops(WORDS, T) == 6 * (T * gates + 8 * 8 + 8 * WORDS)


@every_shape
def test_deeper_models_have_more_activations(shape):
    deeper = type(shape)(**{**vars(shape), "layers": shape.layers + 1})
    assert 0 < shape.activations(T) < deeper.activations(T)


def test_options_that_a_family_lacks_are_refused():
    message = "BiLSTMShape cannot be trained with post-LN, dropout, .*; choose another family's size"
    with pytest.raises(ParameterError, match=message):
        BiLSTMShape(8, 1).build(WORDS, T, norm="post", dropout=0.1)
    BiLSTMShape(8, 1).check_plain(False)
    SHAPES[0].check_plain(True)


def test_an_incomplete_family_is_refused():
    class Half(Shape):
        d_model, layers = 2, 1

    with pytest.raises(TypeError, match=r"abstract .*flops"):
        Half()
