"""The presets, and what a reader may set."""

import pytest

from sameloss.errors import ParameterError
from sameloss.studies.decision_lists.pages import STUDY
from sameloss.studies.decision_lists.settings import PRESETS, Steps, TaskShape
from sameloss.studies.parameters import PRESETS as NAMES


def lists(**given):
    return STUDY.open("ii4_decision_lists", {"preset": "laptop", **given}).settings.lists


def test_every_preset_is_there():
    assert list(PRESETS) == list(NAMES)
    assert PRESETS["laptop"].lists.task == TaskShape(200, 25, 4)
    assert max(PRESETS["gpu"].lists.sweeps.words) == 3200
    assert max(PRESETS["paper"].lists.drawn) == 1_000_000


def test_seeds_are_not_those_of_the_pilot():
    for preset in PRESETS.values():
        assert not set(preset.lists.all_seeds) & {*range(6), 99, 999}


def test_other_rates_take_as_long():
    settings = PRESETS["laptop"].lists
    first = settings.alone
    assert settings.steps_at(first.rate) == first
    assert settings.steps_at(10.0) == Steps(10.0, first.batch, 320, first.looks)


def test_the_theorems_read_out():
    assert TaskShape(200, 25, 4).theorem_readout == pytest.approx(9.591e6, rel=1e-3)


def test_a_readers_read_out_is_followed_and_drawn():
    found = lists(readout=8.0)
    assert found.sgd_readout == 8
    assert 8 in found.readouts
    assert 8 in found.shown
    assert lists().readouts == PRESETS["laptop"].lists.readouts


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"vocabulary": 20}, "A sequence of 25 different tokens needs a vocabulary of as many; it has 20"),
        ({"length": 1}, "length must be a whole number, at least 2; got 1"),
        ({"list_length": 9}, "list_length is at most 8; got 9"),
        ({"vocabulary": 26, "length": 3, "list_length": 0}, "list_length must be positive"),
        ({"readout": -3}, "readout must be positive; got -3"),
        ({"readout": "theorem"}, "readout must be a number; got 'theorem'"),
        ({"length": 120}, "choose a length of at most 100 for 200 tokens"),
        ({"seeds": 1}, "seeds is at least 2"),
        ({"steps": 0}, "steps must be positive"),
        ({"batch": 0}, "batch must be positive"),
        ({"size": "40K"}, "Unknown parameter 'size'; valid here are preset, vocabulary, length"),
    ],
)
def test_bad_parameters_end_in_one_sentence(given, sentence):
    with pytest.raises(ParameterError, match=sentence):
        lists(**given)
