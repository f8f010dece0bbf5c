"""The linearised network: Taylor's first order, and in training the solution of its kernel."""

import pytest
import torch
from torch.func import functional_call

from sameloss.studies.local_signal_images.kernels import (
    all_linear_outputs,
    coefficients,
    jacobian,
    linear_outputs,
    products,
    spectrum,
    train_linearised,
)
from sameloss.studies.local_signal_images.training import LogisticDescent, PooledCNN, WideResNet, accuracy

NETWORK = PooledCNN((3, 4), (1, 2))


@pytest.fixture(scope="module")
def model():
    return NETWORK.build(1).double()


@pytest.fixture(scope="module")
def start():
    return {name: own.double() for name, own in NETWORK.drawn(1, 0).items()}


@pytest.fixture(scope="module")
def x():
    return torch.randn(8, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def shifted(start, size):
    rng = torch.Generator().manual_seed(1)
    return {name: size * torch.randn(own.shape, generator=rng).double() for name, own in start.items()}


def test_it_is_the_first_order_of_taylor(model, start, x):
    change = shifted(start, 1.0)
    rows = jacobian(model, start, x, 3)
    direction = torch.cat([own.flatten() for own in change.values()])
    expected = functional_call(model, start, (x,)) + rows @ direction
    torch.testing.assert_close(linear_outputs(model, start, change, x), expected)
    torch.testing.assert_close(all_linear_outputs(model, start, change, x), expected)


def test_what_is_left_out_is_of_second_order(model, start, x):
    def left(size):
        change = shifted(start, size)
        moved = {name: own + change[name] for name, own in start.items()}
        exact = functional_call(model, moved, (x,))
        return float((exact - linear_outputs(model, start, change, x)).norm())

    assert left(1e-4) / left(2e-4) == pytest.approx(0.25, rel=0.1)


def test_descent_of_the_squared_loss_ends_at_the_kernels_solution(model, start, x):
    """From δ = 0, along the gradient of ½‖f - y‖² + ½λ‖δ‖², to convergence."""
    y, ridge = torch.tensor([1.0, -1.0] * 4, dtype=torch.float64), 0.5
    rows = jacobian(model, start, x, 8)
    kernel, first = products(rows, rows), functional_call(model, start, (x,))
    delta = torch.zeros(rows.shape[1], dtype=torch.float64)
    rate = 1 / float(torch.linalg.eigvalsh(kernel)[-1] + ridge)
    for _ in range(3000):
        delta = delta - rate * (rows.T @ (first + rows @ delta - y) + ridge * delta)
    solved = first + kernel @ coefficients(spectrum(kernel), y - first, ridge)
    torch.testing.assert_close(first + rows @ delta, solved, rtol=1e-8, atol=1e-8)
    parts = delta.split([own.numel() for own in start.values()])
    change = {name: own.view_as(start[name]) for name, own in zip(start, parts, strict=True)}
    torch.testing.assert_close(linear_outputs(model, start, change, x), solved, rtol=1e-8, atol=1e-8)


def test_training_learns_by_the_kernel_alone(model, start, x):
    """Its gradient is that of the logistic loss times the rows of the Jacobian: SGD stays in their span."""
    y = torch.tensor([1.0, -1.0] * 4, dtype=torch.float64)
    change = train_linearised(
        model, start, x, y, LogisticDescent(0.05, 8, 60, "SGD"), torch.Generator().manual_seed(0)
    )
    delta = torch.cat([own.flatten() for own in change.values()])
    rows = jacobian(model, start, x, 8)
    within = rows.T @ torch.linalg.lstsq(rows.T, delta[:, None]).solution
    torch.testing.assert_close(within[:, 0], delta, rtol=1e-6, atol=1e-8)
    assert accuracy(all_linear_outputs(model, start, change, x), y) == 1


def test_the_wide_network_can_be_linearised():
    """Its normalisation has forward derivatives, too."""
    network, x, y = WideResNet(1), torch.randn(6, 3, 8, 8), torch.tensor([1.0, -1.0] * 3)
    model, start = network.build(3), network.drawn(3, 0)
    change = train_linearised(
        model, start, x, y, LogisticDescent(1e-3, 3, 2), torch.Generator().manual_seed(0)
    )
    assert torch.isfinite(all_linear_outputs(model, start, change, x)).all()
    assert any(float(own.abs().max()) > 0 for own in change.values())
