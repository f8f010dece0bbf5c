"""Settings: what a reader may ask, and what is refused."""

from dataclasses import replace

import pytest

from sameloss.errors import ParameterError
from sameloss.images import ImageSource
from sameloss.studies.local_signal_images.experiment import PRESETS
from sameloss.studies.local_signal_images.pages import STUDY
from sameloss.studies.local_signal_images.published import AMONG_ANIMALS
from sameloss.studies.local_signal_images.training import WideResNet

LAPTOP, LONG, PAPER = (PRESETS[name] for name in ("laptop", "laptop-long", "paper"))


def asked(tmp_path, **given):
    return STUDY.open("ii3_images", {"preset": "smoke", "artifacts": str(tmp_path), **given}).config


def test_the_paper_is_the_thesis():
    assert PAPER.noises == (0.0, 0.5, 1.0, 2.0)
    assert len(PAPER.scenes) == 4 * 3 * 2
    assert PAPER.network == WideResNet(10)
    assert PAPER.network.parameters(3) == pytest.approx(7.4e6, rel=0.01)
    assert PAPER.descent.steps == 200 * 50_000 // 128
    epoch = PAPER.descent.steps // 200
    rates = [PAPER.descent.lr_at(epoch * at) for at in (79, 81, 101, 121)]
    assert rates == pytest.approx([0.1, 0.02, 0.004, 0.0008])
    assert (PAPER.linear.lr, PAPER.linear.batch, PAPER.linear.steps) == (1e-3, 50, 200_000)
    assert PAPER.source.second == (2, 3, 4, 5, 6, 7)


def test_the_seeds_are_none_of_the_pilots():
    assert all(min(preset.all_seeds) >= 100 for preset in PRESETS.values())


def test_the_first_placement_has_every_noise_and_others_its_ends():
    scenes = [(s.placement, s.side, s.noise) for s in LAPTOP.scenes]
    assert len(set(scenes)) == len(scenes) == 3 + 2 + 2 + 2
    assert {noise for place, side, noise in scenes if place == "random place" and side == 16} == set(
        LAPTOP.noises
    )
    assert {noise for place, _, noise in scenes if place == "fixed corner"} == {0.0, 1.0}
    assert len(PRESETS["laptop-long"].scenes) == 4 * 6


def test_the_trained_kernel_is_solved_at_the_first_placement_alone():
    solved = [s.placement for s in LAPTOP.scenes if LAPTOP.comparison(s, 100).kernel.trained]
    assert solved == ["random place"] * 3


def test_lazy_training_has_the_sample_and_the_start_of_a_comparison():
    run = LAPTOP.lazy_training(100)
    (scene,) = [s for s in LAPTOP.scenes if s == run.scene]
    same = LAPTOP.comparison(scene, 100)
    assert (run.source, run.network, run.examples, run.seed) == (
        same.source,
        same.network,
        same.examples,
        same.seed,
    )


def test_networks_of_other_widths_have_the_sample_of_a_comparison():
    narrow, half, own = LONG.of_widths(100)
    assert own in [LONG.comparison(scene, 100) for scene in LONG.scenes]
    assert [run.network.features for run in LAPTOP.of_widths(100)] == [8, 32]
    assert [run.network.features for run in (narrow, half, own)] == [8, 16, 32]
    for run in (narrow, half):
        assert replace(run, network=own.network, kernel=own.kernel) == own
        assert not run.kernel.trained
    assert PRESETS["gpu"].of_widths(100) == []


def test_a_reader_may_ask_for_other_noise_and_training(tmp_path):
    found = asked(tmp_path, noise=2, steps=7, lr=0.01, placement="fixed corner", examples=50)
    assert found.noises == (0.0, 0.5, 1.0, 2.0)
    assert (found.lazy.noise, found.lazy.descent.steps) == (1.0, 7)
    assert (found.descent.steps, found.descent.lr, found.examples) == (7, 0.01, 50)
    assert found.placements == ("fixed corner", "random place", "random corner")
    assert found.lazy_training(100).scene in found.scenes
    assert {run.scene for run in found.of_widths(100)} == {found.lazy_training(100).scene}


