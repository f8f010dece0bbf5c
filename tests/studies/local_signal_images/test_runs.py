"""Runs: a network, its kernel and its linearisation on one sample; a network in lazy training."""

import pytest

from sameloss.errors import ParameterError
from sameloss.images import ImageSource
from sameloss.store.store import Store
from sameloss.studies.local_signal_images.backgrounds import Scene
from sameloss.studies.local_signal_images.experiment import ImageComparison, KernelFit, LazyTraining
from sameloss.studies.local_signal_images.kernels import chosen, fits, tangent_kernel
from sameloss.studies.local_signal_images.training import LogisticDescent, PooledCNN, accuracy

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
def test_what_cannot_be_is_one_sentence(make, message):
    with pytest.raises(ParameterError, match=message):
        make()
