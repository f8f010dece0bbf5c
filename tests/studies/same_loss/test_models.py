"""Counts against the paper, PyTorch and `transformers`, and exported models."""

from dataclasses import asdict

import pytest
import torch
from cells import definitions
from torch import nn

from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.sizes import LSTM_SIZES, SIZES

CHAPTER = definitions("a3_models")
AS_BERT = [2.08, 4.83, 8.29, 12.85, 41.67, 110.1, 235.5, 436.6, 732.4]  # millions, Table 3's shapes
LSTMS = [4.4, 10.5, 29.1, 67.6, 134.8]


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("shape", [EncoderShape(4, 2, 1, 8), EncoderShape(6, 3, 3, 10)])
def test_the_formula_counts_an_encoder(shape, norm):
    assert CHAPTER.encoder_parameters(shape, 7, 5, norm) == Encoder(shape, 7, 5, norm=norm).parameter_count


def test_transformers_count_as_the_papers():
    counts = [sum(CHAPTER.as_bert(**asdict(shape)).values()) for shape in SIZES["paper"].values()]
    assert counts == pytest.approx(AS_BERT, rel=0.01)


@pytest.mark.parametrize("shape", list(SIZES["paper"].values())[:5])
def test_parts_by_hand(shape):
    """Per block: attention, MLP, two LayerNorms; 30,522 ids, 512 positions and two types are BERT's."""
    d, inner = shape.d_model, shape.d_inter
    block = (4 * d**2 + 4 * d) + (2 * d * inner + inner + d) + 4 * d
    expected = {
        "word embedding": 30_522 * d,
        "positions, types": (512 + 2) * d + 2 * d,
        "blocks": shape.layers * block,
        "pooler": d**2 + d,
        "head": (d**2 + d) + 2 * d + 30_522,
    }
    assert CHAPTER.as_bert(**asdict(shape)) == pytest.approx({k: n / 1e6 for k, n in expected.items()})


def test_only_lstms_of_two_directions_count_as_the_papers():
    """Beside BERT's other parts: PyTorch's own bidirectional LSTM, and a LayerNorm a layer."""
    for shape, count in zip(LSTM_SIZES["paper"].values(), LSTMS, strict=True):
        d, layers = shape.d_model, shape.layers
        with torch.device("meta"):
            blocks = shape.build(4, 4).blocks
            lstm = nn.LSTM(d, d // 2, layers, bidirectional=True)
        assert CHAPTER.millions(blocks) == pytest.approx(CHAPTER.millions(lstm) + layers * 2 * d / 1e6)
        parts = CHAPTER.as_bert(d)
        assert sum(parts.values()) - parts["blocks"] + CHAPTER.millions(lstm) == pytest.approx(
            count, rel=0.01
        )


@pytest.mark.parametrize(
    ("norm", "name"), [("pre", "RobertaPreLayerNormForMaskedLM"), ("post", "BertForMaskedLM")]
)
def test_exported_models_are_opened(norm, name):
    generator = torch.Generator().manual_seed(0)
    model = CHAPTER.random_encoder(EncoderShape(8, 2, 1, 16), 5, 4, norm, generator)
    assert all((p != 0).all() and (p != 1).all() for p in model.parameters())
    assert type(CHAPTER.reopened(model)).__name__ == name
