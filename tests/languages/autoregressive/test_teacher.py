"""The stand-in teacher: its weights, its structure, its randomness."""

import math
from dataclasses import replace

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.languages import LanguageSpec
from sameloss.languages.autoregressive import TeacherSpec

SPEC = TeacherSpec(words=3, max_length=3, topics=2, d_model=4, layers=2, heads=2, scale=3.0, logit_scale=1.5)


def test_seeds_are_reproducible_and_global_randomness_is_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    draws = [SPEC.build().sample(50, torch.Generator().manual_seed(7)) for _ in range(2)]
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(draws[0].tokens, draws[1].tokens)
    other = replace(SPEC, seed=1).build().log_prob(draws[0])
    assert not torch.allclose(other, SPEC.build().log_prob(draws[0]))


def test_the_default_stand_in_has_structure():
    """The masked entropy lies clearly below that of uniform words, and the topic can be read in part."""
    language = TeacherSpec().build()
    sentences = language.sample(300, torch.Generator().manual_seed(0))
    conditionals = language.conditionals(sentences)
    inside = torch.arange(8) < sentences.lengths[:, None]
    assert torch.allclose(conditionals.sum(-1), inside.double(), rtol=0, atol=1e-12)
    entropy = torch.special.entr(conditionals).sum(-1)[inside].mean() / math.log(16)
    assert 0.75 < entropy < 0.85
    assert 0.5 < language.posterior(sentences, "topic").amax(1).mean() < 0.8
    assert sentences.lengths.double().mean() > 6


def test_dimensions_are_as_asked():
    language = SPEC.build()
    assert isinstance(SPEC, LanguageSpec)
    assert (language.words, language.max_length, language.classes("topic")) == (3, 3, 2)
    assert language.prior.tolist() == [0.5, 0.5]
    config = language.model.model.config
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size) == (4, 2, 2 + 1 + 3)
    assert {p.dtype for p in language.model.model.parameters()} == {torch.float64}


def test_weights_have_the_deviations_of_their_spec():
    """Entries N(0, d²): the variance of n of them is known to 2 d⁴ / n."""
    model = replace(SPEC, d_model=64, words=200, scale=3.0, logit_scale=1.5).build().model.model
    weights = dict(model.named_parameters())
    deviations = {"lm_head.weight": 1.5 / 8, "model.decoder.embed_tokens.weight": 1.0}
    deviations["model.decoder.layers.0.fc1.weight"] = 3.0 / 8
    for name, deviation in deviations.items():
        entries = weights[name].detach().flatten()
        assert abs(entries.var() / deviation**2 - 1) < 4 * (2 / len(entries)) ** 0.5
    assert (weights["model.decoder.layers.1.fc1.bias"] == 0).all()
    assert (weights["model.decoder.layers.1.final_layer_norm.weight"] == 1).all()


@pytest.mark.parametrize("name", ["words", "max_length", "topics", "d_model", "layers", "heads"])
def test_a_teacher_of_nothing_is_refused(name):
    with pytest.raises(ParameterError, match=f"^{name} must be a whole number, at least 1; got 0"):
        TeacherSpec(**{name: 0})
