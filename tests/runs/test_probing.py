"""Linear probes of checkpoints and of representations that no training made."""

import numpy as np
import pytest
import torch

from sameloss.measures.downstream import OptimalProbe, contextual_features
from sameloss.runs.measurements import Probing
from sameloss.runs.sampling import Downstream, LabelledSampling
from sameloss.seeds import stream_seed
from sameloss.store.store import Store

PROBE = OptimalProbe()


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
    for at, step in enumerate((20, 60)):
        model = store.get(tiny_run).model(step)
        expected = by_hand(store, labelled, lambda sentences, m=model: contextual_features(m, sentences))
        assert np.array_equal(correct[at], expected)
    assert not np.array_equal(*correct)


def test_the_untrained_model_is_probed_as_step_zero_by_a_solved_probe_too(tiny_run, labelled, store):
    found = store.get(Probing(tiny_run, (0, 60), labelled, OptimalProbe()))
    assert (found.gradient < 0.01).all()
    drawn, trained = found.correct[..., 0].mean((1, 2))
    assert trained > drawn


def test_probes_beat_the_majority_on_sentences_they_did_not_see(tiny_run, labelled, store):
    training, test = store.get(labelled)
    assert not torch.equal(training.sentences.tokens[:70], test.sentences.tokens)
    correct = store.get(Probing(tiny_run, (60,), labelled, PROBE)).correct
    majority = float(test.labels[:, 0].bincount().max() / 70)
    assert correct[0, ..., 0].mean() > majority + 0.1
