"""Backgrounds, the configuration, the stored runs, and the page."""

from dataclasses import replace
from functools import partial

import pandas as pd
import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.images import Images, ImageSource
from sameloss.store.pool import compute_all
from sameloss.store.store import Store
from sameloss.studies.drawing import legend, panels
from sameloss.studies.local_signal_images import experiment as settings
from sameloss.studies.local_signal_images import figures, pages
from sameloss.studies.local_signal_images import tables as shown
from sameloss.studies.local_signal_images.backgrounds import (
    ANY_CORNER,
    ANYWHERE,
    ONE_CORNER,
    Scene,
    composed,
    corners,
    placed,
    standardised,
)
from sameloss.studies.local_signal_images.claims import TOPICS, judged
from sameloss.studies.local_signal_images.experiment import PRESETS, ImageComparison, KernelFit, LazyTraining
from sameloss.studies.local_signal_images.kernels import chosen, fits, tangent_kernel
from sameloss.studies.local_signal_images.pages import STUDY, found_by_record
from sameloss.studies.local_signal_images.published import AMONG_ANIMALS, GAUSSIAN
from sameloss.studies.local_signal_images.training import LogisticDescent, PooledCNN, WideResNet, accuracy
from sameloss.studies.verdict import verdict_table

# Backgrounds: images are where they should be, noise is elsewhere, and what cannot be is refused.


def images(pool=30, tested=20, side=4):
    x = torch.rand(pool + tested, 2, side, side, generator=torch.Generator().manual_seed(0))
    return Images(x, torch.arange(pool + tested) % 2, pool, 2)


def test_an_image_is_where_it_should_be_and_the_background_elsewhere():
    x, at = images().x[:3], torch.tensor([[0, 0], [2, 5], [4, 1]])
    around = torch.full((3, 2, 9, 9), 7.0)
    found = placed(x, at, around)
    for own, (row, column), whole in zip(x, at.tolist(), found, strict=True):
        assert torch.equal(whole[:, row : row + 4, column : column + 4], own)
        whole[:, row : row + 4, column : column + 4] = 7.0
    assert (found == 7.0).all()
    assert (around == 7.0).all()


def test_corners_are_those_of_the_placement():
    rng = torch.Generator().manual_seed(1)
    assert (corners(ONE_CORNER, 50, 8, rng) == 0).all()
    any_corner = corners(ANY_CORNER, 200, 8, rng)
    assert set(map(tuple, any_corner.tolist())) == {(0, 0), (0, 8), (8, 0), (8, 8)}
    anywhere = corners(ANYWHERE, 2000, 8, rng)
    assert len(set(map(tuple, anywhere.tolist()))) == 81
    assert anywhere.double().mean() == pytest.approx(4, abs=0.2)
    assert (corners(ANYWHERE, 5, 0, rng) == 0).all()


def test_pixels_of_the_pool_have_the_mean_zero_and_the_deviation_one():
    x = standardised(images())[:30]
    assert (float(x.mean()), float(x.std())) == pytest.approx((0, 1), abs=1e-5)


@pytest.mark.parametrize("noise", [0.0, 0.5, 2.0])
def test_the_background_has_the_noise(noise):
    found = composed(images(), Scene(ONE_CORNER, 16, noise), 30, 0)
    beyond = torch.cat([found.x, found.tested])[:, :, 4:, 4:]
    assert float(beyond.std()) == pytest.approx(noise, rel=0.05)
    assert found.x.shape == (30, 2, 16, 16)
    assert set(found.y.tolist()) == {-1.0, 1.0}
    assert found.chance == 0.5


def test_images_keep_their_labels_and_are_drawn_once():
    source = images()
    found = composed(source, Scene(ONE_CORNER, 6, 1.0), 30, 3)
    own = standardised(source)
    rows = [(own == image[:, :4, :4]).flatten(1).all(1).nonzero().item() for image in found.x]
    assert sorted(rows) == list(range(30))
    assert torch.equal(found.y, 2.0 * source.y[rows] - 1)
    assert torch.equal(found.tested[:, :, :4, :4], own[30:])


def test_a_seed_has_backgrounds_of_its_own_and_tests_have_others():
    scene = Scene(ANYWHERE, 8, 1.0)
    first, again, other = (composed(images(), scene, 20, seed) for seed in (0, 0, 1))
    assert torch.equal(first.x, again.x)
    assert not torch.equal(first.tested, other.tested)
    assert not torch.equal(first.x[:20], first.tested[:20])


