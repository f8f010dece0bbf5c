"""Networks, stacks of them, and paths between them."""

import pytest
import torch
from torch import nn
from torch.func import functional_call

from sameloss.errors import NonFiniteLoss
from sameloss.images import Images, visiting_order
from sameloss.studies.stability.theory import drawn_twins
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
    check_learnt,
    products,
)

# Models by their number of parameters, their first values, and what they can be called with.


def count(weights):
    return sum(w.numel() for w in weights.values())


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
    assert all((w == 0).all() for w in network.drawn((8,), 3, 1).values())


def test_others_start_from_hes_normal_without_offsets():
    drawn = Perceptron((400,)).drawn((1, 20, 20), 10, 3)
    assert drawn["1.weight"].std() == pytest.approx((2 / 400) ** 0.5, rel=0.02)
    assert (drawn["3.bias"] == 0).all()
    assert not torch.equal(drawn["1.weight"], Perceptron((400,)).drawn((1, 20, 20), 10, 4)["1.weight"])
    scales = [w for w in ResNet20(4).drawn((3, 8, 8), 10, 0).values() if w.ndim == 1]
    assert {float(value) for w in scales for value in w} == {0.0, 1.0}


def test_two_classes_have_one_logit():
    model = LogisticRegression().build((1, 2, 2), 2)
    x = torch.rand(3, 1, 2, 2)
    logits = model(x)
    assert (logits[:, 0] == 0).all()
    expected = x.flatten(1) @ model[1].weight[0] + model[1].bias
    torch.testing.assert_close(logits[:, 1], expected)


def test_random_features_are_as_long_as_images_and_always_the_same():
    images = torch.rand(50, 1, 8, 8)
    network = RandomFeatures(4000)
    features = network.inputs(images)
    assert features.shape == (50, 4000)
    assert (features >= 0).all()
    assert features.norm(dim=1) == pytest.approx(images.flatten(1).norm(dim=1), rel=0.1)
    assert torch.equal(features, network.inputs(images))


def test_residuals_thin_and_pad():
    """With zero convolutions a block returns every second pixel and channels of zeros."""
    network = ResNet20(4)
    weights = {name: w * (w.ndim == 1) for name, w in network.drawn((3, 8, 8), 10, 0).items()}
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


def test_products_are_those_of_the_matrices_and_counted_once(monkeypatch):
    assert products(Perceptron((5,)), (1, 2, 2)) == 4 * 5 + 5 * 10
    monkeypatch.setattr(Perceptron, "build", None)
    assert products(Perceptron((5,)), (1, 2, 2)) == 70


# A stack is the ordinary loop for each of its models, to the rounding.

POOL, TESTED, CLASSES = 40, 10, 3
NETWORKS = [(Perceptron((6,)), (1, 4, 4)), (SmallCNN((3,)), (1, 4, 4)), (ResNet20(2), (2, 8, 8))]


def problem(network, shape, descent, *, seeds=2, pairs=2, size=12):
    """A stack, its order of visits, and the initial parameters of each seed."""
    rng = torch.Generator().manual_seed(5)
    x = torch.rand(POOL + TESTED, *shape, generator=rng, dtype=torch.float64)
    y = torch.randint(CLASSES, (POOL + TESTED,), generator=rng)
    rows = torch.cat([drawn_twins(POOL, TESTED, size, pairs, rng).rows(POOL) for _ in range(seeds)])
    order = torch.stack([visiting_order(size, descent.batch, descent.steps, rng) for _ in range(seeds)])
    stack = Stack(network, Images(x, y, POOL, CLASSES), rows, range(seeds))
    return stack, order, [network.drawn(shape, CLASSES, seed) for seed in range(seeds)]


def one_by_one(network, shape, weights, stack, rows, order, descent):
    """Train one model with torch's own optimiser."""
    model = network.build(shape, CLASSES).double()
    model.load_state_dict(weights)
    optimiser = torch.optim.SGD(model.parameters(), lr=descent.lr, momentum=descent.momentum)
    for step, positions in enumerate(order):
        optimiser.param_groups[0]["lr"] = descent.lr_at(step)
        optimiser.zero_grad()
        x, y = stack.x[rows[positions]], stack.y[rows[positions]]
        nn.functional.cross_entropy(model(x), y).backward()
        optimiser.step()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize(("network", "shape"), NETWORKS)
