"""The configuration, the stored runs, what they found, and the page."""

import re

import numpy as np
import pandas as pd
import pytest

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.experiment import (
    PRESETS,
    BestFilters,
    DeadZone,
    FilterDescent,
    SignalFlows,
    SignalSGD,
    dead_starts,
    log_steps,
)
from sameloss.studies.local_signal.found import steps_to
from sameloss.studies.local_signal.pages import STUDY
from sameloss.studies.local_signal.statements import STATEMENTS
from sameloss.studies.local_signal.theory import Filter, Patches, flow, thesis_rates

# Presets of training on patches, and what cannot be asked of them.


def test_the_default_is_the_figure_but_for_its_steps():
    signal = PRESETS["laptop"]
    assert (signal.patches, signal.d, signal.batch, signal.descent.lr) == (Patches(1000), 10, 500, 0.1)
    assert signal.descent.rates(signal.patches).b == pytest.approx(0.1 / 1000)
    assert PRESETS["paper"].steps == 10_000


def test_the_seeds_are_none_of_the_pilots():
    assert all(run.seed >= 100 for preset in PRESETS.values() for run in preset.descents)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"noise": 1}, "noise is at least 2; got 1"),
        ({"multiplier": 0}, "multiplier must be positive; got 0"),
        ({"lr": -0.1}, "lr must be positive; got -0.1"),
        ({"batch": 1.5}, "batch must be a whole number; got 1.5"),
        ({"seeds": 1}, "seeds is at least 2; got 1"),
        ({"preset": "huge"}, "Unknown preset 'huge'"),
    ],
)
def test_what_cannot_be_is_one_sentence(given, sentence):
    with pytest.raises(ParameterError, match=sentence):
        STUDY.open("ii3_local_signal", given)


def test_a_start_in_the_dead_zone_is_named_in_a_warning(caplog):
    signal = STUDY.open("ii3_local_signal", {"preset": "smoke", "length": 50, "lr": 0.1}).config
    below = [run.seed for run in signal.descents if run.begin()[0].w[0] < 0]
    assert below
    assert [record.message for record in caplog.records] == [dead_starts(signal)]
    said = rf"^{len(below)} of 2 descents \(seeds {below[0]}.* to end in the dead zone, .*an lr of 2 or more"
    assert re.match(said, caplog.records[0].message)


@pytest.mark.parametrize("given", [{}, {"length": 50, "lr": 2.0}, {"length": 1e-4, "lr": 0.1}])
def test_other_starts_are_not_warned_of(given, caplog):
    STUDY.open("ii3_local_signal", {"preset": "smoke", **given})
    assert not caplog.records


def test_no_preset_begins_there():
    assert all(dead_starts(preset) is None for preset in PRESETS.values())


# The stored steps: where they look, and what decides them.


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


# What is read off flows and descents.

STEP = np.append(0, np.geomspace(1, 1000, 37))
FLOW = pd.DataFrame({"step": STEP, "accuracy": 1 - 0.5 * (1 + STEP) ** -0.1})


@pytest.mark.parametrize("steps", [1.0, 6.3, 200.0, 1000.0])
def test_steps_to_an_accuracy_are_found_between_looks(steps):
    assert steps_to(FLOW, 1 - 0.5 * (1 + steps) ** -0.1) == pytest.approx(steps, rel=3e-6)
    assert np.isnan(steps_to(FLOW, 0.8))


def test_between_its_looks_the_flow_is_what_it_would_be_if_asked_there(found):
    steps, s = np.array([5.0, 500.0, 2000.0, 5000.0]), found.settings
    start = Filter(s.descent.length, s.descent.length, 0.0)
    asked = flow(s.patches, start, s.descent.rates(s.patches), np.append(0, steps))
    for column in ("c", "b", "accuracy"):
        np.testing.assert_allclose(found.flow_at(steps, column), asked[column][1:], rtol=1e-5)


def test_seeds_are_columns(found):
    assert found.by_seed("c").columns.tolist() == [100, 101]
    assert found.by_seed("accuracy").index[-1] == found.settings.steps


# The page on training: which runs it reads, and what its parameters change.


def open_page(**given):
    return STUDY.open("ii3_local_signal", {"preset": "smoke", **given})


def test_all_that_it_reads_is_among_its_runs(page, found):
    assert not found.flow.empty
    assert all(page.store.has(run) for run in page.runs())


def test_runs_have_their_own_keys():
    keys = [run.key for run in open_page().runs()]
    assert len(set(keys)) == len(keys)


def test_a_parameter_changes_what_it_is_about():
    first, other = open_page().config, open_page(batch=7).config
    assert first.descents[0].key != other.descents[0].key
    assert first.flow.key == other.flow.key
    assert open_page(noise=300).config.flow.key != first.flow.key
    assert open_page(multiplier=2).config.patches.sigma == 2 * first.patches.sigma
    assert len(open_page(seeds=4).config.descents) == open_page(seeds=4).seeds == 4


def test_the_statements_are_judged_from_its_runs(page):
    table = page.statements()
    assert table.id.tolist() == list(STATEMENTS)
    assert not page.tangent.empty
