"""Networks on images, their training, and active neurons."""

import math

import pytest
import torch
from torch import nn
from torch.func import functional_call

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.studies.local_signal_images.training import (
    LogisticDescent,
    PooledCNN,
    WideBlock,
    WideResNet,
    accuracy,
    active_shares,
    batches,
    check_finite,
    mean_loss,
    outputs,
    train,
)

# Networks by their parameters, their first values, and what they can be called with.


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


# The wide network: seven convolutions, ways around them, and nothing kept between batches.


def test_seven_convolutions_of_three_by_three_and_three_ways_around():
    model = WideResNet(2).build(3)
    sizes = [layer.kernel_size for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    assert (sizes.count((3, 3)), sizes.count((1, 1))) == (7, 3)
    assert not list(model.buffers())


def test_a_block_adds_what_goes_around():
    block, x = WideBlock(4, 4, 1), torch.rand(3, 4, 5, 5)
    nn.init.zeros_(block.second.weight)
    torch.testing.assert_close(block(x), block.ready(x))
    assert WideBlock(4, 8, 2)(x).shape == (3, 8, 3, 3)


def test_a_block_normalises_by_the_batch():
    """So an output depends on what else is in the batch."""
    block, x = WideBlock(2, 4, 1), torch.rand(4, 2, 5, 5)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(block(x)[:2], block(x[:2]))


# Training: rates, orders, scales, and what diverges.

LINEAR = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Flatten(0))

X = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.5]])

Y = torch.tensor([1.0, -1.0, -1.0])

START = {"0.weight": torch.tensor([[0.1, 0.2]])}


def rng():
    return torch.Generator().manual_seed(0)


def test_every_image_is_visited_once_an_epoch():
    visits = torch.cat(list(batches(6, LogisticDescent(0.1, 2, 9), rng())))
    assert all(sorted(part.tolist()) == list(range(6)) for part in visits.split(6))


def test_the_loss_and_the_accuracy():
    logits = torch.tensor([0.0, 2.0, -1.0])
    expected = (math.log(2) + math.log1p(math.exp(2)) + math.log1p(math.exp(-1))) / 3
    assert float(mean_loss(logits, Y)) == pytest.approx(expected)
    assert accuracy(logits, Y) == pytest.approx(1 / 3)  # no logit is no answer


@pytest.mark.parametrize("optimiser", ["Adam", "SGD"])
def test_a_step_is_that_of_the_gradient(optimiser):
    found = train(LINEAR, START, X, Y, LogisticDescent(0.1, 3, 1, optimiser), rng())["0.weight"]
    pull = -(Y * torch.sigmoid(-Y * (X @ START["0.weight"][0]))) @ X / 3
    step = pull if optimiser == "SGD" else pull.sign()
    torch.testing.assert_close(found[0], START["0.weight"][0] - 0.1 * step, atol=1e-4, rtol=0)
    assert START["0.weight"].tolist() == torch.tensor([[0.1, 0.2]]).tolist()


def test_a_linear_model_is_the_same_at_every_scale():
    """α(f - f₀) with the rate lr/α² moves its output alike, from zero; what is linear is lazy already."""
    zero = {"0.weight": torch.zeros(1, 2)}
    descent = LogisticDescent(0.1, 3, 20, "SGD")
    plain = train(LINEAR, zero, X, Y, descent, rng())["0.weight"]
    scaled = train(LINEAR, zero, X, Y, descent, rng(), 100.0)["0.weight"]
    torch.testing.assert_close(100 * scaled, plain, rtol=1e-4, atol=1e-6)


def test_the_first_output_is_taken_off():
    """From anywhere the first step of a scaled training is that from output zero."""
    first = train(LINEAR, START, X, Y, LogisticDescent(0.1, 3, 1, "SGD"), rng(), 1.0)["0.weight"]
    from_zero = train(LINEAR, {"0.weight": torch.zeros(1, 2)}, X, Y, LogisticDescent(0.1, 3, 1, "SGD"), rng())
    torch.testing.assert_close(first - START["0.weight"], from_zero["0.weight"])


def test_outputs_of_all_images_are_those_of_each():
    x = torch.rand(600, 2, generator=rng())
    torch.testing.assert_close(outputs(LINEAR, START, x), x @ START["0.weight"][0])


def test_a_diverged_training_is_one_sentence():
    with pytest.raises(
        NonFiniteLoss, match=r"^Training diverged at the learning rate 0\.1; choose a smaller one"
    ):
        check_finite(torch.tensor(float("nan")), LogisticDescent(0.1, 3, 1))


@pytest.mark.parametrize("changes", [{"lr": 0.0}, {"batch": 0}, {"momentum": 1.0}, {"optimiser": "Newton"}])
def test_settings_that_train_nothing_are_refused(changes):
    with pytest.raises(ParameterError):
        LogisticDescent(**{"lr": 0.1, "batch": 2, "steps": 3} | changes)


# Active neurons of networks made by hand.


def test_units_that_fire_for_some_images_count_in_part():
    model = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1), nn.ReLU(), nn.Flatten(0))
    weights = {
        "0.weight": torch.tensor([[1.0], [-1.0], [0.0], [0.0]]),
        "0.bias": torch.tensor([0.0, 0.0, 1.0, -1.0]),  # one fires always, one never
        "2.weight": torch.zeros(1, 4),
        "2.bias": torch.tensor([0.5]),
    }
    x = torch.tensor([[1.0], [2.0], [3.0], [-1.0]])
    assert active_shares(model, weights, x) == [(3 + 1 + 4 + 0) / 16, 1.0]


def test_pixels_count_each_and_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.Identity(), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(0))
    x = torch.tensor([[[[1.0, -1.0], [0.0, 2.0]]]]).expand(300, 1, 2, 2)
    assert active_shares(model, {}, x) == [0.5]
    assert not any(layer._forward_hooks for layer in model.modules())
