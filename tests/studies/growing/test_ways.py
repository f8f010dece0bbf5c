"""Ways to stack, and the thesis' own stages."""

from dataclasses import replace

import pytest
from small_growth import SMALL_STAGES

from sameloss.errors import ParameterError
from sameloss.studies.growing.experiment import PRESETS, WAYS


@pytest.mark.parametrize("name", ["gpu", "paper"])
def test_the_larger_presets_have_the_thesis_stages(name):
    """Six stages of four layers, with 3, 15, 27, 21 and 27 operators after the first."""
    stages = PRESETS[name].stacking
    assert stages.depths == (4, 8, 12, 16, 20, 24)
    assert [len(stages.tried("adaptive", stage)) for stage in range(1, 6)] == [3, 15, 27, 21, 27]


@pytest.mark.parametrize("name", PRESETS)
def test_every_way_has_operators_that_fit_every_stage(name):
    stages = PRESETS[name].stacking
    for way in WAYS:
        for stage, depth in enumerate(stages.depths[:-1], start=1):
            for operator in stages.tried(way, stage):
                grown = operator.layers(depth, stages.added)
                assert len(grown.sources) == stages.depths[stage]
    assert {"duplicate"} == {operator.filling for operator in stages.tried("adaptive", 1)}


def test_the_fixed_ways_repeat_what_their_names_say():
    stages = PRESETS["gpu"].stacking
    layers = {way: str(stages.tried(way, 1)[0].layers(4, 4)) for way in WAYS}
    assert layers["last"] == layers["random"] == "0 1 2 3 (0) (1) (2) (3)"
    assert str(stages.tried("middle", 2)[0].layers(8, 4)) == "0 1 2 3 4 5 (2) (3) (4) (5) 6 7"
    assert stages.tried("last", 2)[0].index == 4


def test_looks_are_of_the_last_stage_and_end_with_it():
    assert SMALL_STAGES.looks == (15, 30, 45, 60)
    assert replace(SMALL_STAGES, last_steps=100).looks == (25, 50, 75, 100)
    assert replace(SMALL_STAGES, looked=2).looks == (30, 60)


def test_layers_that_there_are_not_cannot_be_repeated():
    with pytest.raises(ParameterError, match="From 1 layers 1 to 1 can be added; got 2"):
        replace(SMALL_STAGES, added=2)
