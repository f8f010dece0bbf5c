"""Held-out sentences, corpora and labelled sentences."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import HMMSpec, PCFGSpec, TeacherSpec
from sameloss.languages.grammars.formats import GrammarText
from sameloss.languages.language import MASK, labels
from sameloss.runs.sampling import (
    CorpusSampling,
    Downstream,
    HeldOutConditionals,
    LabelledSampling,
    held_out,
    held_out_conditionals,
    held_out_masked,
)
from sameloss.store.store import Store


def test_no_two_uses_share_their_randomness(tiny_language):
    one, again, other, seed = (
        held_out(tiny_language, 50, seed, use).tokens
        for use, seed in (("trace", 0), ("trace", 0), ("gap", 0), ("trace", 1))
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert not torch.equal(one, seed)
    positions = [held_out_masked(tiny_language, 50, 0, use).positions for use in ("trace", "gap")]
    assert not torch.equal(*positions)


def test_every_position_is_masked_equally_often(tiny_language):
    masked = held_out_masked(tiny_language, 2000, 0, "test")
    assert chisquare(masked.positions.bincount(minlength=4)).pvalue > 1e-3
    assert (masked.masked.gather(1, masked.positions[:, None]) == MASK).all()


def test_conditionals_are_those_of_the_masked_sentences(tiny_language):
    """Brute force: the joint probability of each word in the gap, normalised."""
    masked = held_out_masked(tiny_language, 20, 0, "test")
    found = held_out_conditionals(tiny_language, 20, 0, "test")
    filled = masked.masked.repeat_interleave(3, 0)
    filled[torch.arange(60), masked.positions.repeat_interleave(3)] = torch.arange(1, 4).repeat(20)
    sentences = tiny_language.sample(60, torch.Generator())._replace(tokens=filled)
    joint = tiny_language.log_prob(sentences).exp().unflatten(0, (20, 3))
    torch.testing.assert_close(found, joint / joint.sum(1, keepdim=True))
    seen = found.gather(1, masked.targets[:, None])
    assert (seen > 0).all()


def test_an_autoregressive_language_computes_one_position_of_each_sentence(monkeypatch):
    language = TeacherSpec().build()
    masked = held_out_masked(language, 20, 0, "test")
    sentences = held_out(language, 20, 0, "test")
    expected = language.conditionals(sentences)[torch.arange(20), masked.positions]
    monkeypatch.setattr(language, "conditionals", lambda sentences: pytest.fail("all were computed"))
    found = held_out_conditionals(language, 20, 0, "test")
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)


def test_held_out_conditionals_are_stored_and_loaded(tmp_path):
    spec = HMMSpec(3, 4, 3, 1, 1.0, 1.0)
    sentences, conditionals = Store(tmp_path).get(HeldOutConditionals(spec, 30, 0))
    assert torch.equal(sentences.tokens, held_out(spec.build(), 30, 0, "saturation").tokens)
    np.testing.assert_array_equal(conditionals, spec.build().conditionals(sentences))


# Corpora and labelled sentences

EARLY_STOPPING = PCFGSpec(2, 2, 2, 1, 2, 3, 2, 1.0, 1.0, early_stop=(0.4, 0.6), seed=5)
DOWNSTREAM = Downstream(("root", "span2"), "likelihood", train=150, test=50, probe_seeds=2, seed=0)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def test_sentences_without_a_label_are_drawn_again(store):
    language = EARLY_STOPPING.build()
    plain = language.sample(1000, torch.Generator().manual_seed(0))
    assert (labels(language, plain, "span2", "likelihood") < 0).any()
    training, test = store.get(LabelledSampling(EARLY_STOPPING, DOWNSTREAM))
    assert (len(training.labels), len(test.labels)) == (300, 50)
    for part in (training, test):
        assert part.labels.min() >= 0
        again = labels(language, part.sentences, "span2", "likelihood")
        assert torch.equal(again, part.labels[:, 1])


def test_labels_that_are_too_rare_are_refused(store):
    always_stopping = GrammarText("R A B 1\nA x 1\nB y 1")
    spec = replace(DOWNSTREAM, tasks=("root",))
    assert store.get(LabelledSampling(always_stopping, spec))[0].labels.eq(0).all()
    never = replace(EARLY_STOPPING, early_stop=(0.999999, 0.999999), words_per_symbol=1, words=40, seed=1)
    with pytest.raises(LanguageError, match="Of 30000 sentences fewer than 300 have a label in all of root"):
        store.get(LabelledSampling(never, DOWNSTREAM))


@pytest.mark.parametrize("sentences", [0, -1])
def test_a_corpus_of_no_sentences_is_refused(tiny_spec, sentences):
    with pytest.raises(ParameterError, match=f"^sentences must be .*, at least 1; got {sentences}"):
        CorpusSampling(tiny_spec, sentences, 0)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"train": 0}, "^train must be a whole number"),
        ({"test": -1}, "^test must be a whole number"),
        ({"probe_seeds": 0}, "^probe_seeds must be a whole number"),
        ({"tasks": ()}, "^Labelled sentences need at least one task"),
    ],
)
def test_empty_parts_and_no_task_are_refused(tiny_spec, changes, sentence):
    with pytest.raises(ParameterError, match=sentence):
        LabelledSampling(tiny_spec, replace(DOWNSTREAM, **changes))
