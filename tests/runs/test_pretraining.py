"""A pre-training survives kill -9 bit for bit, and diverging ones say so."""

import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sameloss.errors import NonFiniteLoss, StoreError
from sameloss.models.encoder import EncoderShape
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
