"""Networks, many trained as one, and the paths between them."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.studies.stability.theory import drawn_twins, visiting_order
from sameloss.studies.stability.training import (
    GRID,
    Descent,
    LogisticRegression,
    Perceptron,
    RandomFeatures,
    ResNet20,
    SmallCNN,
    Stack,
    accuracies_along,
    along,
    barrier,
    check_grid,
    check_learnt,
    log_probabilities,
    train,
)

# Models by their number of parameters, their first values, and what they can be called with.


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


# A stack is the ordinary loop for each of its models, to the rounding.

POOL, TESTED, CLASSES = 40, 10, 3
NETWORKS = [(Perceptron((6,)), (1, 4, 4)), (SmallCNN((3,)), (1, 4, 4)), (ResNet20(2), (2, 8, 8))]


def problem(network, shape, descent, *, seeds=2, pairs=2, size=12):
    rng = torch.Generator().manual_seed(5)
    x = torch.rand(POOL + TESTED, *shape, generator=rng, dtype=torch.float64)
    y = torch.randint(CLASSES, (POOL + TESTED,), generator=rng)
    models = [network.drawn(shape, CLASSES, seed) for seed in range(seeds)]
    models = [{name: own.double() for name, own in model.items()} for model in models]
    stack = Stack(network.build(shape, CLASSES).double(), models, 2 * pairs)
    rows = torch.cat([drawn_twins(POOL, TESTED, size, pairs, rng).rows(POOL) for _ in range(seeds)])
    order = torch.stack([visiting_order(size, descent.batch, descent.steps, rng) for _ in range(seeds)])
    return stack, x, y, rows, order, models


def one_by_one(network, shape, weights, x, y, rows, order, descent):
    """Train one model with torch's own optimiser."""
    model = network.build(shape, CLASSES).double()
    model.load_state_dict(weights)
    optimiser = torch.optim.SGD(model.parameters(), lr=descent.lr, momentum=descent.momentum)
    for step, positions in enumerate(order):
        optimiser.param_groups[0]["lr"] = descent.lr_at(step)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(x[rows[positions]]), y[rows[positions]]).backward()
        optimiser.step()
    return dict(model.named_parameters())


@pytest.mark.parametrize(("network", "shape"), NETWORKS)
def test_a_stack_is_the_ordinary_loop(network, shape):
    descent = Descent(0.1, 4, 12, momentum=0.9, drops=((8, 0.01),))
    stack, x, y, rows, order, models = problem(network, shape, descent)
    assert list(train(stack, x, y, rows, order, descent)) == list(range(1, 13))
    for at, own in enumerate(rows):
        alone = one_by_one(network, shape, models[at // 4], x, y, own, order[at // 4], descent)
        for name, parameter in alone.items():
            torch.testing.assert_close(stack.weights[name][at], parameter.detach(), rtol=1e-10, atol=1e-10)


def test_models_of_one_sample_stay_the_same_bit_for_bit():
    """What differs afterwards is due to the sample alone."""
    network, shape = NETWORKS[0]
    descent = Descent(0.1, 4, 30)
    stack, x, y, rows, order, _ = problem(network, shape, descent, seeds=1)
    rows[1] = rows[0]
    list(train(stack, x, y, rows, order, descent))
    vectors = stack.vectors()
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.equal(vectors[2], vectors[3])


def test_another_order_in_the_twin_would_be_noticed():
    network, shape = NETWORKS[0]
    descent = Descent(0.1, 4, 30)
    stack, x, y, rows, order, models = problem(network, shape, descent, seeds=1)
    list(train(stack, x, y, rows, order, descent))
    other = one_by_one(network, shape, models[0], x, y, rows[1], order[0].flip(0), descent)
    moved = max(float((stack.weights[name][1] - own.detach()).abs().max()) for name, own in other.items())
    assert moved > 1e-3


def test_a_stack_goes_on_from_its_state():
    network, shape = NETWORKS[0]
    descent = Descent(0.1, 4, 10, momentum=0.5)
    whole, x, y, rows, order, _ = problem(network, shape, descent)
    parts, *_ = problem(network, shape, descent)
    list(train(whole, x, y, rows, order, descent))
    for step in train(parts, x, y, rows, order, descent):
        if step == 4:
            break
    state = parts.state_dict()
    fresh, *_ = problem(network, shape, descent)
    fresh.load_state_dict(state)
    assert list(train(fresh, x, y, rows, order, descent, start=4)) == list(range(5, 11))
    assert torch.equal(fresh.vectors(), whole.vectors())
    with pytest.raises(ValueError, match="other models"):
        problem(NETWORKS[1][0], shape, descent)[0].load_state_dict(state)


def test_predictions_are_those_of_each_model(monkeypatch):
    monkeypatch.setattr("sameloss.studies.stability.training.ROWS_AT_ONCE", 8)
    network, shape = NETWORKS[0]
    stack, x, _, rows, _, models = problem(network, shape, Descent(0.1, 4, 1))
    found = log_probabilities(stack.network, stack.weights, x, rows)
    model = network.build(shape, CLASSES).double()
    model.load_state_dict(models[1])
    torch.testing.assert_close(found[5], model(x[rows[5]]).log_softmax(-1).detach())


@pytest.mark.parametrize("loss", [30.0, float("nan"), float("inf")])
def test_a_diverged_training_names_its_rate(loss):
    descent = Descent(0.5, 4, 3, momentum=0.9)
    check_learnt(torch.tensor([0.1, 2.0]), 10, descent, 3)
    with pytest.raises(
        NonFiniteLoss, match=r"by step 3 at the learning rate 0\.5 with momentum 0\.9: its loss"
    ):
        check_learnt(torch.tensor([0.1, loss]), 10, descent, 3)


# Lines between models: their ends, what is lost between, and lines that cannot be drawn.


def test_the_grid_is_the_thesis():
    assert (len(GRID), GRID[0], GRID[-1], GRID[25], GRID[50]) == (76, -1.0, 2.0, 0.0, 1.0)


def test_the_ends_of_a_line_are_the_models():
    first, second = ({"w": torch.full((2,), value)} for value in (3.0, 7.0))
    assert along(first, second, 1.0)["w"].tolist() == [3, 3]
    assert along(first, second, 0.0)["w"].tolist() == [7, 7]
    assert along(first, second, 0.25)["w"].tolist() == [6, 6]


def test_accuracies_are_of_every_pair_at_every_point():
    weights = {"w": torch.tensor([0.0, 1.0, 4.0, 0.0])}
    found = accuracies_along(weights, lambda stack: stack["w"], (-1.0, 0.0, 1.0))
    assert found.tolist() == [[2.0, -4.0], [1.0, 0.0], [0.0, 4.0]]


def test_a_barrier_is_what_lies_between_the_ends_alone():
    alphas = (-1.0, 0.0, 0.5, 1.0, 2.0)
    found = barrier(np.array([[0.0, 0.0], [0.9, 0.8], [0.4, 0.9], [0.7, 0.9], [0.0, 0.0]]), alphas)
    assert found == pytest.approx([0.3, 0.0])


def test_a_grid_needs_its_ends():
    with pytest.raises(ParameterError, match="0 and 1 must be among"):
        check_grid((0.0, 0.5))


def test_models_of_different_shapes_have_no_line():
    with pytest.raises(ParameterError, match="No line joins models of different shapes"):
        along({"w": torch.zeros(2)}, {"w": torch.zeros(3)}, 0.5)
