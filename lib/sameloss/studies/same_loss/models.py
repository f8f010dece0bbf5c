"""Tables about the models: parameters by part, the paper's sizes, agreement with `transformers`."""

from dataclasses import asdict
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast, get_args

import pandas as pd
import torch
from torch import nn
from transformers import AutoModelForMaskedLM

from sameloss.hub import load_without_code
from sameloss.languages.paper import PAPER_HMM, PAPER_LANGUAGE
from sameloss.models.bilstm import BiLSTM
from sameloss.models.encoder import Encoder, EncoderShape, Norm
from sameloss.models.export import HuggingFaceModel, export_model
from sameloss.models.sizes import LSTM_SIZES, SIZES
from sameloss.studies.same_loss.experiment import Replicate

BERT_IDS, BERT_POSITIONS, BERT_TYPES = 30_522, 512, 2
"""Rows of BERT's three embeddings, which the paper's size names count."""

OUR_NAME = "29M"
"""The paper does not name this size of its LSTMs."""


def block_parameters(shape: EncoderShape) -> int:
    """Count the parameters of one block: four square matrices, the MLP's two, biases, two LayerNorms.

    >>> block_parameters(EncoderShape(4, 2, 1, 8))
    172
    """
    d, inner = shape.d_model, shape.d_inter
    return 4 * d**2 + 2 * d * inner + inner + 9 * d


def encoder_parameters(shape: EncoderShape, words: int, max_length: int, norm: Norm = "pre") -> int:
    """Count the parameters of an encoder; the head shares the embedding's matrix, which counts once.

    >>> encoder_parameters(EncoderShape(4, 2, 1, 8), words=3, max_length=4)
    251
    """
    d = shape.d_model
    embeddings = (words + 1 + max_length) * d + 2 * d
    final_norm = 2 * d if norm == "pre" else 0
    head = d**2 + 3 * d + words
    return embeddings + shape.layers * block_parameters(shape) + final_norm + head


def bert_parts(d_model: int, blocks: int) -> dict[str, int]:
    """Count the parameters of a model with BERT's parts around its blocks, by part.

    >>> sum(bert_parts(768, 12 * block_parameters(EncoderShape(768, 12, 12, 3072))).values())
    110104890

    Args:
        d_model: width.
        blocks: parameters of all blocks.

    """
    return {
        "word embedding": BERT_IDS * d_model,
        "positions, types": (BERT_POSITIONS + BERT_TYPES) * d_model + 2 * d_model,
        "blocks": blocks,
        "pooler": d_model**2 + d_model,
        "head": d_model**2 + 3 * d_model + BERT_IDS,
    }


def transformer_sizes() -> pd.DataFrame:
    """Return Table 3: shapes, and millions of parameters by BERT's parts, in total, and as built here.

    `off` is by how many per cent the paper's name exceeds the count.
    """
    words, length, rows = PAPER_LANGUAGE.words, PAPER_LANGUAGE.max_length, []
    for name, shape in SIZES["paper"].items():
        parts = bert_parts(shape.d_model, shape.layers * block_parameters(shape))
        total = sum(parts.values())
        counts = {**parts, "as BERT": total, "here": shape.parameter_count(words, length)}
        rows.append({"size": name, **asdict(shape), **_millions(counts), "off": _off(name, total)})
    return pd.DataFrame(rows)


def lstm_sizes() -> pd.DataFrame:
    """Return the LSTMs: millions of parameters with two directions of width d/2, and with one of width d.

    Both are counted with BERT's parts around them; `here` is what this book builds for the paper's HMM. Each
    `off` is by how many per cent the paper's name exceeds the count.
    """
    rows = []
    for name, shape in LSTM_SIZES["paper"].items():
        with torch.device("meta"):
            model = BiLSTM(shape, PAPER_HMM.words, PAPER_HMM.max_length)
            plain = nn.LSTM(shape.d_model, shape.d_model, shape.layers)
        two, one = (sum(bert_parts(shape.d_model, _count(part)).values()) for part in (model.blocks, plain))
        counts = {"two directions": two, "one direction": one, "here": model.parameter_count}
        off = {"off": _off(name, two), "off, one direction": _off(name, one)}
        rows.append({"size": name, **asdict(shape), **_millions(counts), **off})
    return pd.DataFrame(rows)


def _count(*modules: nn.Module) -> int:
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def _millions(counts: dict[str, int]) -> dict[str, float]:
    return {part: count / 1e6 for part, count in counts.items()}


def _off(name: str, count: int) -> float:
    """Percentage by which a size name such as 235M exceeds a count; NaN for our own name."""
    return float("nan") if name == OUR_NAME else 100 * (float(name.removesuffix("M")) * 1e6 / count - 1)


def own_sizes(replicate: Replicate) -> pd.DataFrame:
    """Return the models of a page: shape, and parameters by part of the model."""
    language, rows = replicate.language, []
    for name in replicate.models:
        shape = replicate.setup.models[name]
        with torch.device("meta"):
            model = shape.build(language.words, language.max_length)
        parts = {
            "embeddings": _count(model.word, model.position, model.embedding_norm),
            "blocks": _count(model.blocks, model.final_norm),
            "head": _count(model.head_dense, model.head_norm) + model.head_bias.numel(),
        }
        rows.append({"size": name, **asdict(cast(Any, shape)), **parts, "all": model.parameter_count})
    return pd.DataFrame(rows)


def random_encoder(
    shape: EncoderShape, words: int, max_length: int, generator: torch.Generator, norm: Norm = "pre"
) -> Encoder:
    """Return a float64 encoder with all parameters away from their initial values, gains and biases too."""
    model = Encoder(shape, words, max_length, seed=0, norm=norm).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def agreement_table(shape: EncoderShape, words: int = 16, length: int = 8) -> pd.DataFrame:
    """Compare the logits of exported encoders with those of the `transformers` classes that open them.

    Parameters and sentences are random; the sentences have all lengths, and one [MASK] each.

    Args:
        shape: of the encoders.
        words: vocabulary size.
        length: of the longest sentence (tokens).

    """
    generator = torch.Generator().manual_seed(0)
    batch = _masked_sentences(words, length, generator)
    rows = []
    for norm, dtype in product(get_args(Norm), (torch.float32, torch.float64)):
        model = random_encoder(shape, words, length, generator, norm).to(dtype)
        with TemporaryDirectory() as folder:
            export_model(model, Path(folder))
            twin = load_without_code(AutoModelForMaskedLM.from_pretrained, folder)
        with torch.no_grad():
            ours, theirs = model(*batch), HuggingFaceModel(twin, words)(*batch)
        names = {"ours": f"{norm}-LN", "transformers": type(twin).__name__}
        sizes = {"largest logit": float(ours.abs().max()), "difference": float((theirs - ours).abs().max())}
        rows.append({**names, "precision": str(dtype).removeprefix("torch."), **sizes})
    return pd.DataFrame(rows)


def _masked_sentences(words: int, length: int, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    lengths = torch.arange(length).repeat(8) + 1
    tokens = torch.randint(1, words + 1, (len(lengths), length), generator=generator)
    positions = (torch.rand(len(lengths), generator=generator) * lengths).long()
    tokens[torch.arange(len(lengths)), positions] = 0
    return tokens, positions, lengths