def test_a_reader_may_bring_images_and_backgrounds(tmp_path, monkeypatch):
    monkeypatch.setattr(ImageSource, "known", lambda self: replace(self, content="known"))
    found = asked(tmp_path, data="images", backgrounds="plants")
    assert (found.source.name, found.source.halves, found.source.content) == ("images", True, "known")
    assert all(scene.pictures.name == "plants" and not scene.pictures.halves for scene in found.scenes)
    assert (found.theirs, found.noises) == (None, (0.0, 0.25, 0.5, 0.75, 1.0))
    assert asked(tmp_path, backgrounds="plants", noise=2).noises == (0.0, 0.5, 1.0, 2.0)


def test_every_class_may_be_told_apart(tmp_path):
    found = asked(tmp_path, classes="all", steps=7)
    assert not found.source.halves
    assert (found.kernel, found.lazy, found.widths) == (None, None, None)
    assert (found.linear.lr, found.linear.steps) == (1e-3, 7)
    assert asked(tmp_path, classes="halves") == asked(tmp_path)
    ten = asked(tmp_path, preset="paper", classes="all", max_hours=1000)
    assert (ten.source.second, ten.theirs, ten.linear) == (None, None, PAPER.linear)


def test_vehicles_are_among_animals(tmp_path):
    found = asked(tmp_path, preset="paper", classes="vehicles", max_hours=1000)
    assert found.theirs == AMONG_ANIMALS
    assert {scene.placement for scene in found.scenes} == {AMONG_ANIMALS.placement}
    assert [scene.noise for scene in found.scenes] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert {(scene.tiles, scene.side, scene.shrunk) for scene in found.scenes} == {(2, 32, 2)}
    source, animals = found.source, found.pictures
    assert not set(source.only) & set(animals.only)
    assert sorted(source.only + animals.only) == list(range(10))
    assert (found.descent.steps, found.examples) == (200 * 20_000 // 128, 20_000)
    own = {"placement": "fixed corner", "noise": 2, "examples": 50, "steps": 7}
    other = asked(tmp_path, preset="paper", classes="vehicles", max_hours=1000, **own)
    assert (other.placements[0], other.noises[-1], other.examples) == ("fixed corner", 2, 50)
    assert (other.descent.steps, other.theirs) == (7, None)
    with pytest.raises(ParameterError, match=r"images of CIFAR-10: choose the preset gpu or paper, and no"):
        asked(tmp_path, classes="vehicles")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"placement": "middle"},
            "^Unknown placement 'middle'; choose one of random place, random corner, fixed",
        ),
        ({"classes": "some"}, "^Unknown classes 'some'; choose one of halves, all, vehicles"),
        ({"examples": 1301}, "There are 1300 images to train on; 1301 were asked for"),
        ({"data": "/no/such/folder"}, "Cannot load the images"),
        ({"backgrounds": "/no/such/folder"}, "Cannot load the images"),
        ({"seeds": 1}, "seeds is at least 2"),
        ({"noise": 0}, "noise must be positive"),
        ({"device": "cuda"}, "device = cuda was asked for"),
        ({"preset": "gpuu"}, "Unknown preset"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path, given, message, monkeypatch):
    monkeypatch.setattr("sameloss.hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ParameterError, match=message) as caught:
        STUDY.open("ii3_images", {"preset": "smoke", "artifacts": str(tmp_path), **given}).runs()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("noises", [(1.0,), (1.0, 0.5), (0.0, 0.0)])
def test_noises_grow(noises):
    with pytest.raises(ParameterError, match="Noises must be at least two, and grow"):
        replace(LAPTOP, noises=noises)
