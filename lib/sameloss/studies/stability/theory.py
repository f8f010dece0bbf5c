"""What is proved of stability and what is measured of it: losses, bounds, exponents, twins."""

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

# Losses of single examples: the cross-entropy that is trained, and bounded ones, which (2.1) asks for.

CLIPPED_AT = math.log(10)
"""Nats: what guessing among ten classes costs."""

LOG_P = Float[Tensor, "*model example label"]
LABELS = Int[Tensor, "*model example"]
LOSSES = Float[Tensor, "*model example"]


def cross_entropy(log_p: LOG_P, labels: LABELS) -> LOSSES:
    """Return minus the log probability of the label, in nats: unbounded."""
    return -log_p.gather(-1, labels[..., None])[..., 0]


def clipped(log_p: LOG_P, labels: LABELS) -> LOSSES:
    """Return the cross-entropy, at most log 10, over log 10."""
    return cross_entropy(log_p, labels).clamp(max=CLIPPED_AT) / CLIPPED_AT


def brier(log_p: LOG_P, labels: LABELS) -> LOSSES:
    """Return half the squared distance of the probabilities from the label's unit vector."""
    p = log_p.exp()
    of_label = p.gather(-1, labels[..., None])[..., 0]
    return (p.square().sum(-1) - 2 * of_label + 1) / 2


def zero_one(log_p: LOG_P, labels: LABELS) -> LOSSES:
    """Return 1 where another class is the most probable."""
    return (log_p.argmax(-1) != labels).to(log_p)


LOSS = {"cross-entropy": cross_entropy, "clipped": clipped, "Brier": brier, "0-1": zero_one}
"""By name. All but the first lie in [0, 1]."""

BOUNDED = ("clipped", "Brier", "0-1")


def total_variation(log_p: LOG_P, others: LOG_P) -> LOSSES:
    """Return half the sum of differences of two models' probabilities.

    >>> import torch
    >>> one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.25, 0.75]])
    >>> total_variation(one.log(), other.log())
    tensor([0.7500])
    """
    return (log_p.exp() - others.exp()).abs().sum(-1) / 2


# How something falls with the size of the sample: the exponent of a power law.
#
# A seed has an initialisation, an order and samples of its own, so exponents of seeds are independent, also
# where they are of maxima over the seed's pairs; their interval is over seeds and counts pairs too.
# Resampling the pairs of a maximum would not (the largest is in a resample with a probability of 63 %).


def check_sizes(sizes: Sequence[int]) -> None:
    """Refuse to fit a power law to fewer than three sizes.

    Raises:
        ParameterError: with the sizes.

    """
    if len(set(sizes)) < 3:
        raise ParameterError(f"An exponent needs 3 sizes of samples at least; got {list(sizes)}.")


def exponent(sizes: Sequence[int], values: Float[np.ndarray, "*seed size"]) -> Float[np.ndarray, "*seed"]:
    """Return b of a·m^b by least squares of logarithms; NaN where a value is not positive.

    >>> exponent([10, 100, 1000], np.array([[1.0, 0.1, 0.01], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0]]))
    array([-1.,  0., nan])
    """
    check_sizes(sizes)
    m = np.log(sizes) - np.log(sizes).mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(values > 0, np.log(values), np.nan)
    return np.asarray(logs @ m / (m @ m))


def fitted(sizes: Sequence[int], values: Float[np.ndarray, " size"]) -> tuple[float, float]:
    """Return a and b by least squares of the values themselves, as the thesis fits them."""
    start = (values[0] / sizes[0] ** -0.5, -0.5)
    (a, b), _ = curve_fit(lambda m, a, b: a * m**b, np.array(sizes, float), values, start, maxfev=10_000)
    return float(a), float(b)


# What theory promises of stable training, and of the gap where training is stable.


def longest_step(norm: float) -> float:
    """Return the largest rate at which the step of logistic regression does not expand distances.

    The loss log(1 + exp(-y wᵀx)) has a curvature of at most ‖x‖²/4; Lemma 3.6 of Hardt et al. (2016) asks for
    a rate of at most two over it.

    Args:
        norm: the largest ‖x‖, the constant of the intercept counted.

    """
    return 8 / norm**2


def parameter_bound(norm: float, lr: float, steps: int, size: int, batch: int) -> float:
    """Return how far apart two logistic regressions can be that were trained on twins: 2Lηt/m.

    Hardt et al. (2016), Theorem 3.8, for one order of visits: in every epoch the example is met once, in a
    batch whose mean gradient it changes by at most 2L/batch, and no other step increases the distance. An
    epoch that is begun counts as a whole one.

    Args:
        norm: L, the largest ‖x‖: the gradient is no longer.
        lr: η, at most `longest_step`.
        steps: t.
        size: m.
        batch: examples a step.

    Raises:
        ParameterError: for a rate at which a step may expand distances.

    """
    if lr > longest_step(norm):
        raise ParameterError(
            f"For images {norm:.3g} long it holds up to a rate of {longest_step(norm):.3g}; got {lr:g}."
        )
    return 2 * norm * lr / batch * math.ceil(steps * batch / size)


