"""Training: rates, orders, scales, and what diverges."""

import math

import pytest
import torch
from torch import nn

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.studies.local_signal_images.training import (
    LogisticDescent,
    accuracy,
    batches,
    check_finite,
    mean_loss,
    outputs,
    train,
)

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
