"""A pre-trained model, fine-tuned for each probe seed and task."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from sameloss.errors import ParameterError
from sameloss.measures.downstream.finetune import FinetuneSettings, finetune
from sameloss.models.encoder import EncoderShape
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.probing import Finetuning
from sameloss.runs.sampling import CorpusSampling, Downstream, LabelledSampling
from sameloss.seeds import stream_seed
from sameloss.store.store import Store
from sameloss.training.loop import Optimisation


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture
def run(tiny_spec):
    pretraining = Pretraining(
        corpus=CorpusSampling(tiny_spec, 300, seed=0),
        shape=EncoderShape(8, 2, 1, 16),
        optimisation=Optimisation(steps=60, batch=16, lr=1e-2),
        seed=0,
        checkpoints=(1, 60),
        micro_batch=16,
        resume_every=60,
    )
    downstream = Downstream(("root", "span2"), "likelihood", train=120, test=70, probe_seeds=3, seed=0)
    settings = FinetuneSettings(epochs=6, batch=20, lr=5e-3, warmup_steps=5)
    return Finetuning(pretraining, LabelledSampling(tiny_spec, downstream), settings)


def test_it_tunes_the_last_checkpoint_for_each_seed_and_task(run, store):
    told = []
    correct = store.get(run, lambda fraction, text: told.append(fraction))
    assert correct.shape == (1, 3, 70, 2)
    assert correct.dtype == bool
    assert correct.mean() > 0.8
    assert told == pytest.approx([1 / 3, 2 / 3, 1])
    training, test = store.get(run.labelled)
    seed = stream_seed("fine-tuning", 0, 2, 1)
    own = training.sentences.rows(slice(240, 360)), training.labels[240:360, 1]
    for step, same in ((60, True), (1, False)):
        model = store.get(run.pretraining).model(step)
        tuned = finetune(model, *own, run.labelled.classes[1], run.settings, seed)
        expected = tuned.correct(test.sentences, test.labels[:, 1]).numpy()
        assert np.array_equal(correct[0, 2, :, 1], expected) == same


def test_examples_are_the_first_of_each_seed(run, store):
    few = replace(run, examples=30)
    training, test = store.get(run.labelled)
    model = store.get(run.pretraining).model(60)
    correct = store.get(few)
    for seed, task in product(range(3), range(2)):
        own = slice(120 * seed, 120 * seed + 30)
        data = training.sentences.rows(own), training.labels[own, task]
        tuned = finetune(model, *data, 2, few.settings, stream_seed("fine-tuning", 0, seed, task))
        expected = tuned.correct(test.sentences, test.labels[:, task]).numpy()
        assert np.array_equal(correct[0, seed, :, task], expected)
    assert few.effort == run.effort / 4
    assert few.key != run.key


@pytest.mark.parametrize("examples", [0, 121])
def test_more_examples_than_there_are_are_refused(run, examples):
    with pytest.raises(ParameterError, match=rf"examples lies in 1..120, .*; got {examples}\."):
        replace(run, examples=examples)


def test_too_few_sentences_name_the_task(run, store):
    with pytest.raises(ParameterError, match="Task root has 2 classes and only 1 training sentences"):
        store.get(replace(run, examples=1))
