"""Labelled sentences: all have labels."""

from dataclasses import replace

import pytest
import torch

from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import PCFGSpec
from sameloss.languages.grammars.formats import GrammarText
from sameloss.languages.language import labels
from sameloss.runs.sampling import CorpusSampling, Downstream, LabelledSampling
from sameloss.store.store import Store

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


def test_a_task_that_no_sentence_has_is_one_sentence(store):
    always_stopping = GrammarText("R A B 1\nA x 1\nB y 1")
    spec = replace(DOWNSTREAM, tasks=("root",))
    assert store.get(LabelledSampling(always_stopping, spec))[0].labels.eq(0).all()
    never = replace(EARLY_STOPPING, early_stop=(0.999999, 0.999999), words_per_symbol=1, words=40, seed=1)
    with pytest.raises(LanguageError, match="Of 30000 sentences fewer than 300 have a label in all of root"):
        store.get(LabelledSampling(never, DOWNSTREAM))


@pytest.mark.parametrize("sentences", [0, -1])
def test_a_corpus_of_no_sentences_is_refused(tiny_spec, sentences):
    with pytest.raises(
        ParameterError, match=f"^sentences must be a whole number, at least 1; got {sentences}"
    ):
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
def test_labelled_sentences_are_of_some_task_and_in_every_part(tiny_spec, changes, sentence):
    given = {
        "tasks": ("root",),
        "label_kind": "likelihood",
        "train": 4,
        "test": 4,
        "probe_seeds": 1,
        "seed": 0,
    }
    with pytest.raises(ParameterError, match=sentence):
        LabelledSampling(tiny_spec, Downstream(**{**given, **changes}))
