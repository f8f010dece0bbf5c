"""Chapters whose runs take seconds, and synthetic results."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cells import computed
from small_growth import LANGUAGE, SMALL

from sameloss.runs.sampling import HeldOutConditionals
from sameloss.store.store import Store
from sameloss.studies.growing.claims import FROM_SCRATCH, UNTRAINED, Grown, Stacks
from sameloss.studies.growing.experiment import NOT_GROWN

BRIEF = replace(
    SMALL, seeds=(0,), steps=12, lag=4, evaluations=5, held_out=HeldOutConditionals(LANGUAGE, 32, 0)
)


@pytest.fixture(scope="session")
def grow(shared):
    """Execute the chapter on growing with small models, in a process that does not check types."""

    def grow(store=None, **changes):
        given = {"workers": 1, "base_steps": 20, "steps": BRIEF.steps, "lag": BRIEF.lag}
        small = {"shape": SMALL.shape, "added": SMALL.added, "preserving": SMALL.preserving, "sentences": 32}
        small |= {"evaluations": BRIEF.evaluations, "train": 100, "test": 100}
        return computed("ii5_growing", store or Store(shared / "growing"), given, **small | changes)

    return grow


@pytest.fixture(scope="session")
def growing(grow):
    """Two shallow models trained for twenty steps, and one of each age."""
    return grow(ages=(8, 20), aged=BRIEF)


@pytest.fixture(scope="session")
def stacking(shared):
    """Two first stages that grow from one layer to three."""
    given = {"workers": 1, "stage_steps": 12, "last_steps": 24, "stage_lag": 4}
    changes = {
        "shape": replace(SMALL.shape, layers=1),
        "sentences": 32,
        "evaluations": 4,
        "warmup": 0.03 * 60,
    }
    return computed("ii5_stacking", Store(shared / "growing"), given, **changes)


@pytest.fixture
def synthetic():
    """Three shallow models whose operators end in their order, and begin in reverse up to evaluation 3."""
    count, evaluations = len(SMALL.operators), len(SMALL.looks)
    final = np.linspace(1.0, 2.0, count)
    kl = np.stack([final[::-1] if at < 3 else final for at in range(evaluations)])
    seeds = np.stack([kl + 0.01 * seed for seed in range(3)])
    noise = 1e-4 * np.random.default_rng(0).standard_normal(seeds.shape)
    known = dict(zip([operator.name for operator in SMALL.operators], 100 - 10 * final, strict=True))
    known |= {NOT_GROWN: 50.0, FROM_SCRATCH: 60.0, UNTRAINED: 30.0}
    downstream = pd.DataFrame(
        {"seed": seed, "operator": name, "task": task, "accuracy": accuracy - (task == "b")}
        for seed in range(3)
        for name, accuracy in known.items()
        for task in "ab"
    )
    controls = seeds[:, :, 0] + 0.5, seeds[:, :, 0] + 0.7
    grown = Grown(replace(SMALL, seeds=(0, 1, 2)), seeds + noise, seeds, *controls, downstream)
    constant = np.repeat(seeds[:, -1:], evaluations, 1)
    older = replace(grown, chosen_by=constant, kl=1 + seeds / 10)
    return replace(grown, aged={10: grown, 100: older})


ENDS = {"adaptive": 0.1, "last": 0.12, "middle": 0.13, "random": 0.14}
ENDS |= {NOT_GROWN: 0.3, FROM_SCRATCH: 0.15}


@pytest.fixture
def stacks():
    """Ways that end in their order."""
    rows = [
        {
            "seed": seed,
            "way": way,
            "step": step,
            "kl": factor * end * (1 + seed / 10),
            "layers": 3,
            "flops": 1.0 * step,
        }
        for seed in range(3)
        for way, end in ENDS.items()
        for step, factor in ((30, 4.0), (60, 1.0))
    ]
    return Stacks(pd.DataFrame(rows))
