"""What networks are compared with: their tangent kernels, kernel ridge regression, linearised networks."""

import os
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap

from sameloss.checks import check_count
from sameloss.errors import ParameterError
from sameloss.studies.local_signal_images.training import (
    BATCH_AT_TEST,
    Answers,
    LogisticDescent,
    Logits,
    Weights,
    batches,
    check_finite,
    mean_loss,
    outputs,
)

# Kernel ridge regression around a first function, for many λ at once, and λ by generalised cross-validation.
#
# With residuals r = y - f₀(X) the machine is f(x) = f₀(x) + k(x, X)(K + λI)⁻¹ r. It is the network linearised
# in its parameters, f₀ + ⟨∇f₀, δ⟩, with the δ that minimises the sum of (f(xᵢ) - yᵢ)² plus λ‖δ‖².

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


# The tangent kernel of a finite network, exactly: inner products of the gradients of its output.
#
# K(x, x') = ⟨∇f(x), ∇f(x')⟩ over all parameters θ, at a θ that is given (Jacot et al. 2018).

PARAMETERS_AT_ONCE = 2048
"""Products of single precision are added up over so many parameters, and these sums in double precision."""

Kernel = Float[Tensor, "image example"]


def jacobian(
    model: nn.Module, weights: Weights, x: Float[Tensor, "image *shape"], chunk: int
) -> Float[Tensor, "image parameter"]:
    """Return the gradient of every image's output in all parameters, a row an image.

    Args:
        model: gives one logit an image, each independent of the others.
        weights: θ.
        x: images.
        chunk: images whose gradients are computed at once, which bounds the memory on the way.

    Raises:
        ParameterError: for a chunk without images.

    """
    check_count("chunk", chunk)

    def output(own: Weights, image: Tensor) -> Tensor:
        return functional_call(model, own, (image[None],))[0]

    gradients = vmap(grad(output), (None, 0))
    found = (gradients(weights, part) for part in x.split(chunk))
    return torch.cat([torch.cat([own.flatten(1) for own in part.values()], 1) for part in found])


def products(rows: Float[Tensor, "image parameter"], examples: Float[Tensor, "example parameter"]) -> Kernel:
    """Return all inner products, in double precision."""
    found = torch.zeros(len(rows), len(examples), dtype=torch.float64, device=rows.device)
    pairs = zip(rows.split(PARAMETERS_AT_ONCE, 1), examples.split(PARAMETERS_AT_ONCE, 1), strict=True)
    for own, other in pairs:
        found += (own @ other.T).double()
    return found


def tangent_kernel(
    model: nn.Module, weights: Weights, x: Float[Tensor, "image *shape"], examples: int, chunk: int
) -> Kernel:
    """Return the kernel of all images with the first of them, which are trained on.

    Raises:
        ParameterError: where that does not fit in the memory.

    """
    check_memory(len(x), examples, sum(own.numel() for own in weights.values()))
    rows = jacobian(model, weights, x, chunk)
    return products(rows, rows[:examples])


def memory_bytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(images: int, examples: int, parameters: int) -> None:
    """Refuse a kernel that does not fit: gradients twice, the kernel, and what solving it takes.

    Raises:
        ParameterError: with what it would take.

    """
    needed = 8 * images * parameters + 8 * examples * (images + 3 * examples)
    if needed > memory_bytes():
        raise ParameterError(
            f"The tangent kernel of {images:,} images and {parameters:,} parameters takes "
            f"{needed / 1e9:,.0f} GB, and there are {memory_bytes() / 1e9:,.0f}; choose fewer examples or a "
            "smaller network."
        )


# A network linearised in its parameters, trained as such: for kernels that are too large to be solved.
#
# f(x; δ) = f(x; θ₀) + ⟨∇f(x; θ₀), δ⟩: the product is one forward derivative (jvp), and no kernel is formed.
# The thesis trains its tangent kernels so, with Adam.

Batch = Float[Tensor, "image *shape"]


def linear_outputs(model: nn.Module, start: Weights, change: Weights, x: Batch) -> Logits:
    """Return f(x; δ) of a batch.

    Args:
        model: gives logits of images.
        start: θ₀.
        change: δ.
        x: images.

    """

    def output(weights: Weights) -> Tensor:
        return functional_call(model, weights, (x,))

    found = jvp(output, (start,), (change,))
    return found[0] + found[1]


def all_linear_outputs(model: nn.Module, start: Weights, change: Weights, x: Batch) -> Logits:
    """Return f(x; δ) of all images, batch by batch."""
    with torch.no_grad():
        parts = [linear_outputs(model, start, change, part) for part in x.split(BATCH_AT_TEST)]
    return torch.cat(parts)


def train_linearised(
    model: nn.Module,
    start: Weights,
    x: Batch,
    y: Answers,
    descent: LogisticDescent,
    rng: torch.Generator,
    *,
    centred: bool = False,
) -> Weights:
    """Train δ from zero on the loss of the network; return it.

    Args:
        model: gives logits of images.
        start: θ₀.
        x: images.
        y: of each.
        descent: how.
        rng: of the order of visits.
        centred: whether f(x; θ₀) is taken off, as in lazy training, whose limit this is.

    Raises:
        NonFiniteLoss: for a training that diverged.

    """
    change = {name: torch.zeros_like(own).requires_grad_() for name, own in start.items()}
    optimiser = descent.optimiser_of(list(change.values()))
    first = outputs(model, start, x) if centred else None
    for step, rows in enumerate(batches(len(x), descent, rng)):
        optimiser.param_groups[0]["lr"] = descent.lr_at(step)
        found = linear_outputs(model, start, change, x[rows])
        loss = mean_loss(found if first is None else found - first[rows], y[rows])
        check_finite(loss, descent)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {name: own.detach() for name, own in change.items()}
