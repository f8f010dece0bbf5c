"""Kernel ridge regression and tangent kernels."""

import json

import numpy as np
import pytest
import tangent_peer
import torch
from sklearn.kernel_ridge import KernelRidge
from torch import nn
from torch.func import functional_call, jacrev

from sameloss.errors import ParameterError
from sameloss.studies.local_signal_images import kernels as tangent
from sameloss.studies.local_signal_images.kernels import (
    check_memory,
    chosen,
    coefficients,
    cross_validation,
    fits,
    jacobian,
    products,
    spectrum,
    tangent_kernel,
)
from sameloss.studies.local_signal_images.training import PooledCNN

# Kernel ridge regression against scikit-learn, and cross-validation against examples that are left out.

SIZE = 12


@pytest.fixture
def kernel():
    features = torch.randn(20, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return features @ features[:SIZE].T


@pytest.fixture
def y():
    return torch.sign(torch.randn(SIZE, generator=torch.Generator().manual_seed(1))).double()


def test_predictions_are_scikit_learns(kernel, y):
    first = torch.linspace(-1, 1, 20, dtype=torch.float64)
    found = fits(kernel, first, y, (0.01, 1.0))
    unit = float(torch.trace(kernel[:SIZE])) / SIZE
    for own, ridge in zip(found, (0.01, 1.0), strict=True):
        peer = KernelRidge(alpha=ridge * unit, kernel="precomputed")
        peer.fit(kernel[:SIZE].numpy(), (y - first[:SIZE]).numpy())
        expected = first[SIZE:].numpy() + peer.predict(kernel[SIZE:].numpy())
        np.testing.assert_allclose(own.outputs.numpy(), expected, rtol=1e-9)
        assert own.ridge == pytest.approx(ridge)


def test_cross_validation_is_the_formula(kernel, y):
    own, size = kernel[:SIZE], SIZE
    hat = own @ torch.linalg.inv(own + 3.0 * torch.eye(size))
    left = torch.eye(size) - hat
    expected = size * float((left @ y).square().sum()) / float(torch.trace(left)) ** 2
    assert cross_validation(spectrum(own), y, 3.0) == pytest.approx(expected)


def test_where_examples_are_alike_it_is_leaving_each_one_out(y):
    """A circulant kernel: every example has the same leverage, and the score is exactly that of refitting."""
    row = torch.exp(-torch.minimum(torch.arange(SIZE), SIZE - torch.arange(SIZE)).double())
    own = torch.stack([row.roll(shift) for shift in range(SIZE)])
    errors = []
    for out in range(SIZE):
        rest = [at for at in range(SIZE) if at != out]
        solved = torch.linalg.solve(own[rest][:, rest] + 0.3 * torch.eye(SIZE - 1), y[rest])
        errors.append(float(y[out] - own[out, rest] @ solved) ** 2)
    assert cross_validation(spectrum(own), y, 0.3) == pytest.approx(np.mean(errors))


def test_the_least_score_is_chosen(kernel, y):
    found = fits(kernel, torch.zeros(20), y, (1e-3, 1e-1, 10.0))
    assert chosen(found).score == min(own.score for own in found)


def test_without_ridge_the_sample_is_interpolated(kernel, y):
    found = spectrum(kernel[:SIZE])
    torch.testing.assert_close(kernel[:SIZE] @ coefficients(found, y, 0.0), y)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda y: spectrum(-torch.eye(SIZE).double()), "kernel is not positive semi-definite"),
        (lambda y: coefficients(spectrum(torch.eye(SIZE).double()), y, -0.5), r"not negative; got -0\.5\.$"),
        (lambda y: coefficients(spectrum(torch.ones(SIZE, SIZE).double()), y, 0.0), "λ = 0 has no solution"),
    ],
)
def test_what_cannot_be_solved_is_one_sentence(make, message, y):
    with pytest.raises(ParameterError, match=message):
        make(y)


# The tangent kernel against brute force, finite differences and a model whose kernel is known.

NETWORK = PooledCNN((3, 4), (1, 2))


@pytest.fixture(scope="module")
def model():
    return NETWORK.build(1).double()


