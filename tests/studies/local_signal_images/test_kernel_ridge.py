"""Kernel ridge regression against scikit-learn, and cross-validation against examples that are left out."""

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge

from sameloss.errors import ParameterError
from sameloss.studies.local_signal_images.kernels import (
    chosen,
    coefficients,
    cross_validation,
    fits,
    spectrum,
)

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