def gap_bound(beta: float, size: int, delta: float = 0.05) -> float:
    """Return the right side of (2.1) with 1 for its constant: β log m log(m/δ) + √(log(1/δ)/m).

    Args:
        beta: the uniform stability of a loss in [0, 1].
        size: m.
        delta: the probability with which it may fail.

    >>> round(gap_bound(0.0, 100), 3)
    0.173

    """
    return beta * math.log(size) * math.log(size / delta) + math.sqrt(math.log(1 / delta) / size)


# Ridge regression of a kernel: every swap of an example in closed form, against its stability bound.
#
# The kernel machine f(x) = k(x)ᵀ(K + λ m)⁻¹ y minimises the mean of (f(xᵢ) - yᵢ)² plus λ‖f‖².

Matrix = Float[np.ndarray, "row column"]
Labelled = Float[np.ndarray, " row"]


def solved(kernel: Matrix, y: Float[np.ndarray, "row *more"], ridge: float) -> np.ndarray:
    """Return (K + λ m)⁻¹ y, for the positive semi-definite kernel of a sample with itself."""
    return np.asarray(cho_solve(cho_factor(kernel + ridge * len(kernel) * np.eye(len(kernel))), y))


def swap_changes(
    kernel: Matrix, y: Labelled, sample: int, ridge: float
) -> Float[np.ndarray, "position candidate tested"]:
    """Return by how much every swap changes every prediction, without a second fit.

    A sample without its example i has the inverse A = B - b bᵀ/bᵢᵢ, B without row and column i, of which b is
    the column. With another example in its place the machine is that of a bordered matrix, whose new
    coefficient is (y_z - k_zᵀ A y)/(k_zz + λm - k_zᵀ A k_z).

    Args:
        kernel: of sample and candidates with themselves, the sample first.
        y: of both.
        sample: m, the size of the sample.
        ridge: λ, times m as in the fit.

    Returns:
        f' - f for position i of the sample, the candidate z that replaces it, and each candidate as x.

    """
    inverse = solved(kernel[:sample, :sample], np.eye(sample), ridge)
    across, among = kernel[:sample, sample:], kernel[sample:, sample:]  # sample by candidate; candidates
    weights = across.T @ inverse  # candidate by sample
    before, reached = weights @ y[:sample], weights @ across
    changes = np.empty((sample, *among.shape))
    for i, column in enumerate(inverse.T):
        lost = weights[:, i] / column[i]
        without = before - lost * (column @ y[:sample])
        left = reached - np.outer(lost, weights[:, i])  # kᵀ A k of all candidates
        new = (y[sample:] - without) / (np.diag(among) + ridge * sample - np.diag(left))
        changes[i] = without - before + new[:, None] * (among - left)
    return changes


def largest_change(kernel: Matrix, y: Labelled, sample: int, ridge: float) -> float:
    """Return the largest change of (f(x) - y)² at a candidate, over all swaps; see `swap_changes`."""
    before = kernel[sample:, :sample] @ solved(kernel[:sample, :sample], y[:sample], ridge)
    changes = swap_changes(kernel, y, sample, ridge)
    return float(np.abs(changes * (2 * (before - y[sample:]) + changes)).max())


def stability_bound(ridge: float, size: int, largest: float, spread: float) -> float:
    """Return a bound on how much a swap changes the squared loss anywhere (Bousquet and Elisseeff 2002).

    Their Theorem 22 for one example left out, with a loss of slope L in f, is L²κ²/(2λm); a swap is at most
    twice that. |f| is at most κY/√λ, as the machine is not worse than zero, so L = 2(Y + κY/√λ).

    Args:
        ridge: λ.
        size: m.
        largest: κ², of k(x, x).
        spread: Y, of |y|.

    """
    slope = 2 * spread * (1 + np.sqrt(largest / ridge))
    return float(slope**2 * largest / (ridge * size))


# What two models differ in that were trained on twins: losses at single images, parameters, predictions.
#
# Beside it stands what uniform stability is to bound, the generalisation gap of the first.


