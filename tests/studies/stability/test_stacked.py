"""A stack is the ordinary loop for each of its models, to the rounding."""

import pytest
import torch
from torch import nn

from sameloss.errors import NonFiniteLoss
from sameloss.studies.stability.theory import drawn_twins, visiting_order
from sameloss.studies.stability.training import (
    Descent,
    Perceptron,
    ResNet20,
    SmallCNN,
    Stack,
    check_learnt,
    log_probabilities,
    train,
)

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
