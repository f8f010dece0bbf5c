"""The configuration, the stored runs, and the pages that read them."""

import re

import numpy as np
import pytest

from sameloss.errors import ParameterError
from sameloss.store.store import Store
from sameloss.studies.local_signal.experiment import (
    PRESETS,
    FilterDescent,
    TangentStarts,
    best_filters,
    dead_zone,
    log_steps,
    looks,
    signal_flows,
    signal_sgd,
    tangent_rows,
)
from sameloss.studies.local_signal.pages import STUDY
from sameloss.studies.local_signal.tangent import AT_SIGNAL, HELD_OUT, KINDS, PATCHES
from sameloss.studies.local_signal.theory import Patches


def open_page(**given):
    return STUDY.open("ii3_local_signal", {"preset": "smoke"} | given)


# Presets, and what cannot be asked of them.


def test_the_default_is_the_figure_but_for_its_steps():
    signal = PRESETS["laptop"]
    assert (signal.patches, signal.d, signal.batch, signal.lr) == (Patches(1000), 10, 500, 0.1)
    assert PRESETS["paper"].steps == 10_000
    assert all(min(preset.descents) >= 100 for preset in PRESETS.values())  # which no pilot had


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
        open_page(**given)


def test_a_start_in_the_dead_zone_is_named_in_a_warning(caplog):
    open_page(length=50, lr=0.1)
    (said,) = [record.message for record in caplog.records]
    assert re.match(r"^\d of 2 descents \(seeds 10.* to end in the dead zone, .*an lr of 2 or more", said)


@pytest.mark.parametrize(
    "given", [{"length": 50, "lr": 2.0}, {"length": 1e-4}, *({"preset": name} for name in PRESETS)]
)
def test_other_starts_are_not_warned_of(given, caplog):
    open_page(**given)
    assert not caplog.records


# The stored steps: where they look, and what decides them.

DESCENT = FilterDescent(0.2, 1e-3)


@pytest.fixture
def computed(tmp_path):
    return Store(tmp_path).get


def test_looks_are_at_equal_distances_of_the_logarithm():
    steps = log_steps(1e4)
    assert (steps[0], steps[1], steps[-1]) == (0, 1, 1e4)
    np.testing.assert_allclose(np.diff(np.log(steps[1:])), np.log(1e4) / 48)


def test_every_early_step_is_looked_at():
    assert looks(400)[:49].tolist() == list(range(1, 50))
    assert looks(400)[-1] == 400
    assert looks(7).tolist() == list(range(1, 8))


def test_seeds_differ_and_repeat(computed):
    one, again, other = (computed(signal_sgd(Patches(8), DESCENT, 3, 4, 20, seed)) for seed in (0, 0, 1))
    assert one.equals(again)
    assert not one.equals(other)


def test_each_flow_is_of_its_own_patches(computed):
    found = computed(signal_flows((4, 8), (0.5, 1.0), DESCENT, 10.0))
    by_setting = dict(list(found.groupby(["noise", "multiplier"]).c))
    assert [*by_setting] == [(4, 0.5), (4, 1.0), (8, 0.5), (8, 1.0)]
    assert not np.allclose(by_setting[4, 0.5], by_setting[4, 1.0])


def test_best_filters_beside_the_linear_model(computed):
    found = computed(best_filters((50,), (1.0,)))
    assert found.network[0] > found.linear[0] > 0.5


def test_small_rates_kill_and_positive_starts_live(computed):
    found = computed(dead_zone(Patches(50), (-0.5, 0.5), (2.0,), 3))
    assert found.dead.tolist() == [True] * 3 + [False] * 3


def test_tangent_rows_have_all_kinds_and_the_same_numbers_again(proofs, computed):
    assert set(proofs.tangent.kind) == set(KINDS)
    assert (proofs.tangent[proofs.tangent.kind == HELD_OUT].standard_error > 0).any()
    small = computed(tangent_rows(PATCHES, TangentStarts((1, 4), 2, 1, 50), 100))
    both = small[small.kind == AT_SIGNAL].merge(proofs.tangent, on=["filters", "start", "kind"])
    assert len(both) == 4
    assert (both.error_x == both.error_y).all()


def test_a_run_has_a_cost():
    assert 5 < tangent_rows(PATCHES, TangentStarts((1, 32), 100, 20, 400), 100).effort < 60


# The page on training: which runs it reads, and what its parameters change.


def test_all_that_it_reads_is_among_its_runs(page, found):
    assert not found.flow.empty
    assert all(page.store.has(run) for run in page.runs())
    assert len({run.key for run in page.runs()}) == len(page.runs())


def test_a_parameter_changes_what_it_is_about():
    first, other = open_page().config, open_page(batch=7).config
    assert first.descents[100].key != other.descents[100].key
    assert first.runs()["flow"].key == other.runs()["flow"].key
    assert open_page(noise=300).config.runs()["flow"].key != first.runs()["flow"].key
    assert open_page(multiplier=2).config.patches.sigma == 2 * first.patches.sigma
    assert len(open_page(seeds=4).config.descents) == open_page(seeds=4).seeds == 4
