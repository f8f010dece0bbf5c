"""Every kind of run that a GPU computes gives on the emulated one what it gives on the CPU.

Runs are small, in float32, and each reads parents that the CPU computed, so that a difference is its own.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from emulated_device import DEVICE, emulate
from quick_workers import FORKING

from sameloss.device import use_device
from sameloss.languages import HMMSpec
from sameloss.measures.downstream import OptimalProbe
from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.encoder import EncoderShape
from sameloss.runs.measurements import Probing
from sameloss.runs.pretraining import CoolDown, Pretraining
from sameloss.runs.sampling import CorpusSampling, Downstream, HeldOutConditionals, LabelledSampling
from sameloss.store.store import Run, Store
from sameloss.studies.same_loss.estimators import estimator_measurement, reparametrisation_measurement
from sameloss.studies.same_loss.experiment import (
    Measures,
    flatness_measurement,
    language_baselines,
    model_measurement,
)
from sameloss.training.loop import Execution, Optimisation

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import gpu_check

SPEC = HMMSpec(4, 4, 4, 2, 1.0, 1.0, 0.1)
HELD_OUT = HeldOutConditionals(SPEC, 20, 0)
LABELLED, CLEAR = (  # with the second seed no sentence is near the border between two classes
    LabelledSampling(SPEC, Downstream(("state2",), "posterior", 40, 40, 1, seed)) for seed in (0, 3)
)
MEASURES = Measures(20, 4, 20, 2, few_labels=(12,), many_labels=30, trace_sentences=10)
TRAINING = Pretraining(
    CorpusSampling(SPEC, 50, 0), EncoderShape(4, 2, 1, 8), Optimisation(3, 8, 1e-2), 0, (3,), 8, 4
)
COOLING = Optimisation(2, 8, 1e-3, warmup=0.0, schedule="constant")
HALF = Execution(autocast=True, by_length=True)
PART_I = {
    "training": TRAINING,
    "LSTM": replace(TRAINING, shape=BiLSTMShape(4, 1)),
    "bfloat16": replace(TRAINING, execution=HALF),
    "dropout and SAM": replace(TRAINING, optimisation=replace(TRAINING.optimisation, sam_radius=0.05)),
    "cool-down": CoolDown(
        TRAINING.corpus, TRAINING.shape, COOLING, 1, (2,), 8, 4, origin=TRAINING, held_out=HELD_OUT,
        reference=TRAINING, look_every=1,
    ),
    "measurement": model_measurement(TRAINING, 3, LABELLED, HELD_OUT, MEASURES, True),
    "baselines": language_baselines(LABELLED, HELD_OUT, MEASURES),
    "flatness": flatness_measurement(TRAINING, 3, 20, 0),
    "probe": Probing(TRAINING, (3,), CLEAR, OptimalProbe()),
    "estimators": estimator_measurement(TRAINING, 1024, 0),
    "forms": reparametrisation_measurement(TRAINING, 20, 0, 2),
}  # fmt: skip

DIGITS = {"LSTM": 1e-4, "bfloat16": 2e-2, "forms": 1e-3}
"""Largest difference, relative to the largest number of an array: else 1e-5. Changes of probabilities under
reparametrisations are rounding errors."""

LONG = ("estimators", "forms")

KINDS = [
    *("ListSGD", "GrowthBase", "Candidates", "Member", "Stage"),
    *("ImageComparison", "LazyTraining", "TwinTraining"),
]


smoke_runs = cache(gpu_check.smoke_runs)


def smaller(run):
    """Return a run of Part II with a step or two, and one candidate."""
    changes = {name: smaller(value) for name, value in vars(run).items() if isinstance(value, Run)}
    if hasattr(run, "operators"):
        changes |= {"operators": run.operators[:1], "steps": 2, "looks": (0, 2) if 0 in run.looks else (2,)}
    if hasattr(run, "checkpoints") and hasattr(run, "resume_every"):
        changes |= {"optimisation": replace(run.optimisation, steps=2), "checkpoints": (2,)}
    if hasattr(run, "descent"):
        changes["descent"] = replace(run.descent, steps=2)
    if hasattr(run, "stops"):
        changes["stops"] = (2,)
    return replace(run, **changes)


def compared(root, name):
    """Return how far a run on the emulated device is from the CPU's, and in which part of it."""
    use_device("cpu")
    store = Store(root)
    if name in PART_I:
        run = PART_I[name]
    else:
        run = smaller(next(run for run in smoke_runs(root) if run.kind == name))
    store.get(run)
    row = gpu_check.on_device(DEVICE, root, run)
    use_device("cpu")
    return run.accelerated, row["difference"], row["where"]


@pytest.fixture(scope="module")
def accelerator():
    with ProcessPoolExecutor(1, FORKING, initializer=emulate) as pool:
        yield pool


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("kinds")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.book] if n in LONG else []) for n in (*PART_I, *KINDS)],
)
def test_a_run_on_the_device_is_that_on_the_cpu(name, accelerator, root):
    accelerated, difference, where = accelerator.submit(compared, root, name).result()
    assert accelerated
    assert difference <= DIGITS.get(name, 1e-5), where


def test_no_kind_that_a_gpu_computes_is_forgotten(tmp_path):
    accelerated = {run.kind for run in gpu_check.smoke_runs(tmp_path) if run.accelerated}
    assert accelerated == {run.kind for run in PART_I.values()} | set(KINDS)


def test_only_one_module_names_the_accelerator():
    lib = Path(__file__).parents[1] / "lib" / "sameloss"
    named = {
        path.name
        for path in lib.rglob("*.py")
        if '"cuda"' in path.read_text() or "torch.cuda." in path.read_text()
    }
    assert named == {"device.py"}