def test_shrunk_images_are_means_of_their_pixels():
    found = composed(images(), Scene(ONE_CORNER, 4, 0.0, shrunk=2), 5, 0)
    expected = standardised(images())[30:].unfold(2, 2, 2).unfold(3, 2, 2).mean((-2, -1))
    torch.testing.assert_close(found.tested[:, :, :2, :2], expected)


def test_pictures_may_be_around(monkeypatch):
    """Of the pool for training and of the test set for tests, times the noise."""
    x = torch.cat([torch.zeros(10, 2, 3, 3), torch.ones(10, 2, 3, 3)])
    x[0] = 0.5
    pictures = Images(x, torch.zeros(20, dtype=torch.long), 10, 2)
    monkeypatch.setattr(ImageSource, "load", lambda self: pictures)
    scene = Scene(ONE_CORNER, 8, 0.5, pictures=ImageSource())
    found, unit = composed(images(), scene, 20, 0), standardised(pictures)
    torch.testing.assert_close(found.tested[:, :, 4:, 4:], 0.5 * unit[10:11].mean().expand(20, 2, 4, 4))
    assert found.x[:, :, 4:, 4:].max() < found.tested[:, :, 4:, 4:].min()
    pictures = pictures._replace(x=x[:, :1])
    with pytest.raises(
        ParameterError, match=r"^Backgrounds have 1 channels, and images 2; they must agree\.$"
    ):
        composed(images(), scene, 20, 0)


def test_four_pictures_make_a_background_and_an_image_covers_one(monkeypatch):
    """Each picture is of one value, so that each quarter is of one, too, and of another than others."""
    x = torch.rand(40, 1, 1, 1, generator=torch.Generator().manual_seed(2)).expand(40, 2, 4, 4)
    monkeypatch.setattr(ImageSource, "load", lambda self: Images(x, torch.zeros(40, dtype=torch.long), 25, 1))
    found = composed(images(), Scene(ANY_CORNER, 8, 1.0, pictures=ImageSource(), tiles=2), 20, 0).x
    quarters = (
        found.unfold(2, 4, 4).unfold(3, 4, 4).flatten(2, 3).flatten(3)
    )  # image, channel, quarter, pixel
    plain = (quarters == quarters[..., :1]).all(-1).all(1)
    assert (plain.sum(1) == 3).all()
    assert set((~plain).long().argmax(1).tolist()) == {0, 1, 2, 3}
    assert len(quarters[:, 0][plain].unique()) > 15


