"""Settings: what a reader may ask, and what is refused."""

from dataclasses import replace

import pytest

from sameloss.errors import ParameterError
from sameloss.studies.stability.experiment import LR, MLP, PRESETS
from sameloss.studies.stability.pages import STUDY

LAPTOP = PRESETS["laptop"]


def asked(tmp_path, **given):
    values = {"preset": "smoke", "artifacts": str(tmp_path), **given}
    return STUDY.open("ii2_stability", values).config


def test_the_presets_are_the_thesis_where_they_can_be():
    paper = PRESETS["paper"]
    assert [kind.descent.steps for kind in paper.kinds] == [100_000] * 4
    assert [kind.stops for kind in paper.kinds] == [(50_000, 100_000, 150_000)] * 4
    assert paper.kinds[2].descent.lr_at(40_000) == 0.01
    assert max(paper.sizes) <= min(paper.source_of(kind).pool for kind in paper.kinds) // 2
    assert PRESETS["gpu"].kinds[2].descent.drops == ((3200, 0.01), (4800, 0.001))


def test_the_seeds_are_none_of_the_pilots():
    assert all(min(preset.all_seeds) >= 100 for preset in PRESETS.values())


def test_only_logistic_regression_tells_halves():
    halves = {kind.name: LAPTOP.source_of(kind).halves for kind in LAPTOP.kinds}
    assert halves == {kind.name: kind.name == LR for kind in LAPTOP.kinds}


def test_a_reader_may_ask_for_one_model_with_other_settings(tmp_path):
    (kind,) = asked(tmp_path, model=MLP, steps=50, lr=0.2, momentum=0).kinds
    assert (kind.name, kind.descent.steps, kind.descent.lr, kind.descent.momentum) == (MLP, 50, 0.2, 0.0)
    assert asked(tmp_path, largest=320).sizes == (40, 80, 160, 320)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "forest"}, r"^Unknown model 'forest'; choose one of logistic regression, "),
        ({"largest": 1301}, "more than half of a pool of 1300"),
        ({"largest": 80}, "does not fill a batch of 32"),
        ({"data": "/no/such/folder"}, "Cannot load the images"),
        ({"seeds": 1}, "seeds is at least 2"),
        ({"momentum": 1}, "momentum is at most"),
        ({"device": "cuda"}, "device = cuda was asked for"),
        ({"preset": "gpuu"}, "Unknown preset"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path, given, message, monkeypatch):
    monkeypatch.setattr("sameloss.hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ParameterError, match=message) as caught:
        asked(tmp_path, **given)
    assert "\n" not in str(caught.value)


def test_there_are_no_more_paths_than_pairs(tmp_path):
    few = asked(tmp_path, pairs=1)
    assert few.training(few.kinds[0], 40).paths == 1
    some = replace(LAPTOP, paths=3)
    assert some.training(some.kinds[0], 80).paths == 3
