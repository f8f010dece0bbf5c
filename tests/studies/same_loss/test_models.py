"""Counts against the paper, PyTorch and `transformers`; and the law of the trace under enlargement."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM
from transformers.models.bert.modeling_bert import BertPooler

from sameloss.languages import PCFGSpec
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.sizes import LADDER, SIZES
from sameloss.runs.sampling import held_out_masked
from sameloss.studies import drawing
from sameloss.studies.same_loss import enlargement, figures
from sameloss.studies.same_loss.models import (
    agreement_table,
    bert_parts,
    block_parameters,
    encoder_parameters,
    lstm_sizes,
    own_sizes,
    random_encoder,
    transformer_sizes,
)

AS_BERT = [2.08, 4.83, 8.29, 12.85, 41.67, 110.1, 235.5, 436.6, 732.4]  # millions, Table 3's shapes
LSTMS = [4.4, 10.5, 29.1, 67.6, 134.8]


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_transformers_count_as_the_papers():
    table = transformer_sizes()
    assert list(table["as BERT"]) == pytest.approx(AS_BERT, rel=0.01)
    parts = ["word embedding", "positions, types", "blocks", "pooler", "head"]
    assert list(table[parts].sum(axis=1)) == pytest.approx(list(table["as BERT"]), rel=1e-12)
    assert table.off.abs().max() < 10  # 9M, the name farthest from what it counts


@pytest.mark.parametrize("shape", list(SIZES["paper"].values())[:5])
def test_parts_are_those_of_transformers(shape):
    config = BertConfig(
        hidden_size=shape.d_model,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.d_inter,
    )
    with torch.device("meta"):
        bert, pooler = BertForMaskedLM(config), BertPooler(config)
    assert bert_parts(shape.d_model, shape.layers * block_parameters(shape)) == {
        "word embedding": count(bert.bert.embeddings.word_embeddings),
        "positions, types": count(bert.bert.embeddings) - count(bert.bert.embeddings.word_embeddings),
        "blocks": count(bert.bert.encoder),
        "pooler": count(pooler),
        "head": count(bert.cls) - count(bert.bert.embeddings.word_embeddings),
    }


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("shape", [EncoderShape(4, 2, 1, 8), EncoderShape(6, 3, 3, 10)])
def test_the_formula_counts_an_encoder(shape, norm):
    assert encoder_parameters(shape, 7, 5, norm) == Encoder(shape, 7, 5, norm=norm).parameter_count


def test_only_lstms_of_two_directions_count_as_the_papers():
    table = lstm_sizes()
    assert list(table["two directions"]) == pytest.approx(LSTMS, rel=0.01)
    named = table[table["size"].isin(["67M", "135M"])]
    assert named.off.abs().max() < 1
    assert named["off, one direction"].max() < -15
    assert list(table["size"][table.off.isna()]) == ["29M"]


def test_lstm_counts_are_pytorchs():
    """Beside BERT's parts: PyTorch's own bidirectional LSTM, and a LayerNorm a layer."""
    for row in lstm_sizes().to_dict("records"):
        d, layers = row["d_model"], row["layers"]
        with torch.device("meta"):
            lstm = nn.LSTM(d, d // 2, layers, bidirectional=True)
        total = sum(bert_parts(d, count(lstm) + layers * 2 * d).values())
        assert row["two directions"] == pytest.approx(total / 1e6, rel=1e-12)


@pytest.mark.parametrize(("size", "language"), [("d32", "grammar"), ("lstm32", "hmm"), ("235M", "grammar")])
def test_own_sizes_by_part(opened, size, language):
    replicate = opened("02_existence", preset="auto", size=size, language=language).replicate
    (row,) = own_sizes(replicate).to_dict("records")
    assert row["embeddings"] + row["blocks"] + row["head"] == row["all"]
    spec = replicate.language
    assert row["all"] == replicate.setup.models[size].parameter_count(spec.words, spec.max_length)


def test_agreement_with_transformers():
    table = agreement_table(EncoderShape(8, 2, 2, 16), words=5, length=4)
    assert list(zip(table.ours, table.precision, strict=True)) == [
        (norm, precision) for norm in ("pre-LN", "post-LN") for precision in ("float32", "float64")
    ]
    assert (table["largest logit"] > 1).all()
    assert (table.difference[table.precision == "float32"] < 1e-4).all()
    assert (table.difference[table.precision == "float64"] < 1e-12).all()


def test_random_encoders_have_no_initial_value():
    model = random_encoder(EncoderShape(8, 2, 1, 16), 5, 4, torch.Generator().manual_seed(0))
    assert all((p != 0).all() and (p != 1).all() for p in model.parameters())


# Small transformers inside large ones


def test_law_and_function_tables():
    model = random_encoder(EncoderShape(8, 1, 1, 16), 6, 4, torch.Generator().manual_seed(0))
    language = PCFGSpec(2, 3, 3, 3, 3, 6, 3, 0.7, 0.7, smoothing=0.03, seed=1).build()
    masked = held_out_masked(language, 8, 0, "tables")
    laws = enlargement.law_table(model, masked)
    assert laws.off.max() < 1e-6
    np.testing.assert_allclose(laws.measured, laws.law, rtol=1e-6)
    functions = enlargement.function_table(model, masked).set_index("change")
    assert functions.moved.drop("post-LN, 2 layers added").max() < 1e-6
    assert functions.moved["post-LN, 2 layers added"] > 1e-3
    assert functions.trace["pre-LN, 2 layers added"] > 1


def test_ladder_of_table_4():
    ladder = enlargement.ladder_table().set_index("size")
    assert list(ladder["printed embeds"]) == ["no"] * 6 + ["yes"]
    assert ladder.ratio["d128"] == 15


def test_inflation_of_every_kind_at_every_width():
    """The widest shape is not enlarged; the next one has two copies of everything."""
    table = enlargement.inflation_table(LADDER).set_index(["parameters", "d_model"]).factor
    assert len(table) == 3 * len(LADDER)
    for kind in ("embedding", "matrix", "vector"):
        assert table[kind, 1920] == 1
    assert table["embedding", 960] == pytest.approx(2)
    assert table["matrix", 960] == pytest.approx(1)
    assert table["vector", 960] == pytest.approx(0.5)


def test_the_figure_has_a_line_a_kind():
    (ax,) = drawing.panels(1)
    assert len(figures.predicted_inflation(enlargement.inflation_table(LADDER), ax).lines) == 3


def test_what_enlargement_does_to_the_ratio_in_words():
    rows = pd.DataFrame(
        {
            "language": ["grammar", "grammar", "hmm"],
            "row": ["main", "enlarged to one width", "main"],
            "mean": [1.5, 3.0, 2.0],
            "low": [0.9, 2.0, 1.5],
        }
    )
    models = pd.DataFrame({"language": "grammar", "model": ["none", "d96", "d24"], "parameters": [0, 9, 2]})
    words = enlargement.tilt_in_words(rows, models)
    assert "multiplies the ratio by 2.00" in words
    assert "gives 4," in words
    assert "1 of 2 intervals lies wholly above one" in words
    assert "whether the larger model is flatter depends on" in words
    assert "each comparison" in enlargement.tilt_in_words(rows.assign(low=1.1), models)
    assert "No recorded model" in enlargement.tilt_in_words(rows[rows.language == "hmm"], models)
