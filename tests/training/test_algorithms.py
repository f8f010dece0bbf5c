"""Every algorithm trains, continues where it says, and is named."""

import pytest
import torch

from sameloss.book.studies import open_page
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.store.store import Store
from sameloss.training.algorithms import ALGORITHMS, recipe
from sameloss.training.loop import TrainingStep


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return str(tmp_path_factory.mktemp("store"))


def group(store, **given):
    return open_page("02_existence", **{"preset": "smoke", "steps": 4, "artifacts": store, **given}).group


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_trains(name, store):
    run = group(store, algorithm=name).pretraining("3K", 0)
    history = Store(store).get(run).history
    assert list(history.step) == list(range(1, len(history) + 1))
    assert (history.loss > 0).all()


def test_an_algorithm_that_continues_starts_where_its_origin_ended(store):
    run = group(store, algorithm="sgd-after", strength=1e-12).pretraining("3K", 0)
    start, still = (Store(store).get(r).last() for r in (run.origin, run))
    for before, after in zip(start.parameters(), still.parameters(), strict=True):
        torch.testing.assert_close(after, before)
    fresh = run.new_model()
    assert not torch.allclose(fresh.word.weight, start.word.weight, atol=1e-3)
    noisy = group(store, algorithm="sgd-noise", strength=0.5).pretraining("3K", 0)
    assert noisy.optimisation.steps == 2 * noisy.origin.optimisation.steps
    assert (noisy.objective.label_noise, noisy.origin.objective.label_noise) == (0.5, 0.0)


def test_a_strength_is_part_of_the_run(store):
    keys = {group(store, algorithm="adversarial", strength=s).pretraining("3K", 0).key for s in (0.1, 0.2)}
    assert len(keys) == 2
    assert recipe("sam", 0.3).optimisation == {"sam_radius": 0.3}
    assert recipe("sam").optimisation == {"sam_radius": ALGORITHMS["sam"].strength}


def test_a_strength_may_be_zero(store):
    assert group(store, algorithm="sgd-noise", strength=0).recipe.objective.label_noise == 0
    with pytest.raises(ParameterError, match="strength must be positive; got -1"):
        group(store, algorithm="sgd-noise", strength=-1)


def test_only_an_adversary_reads_the_tasks(store):
    assert group(store).pretraining("3K", 0).downstream is None
    adversary = group(store, algorithm="adversarial")
    assert adversary.pretraining("3K", 0).downstream == adversary.labelled


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"algorithm": "adam"}, "Unknown algorithm 'adam'; choose one of adamw, sgd, adversarial"),
        ({"algorithm": "soft", "strength": 1.0}, "Algorithm soft has no strength; those that have are sgd"),
        ({"language": "Dyck"}, "Unknown language 'Dyck'; choose one of PCFG, HMM, OPT"),
        ({"labels": "true"}, "Unknown labels 'true'; choose one of likelihood, posterior"),
    ],
)
def test_bad_choices_say_what_is_valid(given, message, store):
    with pytest.raises(ParameterError, match=message):
        group(store, **given)


def test_an_lstm_has_no_layer_norm_to_move(store):
    with pytest.raises(ParameterError, match="An LSTM cannot be trained with post-LN; choose another"):
        group(store, algorithm="post-ln", size="L856").pretraining("L856", 0)


def test_a_training_that_diverges_is_named_and_what_was_done_is_kept(store):
    run = group(store, algorithm="sgd", strength=1e4, steps=40).pretraining("3K", 0)
    with pytest.raises(NonFiniteLoss, match=r"at step \d+.* with lr = .*, seed 0\. .*choose a smaller lr"):
        Store(store).get(run)
    assert Store(store).has(run.corpus)
    assert not Store(store).has(run)


def test_an_adversary_that_prevails_is_stopped_and_its_strength_suspected(store, monkeypatch):
    run = group(store, algorithm="adversarial", strength=7.0, steps=8).pretraining("3K", 0)
    prevails = [TrainingStep(done, 1.0 if done < 6 else 9.0, 0.01) for done in range(1, 9)]
    monkeypatch.setattr("sameloss.runs.pretraining.pretrain", lambda *_, **__: iter(prevails))
    with pytest.raises(NonFiniteLoss, match=r"9.00 nats at step 6, far above guessing .*a smaller strength"):
        Store(store).get(run)
    assert Store(store).has(run.downstream)
