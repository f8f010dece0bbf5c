"""The stored steps: where they look, and what decides them."""

import numpy as np

from sameloss.studies.local_signal.experiment import (
    BestFilters,
    DeadZone,
    FilterDescent,
    SignalFlows,
    SignalSGD,
    log_steps,
)
from sameloss.studies.local_signal.theory import Patches, thesis_rates


def unheard(done, text):
    """Take a report."""


def test_looks_are_at_equal_distances_of_the_logarithm():
    steps = log_steps(1e4)
    assert (steps[0], steps[1], steps[-1]) == (0, 1, 1e4)
    np.testing.assert_allclose(np.diff(np.log(steps[1:])), np.log(1e4) / 48)


def test_every_early_step_is_looked_at():
    run = SignalSGD(Patches(8), FilterDescent(0.2, 1e-3), 3, 4, 400, 0)
    looks = run.looks()
    assert looks[:49].tolist() == list(range(1, 50))
    assert looks[-1] == 400
    assert SignalSGD(Patches(8), FilterDescent(0.2, 1e-3), 3, 4, 7, 0).looks().tolist() == list(range(1, 8))


def test_seeds_differ_and_repeat():
    tables = []
    for seed in (0, 0, 1):
        (table,) = SignalSGD(Patches(8), FilterDescent(0.2, 1e-3), 3, 4, 20, seed).rows(unheard)
        tables.append(table)
    assert tables[0].equals(tables[1])
    assert not tables[0].equals(tables[2])


def test_each_flow_is_of_its_own_patches():
    tables = list(SignalFlows((4, 8), (0.5, 1.0), FilterDescent(0.2, 1e-3), 10.0).rows(unheard))
    assert [(own.noise[0], own.multiplier[0]) for own in tables] == [(4, 0.5), (4, 1.0), (8, 0.5), (8, 1.0)]
    assert not np.allclose(tables[0].c, tables[1].c)


def test_best_filters_beside_the_linear_model():
    (table,) = BestFilters((50,), (1.0,)).rows(unheard)
    assert table.network[0] > table.linear[0] > 0.5


def test_small_rates_kill_and_positive_starts_live():
    run = DeadZone(Patches(50), (-0.5, 0.5), (2.0,), 3)
    dead = [own.dead.tolist() for own in run.rows(unheard)]
    assert dead == [[True] * 3, [False] * 3]
    assert thesis_rates(Patches(50), 0.1).b == 0.1 / 50
