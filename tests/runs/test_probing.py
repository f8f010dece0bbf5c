"""Linear probes of checkpoints and of representations that no training made."""

import numpy as np
import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.measures.downstream.adamw_probe import AdamWProbe
from sameloss.measures.downstream.online_code import FEW_LABELS, code_lengths, probes_by_count
from sameloss.measures.downstream.optimal_probe import OptimalProbe
from sameloss.measures.downstream.probe import (
    contextual_features,
    lookup_features,
    one_hot_features,
    random_expansion,
)
from sameloss.runs.probing import BaselineLabelBudget, BaselineProbing, LabelBudget, Probing
from sameloss.runs.sampling import Downstream, LabelledSampling
from sameloss.seeds import stream_seed
from sameloss.store.store import Store

PROBE = AdamWProbe(epochs=3, batch=20)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture
def labelled(tiny_spec):
    downstream = Downstream(("root", "span2"), "likelihood", train=120, test=70, probe_seeds=3, seed=0)
    return LabelledSampling(tiny_spec, downstream)


def by_hand(store, labelled, featurise):
    training, test = store.get(labelled)
    features = featurise(training.sentences).unflatten(0, (3, 120))
    labels = training.labels.unflatten(0, (3, 120))
    probes = PROBE.fit(features, labels, labelled.classes, stream_seed("probe", 0))
    return probes.correct(featurise(test.sentences), test.labels).numpy()


def test_each_checkpoint_is_probed_on_its_own(tiny_run, labelled, store):
    told = []
    run = Probing(tiny_run, (20, 60), labelled, PROBE)
    correct, gradient = store.get(run, lambda fraction, text: told.append(fraction))
    assert correct.shape == (2, 3, 70, 2)
    assert correct.dtype == bool
    assert told == [0.5, 1.0]
    assert gradient.shape == (2, 3)
    assert (gradient > 0.01).all()  # three epochs are no optimum
    for at, step in enumerate((20, 60)):
        model = store.get(tiny_run).model(step)
        expected = by_hand(store, labelled, lambda sentences, m=model: contextual_features(m, sentences))
        assert np.array_equal(correct[at], expected)
    assert not np.array_equal(*correct)


def test_features_are_expanded_where_it_is_asked_for(tiny_run, labelled, store):
    run = Probing(tiny_run, (60,), labelled, PROBE, expanded=40)
    model = store.get(tiny_run).last()
    wide = by_hand(
        store, labelled, lambda sentences: random_expansion(contextual_features(model, sentences), 40)
    )
    assert np.array_equal(store.get(run).correct[0], wide)
    assert run.key != Probing(tiny_run, (60,), labelled, PROBE).key


def test_the_untrained_model_is_probed_as_step_zero_by_a_solved_probe_too(tiny_run, labelled, store):
    found = store.get(Probing(tiny_run, (0, 60), labelled, OptimalProbe()))
    assert (found.gradient < 0.01).all()
    drawn, trained = found.correct[..., 0].mean((1, 2))
    assert trained > drawn


def test_a_representation_without_training_has_one_step(labelled, store, tiny_language):
    correct = store.get(BaselineProbing("lookup table", labelled, PROBE)).correct
    assert correct.shape == (1, 3, 70, 2)
    expected = by_hand(store, labelled, lambda sentences: lookup_features(tiny_language, sentences))
    assert np.array_equal(correct[0], expected)


def test_probes_beat_the_majority_on_sentences_they_did_not_see(tiny_run, labelled, store):
    training, test = store.get(labelled)
    assert not torch.equal(training.sentences.tokens[:70], test.sentences.tokens)
    longer = AdamWProbe(epochs=100, batch=20)
    correct = store.get(Probing(tiny_run, (60,), labelled, longer)).correct
    majority = float(test.labels[:, 0].bincount().max() / 70)
    assert correct[0, ..., 0].mean() > majority + 0.1


def test_an_unknown_representation_is_refused(labelled, store):
    run = BaselineProbing("nonsense", labelled, AdamWProbe())
    with pytest.raises(ParameterError, match="choose lookup table, one-hot tokens"):
        store.get(run)


# By the number of labels

COUNTS = (8, 16, 32, 64, 120)


def test_few_labels_are_the_first_of_each_probe_seed(labelled, store, tiny_language):
    run = BaselineLabelBudget("one-hot tokens", labelled, FEW_LABELS)
    assert run.counts == COUNTS
    correct, bits = store.get(run)
    assert correct.shape == (1, 4, 3, 70, 2)
    assert bits.shape == (1, 5, 3, 2)
    training, test = store.get(labelled)
    second = training.sentences.rows(slice(120, 240))
    features, labels = one_hot_features(tiny_language, second), training.labels[120:240]
    probes = probes_by_count(features, labels, labelled.classes, COUNTS, FEW_LABELS)
    right = probes[2].correct(one_hot_features(tiny_language, test.sentences), test.labels)[0]
    assert np.array_equal(correct[0, 2, 1], right.numpy())
    np.testing.assert_allclose(bits[0, :, 1], code_lengths(probes, features, labels, COUNTS).numpy())


def test_a_trained_model_needs_fewer_labels_than_an_untrained_one(tiny_run, labelled, store):
    told = []
    run = LabelBudget(tiny_run, (0, 60), labelled, FEW_LABELS)
    correct, bits = store.get(run, lambda fraction, text: told.append(fraction))
    assert told == [0.5, 1.0]
    assert correct.shape == (2, 4, 3, 70, 2)
    few, many = correct.mean((0, 2, 3, 4))[[0, -1]]
    assert many > few
    drawn, trained = bits[:, -1, :, 0].mean(1)
    assert trained < drawn
    uniform = 8 * np.log2(labelled.classes)
    np.testing.assert_allclose(bits[:, 0], np.broadcast_to(uniform, (2, 3, 2)))
