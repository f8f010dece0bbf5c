"""Memory that a training, a probe and a trace take, counted by PyTorch's profiler, beside the estimates.

Width and sentences of the paper's 235M are divided by one number, so that parameters, activations, features
and the matrices between sentences all shrink by its square, and so does the chunk of the trace.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from sameloss.book.pages import open_page
from sameloss.languages.masking import Batch
from sameloss.languages.paper import PAPER_LANGUAGE
from sameloss.measures.downstream import OptimalProbe, probing_bytes
from sameloss.measures.flatness import gradient_norms
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.encoder import EncoderShape
from sameloss.models.sizes import SIZES
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import CorpusSampling
from sameloss.training.loop import Execution, Optimisation, make_optimiser, pretrain

FULL = SIZES["paper"]["235M"]
WORDS, LENGTH = PAPER_LANGUAGE.words, PAPER_LANGUAGE.max_length
LARGE = 70e9  # of the 80 GB of an H100
GPU = pd.read_csv(Path(__file__).parents[1] / "results" / "gpu" / "sizes.csv").set_index("what").peak_GB * 1e9

SCALES = [
    pytest.param(16, id="1/256"),
    pytest.param(1024 / 144, marks=pytest.mark.book, id="1/50"),
    pytest.param(1024 / 224, marks=pytest.mark.book, id="1/20"),
]


def counted(compute):
    """Return the largest sum of what lived at one time."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        compute()
    events = [e for e in profiled.profiler.kineto_results.events() if e.name() == "[memory]"]
    return np.cumsum([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())]).max()


def training(scale, micro_batch, autocast):
    shape = EncoderShape(int(FULL.d_model / scale), FULL.heads, FULL.layers, int(FULL.d_inter / scale))
    sentences = int(micro_batch / scale)
    optimisation = Optimisation(2, sentences, 1e-4, warmup=0.0, schedule="constant")
    corpus, how = CorpusSampling(PAPER_LANGUAGE, None, 0), Execution(autocast=autocast, by_length=True)
    return Pretraining(corpus, shape, optimisation, 0, (2,), sentences, 1000, execution=how)


def masked(sentences):
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, WORDS + 1, (sentences, LENGTH), generator=draw)
    return Batch(tokens, torch.arange(sentences) % LENGTH, torch.arange(sentences) % WORDS, None)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("autocast", [False, True])
def test_a_training_takes_what_is_told(scale, autocast):
    run = training(scale, 512, autocast)
    batch = masked(run.micro_batch)

    def compute():
        model = run.new_model()
        steps = pretrain(
            model,
            make_optimiser(model, run.optimisation),
            lambda step: batch,
            run.optimisation,
            execution=run.execution,
        )
        assert len(list(steps)) == 2

    found = counted(compute)
    assert found == pytest.approx(run.memory, rel=0.25 if scale > 10 else 0.15)
    assert found * scale**2 < LARGE


@pytest.mark.parametrize("sentences", [256, 512, 2048])
def test_a_training_on_a_gpu_took_what_is_told(sentences):
    took = GPU[f"pre-training 235M, 4096 sentences a step in parts of {sentences}"]
    assert took == pytest.approx(training(1, sentences, True).memory, rel=0.05)


@pytest.mark.parametrize("scale", SCALES)
def test_a_probe_takes_what_is_told(scale, monkeypatch):
    """Without the workspace of the eigenvalue solver, whose time this test does without, too."""
    sentences, width = int(20_000 / scale), LENGTH * int(FULL.d_model / scale)
    features = torch.randn(1, sentences, width, generator=torch.Generator().manual_seed(0))
    labels = torch.stack([features[..., :10].argmax(-1)] * 3, -1)
    monkeypatch.setattr("torch.linalg.eigh", lambda a: (torch.linspace(1, 2, len(a)).to(a), a.clone()))
    found = counted(lambda: OptimalProbe(iterations=2).fit(features, labels, [10] * 3, 0)) + features.nbytes
    assert found == pytest.approx(probing_bytes(sentences, width, 1, 0) - 8 * 3.5 * sentences**2, rel=0.15)
    assert found * scale**2 < LARGE


def test_a_probe_on_a_gpu_took_what_is_told():
    took = GPU["probe, 1 seed, 20000 sentences, 32768 features"]
    assert took == pytest.approx(probing_bytes(20_000, 32_768, 1, 0), rel=0.05)


@pytest.mark.parametrize("scale", SCALES)
def test_a_trace_takes_what_is_told(scale, monkeypatch):
    monkeypatch.setitem(gradient_norms.CHUNK_BYTES, "cpu", int((4 << 30) / scale**2))
    shape = training(scale, 512, False).shape
    model, sentences = shape.build(WORDS, LENGTH, 0).eval(), masked(40)
    draw = torch.Generator().manual_seed(0)
    weights = 4 * shape.parameter_count(WORDS, LENGTH)
    found = counted(lambda: fisher_trace(model, sentences, labels=1, generator=draw)) + weights
    assert found == pytest.approx(3.5 * gradient_norms.CHUNK_BYTES["cpu"] + weights, rel=0.3)
    assert found * scale**2 < LARGE


def test_every_part_of_the_papers_235m_fits_a_gpu(monkeypatch):
    monkeypatch.setitem(gradient_norms.CHUNK_BYTES, "cpu", 4 << 30)
    runs = open_page("04_flatness", size="235M").runs()
    assert len(runs) == 1 + 1 + 6  # baselines, untrained, and every length
    assert all(1e9 <= run.memory < LARGE for run in runs)
