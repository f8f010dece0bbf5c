"""The models along a pre-training, read from disk."""

from dataclasses import replace

import pytest
import torch

from sameloss.errors import ParameterError, StoreError
from sameloss.models.encoder import EncoderShape
from sameloss.runs.checkpoints import Checkpoints, save_weights, weights_name, write_history
from sameloss.store.store import Store
from sameloss.training.loop import TrainingStep


def test_weights_and_history_come_back(tiny_run, tmp_path):
    models = {step: replace(tiny_run, seed=step).new_model() for step in (20, 60)}
    for step, model in models.items():
        save_weights(model, tmp_path / weights_name(step))
    write_history([TrainingStep(1, 0.1 + 0.2, 1e-3), TrainingStep(2, 0.5, 2e-3)], tmp_path)
    checkpoints = Checkpoints(tmp_path, (20, 60), tiny_run.new_model)
    for step, model in models.items():
        found = checkpoints.model(step)
        assert not found.training
        assert all(torch.equal(value, model.state_dict()[name]) for name, value in found.state_dict().items())
    assert torch.equal(checkpoints.last().word.weight, models[60].word.weight)
    assert checkpoints.history.to_dict("list") == {
        "step": [1, 2],
        "loss": [0.1 + 0.2, 0.5],
        "lr": [1e-3, 2e-3],
    }


def test_a_training_keeps_the_models_along_the_way(tiny_run, tmp_path):
    checkpoints = Store(tmp_path).get(tiny_run)
    early, late = (checkpoints.model(step).word.weight for step in (20, 60))
    assert not torch.equal(early, late)
    assert not torch.equal(early, tiny_run.new_model().word.weight)
    assert checkpoints.history.step.tolist() == list(range(1, 61))
    assert checkpoints.history.loss.iloc[-10:].mean() < checkpoints.history.loss.iloc[:10].mean()


def test_before_the_first_step_the_model_is_as_it_was_drawn(tiny_run, tmp_path):
    found = Checkpoints(tmp_path, (20, 60), tiny_run.new_model).model(0)
    drawn = tiny_run.new_model().state_dict()
    assert not found.training
    assert all(torch.equal(value, drawn[name]) for name, value in found.state_dict().items())


def test_weights_of_another_shape_are_refused_in_one_sentence(tiny_run, tmp_path):
    """What a changed class without a raised schema would meet."""
    store = Store(tmp_path)
    store.get(tiny_run)
    other = replace(tiny_run, shape=EncoderShape(16, 2, 1, 16))
    with pytest.raises(StoreError, match=r"step-0000060.safetensors are not those of the model"):
        other.load(store.folder(tiny_run)).last()
    assert store.has(tiny_run)


def test_a_step_that_left_no_weights_is_refused_with_those_that_did(tiny_run, tmp_path):
    checkpoints = Store(tmp_path).get(tiny_run)
    kept = ", ".join(map(str, checkpoints.steps))
    with pytest.raises(
        ParameterError, match=rf"^No weights are kept after 7777 steps; choose one of 0, {kept}\.$"
    ):
        checkpoints.model(7777)