@pytest.fixture(scope="module")
def weights():
    return {name: own.double() for name, own in NETWORK.drawn(1, 0).items()}


@pytest.fixture(scope="module")
def x():
    return torch.randn(7, 1, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_gradients_are_those_of_jacrev(model, weights, x):
    found = jacrev(lambda own: functional_call(model, own, (x,)))(weights)
    expected = torch.cat([own.flatten(1) for own in found.values()], 1)
    for chunk in (1, 3, 50):
        torch.testing.assert_close(jacobian(model, weights, x, chunk), expected, rtol=1e-10, atol=1e-12)
    kernel = tangent_kernel(model, weights, x, 5, 2)
    torch.testing.assert_close(kernel, expected @ expected[:5].T, rtol=1e-10, atol=1e-12)


def test_gradients_are_finite_differences(model, weights, x):
    rng = torch.Generator().manual_seed(1)
    along = {name: torch.randn(own.shape, generator=rng).double() for name, own in weights.items()}

    def moved(step):
        return functional_call(model, {n: own + step * along[n] for n, own in weights.items()}, (x,))

    slope = (moved(1e-6) - moved(-1e-6)) / 2e-6
    direction = torch.cat([own.flatten() for own in along.values()])
    torch.testing.assert_close(jacobian(model, weights, x, 4) @ direction, slope, rtol=1e-5, atol=1e-7)


RECORDED = json.loads(tangent_peer.FILE.read_text())["kernels"]


def of_peer(name):
    """A network and its images as the peer had them."""
    shape = tangent_peer.SHAPES[name]
    network = PooledCNN(shape.channels, shape.strides).build(shape.planes).double()
    names = [name for name, _ in network.named_parameters()]
    drawn = dict(zip(names, map(torch.from_numpy, tangent_peer.parameters(shape)), strict=True))
    return network, drawn, torch.from_numpy(tangent_peer.images(shape))


@pytest.mark.parametrize("name", tangent_peer.SHAPES)
def test_kernels_are_those_that_neural_tangents_had(name):
    """Recorded by `tangent_peer.py` from neural-tangents 0.6.5, in double precision."""
    network, drawn, x = of_peer(name)
    recorded = torch.tensor(RECORDED[name], dtype=torch.float64)
    torch.testing.assert_close(tangent_kernel(network, drawn, x, len(x), 3), recorded, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("changed", ["0.bias", "2.weight", "6.weight"])
def test_every_parameter_counts_in_what_was_recorded(changed):
    network, drawn, x = of_peer("two layers")
    other = drawn | {changed: drawn[changed] + 0.1}
    recorded = torch.tensor(RECORDED["two layers"], dtype=torch.float64)
    assert float((tangent_kernel(network, other, x, len(x), 3) - recorded).abs().max()) > 1e-4


def test_a_linear_models_kernel_is_that_of_its_inputs():
    model, x = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), torch.rand(5, 3)
    weights = {name: own.detach() for name, own in model.named_parameters()}
    torch.testing.assert_close(tangent_kernel(model, weights, x, 5, 2), (x @ x.T + 1).double())


def test_sums_are_in_double_precision(monkeypatch):
    monkeypatch.setattr(tangent, "PARAMETERS_AT_ONCE", 16)
    rows = torch.randn(6, 1000, generator=torch.Generator().manual_seed(0))
    found, exact = products(rows, rows[:4]), rows.double() @ rows[:4].double().T
    assert found.dtype == torch.float64
    assert float((found - exact).abs().max()) < 1e-5


def test_what_does_not_fit_is_one_sentence(monkeypatch):
    monkeypatch.setattr(tangent, "memory_bytes", lambda: 10**9)
    with pytest.raises(
        ParameterError,
        match=r"^The tangent kernel of 50,000 images and 14,081 parameters takes \d+ GB, and there are 1;",
    ):
        check_memory(50_000, 40_000, 14_081)
    check_memory(1000, 500, 10_000)


def test_no_chunk_is_refused(model, weights, x):
    with pytest.raises(ParameterError, match="chunk must be a whole number, at least 1"):
        jacobian(model, weights, x, 0)
