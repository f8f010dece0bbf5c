"""The presets, and what a reader may set."""

import pytest

from sameloss.errors import ParameterError
from sameloss.studies.decision_lists.experiment import MOST_STEPS, PRESETS, TaskShape
from sameloss.studies.decision_lists.pages import STUDY
from sameloss.studies.parameters import PRESETS as NAMES


def lists(**given):
    return STUDY.open("ii4_decision_lists", {"preset": "laptop", **given}).config


def test_every_preset_is_there():
    assert list(PRESETS) == list(NAMES)
    assert PRESETS["laptop"].task == TaskShape(200, 25, 4)
    assert max(PRESETS["gpu"].sweeps.words) == 3200
    assert max(PRESETS["paper"].drawn) == 1_000_000


def test_seeds_are_not_those_of_the_pilot():
    for preset in PRESETS.values():
        assert not set(preset.all_seeds) & {*range(6), 99, 999}


def test_other_rates_take_as_long():
    settings = PRESETS["laptop"]
    assert settings.exact_time == pytest.approx(1893, rel=1e-3)
    slow, fast = settings.steps_at(1.425), settings.steps_at(7.125)
    assert (slow.rate, fast.rate) == (2.0, 10.0)
    assert slow.steps == round(1.7 * settings.exact_time / 2)
    assert slow.steps / fast.steps == pytest.approx(5, rel=0.01)


def test_sgd_ends_where_the_exact_flow_does_not():
    for readout in (4.0, 5.0):
        assert lists(readout=readout).steps_at(1.5).steps == MOST_STEPS
    assert lists(readout=8.0).steps_at(1.5).steps < MOST_STEPS


def test_the_theorems_read_out():
    assert TaskShape(200, 25, 4).theorem_readout == pytest.approx(9.591e6, rel=1e-3)


def test_a_readers_read_out_is_followed_and_drawn():
    found = lists(readout=8.0)
    assert found.sgd_readout == 8
    assert found.shown[0] == 8
    assert lists().readouts == PRESETS["laptop"].readouts


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"vocabulary": 20}, "A sequence of 25 different tokens needs a vocabulary of as many; it has 20"),
        ({"length": 1}, "length must be a whole number, at least 2; got 1"),
        ({"list_length": 9}, "list_length is at most 8; got 9"),
        ({"list_length": 1}, "list_length is at least 2; got 1"),
        ({"length": 95, "list_length": 6}, "With n = 95 of L = 200 tokens the order is right after a step"),
        ({"vocabulary": 26, "length": 3, "list_length": 0}, "list_length must be positive"),
        ({"readout": -3}, "readout must be positive; got -3"),
        ({"readout": "theorem"}, "readout must be a number; got 'theorem'"),
        ({"length": 120}, "of any size, so there is nothing to follow; choose shorter sequences"),
        ({"seeds": 1}, "seeds is at least 2"),
        ({"steps": 0}, "steps must be positive"),
        ({"batch": 0}, "batch must be positive"),
        ({"size": "40K"}, "Unknown parameter 'size'; valid here are preset, vocabulary, length"),
    ],
)
def test_bad_parameters_end_in_one_sentence(given, sentence):
    with pytest.raises(ParameterError, match=sentence):
        lists(**given)
