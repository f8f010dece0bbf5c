"""Models by their number of parameters, their first values, and what they can be called with."""

import pytest
import torch
from torch.func import functional_call

from sameloss.errors import ParameterError
from sameloss.studies.stability.training import (
    LogisticRegression,
    Perceptron,
    RandomFeatures,
    ResNet20,
    SmallCNN,
)


def count(weights):
    return sum(own.numel() for own in weights.values())


@pytest.mark.parametrize(
    ("network", "shape", "classes", "parameters"),
    [
        (LogisticRegression(), (1, 28, 28), 2, 785),  # 784 + 1, as the thesis counts
        (LogisticRegression(), (1, 8, 8), 10, 650),
        (Perceptron((64, 64)), (1, 8, 8), 10, 64 * 65 * 2 + 650),
        (SmallCNN((16, 32)), (1, 8, 8), 10, 160 + 16 * 32 * 9 + 32 + 330),
        (RandomFeatures(1500), (1500,), 10, 15_010),
        (ResNet20(), (3, 32, 32), 10, 269_722),
    ],
)
def test_parameters(network, shape, classes, parameters):
    assert count(network.drawn(shape, classes, 0)) == parameters


@pytest.mark.parametrize("network", [LogisticRegression(), RandomFeatures(8)])
def test_convex_models_start_from_zero(network):
    assert network.convex
    assert all((own == 0).all() for own in network.drawn((8,), 3, 1).values())


def test_others_start_from_hes_normal_without_offsets():
    drawn = Perceptron((400,)).drawn((1, 20, 20), 10, 3)
    assert drawn["maps.0.weight"].std() == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert (drawn["maps.1.bias"] == 0).all()
    assert not torch.equal(
        drawn["maps.0.weight"], Perceptron((400,)).drawn((1, 20, 20), 10, 4)["maps.0.weight"]
    )
    scales = [own for name, own in ResNet20(4).drawn((3, 8, 8), 10, 0).items() if own.ndim == 1]
    assert {float(value) for own in scales for value in own} == {0.0, 1.0}


def test_two_classes_have_one_logit():
    model = LogisticRegression().build((1, 2, 2), 2)
    x = torch.rand(3, 1, 2, 2)
    logits = model(x)
    assert (logits[:, 0] == 0).all()
    expected = x.flatten(1) @ model.linear.weight[0] + model.linear.bias
    torch.testing.assert_close(logits[:, 1], expected)


def test_random_features_are_as_long_as_images_and_always_the_same():
    images = torch.rand(50, 1, 8, 8)
    network = RandomFeatures(4000)
    found = network.inputs(images)
    assert found.shape == (50, 4000)
    assert (found >= 0).all()
    assert found.norm(dim=1) == pytest.approx(images.flatten(1).norm(dim=1), rel=0.1)
    assert torch.equal(found, network.inputs(images))


def test_residuals_thin_and_pad():
    """With zero convolutions a block returns every second pixel and channels of zeros."""
    network = ResNet20(4)
    weights = {name: own * (own.ndim == 1) for name, own in network.drawn((3, 8, 8), 10, 0).items()}
    model = network.build((3, 8, 8), 10)
    seen = []
    model[1].register_forward_hook(lambda _, given, result: seen.append(result))
    model[-3].register_forward_hook(lambda _, given, result: seen.append(given[0]))
    first = {name: network.drawn((3, 8, 8), 10, 0)[name] for name in weights if name.startswith("0.")}
    functional_call(model, weights | first, (torch.rand(2, 3, 8, 8),))
    before, after = seen
    assert after.shape == (2, 16, 2, 2)
    assert torch.equal(after[:, :4], before[..., ::4, ::4])
    assert (after[:, 4:] == 0).all()


def test_products_are_those_of_the_matrices():
    assert Perceptron((5,)).products((1, 2, 2)) == 4 * 5 + 5 * 10


def test_what_waits_counts_its_products_once(monkeypatch):
    counted = Perceptron((6,)).products((1, 2, 2))
    monkeypatch.setattr(Perceptron, "build", None)
    assert Perceptron((6,)).products((1, 2, 2)) == counted


def test_no_features_are_refused():
    with pytest.raises(ParameterError, match="features"):
        RandomFeatures(0)
