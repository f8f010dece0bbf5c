"""The tangent kernel of a finite network, exactly: inner products of the gradients of its output.

K(x, x') = ⟨∇f(x), ∇f(x')⟩ over all parameters θ, at a θ that is given (Jacot et al. 2018).
"""

import os

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from sameloss.checks import check_count
from sameloss.errors import ParameterError
from sameloss.studies.local_signal_images.networks import Weights

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