def test_more_classes_than_two_keep_their_numbers():
    three = images()._replace(y=torch.arange(50) % 3, classes=3)
    found = composed(three, Scene(ANYWHERE, 8, 1.0), 20, 0)
    assert found.logits == 3
    assert torch.equal(found.answers, three.y[30:])
    assert found.chance == 7 / 20
    assert composed(images(), Scene(ANYWHERE, 8, 1.0), 20, 0).logits == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Scene("middle", 8, 1.0),
            "Unknown placement 'middle'; choose random place or random corner or",
        ),
        (lambda: Scene(ANYWHERE, 8, -0.1), "noise must be finite and not negative"),
        (lambda: Scene(ANYWHERE, 0, 1.0), "side must be a whole number"),
        (
            lambda: composed(images(), Scene(ANYWHERE, 3, 1.0), 5, 0),
            "4 pixels a side does not fit on a background of 3",
        ),
        (
            lambda: composed(images(), Scene(ANYWHERE, 8, 1.0), 31, 0),
            "There are 30 images to train on; 31 were",
        ),
        (
            lambda: composed(images()._replace(classes=1), Scene(ANYWHERE, 8, 1.0), 5, 0),
            "these images have one",
        ),
        (
            lambda: Scene(ANYWHERE, 8, 1.0, tiles=3),
            "3 pictures in a row do not divide 8 pixels",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


# Settings: what a reader may ask, and what is refused.

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
    assert asked(tmp_path, classes="halves").scenes == asked(tmp_path).scenes
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
def test_what_cannot_be_is_one_sentence_of_settings(tmp_path, given, message, monkeypatch):
    monkeypatch.setattr("sameloss.hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ParameterError, match=message) as caught:
        STUDY.open("ii3_images", {"preset": "smoke", "artifacts": str(tmp_path), **given}).runs()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("noises", [(1.0,), (1.0, 0.5), (0.0, 0.0)])
def test_noises_grow(noises):
    with pytest.raises(ParameterError, match="Noises must be at least two, and grow"):
        replace(LAPTOP, noises=noises)


# Runs: a network, its kernel and its linearisation on one sample; a network in lazy training.

ABOUT = {
    "source": ImageSource(pool=80, tested=50, halves=True),
    "scene": Scene("random place", 10, 0.5),
    "network": PooledCNN((4, 4), (1, 2)),
    "descent": LogisticDescent(0.01, 16, 30),
    "examples": 60,
    "seed": 1,
}


def comparison(**changes):
    given = {"kernel": KernelFit((0.01, 1.0)), "linear": LogisticDescent(0.001, 16, 4, "SGD")}
    return ImageComparison(**ABOUT | given | changes)


def lazy(**changes):
    return LazyTraining(
        **ABOUT | {"descent": LogisticDescent(0.05, 16, 40, "SGD"), "scales": (1.0, 1e4)} | changes
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def table(store):
    return store.get(comparison()).set_index(["measure", "of"]).value


def test_everything_is_measured_once(table):
    assert not table.index.duplicated().any()
    predictors = {"network", "NTK, GCV", "NTK, best λ", "trained kernel", "linearised", "pixels", "chance"}
    assert set(table["accuracy"].index) == predictors
    assert table["accuracy"].between(0, 1).all()
    assert (
        table["active before"].index.tolist()
        == table["active after"].index.tolist()
        == ["layer 1", "layer 2"]
    )
    assert table["accuracy", "NTK, best λ"] >= table["accuracy", "NTK, GCV"]


def test_the_kernel_is_that_of_the_first_parameters(table):
    import torch
    from torch.func import functional_call

    run = comparison()
    sample, model, start = run.begin()
    x = torch.cat([sample.x, sample.tested])
    kernel = tangent_kernel(model, start, x, 60, 7)
    own = chosen(fits(kernel, functional_call(model, start, (x,)), sample.y, (0.01, 1.0)))
    assert table["accuracy", "NTK, GCV"] == pytest.approx(accuracy(own.outputs, sample.answers))
    assert table["ridge", "NTK, GCV"] == pytest.approx(own.ridge)


def test_what_is_not_asked_for_is_not_there(store):
    kernel = KernelFit((0.01, 1.0), trained=False)
    of = set(store.get(comparison(kernel=kernel, linear=None)).of)
    assert "NTK, GCV" in of
    assert not of & {"trained kernel", "linearised"}
    of = set(store.get(comparison(kernel=None)).of)
    assert "linearised" in of
    assert not of & {"NTK, GCV", "pixels"}


def every_class(**changes):
    about = {
        "source": ImageSource(pool=400, tested=200),
        "scene": Scene("fixed corner", 8, 0.0),
        "network": PooledCNN((16, 16), (1, 2)),
        "descent": LogisticDescent(0.01, 32, 150),
        "examples": 300,
        "kernel": None,
        "linear": LogisticDescent(0.01, 32, 150),
    }
    return comparison(**about | changes)


def test_ten_classes_have_a_logit_each(store):
    found = store.get(every_class()).set_index(["measure", "of"]).value
    network, linear, chance = (found["accuracy", of] for of in ("network", "linearised", "chance"))
    assert chance < 0.2
    assert network > 3 * chance
    assert linear > 2 * chance
    _, model, start = every_class(network=comparison().network).begin()
    _, _, single = comparison().begin()
    assert model[-1].out_features == 10
    assert all(start[name].equal(own) for name, own in single.items() if own.ndim == 4)


def test_a_kernel_of_ten_classes_is_refused(store):
    with pytest.raises(ParameterError, match=r"^A kernel is solved for two classes; of 10 the linearised"):
        store.get(every_class(kernel=KernelFit((1.0,))))


def test_a_seed_has_a_result_of_its_own(store, table):
    other = store.get(comparison(seed=2)).set_index(["measure", "of"]).value
    assert not table["active after"].equals(other["active after"])


def test_lazy_training_hardly_moves_and_ends_as_the_linearised_network(store):
    found = store.get(lazy()).set_index("scale")
    assert found.moved[1e4] < 1e-3 * found.moved[1.0]
    assert found.accuracy[1e4] == pytest.approx(found.limit[1e4], abs=0.05)


def test_more_is_more_effort():
    assert (
        comparison(examples=80).effort
        > comparison(linear=None).effort
        > comparison(kernel=None, linear=None).effort
    )
    assert lazy().effort > lazy(scales=(1.0,)).effort > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: comparison(scene=Scene("random place", 7, 0.5)), "does not fit on a background of 7"),
        (lambda: comparison(examples=81), "There are 80 images to train on; 81 were asked for"),
        (lambda: comparison(examples=0), "examples must be a whole number"),
        (lambda: KernelFit(()), "needs at least one λ"),
        (lambda: KernelFit((1.0, -1.0)), r"not negative; got -1\.$"),
        (lambda: KernelFit(chunk=0), "chunk must be a whole number"),
        (lambda: lazy(scales=(1.0, 0.0)), "Lazy training needs positive scales"),
    ],
)
def test_what_cannot_be_is_one_sentence_of_runs(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


# The page: its runs, its tables side by side, its verdicts.


def test_every_scene_and_seed_is_a_run(page):
    s = page.config
    assert len(page.comparisons) == len(s.scenes) * s.seeds
    lazy, narrower = s.seeds, s.seeds * len(s.widths.divisors)
    assert len(page.runs()) == len(page.comparisons) + lazy + narrower
    assert len({run.key for run in page.runs()}) == len(page.runs())


def test_tables_of_all_runs_stand_below_each_other(page, found):
    about = found.table[["size", "placement", "noise", "seed", "measure", "of"]]
    assert not about.duplicated().any()
    assert set(found.table["size"]) == {"8-on-16", "4-on-8"}
    assert found.lazy[["seed", "scale"]].drop_duplicates().shape[0] == 2 * 2
    assert found.by_width("network").shape == found.by_width("NTK, GCV").shape == (2, 2)


def test_verdicts_and_statements(page):
    assert page.verdicts().id.tolist() == [claim.id for topic in TOPICS for claim in topic.claims]
    assert len(page.statements()) == 4
    assert page.seeds == 2


@pytest.mark.parametrize("name", ["laptop", "laptop-long", "gpu", "paper"])
def test_longer_presets_say_what_they_would_compute(tmp_path, name):
    page = STUDY.open("ii3_images", {"preset": name, "artifacts": str(tmp_path)})
    assert page.runs()[0].effort > 1
    assert page.topics == TOPICS


def test_a_record_is_judged_as_the_page_is(page, monkeypatch):
    kept = page.record_tables()
    monkeypatch.setattr(pages, "recorded", lambda table, preset, of: kept[table])
    found = verdict_table(judged(found_by_record("laptop-long")))
    pd.testing.assert_frame_equal(found, page.verdicts())


def test_vehicles_among_animals_have_a_page(page, monkeypatch):
    """The structure of the thesis' own settings, on digits: a network beside its linearisation."""
    few = ImageSource(pool=60, tested=40, only=(0, 1, 8, 9))
    animals = replace(few, only=(2, 3, 4))
    monkeypatch.setattr(settings, "CIFAR_VEHICLES", few)
    monkeypatch.setattr(settings, "CIFAR_ANIMALS", animals)
    monkeypatch.setattr(settings, "EPOCH", 2 * few.pool)
    brief = {"linear": page.config.descent, "kernel": None, "lazy": None, "widths": None}
    thesis = replace(page.config, theirs=GAUSSIAN, **brief)
    images = replace(settings._vehicles(thesis), examples=40)
    vehicles = replace(page, config=images)
    compute_all(vehicles.store, vehicles.runs(), 1)
    verdicts = vehicles.verdicts().set_index("id").verdict
    assert verdicts["img-own-wrn"] == "not testable here"
    drawn = panels(3)
    for draw in (figures.kept, figures.lazy, figures.width, partial(figures.accuracy, placement=ANY_CORNER)):
        draw(vehicles.found, ax=drawn[0])
    assert shown.in_words(vehicles.found)
    assert set(vehicles.found.at(ANY_CORNER).noise) == {0.0, 0.25, 0.5, 0.75, 1.0}


def test_a_preset_without_kernels_lazy_training_and_widths_has_a_page(page):
    """As `gpu` and `paper` are: the linearised network stands for the kernel."""
    changes = {"kernel": None, "lazy": None, "widths": None, "linear": page.config.descent}
    large = replace(page, config=replace(page.config, **changes))
    compute_all(large.store, large.runs(), 1)
    found = large.found
    (ax,) = panels(1)
    legend(figures.lazy(found, ax))
    legend(figures.width(found, ax))
    for draw in (figures.kept, partial(figures.accuracy, placement=found.placement)):
        draw(found, ax=ax)
    assert shown.lazy_table(found).empty
    assert shown.width_table(found).empty
    assert "linearised" in shown.accuracy_table(found).iloc[:, 0].str.cat()
    assert "lazy training the network" not in shown.in_words(found)
    verdicts = large.verdicts().set_index("id").verdict
    assert (verdicts[["img-lazy", "img-width"]] == "not testable here").all()
