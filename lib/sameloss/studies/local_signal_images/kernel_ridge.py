"""Kernel ridge regression around a first function, for many λ at once, and λ by generalised cross-validation.

With residuals r = y - f₀(X) the machine is f(x) = f₀(x) + k(x, X)(K + λI)⁻¹ r. It is the network linearised
in its parameters, f₀ + ⟨∇f₀, δ⟩, with the δ that minimises the sum of (f(xᵢ) - yᵢ)² plus λ‖δ‖².
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.errors import ParameterError

NEGATIVE = 1e-6
"""An eigenvalue below minus this, as a share of the largest, is no rounding."""

Column = Float[Tensor, " example"]


class Spectrum(NamedTuple):
    """A kernel of a sample with itself, in its eigenvectors."""

    values: Column  # not negative
    vectors: Float[Tensor, "example example"]


def spectrum(kernel: Float[Tensor, "example example"]) -> Spectrum:
    """Return the eigenvalues and eigenvectors of a kernel.

    Raises:
        ParameterError: for one that is not positive semi-definite.

    """
    values, vectors = torch.linalg.eigh(kernel)
    if float(values[0]) < -NEGATIVE * float(values[-1].abs()):
        raise ParameterError("The kernel is not positive semi-definite; choose another one.")
    return Spectrum(values.clamp(min=0), vectors)


def coefficients(found: Spectrum, residuals: Column, ridge: float) -> Column:
    """Return (K + λI)⁻¹ r.

    Raises:
        ParameterError: for a negative λ, or none where the kernel has no inverse.

    """
    check_ridge(ridge)
    if ridge == 0 and not float(found.values[0]) > NEGATIVE * float(found.values[-1]):
        raise ParameterError("The kernel has no inverse, so λ = 0 has no solution; choose a positive λ.")
    return found.vectors @ ((found.vectors.T @ residuals) / (found.values + ridge))


def check_ridge(ridge: float) -> None:
    """Refuse a negative λ.

    Raises:
        ParameterError: with the λ.

    """
    if not ridge >= 0:
        raise ParameterError(f"Ridge regression needs a λ that is not negative; got {ridge:g}.")


def cross_validation(found: Spectrum, residuals: Column, ridge: float) -> float:
    """Return the score of generalised cross-validation (Golub et al. 1979): n‖(I - H)r‖² / tr(I - H)².

    H = K(K + λI)⁻¹. Were all examples alike in H, this would be the mean squared error of leaving one out.

    Args:
        found: the kernel.
        residuals: r.
        ridge: λ, positive.

    """
    left = ridge / (found.values + ridge)  # eigenvalues of I - H
    return float((left * (found.vectors.T @ residuals)).square().mean() / left.mean().square())


class Fitted(NamedTuple):
    """Predictions with one λ."""

    ridge: float
    score: float  # of generalised cross-validation
    outputs: Float[Tensor, " test"]


def fits(
    kernel: Float[Tensor, "image example"],
    first: Float[Tensor, " image"],
    y: Column,
    ridges: tuple[float, ...],
) -> list[Fitted]:
    """Return the predictions on all images but the examples, for each λ.

    Args:
        kernel: of all images with the examples, the examples first.
        first: f₀ of all images.
        y: of the examples.
        ridges: λ in units of the kernel's mean eigenvalue.

    Raises:
        ParameterError: for a negative λ, or a kernel that is not positive semi-definite.

    """
    size = len(y)
    own, residuals = spectrum(kernel[:size]), y.to(kernel) - first[:size].to(kernel)
    unit = float(own.values.mean())
    found = []
    for ridge in (share * unit for share in ridges):
        change = kernel[size:] @ coefficients(own, residuals, ridge)
        score = cross_validation(own, residuals, ridge)
        found.append(Fitted(ridge / unit, score, first[size:].to(kernel) + change))
    return found


def chosen(found: list[Fitted]) -> Fitted:
    """Return the fit with the least score."""
    return min(found, key=lambda own: own.score)
