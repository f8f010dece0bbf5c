"""The configuration, the stored runs and the page."""

from dataclasses import replace

import pytest
import torch
from torch.func import functional_call

from sameloss.errors import ParameterError
from sameloss.images import ImageSource
from sameloss.store.pool import compute_all
from sameloss.store.store import Store
from sameloss.studies.local_signal_images.claims import TOPICS
from sameloss.studies.local_signal_images.experiment import (
    PRESETS,
    KernelFit,
    Model,
    image_comparison,
    lazy_training,
    set_up,
)
from sameloss.studies.local_signal_images.pages import STUDY
from sameloss.studies.local_signal_images.theory import (
    LogisticDescent,
    PooledCNN,
    Scene,
    WideResNet,
    accuracy,
    fits,
    network_size,
    tangent_kernel,
)

# Configuration.

LAPTOP, LONG, PAPER = (PRESETS[name] for name in ("laptop", "laptop-long", "paper"))


def configured(tmp_path, **parameters):
    return STUDY.open("ii3_images", {"preset": "smoke", "artifacts": str(tmp_path), **parameters}).config


def test_the_paper_is_the_thesis():
    assert PAPER.noises == (0.0, 0.5, 1.0, 2.0)
    assert len(PAPER.scenes) == 4 * 3 * 2
    assert PAPER.network == WideResNet(10)
    assert network_size(PAPER.network, 3, 32)[0] == pytest.approx(7.4e6, rel=0.01)
    assert PAPER.descent.steps == 200 * 50_000 // 128
    epoch = PAPER.descent.steps // 200
    rates = [PAPER.descent.lr_at(epoch * at) for at in (79, 81, 101, 121)]
    assert rates == pytest.approx([0.1, 0.02, 0.004, 0.0008])
    assert (PAPER.linear.lr, PAPER.linear.batch, PAPER.linear.steps) == (1e-3, 50, 200_000)
    assert PAPER.source.second == (2, 3, 4, 5, 6, 7)


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


def test_lazy_training_has_the_samples_that_are_compared():
    runs = LONG.runs()
    compared, lazy = runs["images"], runs["lazy"][0]
    assert {run.seed for run in compared} == set(range(100, 115))  # the pilot's were below
    own = next(run for run in compared if (run.scene, run.seed) == (lazy.scene, lazy.seed))
    assert replace(lazy, descent=own.descent, scales=()) == lazy_training(
        own.source, own.scene, own.network, own.descent, own.examples, own.seed, ()
    )
    assert lazy.descent == LogisticDescent(0.2, 64, 500, "SGD")
    assert PRESETS["gpu"].runs()["lazy"] == []


def test_a_reader_may_ask_for_other_noise_and_training(tmp_path):
    config = configured(tmp_path, noise=2, steps=7, lr=0.01, examples=50)
    assert config.noises == (0.0, 0.5, 1.0, 2.0)
    lazy = config.runs()["lazy"][0]
    assert (lazy.scene.noise, lazy.descent.steps, lazy.descent.lr) == (1.0, 7, 0.2)
    assert (config.descent.steps, config.descent.lr, config.examples) == (7, 0.01, 50)
    assert lazy.scene in config.scenes


