"""Networks by their parameters, their first values, and what they can be called with."""

import pytest
import torch
from torch.func import functional_call

from sameloss.errors import ParameterError
from sameloss.studies.local_signal_images.training import PooledCNN, WideResNet


def test_parameters():
    assert PooledCNN().parameters(1) == 160 + 16 * 32 * 9 + 32 + 32 * 32 * 9 + 32 + 33
    assert WideResNet(10).parameters(3) == pytest.approx(7.43e6, rel=2e-3)  # 7.4 million


@pytest.mark.parametrize("network", [PooledCNN((3, 4), (1, 2)), WideResNet(1)])
def test_one_logit_an_image(network):
    weights = network.drawn(2, 0)
    found = functional_call(network.build(2), weights, (torch.rand(5, 2, 8, 8),))
    assert found.shape == (5,)
    assert torch.isfinite(found).all()


def test_the_small_network_is_convolutions_relus_a_mean_and_a_map():
    """By hand, from its parameters."""
    network = PooledCNN((3,), (2,))
    weights, x = network.drawn(1, 0), torch.rand(4, 1, 6, 6)
    h = torch.nn.functional.conv2d(x, weights["0.weight"], weights["0.bias"], 2, 1).relu().mean((-2, -1))
    expected = h @ weights["4.weight"][0] + weights["4.bias"]
    torch.testing.assert_close(functional_call(network.build(1), weights, (x,)), expected)


def test_first_parameters_are_hes_and_the_seeds_own():
    drawn = PooledCNN((40, 400), (1, 1)).drawn(1, 3)
    assert drawn["2.weight"].std() == pytest.approx((2 / 360) ** 0.5, rel=0.02)
    assert drawn["6.weight"].std() == pytest.approx(1 / 400**0.5, rel=0.1)
    assert (drawn["0.bias"] == 0).all()
    assert not torch.equal(drawn["0.weight"], PooledCNN((40, 400), (1, 1)).drawn(1, 4)["0.weight"])


def test_products_are_those_of_the_convolutions():
    assert PooledCNN((3,), (1,)).products(2, 4) == 16 * 9 * 2 * 3 + 3


def test_what_waits_counts_its_products_and_parameters_once(monkeypatch):
    own = PooledCNN((4,), (1,))
    counted = own.products(2, 4), own.parameters(2)
    monkeypatch.setattr(PooledCNN, "build", None)
    assert (own.products(2, 4), own.parameters(2)) == counted


@pytest.mark.parametrize(("channels", "strides"), [((3, 4), (1,)), ((), ())])
def test_layers_need_strides(channels, strides):
    with pytest.raises(ParameterError, match="A network needs a stride for each layer"):
        PooledCNN(channels, strides)


def test_no_width_is_refused():
    with pytest.raises(ParameterError, match="width"):
        WideResNet(0)
