"""The experiment in the chapter, the stored runs and the page."""

from dataclasses import replace

import pytest
import torch
from cells import computed, listed
from torch.func import functional_call

from sameloss.book.pages import open_page
from sameloss.errors import ParameterError
from sameloss.images import ImageSource
from sameloss.store.store import Store
from sameloss.studies.local_signal_images.claims import TOPICS
from sameloss.studies.local_signal_images.experiment import (
    KernelFit,
    Model,
    image_comparison,
    lazy_training,
    require_images,
    set_up,
)
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

# The experiment.


@pytest.fixture(scope="module")
def laptop():
    return listed("ii3_images", "laptop")


def by_kind(found):
    """The comparisons and the lazy trainings of a page."""
    runs = found.page.runs()
    return tuple([run for run in runs if run.kind == kind] for kind in ("ImageComparison", "LazyTraining"))


def scenes_of(found):
    """Backgrounds of the comparisons, in order."""
    return list(dict.fromkeys(run.scene for run in by_kind(found)[0]))


def test_the_paper_is_the_thesis():
    paper = listed("ii3_images", "paper")
    assert paper.noises == (0.0, 0.5, 1.0, 2.0)
    assert len(scenes_of(paper)) == 4 * 3 * 2
    run = paper.page.runs()[0]
    assert run.network == WideResNet(10)
    assert network_size(run.network, 3, 32)[0] == pytest.approx(7.4e6, rel=0.01)
    assert run.descent.steps == 200 * 50_000 // 128
    epoch = run.descent.steps // 200
    rates = [run.descent.lr_at(epoch * at) for at in (79, 81, 101, 121)]
    assert rates == pytest.approx([0.1, 0.02, 0.004, 0.0008])
    assert (run.linear.lr, run.linear.batch, run.linear.steps) == (1e-3, 50, 200_000)
    assert run.source.second == (2, 3, 4, 5, 6, 7)
    assert paper.theirs


def test_the_first_placement_has_every_noise_and_others_its_ends(laptop):
    scenes = [(s.placement, s.side, s.noise) for s in scenes_of(laptop)]
    assert len(set(scenes)) == len(scenes) == 3 + 2 + 2 + 2
    assert {noise for place, side, noise in scenes if place == "random place" and side == 16} == set(
        laptop.noises
    )
    assert {noise for place, _, noise in scenes if place == "fixed corner"} == {0.0, 1.0}
    assert len(scenes_of(listed("ii3_images", "laptop-long"))) == 4 * 6


def test_the_trained_kernel_is_solved_at_the_first_placement_alone(laptop):
    solved = [run.scene for run in by_kind(laptop)[0] if run.seed == 100 and run.kernel.trained]
    assert [(scene.placement, scene.side) for scene in solved] == [("random place", 16)] * 3


def test_lazy_training_has_the_samples_that_are_compared():
    compared, (lazy, *_) = by_kind(listed("ii3_images", "laptop-long"))
    assert {run.seed for run in compared} == set(range(115, 149))  # others were seen before the protocol
    own = next(run for run in compared if (run.scene, run.seed) == (lazy.scene, lazy.seed))
    assert replace(lazy, descent=own.descent, scales=()) == lazy_training(
        own.source, own.scene, own.network, own.descent, own.examples, own.seed, ()
    )
    assert lazy.descent == LogisticDescent(0.2, 64, 500, "SGD")
    assert by_kind(listed("ii3_images", "gpu"))[1] == []


def test_a_reader_may_ask_for_other_noise_and_training():
    found = listed("ii3_images", noise=2, steps=7, lr=0.01, batch=9, examples=50)
    assert found.noises == (0.0, 0.5, 1.0, 2.0)
    compared, (lazy, *_) = by_kind(found)
    assert (lazy.scene.noise, lazy.descent.steps, lazy.descent.lr, lazy.descent.batch) == (1.0, 7, 0.2, 9)
    for run in compared:
        assert (run.descent.steps, run.descent.lr, run.descent.batch, run.examples) == (7, 0.01, 9, 50)
    assert lazy.scene in scenes_of(found)


