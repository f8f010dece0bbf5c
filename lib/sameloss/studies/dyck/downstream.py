"""How often a head fitted on n downstream samples is right on all strings (Theorem 5.1), exactly."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sameloss.errors import ModelError
from sameloss.studies.dyck.language import Inputs
from sameloss.studies.dyck.transformer import Transformer, run, smallest_head

RIGHT = 1e-12
"""A downstream loss up to this is zero: rounding is a millionth of it."""

MOST_FLATS = 50_000


def downstream_loss(
    model: Transformer, head: Float[Tensor, "*heads width"], inputs: Inputs
) -> Float[Tensor, "*heads"]:
    """Return E(f - g*)² of heads on one model's features."""
    features = run(model, inputs).preactivations.relu() / model.width
    return (torch.einsum("...m,nm->...n", head, features) - inputs.target).square().mean(-1)


def fitted_losses(
    model: Transformer, inputs: Inputs, samples: int, repetitions: int, generator: torch.Generator
) -> Float[Tensor, " repetitions"]:
    """Return the downstream losses of the smallest heads that fit n samples, one a drawing of them."""
    rows = torch.randint(len(inputs.target), (repetitions, samples), generator=generator)
    features = run(model, inputs).preactivations.relu()
    heads = smallest_head(model, inputs.rows(rows), features[rows])
    return downstream_loss(model, heads, inputs)


def error_after(model: Transformer, inputs: Inputs, samples: int, generator: torch.Generator) -> float:
    """Return the median downstream loss of heads fitted on n samples, over 100 drawings."""
    return float(fitted_losses(model, inputs, samples, 100, generator).median())


def simulated_failures(
    model: Transformer, inputs: Inputs, samples: int, repetitions: int, generator: torch.Generator
) -> int:
    """Return in how many of the repetitions the smallest head that fits n samples errs on some input."""
    return int((fitted_losses(model, inputs, samples, repetitions, generator) > RIGHT).sum())


class FeatureLines(NamedTuple):
    """The lines through the origin that features lie on, with their probabilities."""

    directions: Float[Tensor, "lines width"]
    probabilities: Float[np.ndarray, " lines"]
    never: float  # probability of features that are all zero


def feature_lines(model: Transformer, inputs: Inputs) -> FeatureLines:
    """Group inputs whose features are multiples of each other: a fitted head tells no more of them."""
    features = run(model, inputs).preactivations.relu()
    norms = features.norm(dim=1, keepdim=True)
    alive = norms.squeeze(1) > RIGHT
    directions, counts = (features / norms)[alive].round(decimals=9).unique(dim=0, return_counts=True)
    return FeatureLines(directions, (counts / len(features)).numpy(), float((~alive).double().mean()))


def failure_probability(model: Transformer, inputs: Inputs, samples: list[int]) -> list[float]:
    """Return the probability that the smallest head that fits n samples errs on some input, exactly.

    The smallest head is the projection of a right one on the span of the sample's features; so it is right
    exactly if the smallest right head lies in that span. The span of a sample is one of finitely many
    spaces; the probability of each follows from those of the smaller ones, since n samples lie in a space
    with the n-th power of its probability.

    Args:
        model: one with a head that is right on all inputs.
        inputs: all downstream inputs.
        samples: values of n.

    Raises:
        ModelError: where no head is right, or too many spaces would have to be counted.

    """
    right = smallest_head(model, inputs)
    if downstream_loss(model, right, inputs) > RIGHT:
        raise ModelError("No head on these features is right on all inputs, so that none can be found.")
    lines = feature_lines(model, inputs)
    flats = _spanned(lines.directions)
    holds = np.array([_contains(lines.directions[flat], right[None])[0] for flat in flats])
    inside = np.array([flat.numpy() @ lines.probabilities for flat in flats]) + lines.never
    below = np.array([flat.numpy() for flat in flats]).astype(float)
    contained = (below @ (1 - below).T == 0) & ~np.eye(len(flats), dtype=bool)
    return [_fails(inside**n, contained, holds) for n in samples]


def _spanned(directions: Float[Tensor, "lines width"]) -> list[Bool[Tensor, " lines"]]:
    """Return which lines each space holds that some of the lines span, smaller sets first."""
    rank, count = int(torch.linalg.matrix_rank(directions)), len(directions)
    found = {}
    for size in range(rank + 1):
        for chosen in combinations(range(count), size):
            flat = _contains(directions[list(chosen)], directions)
            found[tuple(flat.tolist())] = flat
            if len(found) > MOST_FLATS:
                raise ModelError(f"These features span more than {MOST_FLATS} spaces; simulate instead.")
    return sorted(found.values(), key=lambda flat: int(flat.sum()))


def _contains(
    spanning: Float[Tensor, "vectors width"], tested: Float[Tensor, "tests width"]
) -> Bool[Tensor, " tests"]:
    """Tell which vectors lie in a span."""
    inside = tested @ torch.linalg.pinv(spanning, rtol=1e-9) @ spanning
    return (tested - inside).norm(dim=1) <= 1e-7 * tested.norm(dim=1)


def _fails(
    within: Float[np.ndarray, " flats"], contained: Bool[np.ndarray, "flats flats"], holds: np.ndarray
) -> float:
    """Sum the probabilities of the spaces without the right head; `within` is of lying in a space."""
    exactly = np.zeros_like(within)
    for at, probability in enumerate(within):
        exactly[at] = probability - exactly[contained[:, at]].sum()
    return float(exactly[~holds].sum())
