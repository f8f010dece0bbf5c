"""A page so small that all of its runs take seconds, and results that were made up."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small_growth import SMALL, SMALL_PAGE, SMALL_STAGES

from sameloss.store.store import Store
from sameloss.studies.growing.claims import FROM_NOTHING, MEASURES, PAID, Grown, Stacks
from sameloss.studies.growing.experiment import NOT_GROWN
from sameloss.studies.growing.pages import GrowingPage, StackingPage


@pytest.fixture(scope="session")
def page(shared):
    """A page at work, of two shallow models that are trained for twenty steps."""
    brief = SMALL.optimisation.lasting(20)
    growing = replace(SMALL, optimisation=brief, steps=12, lag=4, sentences=32, looks=5)
    aged = replace(growing, seeds=1)
    settings = replace(SMALL_PAGE, growing=growing, ages=(8, 20), aged=aged)
    return GrowingPage("ii5_growing", settings, Store(shared / "growing"))


@pytest.fixture(scope="session")
def stacking(shared):
    """The other page, of two first stages that grow from one layer to three."""
    stages = replace(SMALL_STAGES, steps=12, last_steps=24, lag=4, sentences=32)
    return StackingPage("ii5_stacking", replace(SMALL_PAGE, stacking=stages), Store(shared / "growing"))


@pytest.fixture
def made_up():
    """Three shallow models: operators end in their order, begin backwards, and show it from look 3 on."""
    settings = SMALL
    count, looks = len(settings.operators), len(settings.look_steps)
    final = np.linspace(1.0, 2.0, count)
    kl = np.stack([final[::-1] if look < 3 else final for look in range(looks)])
    seeds = np.stack([kl + 0.01 * seed for seed in range(3)])
    noise = 1e-4 * np.random.default_rng(0).standard_normal(seeds.shape)
    landscape = {name: np.stack([final] * 3) for name in MEASURES}
    accuracy = np.stack([100 - 10 * final] * 3)
    controls = seeds[:, :, 0] + 0.5, seeds[:, :, 0] + 0.7
    grown = Grown(settings, seeds + noise, seeds, *controls, landscape, accuracy)
    final_alone = np.repeat(seeds[:, -1:], looks, 1)
    sooner = replace(grown, chosen_by=final_alone, kl=1 + seeds / 10)
    return replace(grown, aged={10: grown, 100: sooner})


ENDS = {"adaptive": 0.1, PAID: 0.11, "last": 0.12, "middle": 0.13, "random": 0.14}
ENDS |= {NOT_GROWN: 0.3, FROM_NOTHING: 0.15}


@pytest.fixture
def stacked():
    """Ways end in their order; at equal KL the last one reads 2 points more, at a third of the trace."""
    stages, known = [], []
    for seed in range(3):
        for way, end in ENDS.items():
            for step, factor in ((30, 4.0), (60, 1.0)):
                kl = factor * end * (1 + seed / 10)
                about = {"seed": seed, "way": way, "layers": 3, "operator": f"{way}, i = {seed}"}
                stages.append({**about, "step": step, "kl": kl, "flops": 1.0 * step})
                better, flatter = (2.0, 3.0) if way == "last" else (0.0, 1.0)
                known.append(
                    {
                        "seed": seed,
                        "way": way,
                        "step": step,
                        "kl": kl,
                        "trace": kl / flatter,
                        "root": 90 - 10 * np.log(kl) + better,
                        "span2": 80 - 10 * np.log(kl) + better,
                    }
                )
    settings = replace(SMALL_STAGES, seeds=3)
    return Stacks(settings, pd.DataFrame(stages), pd.DataFrame(known))
