"""The straight line between two models, and beyond both (Frankle et al. 2020; Karp 2024, Section 2.4)."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from torch import Tensor

from sameloss.errors import ParameterError
from sameloss.studies.stability.stacked import Weights

GRID = tuple(round(-1 + 0.04 * step, 2) for step in range(76))
"""α of the thesis: from -1 to 2, 0 at S' and 1 at S."""

CONNECTED = 0.02
"""Models are linearly connected where accuracy falls by no more on the way (Frankle et al. 2020)."""


def check_grid(alphas: Sequence[float]) -> None:
    """Refuse a path without its ends.

    Raises:
        ParameterError: where 0 or 1 is not among the points.

    """
    if 0.0 not in alphas or 1.0 not in alphas:
        raise ParameterError(
            f"A path is measured against its ends: α = 0 and 1 must be among {list(alphas)}."
        )


def along(first: Weights, second: Weights, alpha: float) -> Weights:
    """Return α of the first model and 1 - α of the second.

    Raises:
        ParameterError: for models of different shapes.

    """
    shapes = [{name: tuple(own.shape) for name, own in weights.items()} for weights in (first, second)]
    if shapes[0] != shapes[1]:
        raise ParameterError(f"No line joins models of different shapes: {shapes[0]} and {shapes[1]}.")
    return {name: alpha * own + (1 - alpha) * second[name] for name, own in first.items()}


def accuracies_along(
    weights: Weights, accuracy: Callable[[Weights], Float[Tensor, " model"]], alphas: Sequence[float] = GRID
) -> Float[np.ndarray, "alpha pair"]:
    """Return the accuracies on the lines between all pairs of a stack.

    Args:
        weights: S and S' of the first pair, then of the second.
        accuracy: of every model of a stack, one a pair.
        alphas: where on the line.

    """
    check_grid(alphas)
    first, second = ({name: own[at::2] for name, own in weights.items()} for at in (0, 1))
    return np.stack([accuracy(along(first, second, alpha)).cpu().numpy() for alpha in alphas])


def barrier(
    accuracies: Float[np.ndarray, "alpha *pair"], alphas: Sequence[float] = GRID
) -> Float[np.ndarray, "*pair"]:
    """Return by how much accuracy falls between the ends, below the worse of them.

    >>> float(barrier(np.array([0.5, 0.9, 0.6, 0.8, 0.5]), (-1, 0, 0.5, 1, 2)).round(9))
    0.2
    """
    check_grid(alphas)
    at = np.array(alphas)
    ends = np.minimum(accuracies[alphas.index(0)], accuracies[alphas.index(1)])
    return np.asarray(ends - accuracies[(at >= 0) & (at <= 1)].min(0))
