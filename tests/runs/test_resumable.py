"""The state from which a training goes on: whole, of this version and device, or refused."""

import hashlib
import io
import pickle
from pathlib import Path

import pytest
import torch

from sameloss.errors import StoreError
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.runs.checkpoints import Resumable
from sameloss.training.loop import Optimisation, TrainingStep, make_optimiser

SETTINGS = Optimisation(steps=60, batch=16, lr=1e-2)
STEPS = [TrainingStep(done, 2.0 / done, 0.1 * done) for done in range(1, 8)]


def resumable(folder, width=8, seed=0, **options):
    model = Encoder(EncoderShape(width, 2, 1, 16), 3, 4, seed)
    parts = {"model": model, "optimiser": make_optimiser(model, SETTINGS)}
    return Resumable(folder, parts, every=3, **options)


def stepped(state):
    """Take optimiser steps, so that there are moments to keep."""
    for step in STEPS:
        for parameter in state.parts["model"].parameters():
            parameter.grad = torch.full_like(parameter, 0.1 * step.done)
        state.parts["optimiser"].step()
        state.record(step)
    return state


@pytest.fixture
def saved(tmp_path):
    return stepped(resumable(tmp_path))


def test_what_was_saved_comes_back_bit_for_bit(saved, tmp_path):
    """Seven steps were taken, the state is that after six: a seventh makes the same of it."""
    other = resumable(tmp_path, seed=1)
    assert other.load() == saved.saved == other.saved == 6
    assert other.history == STEPS[:6]
    for parameter in other.parts["model"].parameters():
        parameter.grad = torch.full_like(parameter, 0.1 * 7)
    other.parts["optimiser"].step()
    models = (state.parts["model"].parameters() for state in (other, saved))
    for a, b in zip(*models, strict=True):
        assert torch.equal(a, b)


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
        pickle.dumps(Path("x"), protocol=2),  # whole, and nothing that is only weights
        torch_saved({"weights": 1}),
        torch_saved([1]),
        torch_saved(1),
    ],
)
def test_a_whole_state_that_cannot_be_read_is_refused_and_kept(saved, tmp_path, content):
    saved.path.write_bytes(hashlib.sha256(content).digest() + content)
    with pytest.raises(
        StoreError, match=r"resume\.pt is none that torch .* reads; go on where it was made, or"
    ):
        resumable(tmp_path).load()
    assert saved.path.exists()


def test_without_what_was_written_on_the_way_a_training_starts_over(saved, tmp_path, caplog):
    written = [tmp_path / "3.txt", tmp_path / "6.txt"]
    for path in written:
        path.touch()
    beside = lambda done: written[: done // 3]  # noqa: E731
    assert resumable(tmp_path).load(beside) == 6
    written[0].unlink()
    with caplog.at_level("WARNING", logger="sameloss"):
        assert resumable(tmp_path).load(beside) == 0
    assert "3.txt is not there; training starts over" in caplog.text
