"""Losses, exponents, stability bounds, and twins."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

# Losses of single examples: the cross-entropy, which is trained, and bounded ones, as (2.1) requires.

CLIPPED_AT = math.log(10)
"""Nats: the loss of guessing among ten classes."""

LogProbs = Float[Tensor, "*model example label"]
Labels = Int[Tensor, "*model example"]
Losses = Float[Tensor, "*model example"]


def cross_entropy(log_p: LogProbs, labels: Labels) -> Losses:
    """Minus the log probability of each label, in nats."""
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
    """1 where the most probable class is not the label, else 0."""
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

    >>> exponent([10, 100, 1000], np.array([[1.0, 0.1, 0.01], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0]]))
    array([-1.,  0., nan])

    """
    m = np.log(sizes) - np.log(sizes).mean()
    logs = np.log(np.where(values > 0, values, np.nan))
    return np.asarray(logs @ m / (m @ m))


# A bound on the generalisation gap of a stable algorithm.

DELTA = 0.05
"""Probability that the gap may exceed the bound."""


def gap_bound(
    beta: Float[np.ndarray, "*kind size"], size: Int[np.ndarray, " size"]
) -> Float[np.ndarray, "*kind size"]:
    """Right-hand side of (2.1) with constant 1 and δ = `DELTA`: β log m log(m/δ) + √(log(1/δ)/m).

    Args:
        beta: uniform stability of a loss in [0, 1].
        size: m.

    >>> gap_bound(np.array([0.0]), np.array([100])).round(3)
    array([0.173])

    """
    return beta * np.log(size) * np.log(size / DELTA) + np.sqrt(np.log(1 / DELTA) / size)


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
    """Largest change at any image, the same without z, and mean change: columns of `twin_table`."""
    others = changes.scatter(1, by[:, None], 0).amax(1)
    return {f"beta {name}": changes.amax(1), f"others {name}": others, f"mean {name}": changes.mean(1)}


def by_seed(twins: pd.DataFrame) -> pd.DataFrame:
    """The largest value over each seed's pairs, as in the thesis, by what else tells rows apart; mean errors.

    Args:
        twins: columns of `twin_table`, seed, step, and perhaps kind and size. Pairs may be summed up already.

    """
    about = [name for name in ("kind", "size", "seed", "step") if name in twins]
    rows = twins.drop(columns="pair", errors="ignore").groupby(about, sort=False)
    return rows.max().assign(**rows[["error", "trained error"]].mean()).reset_index()


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


def drawn_twins(pool: int, tested: int, size: int, pairs: int, rng: torch.Generator) -> Twins:
    """Draw pairs: S without replacement, i and z uniformly."""
    samples = torch.stack([torch.randperm(pool, generator=rng)[:size] for _ in range(pairs)])
    replaced = torch.randint(size, (pairs,), generator=rng)
    return Twins(samples, replaced, torch.randint(tested, (pairs,), generator=rng))