def twin_table(
    tested: Float[Tensor, "model image label"],
    labels: Int[Tensor, " image"],
    sampled: Float[Tensor, "model position label"],
    sampled_labels: Int[Tensor, "model position"],
    by: Int[Tensor, " pair"],
    vectors: Float[Tensor, "model parameter"],
) -> pd.DataFrame:
    """Return what pairs of models differ in, S and S' of the first pair before those of the second.

    Args:
        tested: log probabilities of all test images.
        labels: theirs.
        sampled: of the images that each model was trained on.
        sampled_labels: theirs.
        by: the row z of the test set that S' has and S has not.
        vectors: all parameters.

    Returns:
        One row a pair: `error` of S on the test set and `trained error` on its sample; for each loss `gap`,
        the excess of the loss on the test set over that on S, `beta`, the largest difference that an image
        makes, `others`, the same without z, and `mean`; the same three of the total variation; `distance`,
        `norm` (the mean of both) and `normalised` distance.

    """
    labels = labels.expand(len(tested), -1)
    columns = {
        "error": zero_one(tested, labels)[::2].mean(1),
        "trained error": zero_one(sampled, sampled_labels)[::2].mean(1),
    }
    for name, loss in LOSS.items():
        losses = loss(tested, labels)
        columns[f"gap {name}"] = losses[::2].mean(1) - loss(sampled, sampled_labels)[::2].mean(1)
        columns |= _extremes(name, (losses[::2] - losses[1::2]).abs(), by)
    columns |= _extremes("total variation", total_variation(tested[::2], tested[1::2]), by)
    norms, distance = vectors.norm(dim=1), (vectors[::2] - vectors[1::2]).norm(dim=1)
    norm = (norms[::2] + norms[1::2]) / 2
    columns |= {"distance": distance, "norm": norm, "normalised": distance / norm}
    table = pd.DataFrame({name: column.cpu().numpy() for name, column in columns.items()})
    return table.rename_axis("pair").reset_index()


def _extremes(name: str, changes: Float[Tensor, "pair image"], by: Int[Tensor, " pair"]) -> dict[str, Tensor]:
    others = changes.scatter(1, by[:, None], 0)
    largest, largest_of_others = changes.amax(1), others.amax(1)
    return {f"beta {name}": largest, f"others {name}": largest_of_others, f"mean {name}": changes.mean(1)}


# Samples that differ in one example, and the order in which both are visited (Karp 2024, Section 2.3).


class Twins(NamedTuple):
    """Pairs of samples S and S': rows of the pool, and in S' one is replaced by a row of the test set."""

    samples: Int[Tensor, "pair position"]  # rows of the pool, none twice
    replaced: Int[Tensor, " pair"]  # positions i
    by: Int[Tensor, " pair"]  # rows z of the test set

    def rows(self, pool: int) -> Int[Tensor, "model position"]:
        """Return rows of the pool with the test set below it: S and S' of one pair after the other."""
        others = self.samples.scatter(1, self.replaced[:, None], pool + self.by[:, None])
        return torch.stack([self.samples, others], 1).flatten(0, 1)


def check_sample(size: int, pool: int, batch: int) -> None:
    """Refuse a sample from which stability cannot be estimated.

    Raises:
        ParameterError: for more than half the pool, where samples would share most of their examples, or
            fewer examples than a batch.

    """
    if size > pool // 2:
        raise ParameterError(
            f"A sample of m = {size} is more than half of a pool of {pool}: samples would hardly differ; "
            f"choose at most {pool // 2}."
        )
    if size < batch:
        raise ParameterError(f"A sample of m = {size} does not fill a batch of {batch}; choose a larger one.")


def drawn_twins(pool: int, tested: int, size: int, pairs: int, rng: torch.Generator) -> Twins:
    """Draw pairs: S without replacement, i and z uniformly."""
    samples = torch.stack([torch.randperm(pool, generator=rng)[:size] for _ in range(pairs)])
    replaced = torch.randint(size, (pairs,), generator=rng)
    return Twins(samples, replaced, torch.randint(tested, (pairs,), generator=rng))


def all_swaps(sample: Int[Tensor, " position"], candidates: Int[Tensor, " candidate"]) -> Twins:
    """Return a sample (rows of the pool), every position replaced by every candidate of the test set."""
    grid = torch.cartesian_prod(torch.arange(len(sample)), candidates)
    return Twins(sample.expand(len(grid), -1), grid[:, 0], grid[:, 1])


def visiting_order(size: int, batch: int, steps: int, rng: torch.Generator) -> Int[Tensor, "step batch"]:
    """Return the positions of every batch: one permutation after the other, so each comes once an epoch."""
    epochs = -(-steps * batch // size)
    visits = torch.cat([torch.randperm(size, generator=rng) for _ in range(epochs)])
    return visits[: steps * batch].reshape(steps, batch)
