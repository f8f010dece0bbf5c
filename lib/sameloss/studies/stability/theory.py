"""Losses, exponents, stability bounds, swaps of ridge regression, and twins."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import curve_fit
from torch import Tensor

from sameloss.errors import ParameterError

# Losses of single examples: the cross-entropy, which is trained, and bounded ones, as (2.1) requires.

CLIPPED_AT = math.log(10)
"""Nats: the loss of guessing among ten classes."""

LogProbs = Float[Tensor, "*model example label"]
Labels = Int[Tensor, "*model example"]
Losses = Float[Tensor, "*model example"]


def cross_entropy(log_p: LogProbs, labels: Labels) -> Losses:
    return -log_p.gather(-1, labels[..., None])[..., 0]


def clipped(log_p: LogProbs, labels: Labels) -> Losses:
    """Cross-entropy, clipped at log 10 and divided by it."""
    return cross_entropy(log_p, labels).clamp(max=CLIPPED_AT) / CLIPPED_AT


def brier(log_p: LogProbs, labels: Labels) -> Losses:
    """Half the squared distance of the probabilities from the one-hot label."""
    p = log_p.exp()
    of_label = p.gather(-1, labels[..., None])[..., 0]
    return (p.square().sum(-1) - 2 * of_label + 1) / 2


def zero_one(log_p: LogProbs, labels: Labels) -> Losses:
    return (log_p.argmax(-1) != labels).to(log_p)


LOSS = {"cross-entropy": cross_entropy, "clipped": clipped, "Brier": brier, "0-1": zero_one}

BOUNDED = ("clipped", "Brier", "0-1")
"""Losses in [0, 1]."""


def total_variation(log_p: LogProbs, others: LogProbs) -> Losses:
    """Total variation distance of two models' predictions.

    >>> one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.25, 0.75]])
    >>> total_variation(one.log(), other.log())
    tensor([0.7500])
    """
    return (log_p.exp() - others.exp()).abs().sum(-1) / 2


# Exponents of power laws in the sample size.
#
# Every seed has its own initialisation, order and samples, so exponents of seeds are independent, even of
# maxima over a seed's pairs, and intervals over seeds include the variation between pairs. A bootstrap over
# pairs would not do for a maximum: the largest pair is in 63 % of all resamples.


def exponent(sizes: Sequence[int], values: Float[np.ndarray, "*seed size"]) -> Float[np.ndarray, "*seed"]:
    """Fit b of a·m^b by least squares of logarithms; NaN where a value is not positive.

    Raises:
        ParameterError: for fewer than three sizes.

    >>> exponent([10, 100, 1000], np.array([[1.0, 0.1, 0.01], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0]]))
    array([-1.,  0., nan])

    """
    if len(set(sizes)) < 3:
        raise ParameterError(f"An exponent needs at least 3 sample sizes; got {list(sizes)}.")
    m = np.log(sizes) - np.log(sizes).mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(values > 0, np.log(values), np.nan)
    return np.asarray(logs @ m / (m @ m))


def fitted(sizes: Sequence[int], values: Float[np.ndarray, " size"]) -> tuple[float, float]:
    """Fit a and b by least squares of the values themselves, as in the thesis."""
    start = (values[0] / sizes[0] ** -0.5, -0.5)
    (a, b), _ = curve_fit(lambda m, a, b: a * m**b, np.array(sizes, float), values, start, maxfev=10_000)
    return float(a), float(b)


# Bounds on how far training on twins can drift apart, and on the generalisation gap of a stable algorithm.


def longest_step(norm: float) -> float:
    """Largest rate at which a step of logistic regression does not expand distances.

    The loss log(1 + exp(-y wᵀx)) has a curvature of at most ‖x‖²/4; Lemma 3.6 of Hardt et al. (2016) needs
    a rate of at most two over it.

    Args:
        norm: the largest ‖x‖, including the constant feature of the intercept.

    """
    return 8 / norm**2


def parameter_bound(norm: float, lr: float, steps: int, size: int, batch: int) -> float:
    """Bound on the distance of two logistic regressions trained on twins, 2Lηt/m.

    Hardt et al. (2016), Theorem 3.8, for one fixed order: every epoch visits the replaced example once, in a
    batch whose mean gradient changes by at most 2L/batch, and no other step increases the distance. A partial
    epoch counts as a whole one.

    Args:
        norm: L, the largest ‖x‖, which bounds the gradient.
        lr: η, at most `longest_step`.
        steps: t.
        size: m.
        batch: examples per step.

    Raises:
        ParameterError: for a rate at which a step may expand distances.

    """
    if lr > (limit := longest_step(norm)):
        raise ParameterError(f"The bound holds for learning rates up to {limit:.3g}; got {lr:g}.")
    return 2 * norm * lr / batch * math.ceil(steps * batch / size)


def gap_bound(beta: float, size: int, delta: float = 0.05) -> float:
    """Right-hand side of (2.1) with constant 1: β log m log(m/δ) + √(log(1/δ)/m).

    Args:
        beta: uniform stability of a loss in [0, 1].
        size: m.
        delta: failure probability.

    >>> round(gap_bound(0.0, 100), 3)
    0.173

    """
    return beta * math.log(size) * math.log(size / delta) + math.sqrt(math.log(1 / delta) / size)


# Kernel ridge regression: every swap of an example in closed form, and its stability bound.
#
# f(x) = k(x)ᵀ(K + λ m)⁻¹ y minimises the mean of (f(xᵢ) - yᵢ)² plus λ‖f‖².

Matrix = Float[np.ndarray, "row column"]
Targets = Float[np.ndarray, " row"]


def solved(kernel: Matrix, y: Float[np.ndarray, "row *more"], ridge: float) -> np.ndarray:
    """(K + λ m)⁻¹ y for the positive semi-definite kernel matrix of a sample."""
    return np.asarray(cho_solve(cho_factor(kernel + ridge * len(kernel) * np.eye(len(kernel))), y))


def swap_changes(
    kernel: Matrix, y: Targets, sample: int, ridge: float
) -> Float[np.ndarray, "position candidate tested"]:
    """Change of every prediction by every swap, without refitting.

    With B = (K + λ m)⁻¹ and b its column i, the sample without example i has the inverse A = B - b bᵀ/bᵢᵢ,
    less row and column i. Putting z in its place borders that matrix, and the new coefficient is
    (y_z - k_zᵀ A y)/(k_zz + λm - k_zᵀ A k_z).

    Args:
        kernel: of the sample followed by the candidates.
        y: of both.
        sample: m.
        ridge: λ, times m as in the fit.

    Returns:
        f' - f for position i of the sample, the candidate z that replaces it, and each candidate as x.

    """
    inverse = solved(kernel[:sample, :sample], np.eye(sample), ridge)
    across, among = kernel[:sample, sample:], kernel[sample:, sample:]  # (sample, candidate), candidates
    weights = across.T @ inverse  # (candidate, sample)
    before, explained = weights @ y[:sample], weights @ across
    changes = np.empty((sample, *among.shape))
    for i, column in enumerate(inverse.T):
        removed = weights[:, i] / column[i]
        without = before - removed * (column @ y[:sample])
        rest = explained - np.outer(removed, weights[:, i])  # kᵀ A k of all candidates
        new = (y[sample:] - without) / (np.diag(among) + ridge * sample - np.diag(rest))
        changes[i] = without - before + new[:, None] * (among - rest)
    return changes


def largest_change(kernel: Matrix, y: Targets, sample: int, ridge: float) -> float:
    """Largest change of (f(x) - y)² at any candidate by any swap; see `swap_changes`."""
    before = kernel[sample:, :sample] @ solved(kernel[:sample, :sample], y[:sample], ridge)
    changes = swap_changes(kernel, y, sample, ridge)
    return float(np.abs(changes * (2 * (before - y[sample:]) + changes)).max())


def stability_bound(ridge: float, size: int, largest: float, spread: float) -> float:
    """Bound on the change of the squared loss by a swap, L²κ²/(λm) (Bousquet and Elisseeff 2002).

    Their Theorem 22 bounds leaving one example out by L²κ²/(2λm), for a loss of slope L in f; a swap changes
    at most twice that. |f| ≤ κY/√λ, because f is no worse than zero, so L = 2(Y + κY/√λ).

    Args:
        ridge: λ.
        size: m.
        largest: κ², the maximum of k(x, x).
        spread: Y, the maximum of |y|.

    """
    slope = 2 * spread * (1 + np.sqrt(largest / ridge))
    return float(slope**2 * largest / (ridge * size))


# Differences of two models trained on twins: losses at single images, predictions, parameters; and the
# generalisation gap, which uniform stability bounds.


def twin_table(
    tested: Float[Tensor, "model image label"],
    labels: Int[Tensor, " image"],
    sampled: Float[Tensor, "model position label"],
    sampled_labels: Int[Tensor, "model position"],
    by: Int[Tensor, " pair"],
    vectors: Float[Tensor, "model parameter"],
) -> pd.DataFrame:
    """Differences within pairs of models, ordered as S and S' of the first pair, then of the second.

    Args:
        tested: log probabilities of all test images.
        labels: of the test images.
        sampled: log probabilities of each model's training images.
        sampled_labels: of those images.
        by: row z of the test set that is in S' and not in S.
        vectors: all parameters.

    Returns:
        One row per pair: `error` of S on the test set and `trained error` on its sample; for each loss `gap`,
        test minus training loss of S, `beta`, the largest difference at any test image, `others`, the same
        without z, and `mean`; the same three for the total variation; `distance`, `norm` (the mean of both)
        and `normalised` distance.

    """
    labels = labels.expand(len(tested), -1)
    columns = {"error": zero_one(tested, labels)[::2].mean(1)}
    columns["trained error"] = zero_one(sampled, sampled_labels)[::2].mean(1)
    for name, loss in LOSS.items():
        losses = loss(tested, labels)
        columns[f"gap {name}"] = losses[::2].mean(1) - loss(sampled, sampled_labels)[::2].mean(1)
        columns |= _extremes(name, (losses[::2] - losses[1::2]).abs(), by)
    columns |= _extremes("total variation", total_variation(tested[::2], tested[1::2]), by)
    distance, norm = (vectors[::2] - vectors[1::2]).norm(dim=1), vectors.norm(dim=1).view(-1, 2).mean(1)
    columns |= {"distance": distance, "norm": norm, "normalised": distance / norm}
    table = pd.DataFrame({name: column.cpu().numpy() for name, column in columns.items()})
    return table.rename_axis("pair").reset_index()


def _extremes(name: str, changes: Float[Tensor, "pair image"], by: Int[Tensor, " pair"]) -> dict[str, Tensor]:
    others = changes.scatter(1, by[:, None], 0).amax(1)
    return {f"beta {name}": changes.amax(1), f"others {name}": others, f"mean {name}": changes.mean(1)}


# Samples that differ in one example, and the order in which they are visited (Karp 2024, Section 2.3).


class Twins(NamedTuple):
    """Pairs of samples S and S': in S' one row of the pool is replaced by a row of the test set."""

    samples: Int[Tensor, "pair position"]  # S: distinct rows of the pool
    replaced: Int[Tensor, " pair"]  # positions i
    by: Int[Tensor, " pair"]  # rows z of the test set

    def rows(self, pool: int) -> Int[Tensor, "model position"]:
        """S and S' of the first pair, then of the second, ...; the test set is below the pool."""
        others = self.samples.scatter(1, self.replaced[:, None], pool + self.by[:, None])
        return torch.stack([self.samples, others], 1).flatten(0, 1)