def test_a_reader_may_bring_images(tmp_path, monkeypatch):
    monkeypatch.setattr(ImageSource, "known", lambda self: replace(self, content="known"))
    config = configured(tmp_path, preset="paper", data="images", max_hours=1000)
    assert (config.source.name, config.source.halves, config.source.content) == ("images", True, "known")
    assert (config.source.second, config.theirs, PAPER.theirs) == (None, False, True)
    assert not configured(tmp_path, preset="paper", noise=2, max_hours=1000).theirs


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"examples": 1301}, "There are 1300 images to train on; 1301 were asked for"),
        ({"data": "/no/such/folder"}, "Cannot load the images"),
        ({"seeds": 1}, "seeds is at least 2"),
        ({"noise": 0}, "noise must be positive"),
        ({"device": "cuda"}, "device = cuda was asked for"),
        ({"preset": "gpuu"}, "Unknown preset"),
    ],
)
def test_invalid_settings_are_refused_in_one_sentence(tmp_path, given, message, monkeypatch):
    monkeypatch.setattr("sameloss.hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ParameterError, match=message) as caught:
        STUDY.open("ii3_images", {"preset": "smoke", "artifacts": str(tmp_path), **given}).runs()
    assert "\n" not in str(caught.value)


def test_images_fit_on_their_backgrounds_and_there_are_enough():
    with pytest.raises(
        ParameterError, match="An image of 8 pixels a side does not fit on a background of 7; choose"
    ):
        replace(LAPTOP, sizes=((1, 16), (1, 7)))
    with pytest.raises(ParameterError, match="There are 80 images to train on; 500 were asked for"):
        replace(LAPTOP, source=replace(LAPTOP.source, pool=80))


# Runs.

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
    return image_comparison(**ABOUT | given | changes)


def lazy(**changes):
    return lazy_training(
        **ABOUT | {"descent": LogisticDescent(0.05, 16, 40, "SGD"), "scales": (1.0, 1e4)} | changes
    )


def begun(run):
    return set_up(run.source, run.scene, run.network, run.examples, run.seed)


@pytest.fixture(scope="module")
def store(shared):
    return Store(shared / "images")


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
    sample, model, start = begun(comparison())
    x = torch.cat([sample.x, sample.x_test])
    kernel = tangent_kernel(model, start, x, 60, 7)
    fitted = fits(kernel, functional_call(model, start, (x,)), sample.y, (0.01, 1.0))
    own = min(fitted, key=lambda fit: fit.score)
    assert table["accuracy", "NTK, GCV"] == pytest.approx(accuracy(own.outputs, sample.y_test))
    assert table["ridge", "NTK, GCV"] == pytest.approx(own.ridge)


def test_only_what_is_asked_for_is_computed(store):
    kernel = KernelFit((0.01, 1.0), trained=False)
    of = set(store.get(comparison(kernel=kernel, linear=None)).of)
    assert "NTK, GCV" in of
    assert not of & {"trained kernel", "linearised"}
    of = set(store.get(comparison(kernel=None)).of)
    assert "linearised" in of
    assert not of & {"NTK, GCV", "pixels"}


def test_seeds_have_different_results(store, table):
    other = store.get(comparison(seed=2)).set_index(["measure", "of"]).value
    assert not table["active after"].equals(other["active after"])


def test_lazy_training_hardly_moves_and_ends_as_the_linearised_network(store):
    results = store.get(lazy()).set_index("scale")
    assert results.moved[1e4] < 1e-3 * results.moved[1.0]
    assert results.accuracy[1e4] == pytest.approx(results.limit[1e4], abs=0.05)


def test_more_is_more_effort():
    assert (
        comparison(examples=80).effort
        > comparison(linear=None).effort
        > comparison(kernel=None, linear=None).effort
    )
    assert lazy().effort > lazy(scales=(1.0,)).effort > 0


# The page.


@pytest.fixture(scope="module")
def page(shared):
    """The page at the smoke preset, its network smaller still."""
    artifacts = str(shared / "images")
    page = STUDY.open("ii3_images", {"preset": "smoke", "artifacts": artifacts, "steps": 10})
    page = replace(page, config=replace(page.config, network=PooledCNN((2, 3), (2, 2)), examples=60))
    compute_all(page.store, page.runs(), 1)
    return page


def test_every_scene_and_seed_is_a_run_and_tables_stand_below_each_other(page):
    s, results = page.config, page.results
    assert len(page.runs()) == len({run.key for run in page.runs()}) == (len(s.scenes) + 1) * s.seeds
    assert not results.table[["size", "placement", "noise", "seed", "measure", "of"]].duplicated().any()
    assert set(results.table["size"]) == {"8-on-16", "4-on-8"}
    assert len(results.lazy[["seed", "scale"]].drop_duplicates()) == 2 * 2


def test_verdicts_and_statements(page):
    assert page.verdicts().id.tolist() == [claim.id for topic in TOPICS for claim in topic.claims]
    assert len(page.statements()) == 3
    assert page.seeds == 2


@pytest.mark.parametrize("name", ["laptop", "laptop-long", "gpu", "paper"])
def test_longer_presets_estimate_their_cost(tmp_path, name):
    page = STUDY.open("ii3_images", {"preset": name, "artifacts": str(tmp_path)})
    assert page.runs()[0].effort > 1


def test_a_preset_without_kernels_and_lazy_training_has_a_page(page):
    """As `gpu` and `paper` are: the linearised network stands for the kernel."""
    changes = {"kernel": None, "scales": (), "linear": page.config.descent}
    large = replace(page, config=replace(page.config, **changes))
    compute_all(large.store, large.runs(), 1)
    assert large.results.kernel == Model.LINEARISED
    assert large.results.lazy.empty
    kept = [large.results.kept(of) for of in (Model.NETWORK, Model.LINEARISED, Model.GCV)]
    assert [len(values) for values in kept] == [2, 2, 0]
    assert large.verdicts().set_index("id").verdict["img-lazy"] == "not testable here"
