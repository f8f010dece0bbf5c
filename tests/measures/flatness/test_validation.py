"""Preconditions of the measures of flatness, each of which checks them."""

import pytest
import torch
from tiny_models import seeded
from torch import nn
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaConfig

from sameloss.errors import ModelError
from sameloss.measures.flatness.gradient_norms import recordings
from sameloss.measures.flatness.hessian import dense_hessian, fisher_gap, hutchinson_trace, top_eigenvalue
from sameloss.measures.flatness.sharpness import (
    adaptive_sharpness,
    group_diagonals,
    local_learning_coefficient,
    worst_case_adaptive_sharpness,
)
from sameloss.measures.flatness.trace import fisher_trace, minibatch_trace
from sameloss.measures.flatness.validation import check, check_logits, check_padding

CHAIN = {"chains": 2, "steps": 4, "batch": 2, "lr": 1e-4, "localisation": 1.0, "generator": seeded()}
MEASURES = {
    "recordings": lambda *about: list(recordings(*about)),
    "Fisher trace": lambda *about: fisher_trace(*about, generator=seeded()),
    "mini-batches": lambda *about: minibatch_trace(*about, batch=1, generator=seeded()),
    "Hessian": dense_hessian,
    "eigenvalue": top_eigenvalue,
    "Hutchinson": lambda *about: hutchinson_trace(*about, batch=1, generator=seeded()),
    "gap": lambda *about: fisher_gap(*about, None, batch=1, generator=seeded()),
    "diagonals": group_diagonals,
    "average sharpness": lambda *about: adaptive_sharpness(*about, rho=0.1, draws=2, generator=seeded()),
    "worst-case sharpness": lambda *about: worst_case_adaptive_sharpness(*about, rho=0.1),
    "learning coefficient": lambda *about: local_learning_coefficient(*about, **CHAIN),
}


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_every_measure_checks_model_and_sentences(measure, tiny_model, broken, masked):
    with pytest.raises(ModelError, match="no masked sentences"):
        measure(tiny_model, masked.rows(slice(0)))
    with pytest.raises(ModelError, match="head_bias holds values that are not finite"):
        measure(broken, masked)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ModelError, match=r"^Under torch\.autocast"):
        measure(tiny_model, masked)


def test_valid_input_passes(tiny_model, masked, ragged):
    check(tiny_model, masked)
    check(tiny_model, ragged)
    check_logits(torch.zeros(12, 3), masked)


LLAMA = {"hidden_size": 4, "num_attention_heads": 2, "intermediate_size": 4, "vocab_size": 4}
DROPPING = {
    "p": nn.Dropout,
    "dropout": lambda rate: nn.LSTM(2, 2, num_layers=2, dropout=rate),
    "attention_dropout": lambda rate: LlamaAttention(LlamaConfig(**LLAMA, attention_dropout=rate), 0),
}


@pytest.mark.parametrize("kind", [*DROPPING.values(), nn.AlphaDropout], ids=[*DROPPING, "alpha"])
def test_active_dropout_is_refused(tiny_model, masked, kind):
    tiny_model.part = kind(0.1).double()
    check(tiny_model.eval(), masked)
    with pytest.raises(ModelError, match=r"drops units at random; call model.eval\(\)"):
        check(tiny_model.train(), masked)
    tiny_model.part = kind(0.0).double()
    check(tiny_model, masked)


def test_weights_that_are_not_finite_are_named(broken, masked):
    with pytest.raises(ModelError, match="Parameter head_bias holds values that are not finite"):
        check(broken, masked)


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_is_refused_for_its_rounding(tiny_model, masked, half):
    with pytest.raises(ModelError, match=r"is in b?float16, whose rounding .* call model.float\(\) before"):
        check(tiny_model.to(half), masked)


def test_complex_parameters_are_refused(tiny_model, masked):
    tiny_model.gain = nn.Parameter(torch.ones(2, dtype=torch.complex64))
    with pytest.raises(ModelError, match="gain is complex; a measure needs a model of real parameters"):
        check(tiny_model, masked)


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_no_measure_changes_the_model(measure, masked):
    """Statistics of batches, and the vectors of a spectral norm, move in training mode."""
    word = nn.utils.parametrizations.spectral_norm(nn.Embedding(4, 3))
    model = Pooled(word, nn.BatchNorm1d(3), nn.Linear(3, 3)).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(
        ModelError, match=r"^Each forward pass changes .*; call model.eval\(\) before measuring"
    ):
        measure(model, masked)
    check(model.eval(), masked)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


class Pooled(nn.Sequential):
    """An embedding, and two layers on its mean."""

    def forward(self, masked, positions, lengths=None):
        return self[2](self[1](self[0](masked).mean(1)))


@pytest.mark.parametrize("name", sorted(MEASURES.keys() - {"recordings", "Fisher trace"}))
def test_a_model_that_heeds_padding_needs_sentences_of_one_length(name, masked, ragged):
    model = Pooled(nn.Embedding(4, 3), nn.Identity(), nn.Linear(3, 3)).double()
    check_padding(model, masked)
    with pytest.raises(
        ModelError, match="depend on padding, so that this measure needs sentences of one length"
    ):
        MEASURES[name](model, ragged)


def test_no_sentences_are_refused(tiny_model, masked):
    with pytest.raises(ModelError, match="no masked sentences to measure on"):
        check(tiny_model, masked.rows(slice(0)))


@pytest.mark.parametrize("position", [-1, 4])
def test_a_mask_outside_its_sentence_is_refused(tiny_model, masked, position):
    wrong = masked._replace(positions=masked.positions.clone().index_fill(0, torch.tensor(3), position))
    fault = f"sentence 3 is {position}, but it has 4 tokens, so positions 0 to 3 can be masked"
    with pytest.raises(ModelError, match=fault):
        check(tiny_model, wrong)


def test_a_mask_on_padding_is_refused(tiny_model, ragged):
    row = int((ragged.lengths < 4).nonzero()[0])
    wrong = ragged._replace(positions=torch.zeros(12).long().index_fill(0, torch.tensor(row), 3))
    with pytest.raises(ModelError, match=f"sentence {row} is 3, but it has"):
        check(tiny_model, wrong)


@pytest.mark.parametrize(
    ("logits", "fault"),
    [
        (torch.zeros(12), r"logits of shape \(12,\) for 12 masked sentences; \(12, words\) is needed"),
        (torch.zeros(11, 3), r"logits of shape \(11, 3\)"),
        (torch.zeros(12, 2), "logits cover 2 words, but the word behind a mask is number 3"),
    ],
)
def test_logits_that_do_not_fit_are_refused(masked, logits, fault):
    with pytest.raises(ModelError, match=fault):
        check_logits(logits, masked)
