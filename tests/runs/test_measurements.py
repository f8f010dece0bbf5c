"""Measurements of checkpoints and of languages."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

from sameloss.languages import HMMSpec, PCFGSpec, TeacherSpec
from sameloss.languages.entropy import blind_entropy
from sameloss.languages.grammars.formats import GrammarText
from sameloss.languages.language import ceilings
from sameloss.measures.downstream import OptimalProbe, contextual_features
from sameloss.measures.flatness.hessian import dense_hessian
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.runs.measurements import (
    MEASURES,
    Calibration,
    LanguageMeasurement,
    Probing,
    flatness_measures,
    predictions,
)
from sameloss.runs.sampling import Downstream, LabelledSampling, held_out_conditionals, held_out_masked
from sameloss.seeds import generator_for, stream_seed
from sameloss.store.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("artifacts"))


# Flatness


def test_the_measures_of_the_last_checkpoint(tiny_run, tiny_language, store):
    sample = tiny_language, 40, 0, "measures"
    masked, truth = held_out_masked(*sample), held_out_conditionals(*sample)
    model = store.get(tiny_run).last().double()
    measures = dict(flatness_measures(model, masked, truth, partial(generator_for, "measures", 0)))
    assert list(measures) == [name for name in MEASURES if name != "learning_coefficient"]
    value = pd.Series({name: estimate.mean for name, estimate in measures.items()})
    assert value.trace == pytest.approx(fisher_trace(model, masked, estimator="exact").total.mean)
    largest = np.linalg.eigvalsh(dense_hessian(model, masked, truth).numpy())[-1]
    assert value.top_eigenvalue == pytest.approx(largest, rel=2e-3)


def test_predictions_are_distributions(tiny_model, tiny_language):
    masked = held_out_masked(tiny_language, 10, 0, "test")
    probabilities = predictions(tiny_model, masked)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-12)
    logits = tiny_model(masked.masked, masked.positions, masked.lengths)
    np.testing.assert_allclose(probabilities, logits.softmax(-1).detach())


# Linear probes

PROBE = OptimalProbe()


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
    reported = []
    run = Probing(tiny_run, (20, 60), labelled, PROBE)
    correct = store.get(run, lambda fraction, text: reported.append(fraction))
    assert correct.shape == (2, 3, 70, 2)
    assert correct.dtype == bool
    assert reported == [0.5, 1.0]
    for at, step in enumerate((20, 60)):
        model = store.get(tiny_run).model(step)
        expected = by_hand(store, labelled, lambda sentences, m=model: contextual_features(m, sentences))
        assert np.array_equal(correct[at], expected)
    assert not np.array_equal(*correct)


def test_the_initial_model_is_probed_as_step_zero(tiny_run, labelled, store):
    correct = store.get(Probing(tiny_run, (0, 60), labelled, PROBE))
    initial, trained = correct[..., 0].mean((1, 2))
    assert trained > initial


def test_probes_beat_the_majority_on_test_sentences(tiny_run, labelled, store):
    training, test = store.get(labelled)
    assert not torch.equal(training.sentences.tokens[:70], test.sentences.tokens)
    correct = store.get(Probing(tiny_run, (60,), labelled, PROBE))
    majority = float(test.labels[:, 0].bincount().max() / 70)
    assert correct[0, ..., 0].mean() > majority + 0.1


# Languages


def test_a_grammar_is_measured(store, tiny_spec):
    statistics = store.get(LanguageMeasurement(tiny_spec, ("root", "span2"), 300, 0))
    assert statistics.entropy.count == 300
    assert statistics.blind == pytest.approx(blind_entropy(tiny_spec.build()), rel=1e-12)
    assert statistics.lengths.probability.tolist() == pytest.approx([0, 0, 0, 1])
    assert statistics.mean_length == pytest.approx(4)
    assert statistics.words.share.sum() == pytest.approx(1)
    assert statistics.ceilings.task.tolist() == ["root", "span2"]
    assert set(statistics.ceilings) == {"task", *ceilings.__annotations__["return"]._fields}


def test_of_a_large_teacher_only_what_can_be_computed_is_measured(store):
    spec = TeacherSpec(words=4, max_length=3, d_model=4)
    statistics = store.get(LanguageMeasurement(spec, ("topic",), 200, 0))
    assert statistics.entropy.mean < statistics.blind == pytest.approx(blind_entropy(spec.build()))
    assert statistics.mean_length < 3
    large = store.get(LanguageMeasurement(TeacherSpec(d_model=4), (), 20, 0))
    assert large.blind != large.blind
    assert large.lengths.probability.isna().all()
    assert 1 < large.mean_length <= 8
    assert large.ceilings.empty


def test_the_key_of_a_grammar_in_text_holds_the_text(store):
    run = LanguageMeasurement(GrammarText("S A A 1\nA x 0.5\nA y 0.5"), ("root",), 50, 0)
    assert store.get(run).blind == pytest.approx(0.693147, abs=1e-6)
    assert run.canonical()["language"]["text"].startswith("S A A")


@pytest.mark.parametrize(
    ("shape", "mean_length"),
    [(PCFGSpec(2, 2, 3, 2, 4, 8, 4, 1.0, 1.0), 3.5), (HMMSpec(4, 8, 4, 1, 1.0, 1.0), None)],
)
def test_a_calibration_is_a_table_of_what_was_tried(store, shape, mean_length):
    table = store.get(Calibration(shape, 1.4, mean_length, (0.01, 5.0), 300, 0))
    last = table.iloc[-1]
    assert abs(last["mean"] - 1.4) <= max(0.005, last.standard_error)
    assert len(table) >= 3
    assert (table["standard_error"] > 0).all()
