"""Every parameter of every family belongs to a part and to a depth."""

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, OPTConfig, OPTForCausalLM

from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.encoder import EncoderShape
from sameloss.models.parts import GROUPS, parameter_group, parameter_layer

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


def test_what_no_pattern_knows_is_other():
    assert parameter_group("bias") == "other"
    assert parameter_layer("bias") == "head"
