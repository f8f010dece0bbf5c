"""Operations and bytes of a pre-training counted by hand; seconds beside those of a GPU."""

import re
from dataclasses import replace

import pandas as pd
import pytest

from sameloss.book.costs import H200_FLOAT32, h200_seconds
from sameloss.languages.paper import PAPER_LANGUAGE
from sameloss.measures.downstream import probing_flops
from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.sizes import SIZES
from sameloss.runs.checkpoints import STEP
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import CorpusSampling, Downstream, LabelledSampling
from sameloss.store import store
from sameloss.store.location import results_folder
from sameloss.training.loop import Execution, Optimisation
from sameloss.training.objectives import Adversary, Objective, TracePenalty


def test_flops_by_hand(tiny_run):
    """Sixty steps of sixteen sentences of four tokens and three words; one block of width 8 and 16."""
    keys_and_values, rest = 4 * 6 * 2 * 8 * 8, 6 * (2 * 8 * 8 + 2 * 8 * 16)
    attention, head = 12 * 8 * 4, 6 * 8 * (8 + 3)
    assert tiny_run.flops == 60 * 16 * (keys_and_values + rest + attention + head)
    assert tiny_run.work == tiny_run.flops + 60 * STEP


@pytest.mark.parametrize(
    ("objective", "radius", "passes"),
    [
        (Objective(), 0.0, 1),
        (Objective(), 0.1, 2),
        (Objective(adversary=Adversary(0.1)), 0.0, 2),
        (Objective(trace_penalty=TracePenalty(0.1)), 0.0, 3),
    ],
)
def test_an_algorithm_costs_its_passes(tiny_run, objective, radius, passes):
    optimisation = replace(tiny_run.optimisation, sam_radius=radius)
    tasks = LabelledSampling(tiny_run.corpus.language, Downstream(("root",), "posterior", 4, 4, 1, 0))
    other = replace(tiny_run, objective=objective, optimisation=optimisation, downstream=tasks)
    assert other.work == passes * tiny_run.work


@pytest.mark.parametrize("lstm", [False, True])
def test_bytes_by_hand(tiny_run, lstm):
    """Weights, gradients and two moments, and a micro-batch of eight sentences of four tokens."""
    shape = BiLSTMShape(8, 2) if lstm else tiny_run.shape
    activations = 2 * 20 * 8 if lstm else 7 * 8 + 2 * 16 + 2 * 4
    run = replace(tiny_run, shape=shape, micro_batch=8)
    weights = sum(parameter.numel() for parameter in run.new_model().parameters())
    assert run.memory == 4 * (4 * weights + 8 * 4 * activations)


def test_processes_share_the_work(tiny_run):
    two = replace(tiny_run, micro_batch=4, execution=Execution(processes=2))
    assert two.work == tiny_run.flops / 2 + 60 * STEP


def on_a_gpu(what):
    """Seconds that an H100 took."""
    return pd.read_csv(results_folder() / "gpu" / "sizes.csv").set_index("what").seconds[what]


@pytest.mark.parametrize(
    "what",
    [
        "pre-training 5M, 4096 sentences a step in parts of 2048",
        "pre-training 41M, 4096 sentences a step in parts of 2048",
        "pre-training 235M, 4096 sentences a step in parts of 2048",
        "pre-training 235M, 4096 sentences a step in parts of 512",
    ],
)
def test_a_step_on_a_gpu_took_about_what_is_estimated(what):
    size, part = re.fullmatch(r"pre-training (\w+), 4096 sentences a step in parts of (\d+)", what).groups()
    corpus, steps = CorpusSampling(PAPER_LANGUAGE, None, 0), Optimisation(1, 4096, 1e-4)
    how = Execution(autocast=True, by_length=True)
    run = Pretraining(corpus, SIZES["paper"][size], steps, 0, (1,), int(part), 1000, execution=how)
    assert h200_seconds(run) == pytest.approx(on_a_gpu(what), rel=0.5)


def test_a_probe_on_a_gpu_took_about_what_is_estimated():
    took = on_a_gpu("probe, 1 seed, 20000 sentences, 32768 features")
    assert probing_flops(20_000, 32_768, 1) / H200_FLOAT32 == pytest.approx(took, rel=0.5)


def test_a_kind_that_the_record_lacks_takes_a_second_or_as_long_as_its_work(monkeypatch, tiny_run):
    class Unknown(type(tiny_run.corpus)):
        work = 0.0

    language = tiny_run.corpus.language
    assert Unknown(language, None, 0).effort == 1.0
    monkeypatch.setattr(Unknown, "work", 1e12)
    assert Unknown(language, None, 0).effort == 1e12 * store.prices()["Pretraining"][1]
