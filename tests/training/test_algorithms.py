"""Every algorithm continues where it says, and is named; that each trains is in `tests/recorded`."""

from dataclasses import replace

import pytest
import torch
from recorded.tiny_runs import LABELLED, trained

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.models.bilstm import BiLSTMShape
from sameloss.store.store import Store
from sameloss.training.loop import Optimisation, TrainingStep
from sameloss.training.objectives import ALGORITHMS, Adversary, Objective, recipe


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


def test_an_algorithm_that_continues_starts_where_its_origin_ended(store):
    run = trained("sgd-noise")
    run = replace(run, optimisation=replace(run.optimisation, lr=1e-12))
    start, still = (store.get(r).last() for r in (run.origin, run))
    for before, after in zip(start.parameters(), still.parameters(), strict=True):
        torch.testing.assert_close(after, before)
    fresh = run.new_model()
    assert not torch.allclose(fresh.word.weight, start.word.weight, atol=1e-3)
    assert (run.objective.label_noise, run.origin.objective.label_noise) == (1.0, 0.0)


def test_a_strength_is_part_of_the_recipe():
    assert recipe("adversarial", 0.1) != recipe("adversarial", 0.2)
    assert recipe("sam", 0.3).optimisation == {"sam_radius": 0.3}
    assert recipe("sam").optimisation == {"sam_radius": ALGORITHMS["sam"].strength}
    assert recipe("sgd-noise", 0.0).objective.label_noise == 0


def test_only_an_adversary_reads_the_tasks():
    assert trained().downstream is None
    assert trained("adversarial").downstream == LABELLED


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("adam", None), "Unknown algorithm 'adam'; choose one of adamw, adversarial"),
        (("post-ln", 1.0), "Algorithm post-ln has no strength; those that have are adv"),
    ],
)
def test_bad_choices_say_what_is_valid(given, message):
    with pytest.raises(ParameterError, match=message):
        recipe(*given)


def test_an_lstm_has_no_layer_norm_to_move():
    with pytest.raises(ParameterError, match=r"An LSTM cannot be trained with post-LN, .*; choose another"):
        trained("post-ln", BiLSTMShape(8, 1))


def test_a_training_that_diverges_is_named_and_what_was_done_is_kept(store):
    how = Optimisation(40, 16, 1e4, optimiser="sgd", schedule="constant")
    run = replace(trained(), optimisation=how, checkpoints=(40,))
    with pytest.raises(NonFiniteLoss, match=r"at step \d+.* with lr = .*, seed 0\. .*choose a smaller lr"):
        store.get(run)
    assert store.has(run.corpus)
    assert not store.has(run)


def test_an_adversary_that_prevails_is_stopped_and_its_strength_suspected(store, monkeypatch):
    run = replace(trained("adversarial"), objective=Objective(adversary=Adversary(7.0)))
    prevails = [TrainingStep(done, 1.0 if done < 9 else 9.0, 0.01) for done in range(1, 13)]
    monkeypatch.setattr("sameloss.runs.pretraining.pretrain", lambda *_, **__: iter(prevails))
    with pytest.raises(NonFiniteLoss, match=r"9.00 nats at step 9, far above guessing .*a smaller strength"):
        store.get(run)
    assert store.has(run.downstream)