def test_a_reader_may_train_the_linearised_network_for_other_steps():
    run = listed("ii3_images", "gpu", steps=7).page.runs()[0]
    assert (run.descent.steps, run.linear.steps, run.linear.batch) == (7, 7, 50)


def test_a_reader_may_bring_images(monkeypatch):
    monkeypatch.setattr(ImageSource, "known", lambda self: replace(self, content="known"))
    found = listed("ii3_images", "paper", data="images", max_hours=1000)
    (source,) = {run.source for run in found.page.runs()}
    assert (source.name, source.halves, source.content) == ("images", True, "known")
    assert (source.second, found.theirs) == (None, False)
    assert not listed("ii3_images", "paper", noise=2, max_hours=1000).theirs


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"examples": 1301}, "There are 1300 images to train on; 1301 were asked for"),
        ({"examples": 1_000_001}, "examples is at most 1,000,000"),
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
        open_page("ii3_images", **{"preset": "smoke", "artifacts": str(tmp_path), **given}).runs()
    assert "\n" not in str(caught.value)


def test_images_fit_on_their_backgrounds_and_there_are_enough():
    source = ImageSource(halves=True)
    require_images(source, ((1, 8), (2, 4)), 1300)
    with pytest.raises(
        ParameterError, match="An image of 8 pixels a side does not fit on a background of 7; choose"
    ):
        require_images(source, ((1, 16), (1, 7)), 500)
    with pytest.raises(ParameterError, match="There are 80 images to train on; 500 were asked for"):
        require_images(replace(source, pool=80), ((1, 16),), 500)


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
def small(shared):
    """The chapter at the smoke preset, its network smaller still."""
    given = {"workers": 1, "steps": 10, "examples": 60}
    network = PooledCNN((2, 3), (2, 2))
    return lambda **changes: (
        computed("ii3_images", Store(shared / "images"), given, network=network, **changes).page
    )


@pytest.fixture(scope="module")
def page(small):
    return small()


def test_every_scene_and_seed_is_a_run_and_tables_stand_below_each_other(page):
    results = page.results
    scenes = {run.scene for run in page.runs()}
    assert len(page.runs()) == len({run.key for run in page.runs()}) == (len(scenes) + 1) * page.seeds
    assert len(scenes) == 2 + 2 + 2 + 2
    assert not results.table[["size", "placement", "noise", "seed", "measure", "of"]].duplicated().any()
    assert set(results.table["size"]) == {"8-on-16", "4-on-8"}
    assert len(results.lazy[["seed", "scale"]].drop_duplicates()) == 2 * 2


def test_tables_are_those_of_their_runs(page):
    run = next(run for run in page.runs() if run.seed == 101 and run.scene.side == 8 and run.scene.noise)
    table = page.results.table
    own = table[(table["size"] == "4-on-8") & (table.noise == 0.5) & (table.seed == 101)]
    assert set(own.placement) == {"random place"}
    assert own.value.tolist() == page.store.get(run).value.tolist()


def test_verdicts_and_statements(page):
    *here, theirs = TOPICS
    assert page.verdicts().id.tolist() == [claim.id for topic in here for claim in topic.claims]
    assert open_page("ii3_images", preset="gpu").topics == [*here, theirs]
    assert len(page.statements()) == 3
    assert page.seeds == 2


@pytest.mark.parametrize("name", ["laptop", "laptop-long", "gpu", "paper"])
def test_longer_presets_estimate_their_cost(name):
    assert listed("ii3_images", name).page.runs()[0].effort > 1


def test_a_preset_without_kernels_and_lazy_training_has_a_page(small):
    """As `gpu` and `paper` are: the linearised network stands for the kernel."""
    large = small(kernel=None, scales=(), linear=LogisticDescent(3e-3, 32, 10))
    assert large.results.kernel == Model.LINEARISED
    assert large.results.lazy.empty
    kept = [large.results.kept(of) for of in (Model.NETWORK, Model.LINEARISED, Model.GCV)]
    assert [len(values) for values in kept] == [2, 2, 0]
    assert large.verdicts().set_index("id").direction["img-lazy"] == "not testable"
