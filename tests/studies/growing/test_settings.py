"""Operators and presets, and what is refused."""

from dataclasses import replace

import pytest
from small_growth import SMALL

from sameloss.errors import ParameterError
from sameloss.models.layer_maps import stacked
from sameloss.studies.growing.experiment import PRESETS, Operator
from sameloss.studies.growing.pages import STUDY


def test_the_larger_presets_have_the_thesis_thirty_operators():
    for name in ("gpu", "paper"):
        growing = PRESETS[name].growing
        published = [o for o in growing.operators if o.filling in ("duplicate", "random")]
        assert len(published) == 30
        assert {o.index for o in published} == {0, 2, 4, 6, 8}
        assert {o.block for o in published} == {1, 2, 4}
        assert growing.deep.layers == 16


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_operators_enough_and_its_baselines_among_them(name):
    growing = PRESETS[name].growing
    assert len(growing.operators) >= (6 if name in ("smoke", "laptop") else 8)
    assert len(set(growing.operators)) == len(growing.operators)
    assert {growing.last, growing.random_top} <= set(growing.operators)
    shallow = growing.shape.layers
    assert growing.last.layers(shallow, growing.added) == stacked(shallow, growing.added)


@pytest.mark.parametrize("name", PRESETS)
def test_looks_begin_at_growth_and_end_at_the_end(name):
    growing = PRESETS[name].growing
    looks = growing.look_steps
    assert looks[0] == 0
    assert looks[-1] == growing.steps
    assert growing.lag in looks
    assert list(looks) == sorted(set(looks))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"added": 3}, "From 2 layers 1 to 2 can be added; got 3"),
        ({"every": 9, "added": 1, "preserving": ()}, "needs at least 3 operators; got 2"),
        ({"preserving": (Operator(1, 1, "silent"),)}, "The first of 2 out of 2 layers is 0 to 0"),
        ({"preserving": (Operator(0, 3, "muted"),)}, "A block size divides the 2 added layers; got 3"),
    ],
)
def test_what_cannot_be_grown_or_ranked_is_refused(change, sentence):
    with pytest.raises(ParameterError, match=sentence):
        replace(SMALL, **change)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"state": "lost"}, "Unknown state 'lost'; choose one of mapped, reset, stale"),
        (
            {"steps": 40, "lag": 40},
            r"^LAG chooses after 1 to 39 of the 40 steps that follow growing; got lag",
        ),
        ({"steps": 5, "lag": 10}, r"after 1 to 4 of the 5 steps that follow growing; got lag = 10\.$"),
        ({"stage_lag": 15}, r"chosen after 0 to 7 of its steps, and before .* looked at; got 15\.$"),
        ({"label_noise": -1}, "label_noise must be positive; got -1"),
        ({"layers": 3}, "Unknown parameter 'layers'"),
    ],
)
def test_a_page_says_what_is_valid(given, sentence, tmp_path):
    page = "ii5_stacking" if "stage_lag" in given else "ii5_growing"
    with pytest.raises(ParameterError, match=sentence):
        STUDY.open(page, {"preset": "smoke", "artifacts": str(tmp_path), **given})


def test_parameters_reach_the_runs(tmp_path):
    given = {
        "preset": "smoke",
        "seeds": 3,
        "base_steps": 30,
        "steps": 20,
        "lag": 5,
        "label_noise": 1,
        "state": "reset",
    }
    page = STUDY.open("ii5_growing", {**given, "artifacts": str(tmp_path)})
    (candidates,) = page.candidates(0)
    assert candidates.base.optimisation.steps == 30
    assert candidates.base.objective.label_noise == 1
    assert (candidates.steps, candidates.carried) == (20, "reset")
    assert list(page.growing.all_seeds) == [0, 1, 2]
