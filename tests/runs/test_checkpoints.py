"""Checkpoints of a pre-training, and the state from which a training resumes."""

import hashlib
import io
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sameloss.errors import ParameterError, StoreError
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.runs.checkpoints import Checkpoints, Resumable, save_tensors, weights_name
from sameloss.store.store import Store
from sameloss.training.loop import Optimisation, TrainingStep, make_optimiser


def same_weights(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(a.equal(b) for a, b in pairs)


def test_weights_and_history_come_back(tiny_run, tmp_path):
    models = {step: replace(tiny_run, seed=step).new_model() for step in (20, 60)}
    for step, model in models.items():
        save_tensors(model.state_dict(), tmp_path / weights_name(step))
    state = Resumable(tmp_path, {}, every=100)
    for step in (TrainingStep(1, 0.1 + 0.2, 1e-3), TrainingStep(2, 0.5, 2e-3)):
        state.record(step)
    state.write_history(tmp_path)
    checkpoints = Checkpoints(tmp_path, (20, 60), tiny_run.new_model)
    for step, model in models.items():
        loaded = checkpoints.model(step)
        assert not loaded.training
        assert same_weights(loaded, model)
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
    with pytest.raises(
        ParameterError, match=r"^No weights are kept after 7777 steps; choose one of 0, 20, 60\.$"
    ):
        checkpoints.model(7777)


def test_step_zero_is_the_initial_model(tiny_run, tmp_path):
    model = Checkpoints(tmp_path, (20, 60), tiny_run.new_model).model(0)
    assert not model.training
    assert same_weights(model, tiny_run.new_model())


# The resumable state

SETTINGS = Optimisation(steps=60, batch=16, lr=1e-2)
STEPS = [TrainingStep(done, 2.0 / done, 0.1 * done) for done in range(1, 8)]


def resumable(folder, width=8, seed=0, **options):
    model = Encoder(EncoderShape(width, 2, 1, 16), 3, 4, seed)
    parts = {"model": model, "optimiser": make_optimiser(model, SETTINGS)}
    return Resumable(folder, parts, every=3, **options)


def stepped(state):
    """Take optimiser steps, so that there are moments to save."""
    for step in STEPS:
        for parameter in state.parts["model"].parameters():
            parameter.grad = torch.full_like(parameter, 0.1 * step.done)
        state.parts["optimiser"].step()
        state.record(step)
    return state


@pytest.fixture
def saved(tmp_path):
    return stepped(resumable(tmp_path))


def test_a_state_comes_back_bit_for_bit(saved, tmp_path):
    """Of seven steps the state has six; a seventh from there gives the same model."""
    other = resumable(tmp_path, seed=1)
    assert other.load() == saved.saved == other.saved == 6
    assert other.history == STEPS[:6]
    for parameter in other.parts["model"].parameters():
        parameter.grad = torch.full_like(parameter, 0.1 * 7)
    other.parts["optimiser"].step()
    assert same_weights(other.parts["model"], saved.parts["model"])


def test_without_a_saved_state_a_training_starts(tmp_path):
    state = resumable(tmp_path)
    assert (state.load(), state.history, state.saved) == (0, [], 0)


def test_a_process_that_does_not_write_knows_what_was_saved(tmp_path):
    state = stepped(resumable(tmp_path, writes=False))
    assert (state.saved, len(state.history)) == (6, 7)
    assert not state.path.exists()


def test_a_damaged_state_starts_over(saved, tmp_path, caplog):
    content = bytearray(saved.path.read_bytes())
    content[len(content) // 2] ^= 1
    saved.path.write_bytes(content)
    with caplog.at_level("WARNING", logger="sameloss"):
        assert resumable(tmp_path).load() == 0
    assert "starts over" in caplog.text


def test_a_state_of_another_version_is_refused_and_kept(saved, tmp_path, monkeypatch):
    content = saved.path.read_bytes()
    monkeypatch.setattr(torch, "__version__", "9.9")
    with pytest.raises(StoreError, match=r"\(step 6\) is of torch 2.* and this is torch 9.9 .*delete it to"):
        resumable(tmp_path).load()
    assert saved.path.read_bytes() == content


def test_a_state_of_another_shape_is_refused_and_kept(saved, tmp_path):
    content = saved.path.read_bytes()
    with pytest.raises(StoreError, match=r"\(step 6\) is of a model of another shape"):
        resumable(tmp_path, width=16).load()
    assert saved.path.read_bytes() == content


def torch_saved(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Path("x"), protocol=2),  # not only tensors and containers
        torch_saved({"weights": 1}),
        torch_saved([1]),
        torch_saved(1),
    ],
)
def test_an_undamaged_state_that_cannot_be_read_is_refused_and_kept(saved, tmp_path, content):
    saved.path.write_bytes(hashlib.sha256(content).digest() + content)
    with pytest.raises(
        StoreError, match=r"resume\.pt cannot be read by torch .*; resume where it was made, or"
    ):
        resumable(tmp_path).load()
    assert saved.path.exists()


def test_without_the_files_written_before_it_a_training_starts_over(saved, tmp_path, caplog):
    written = [tmp_path / "3.txt", tmp_path / "6.txt"]
    for path in written:
        path.touch()
    files = lambda done: written[: done // 3]  # noqa: E731
    assert resumable(tmp_path).load(files) == 6
    written[0].unlink()
    with caplog.at_level("WARNING", logger="sameloss"):
        assert resumable(tmp_path).load(files) == 0
    assert "3.txt, which belongs to the saved state, is missing; training starts over" in caplog.text
