"""Presets of training on patches, and what cannot be asked of them."""

import re

import pytest

from sameloss.errors import ParameterError
from sameloss.studies.local_signal.experiment import PRESETS, dead_starts
from sameloss.studies.local_signal.pages import STUDY
from sameloss.studies.local_signal.theory import Patches


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
