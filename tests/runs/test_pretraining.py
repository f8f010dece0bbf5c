"""A pre-training survives kill -9 bit for bit, and diverging ones say so."""

import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import nn

from sameloss.errors import NonFiniteLoss, ParameterError, StoreError
from sameloss.models.encoder import EncoderShape
from sameloss.models.masked_model import MaskedLanguageModel, chosen
from sameloss.models.shape import Shape, asked_of_model
from sameloss.runs.cost import training_bytes, training_flops
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.resumable import Resumable
from sameloss.runs.sampling import CorpusSampling
from sameloss.store.store import Store
from sameloss.training.loop import Optimisation, make_optimiser


@pytest.fixture
def run(tiny_spec):
    return Pretraining(
        corpus=CorpusSampling(tiny_spec, 300, seed=0),
        shape=EncoderShape(8, 2, 1, 16),
        optimisation=Optimisation(steps=60, batch=16, lr=1e-2),
        seed=0,
        checkpoints=(20, 60),
        micro_batch=16,
        resume_every=10,
    )


def test_checkpoints_hold_the_models_along_the_way(run, tmp_path):
    checkpoints = Store(tmp_path).get(run)
    early, late = (checkpoints.model(step).word.weight for step in (20, 60))
    assert not torch.equal(early, late)
    assert not torch.equal(early, run.new_model().word.weight)
    assert checkpoints.history.step.tolist() == list(range(1, 61))
    assert checkpoints.history.loss.iloc[-10:].mean() < checkpoints.history.loss.iloc[:10].mean()


KILLED = """
    import os, pickle, signal, sys
    sys.path.insert(0, "TESTS")
    from sameloss.store.store import Store

    run = pickle.loads(bytes.fromhex("RUN"))
    store = Store("ROOT")
    store.get(run.corpus)
    calls = []

    def report(fraction, text):
        calls.append(fraction)
        if fraction >= FRACTION:
            os.kill(os.getpid(), signal.SIGKILL)

    store.get(run, report)
"""


@pytest.mark.parametrize("killed_at", [3, 10, 27, 59])
def test_a_killed_training_goes_on_bit_for_bit(run, tmp_path, killed_at):
    import pickle

    whole = Store(tmp_path / "whole")
    whole.get(run)
    script = textwrap.dedent(KILLED)
    for name, value in {
        "TESTS": Path(__file__).parent,
        "ROOT": tmp_path / "killed",
        "RUN": pickle.dumps(run).hex(),
        "FRACTION": killed_at / 60,
    }.items():
        script = script.replace(name, str(value))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    store = Store(tmp_path / "killed")
    assert not store.has(run)
    resumable = store.partial(run) / "scratch" / "resume.pt"
    assert resumable.exists() == (killed_at >= 10)
    first_reported = []
    store.get(run, lambda fraction, text: first_reported.append(fraction))
    assert round(first_reported[0] * 60) == 1 + killed_at // 10 * 10
    assert store.manifest(run)["files"] == whole.manifest(run)["files"]


@pytest.fixture
def saved(run, tmp_path):
    model = run.new_model()
    resumable = Resumable(tmp_path, model, make_optimiser(model, run.optimisation))
    resumable.save(7, [(7, 1.0, 0.1)])
    return resumable


