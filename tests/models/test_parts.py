"""Every parameter of every family belongs to a part and to a depth."""

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, OPTConfig, OPTForCausalLM

from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.encoder import EncoderShape
from sameloss.models.masked_model import GROUPS, parameter_group, parameter_layer

SIZES = {"vocab_size": 7, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
MODELS = {
    "encoder": lambda: EncoderShape(8, 2, 2, 16).build(5, 4),
    "LSTM": lambda: BiLSTMShape(8, 2).build(5, 4),
    "BERT": lambda: BertForMaskedLM(BertConfig(**SIZES, intermediate_size=8)),
    "OPT": lambda: OPTForCausalLM(OPTConfig(**SIZES, ffn_dim=8, word_embed_proj_dim=8)),
}
COMMON = {"word embedding", "position", "LayerNorm"}
FOUND = {
    "encoder": COMMON | {"attention", "MLP", "head"},
    "LSTM": COMMON | {"LSTM", "head"},
    "BERT": COMMON | {"attention", "MLP", "head"},
    "OPT": COMMON | {"attention", "MLP"},
}


def names(family):
    with torch.device("meta"):
        return [name for name, _ in MODELS[family]().named_parameters()]


@pytest.mark.parametrize("family", MODELS)
def test_no_parameter_is_left_over(family):
    assert {parameter_group(name) for name in names(family)} == FOUND[family] <= set(GROUPS)
    layers = ["embedding", "layer 1", "layer 2", "head"]
    assert {parameter_layer(name) for name in names(family)} == set(layers)


def test_groups_of_an_encoders_block():
    block = {name: parameter_group(name) for name in names("encoder") if name.startswith("blocks.1.")}
    assert {name.split(".")[2]: group for name, group in block.items()} == {
        "attention_norm": "LayerNorm",
        "attention": "attention",
        "mlp_norm": "LayerNorm",
        "mlp_in": "MLP",
        "mlp_out": "MLP",
    }


@pytest.mark.parametrize(
    ("name", "group", "layer"),
    [
        ("transformer.h.1.mlp.c_fc.weight", "MLP", "layer 2"),
        ("transformer.h.0.ln_1.weight", "LayerNorm", "layer 1"),
        ("transformer.wte.weight", "word embedding", "embedding"),
        ("transformer.wpe.weight", "position", "embedding"),
        ("distilbert.transformer.layer.0.ffn.lin1.weight", "MLP", "layer 1"),
        ("vocab_projector.bias", "head", "head"),
        ("albert.encoder.albert_layer_groups.0.albert_layers.0.ffn.weight", "MLP", "layer 1"),
        ("model.embeddings.tok_embeddings.weight", "word embedding", "embedding"),
        ("encoder.block.1.layer.1.DenseReluDense.wi.weight", "MLP", "layer 2"),
        ("layers.1.linear2.weight", "MLP", "layer 2"),
        ("layers.0.norm1.bias", "LayerNorm", "layer 1"),
    ],
)
def test_names_of_other_families_are_known(name, group, layer):
    """GPT-2, DistilBERT, ALBERT, ModernBERT, T5, and PyTorch's own encoder."""
    assert (parameter_group(name), parameter_layer(name)) == (group, layer)


def test_what_no_pattern_knows_is_other():
    assert parameter_group("bias") == "other"
    assert parameter_layer("bias") == "head"