def test_a_stack_is_the_ordinary_loop(network, shape):
    descent = Descent(0.1, 4, 12, momentum=0.9, drops=((8, 0.1),))
    stack, order, models = problem(network, shape, descent)
    assert list(stack.train(order, descent)) == list(range(1, 13))
    for at, rows in enumerate(stack.rows):
        alone = one_by_one(network, shape, models[at // 4], stack, rows, order[at // 4], descent)
        for name, parameter in alone.items():
            torch.testing.assert_close(stack.weights[name][at], parameter, rtol=1e-10, atol=1e-10)


def test_models_of_one_sample_stay_the_same_bit_for_bit():
    """What differs afterwards is due to the sample alone; another order would be noticed."""
    (network, shape), descent = NETWORKS[0], Descent(0.1, 4, 30)
    stack, order, models = problem(network, shape, descent, seeds=1)
    stack.rows[1] = stack.rows[0]
    list(stack.train(order, descent))
    vectors = stack.vectors()
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.equal(vectors[2], vectors[3])
    other = one_by_one(network, shape, models[0], stack, stack.rows[0], order[0].flip(0), descent)
    assert max(float((stack.weights[name][0] - w).abs().max()) for name, w in other.items()) > 1e-3


def test_a_stack_goes_on_from_its_state():
    (network, shape), descent = NETWORKS[0], Descent(0.1, 4, 10, momentum=0.5)
    (whole, order, _), (part, *_), (fresh, *_) = (problem(network, shape, descent) for _ in range(3))
    list(whole.train(order, descent))
    for step in part.train(order, descent):
        if step == 4:
            break
    fresh.load_state_dict(part.state_dict())
    assert list(fresh.train(order, descent, start=4)) == list(range(5, 11))
    assert torch.equal(fresh.vectors(), whole.vectors())


def test_predictions_are_those_of_each_model(monkeypatch):
    monkeypatch.setattr("sameloss.studies.stability.training.ROWS_AT_ONCE", 8)
    network, shape = NETWORKS[0]
    stack, _, models = problem(network, shape, Descent(0.1, 4, 1))
    model = network.build(shape, CLASSES).double()
    model.load_state_dict(models[1])
    expected = model(stack.x[stack.rows[5]]).log_softmax(-1).detach()
    torch.testing.assert_close(stack.log_probabilities(stack.rows)[5], expected)


@pytest.mark.parametrize("loss", [30.0, float("nan"), float("inf")])
def test_a_diverged_training_names_its_rate(loss):
    descent = Descent(0.5, 4, 3, momentum=0.9)
    check_learnt(torch.tensor([0.1, 2.0]), 10, descent, 3)
    with pytest.raises(
        NonFiniteLoss, match=r"by step 3 at the learning rate 0\.5 with momentum 0\.9: its loss"
    ):
        check_learnt(torch.tensor([0.1, loss]), 10, descent, 3)


# Lines between models: their ends are the models, and every pair has one of its own.


def test_accuracies_are_those_of_the_weights_between():
    assert (len(GRID), GRID[0], GRID[-1], GRID[25], GRID[50]) == (76, -1.0, 2.0, 0.0, 1.0)
    network, shape = NETWORKS[0]
    stack, *_ = problem(network, shape, Descent(0.1, 4, 1))
    rng = torch.Generator().manual_seed(1)
    stack.weights = {name: torch.randn(w.shape, generator=rng).to(w) for name, w in stack.weights.items()}
    accuracies = accuracies_along(stack, torch.tensor([1, 3]), stack.tested[:2])
    assert accuracies.shape == (76, 2)
    model = network.build(shape, CLASSES).double()
    for alpha in (-1.0, 0.0, 0.28, 1.0):
        for at, (first, second) in enumerate(((2, 3), (6, 7))):
            model.load_state_dict(
                {n: alpha * w[first] + (1 - alpha) * w[second] for n, w in stack.weights.items()}
            )
            right = model(stack.x[POOL:]).argmax(-1) == stack.y[POOL:]
            assert accuracies[GRID.index(alpha), at] == pytest.approx(float(right.double().mean()))