def check_sample(size: int, pool: int, batch: int) -> None:
    """Require a sample that fills a batch, from at most half of the pool, so that samples differ.

    Raises:
        ParameterError: for any other size.

    """
    if size > pool // 2:
        raise ParameterError(f"A sample may have at most half of the {pool} images of the pool; got {size}.")
    if size < batch:
        raise ParameterError(f"A sample must fill a batch of {batch} images; got {size}.")


def drawn_twins(pool: int, tested: int, size: int, pairs: int, rng: torch.Generator) -> Twins:
    """Draw pairs: S without replacement, i and z uniformly."""
    samples = torch.stack([torch.randperm(pool, generator=rng)[:size] for _ in range(pairs)])
    replaced = torch.randint(size, (pairs,), generator=rng)
    return Twins(samples, replaced, torch.randint(tested, (pairs,), generator=rng))


def all_swaps(
    sample: Int[Tensor, " position"], candidates: Int[Tensor, " candidate"]
) -> Int[Tensor, "model position"]:
    """Rows of a sample, followed by those of every swap of a position with a candidate."""
    swaps = torch.cartesian_prod(torch.arange(len(sample)), candidates)
    swapped = sample.expand(len(swaps), -1).scatter(1, swaps[:, :1], swaps[:, 1:])
    return torch.cat([sample[None], swapped])


def visiting_order(size: int, batch: int, steps: int, rng: torch.Generator) -> Int[Tensor, "step batch"]:
    """Positions of every batch: one permutation after the other, so that each occurs once per epoch."""
    epochs = -(-steps * batch // size)
    visits = torch.cat([torch.randperm(size, generator=rng) for _ in range(epochs)])
    return visits[: steps * batch].reshape(steps, batch)