def test_a_damaged_resumable_state_starts_over(saved, caplog):
    assert saved.load() == (7, [(7, 1.0, 0.1)])
    content = bytearray(saved.path.read_bytes())
    content[len(content) // 2] ^= 1
    saved.path.write_bytes(content)
    with caplog.at_level("WARNING", logger="sameloss"):
        assert saved.load() == (0, [])
    assert "starts over" in caplog.text


def test_a_resumable_state_of_another_version_is_refused_and_kept(saved, tmp_path, monkeypatch):
    content = saved.path.read_bytes()
    monkeypatch.setattr(torch, "__version__", "9.9")
    other = Resumable(tmp_path, saved.model, saved.optimiser)
    with pytest.raises(StoreError, match=r"\(step 7\) is of torch 2.* and this is torch 9.9 .*delete it to"):
        other.load()
    assert saved.path.read_bytes() == content


def test_a_resumable_state_of_another_shape_is_refused_and_kept(saved, run, tmp_path):
    content = saved.path.read_bytes()
    model = replace(run, shape=EncoderShape(16, 2, 1, 16)).new_model()
    with pytest.raises(StoreError, match=r"\(step 7\) is of a model of another shape"):
        Resumable(tmp_path, model, make_optimiser(model, run.optimisation)).load()
    assert saved.path.read_bytes() == content


def test_weights_of_another_shape_are_refused_in_one_sentence(run, tmp_path):
    """What a changed class without a raised schema would meet."""
    store = Store(tmp_path)
    store.get(run)
    other = replace(run, shape=EncoderShape(16, 2, 1, 16))
    with pytest.raises(StoreError, match=r"step-0000060.safetensors are not those of the model"):
        other.load(store.folder(run)).last()
    assert store.has(run)


def test_divergence_names_step_lr_and_seed(run, tmp_path):
    diverging = replace(run, optimisation=Optimisation(steps=60, batch=16, lr=1e30), resume_every=1)
    store = Store(tmp_path)
    with pytest.raises(NonFiniteLoss, match=r"at step \d+ with lr = .*, seed 0\..*step \d+\) is kept"):
        store.get(diverging)
    assert (store.partial(diverging) / "scratch" / "resume.pt").exists()
    assert not store.has(diverging)


def test_every_setting_is_in_the_key(run):
    changed = [
        replace(run, seed=1),
        replace(run, micro_batch=8),
        replace(run, resume_every=20),
        replace(run, dtype="float64"),
        replace(run, checkpoints=(60,)),
        replace(run, shape=EncoderShape(8, 1, 1, 16)),
        replace(run, optimisation=replace(run.optimisation, lr=0.1)),
        replace(run, corpus=replace(run.corpus, sentences=301)),
    ]
    assert len({run.key, *(other.key for other in changed)}) == 9


class Convolution(nn.Module):
    """h + ReLU of a convolution over three neighbours."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.over_three = nn.Conv1d(d_model, d_model, 3, padding=1)

    def forward(self, h, context, at=None):
        return chosen(h + self.over_three(h.transpose(1, 2)).relu().transpose(1, 2), at)


class ConvolutionalModel(MaskedLanguageModel):
    def context(self, tokens, lengths):
        return None


@dataclass(frozen=True)
class ConvolutionShape(Shape):
    """A family that nothing in the library knows."""

    family: ClassVar[str] = "A convolutional network"

    d_model: int
    layers: int

    def build(self, words, max_length, seed=None, norm="pre", dropout=0.0):
        self.check_options(asked_of_model(norm, dropout))
        with torch.random.fork_rng():
            torch.manual_seed(seed or 0)
            blocks = [Convolution(self.d_model) for _ in range(self.layers)]
            return ConvolutionalModel(self.d_model, words, max_length, blocks, nn.Identity())

    @property
    def matrix_parameters(self):
        return 3 * self.layers * self.d_model**2

    def flops(self, words, length):
        return 6.0 * length * self.matrix_parameters

    def activations(self, length):
        return 4 * self.layers * self.d_model


def test_a_new_family_trains_and_is_counted_without_another_change(run, tmp_path):
    toy = replace(run, shape=ConvolutionShape(8, 2))
    checkpoints = Store(tmp_path).get(toy)
    assert checkpoints.history.loss.iloc[-10:].mean() < checkpoints.history.loss.iloc[:10].mean()
    assert isinstance(checkpoints.last(), ConvolutionalModel)
    assert training_flops(toy) == 60 * 16 * toy.shape.flops(3, 4)
    assert training_bytes(toy) > 0
    with pytest.raises(ParameterError, match="A convolutional network cannot be trained with dropout"):
        replace(toy, dropout=0.1)
