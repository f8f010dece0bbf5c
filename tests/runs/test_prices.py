"""Operations, bytes and seconds of a pre-training, counted by hand."""

from dataclasses import replace
from itertools import count

import pytest
import torch

from sameloss.languages import HierarchySpec
from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.sizes import SIZES
from sameloss.runs import cost
from sameloss.runs.cost import (
    CORE,
    CORE_PRODUCTS,
    H200,
    Speed,
    core_factors,
    flops_per_second,
    micro_steps,
    training_bytes,
    training_flops,
)
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import CorpusSampling, Downstream, LabelledSampling
from sameloss.training.loop import Execution, Optimisation
from sameloss.training.objectives import Adversary, Objective, TracePenalty


def test_flops_by_hand(tiny_run):
    """Sixty steps of sixteen sentences of four tokens and three words; one block of width 8 and 16."""
    keys_and_values, rest = 4 * 6 * 2 * 8 * 8, 6 * (2 * 8 * 8 + 2 * 8 * 16)
    attention, head = 12 * 8 * 4, 6 * 8 * (8 + 3)
    assert training_flops(tiny_run) == 60 * 16 * (keys_and_values + rest + attention + head)


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
    assert training_flops(other) == passes * training_flops(tiny_run)
    assert micro_steps(other) == passes * micro_steps(tiny_run) == passes * 60


def test_operations_grow_with_the_length(tiny_run):
    assert training_flops(tiny_run, 4) == training_flops(tiny_run) > training_flops(tiny_run, 3.5)


@pytest.mark.parametrize("lstm", [False, True])
def test_bytes_by_hand(tiny_run, lstm):
    """Weights, gradients and two moments, and a micro-batch of eight sentences of four tokens."""
    shape = BiLSTMShape(8, 2) if lstm else tiny_run.shape
    activations = 2 * 20 * 8 if lstm else 7 * 8 + 2 * 16 + 2 * 4
    run = replace(tiny_run, shape=shape, micro_batch=8)
    weights = sum(parameter.numel() for parameter in run.new_model().parameters())
    assert training_bytes(run) == 4 * (4 * weights + 8 * 4 * activations)


def test_seconds_are_those_of_arithmetic_and_of_handing_out(tiny_run):
    speed = Speed(lambda width, dtype: 1e6 if (width, dtype) == (8, torch.float32) else 0.0, block_s=0.5)
    assert speed.seconds(tiny_run) == training_flops(tiny_run) / 1e6 + 60 * (1 + 2) * 0.5


def test_processes_share_the_work(tiny_run):
    two = replace(tiny_run, micro_batch=4, execution=Execution(processes=2))
    one = replace(two, execution=Execution())
    assert (micro_steps(one), micro_steps(two)) == (60 * 4, 60 * 2)
    assert H200.seconds(one) == pytest.approx(2 * H200.seconds(two))


def test_an_h200_is_bound_by_memory_where_models_are_narrow():
    """40 % of 989 TFLOP/s from a width of 412 on; half of the width, half of the speed."""
    wide, half, narrow = (H200.products(width, torch.bfloat16) for width in (1024, 206, 103))
    assert wide == pytest.approx(0.4 * 989e12)
    assert H200.products(1024, torch.float32) == pytest.approx(0.4 * 67e12)
    assert half == pytest.approx(2 * narrow) == pytest.approx(wide / 2, rel=0.01)


def test_the_reference_core_takes_what_was_measured(tiny_run):
    """Widths of 16 and 32 for 3,200 steps on eight tokens, each beside another training."""
    corpus = CorpusSampling(HierarchySpec(levels=3, symbols=3, rules=2, smoothing=0.03, seed=9), 1 << 19, 0)
    for size, seconds in (("d16", 50), ("d32", 70)):
        how = Optimisation(3200, 256, 5e-3)
        run = Pretraining(corpus, SIZES["laptop"][size], how, 0, (3200,), micro_batch=256, resume_every=500)
        assert CORE.seconds(run) == run.effort == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize("load", [0.0, 1.0, 30.0])
def test_what_is_measured_here_is_cpu_time(monkeypatch, load):
    """A product takes 4 ms of this process, and other work has the core for longer meanwhile."""
    cpu, wall = count(0, 0.004), count(0, 0.004 * (1 + load))
    monkeypatch.setattr(cost.time, "process_time", lambda: next(cpu))
    monkeypatch.setattr(cost.time, "perf_counter", lambda: next(wall))
    assert flops_per_second(64) == pytest.approx(2 * 2048 * 64 * 256 / 0.004)
    assert core_factors() == pytest.approx([CORE_PRODUCTS / flops_per_second(64)] * 2)
