"""The thesis' simplified transformer, equation (4.1): attention without positions, gradients by hand.

Column a of W holds the scores that the query a gives to every token; V turns attended tokens into logits.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sameloss.studies.decision_lists.task import DecisionLists


class Forward(NamedTuple):
    """What the model computes of sequences, with what their gradients need."""

    attention: Float[Tensor, "batch query key"]  # σ(XᵀWX)
    logits: Float[Tensor, "batch query words"]
    residual: Float[Tensor, "batch query words"]  # softmax of the logits, less the label
    losses: Float[Tensor, "batch query"]  # cross-entropies, nats


class Gradients(NamedTuple):
    """Gradients of the mean loss by the two matrices."""

    scores: Float[Tensor, "words words"]
    read_out: Float[Tensor, "words words"]


def forward(
    scores: Float[Tensor, "words words"],
    read_out: Float[Tensor, "words words"],
    sequences: Int[Tensor, "batch seq"],
    labels: Int[Tensor, "batch seq"],
) -> Forward:
    """Return attention, logits and losses of every token; `scores` is W, `read_out` is V."""
    attention = scores.T[sequences[:, :, None], sequences[:, None, :]].softmax(-1)
    logits = attention @ read_out.T[sequences]
    log_outputs = logits.log_softmax(-1)
    losses = -log_outputs.gather(2, labels[..., None])[..., 0]
    residual = log_outputs.exp()
    residual = residual.scatter_add(2, labels[..., None], -torch.ones_like(losses)[..., None])
    return Forward(attention, logits, residual, losses)


def gradients(
    found: Forward,
    read_out: Float[Tensor, "words words"],
    sequences: Int[Tensor, "batch seq"],
    weights: Float[Tensor, " batch"],
) -> Gradients:
    """Return the gradients of the loss (4.2), which is the mean over a sequence's tokens.

    ∂/∂w_k = (p_k / n) [h_k − Σ_i p_i h_i] with h = Vᵀ(o − e_y), and ∂/∂V = (1/n) Σ_j (o − e_y) pᵀ.

    Args:
        found: of these parameters and sequences.
        read_out: V.
        sequences: tokens.
        weights: of the sequences: their probabilities, or 1 over their number.

    """
    words = len(read_out)
    share = weights[:, None, None] / sequences.shape[1]
    by_scores = _summed(share * by_query_and_key(found, read_out, sequences), sequences, words)
    by_key = found.attention.transpose(1, 2) @ (share * found.residual)
    by_read_out = torch.zeros_like(read_out).index_add_(0, sequences.flatten(), by_key.flatten(0, 1))
    return Gradients(by_scores, by_read_out.T)


def by_query_and_key(
    found: Forward, read_out: Float[Tensor, "words words"], sequences: Int[Tensor, "batch seq"]
) -> Float[Tensor, "batch query key"]:
    """Return the gradient of every token's own loss by the score that it gives to every token."""
    pulled = found.residual @ read_out.T[sequences].transpose(1, 2)
    return found.attention * (pulled - (found.attention * pulled).sum(-1, keepdim=True))


def _summed(
    by_query: Float[Tensor, "batch query key"], sequences: Int[Tensor, "batch seq"], words: int
) -> Float[Tensor, "words words"]:
    """Return the sum over sequences for every pair of a key and a query."""
    places = sequences[:, :, None] * words + sequences[:, None, :]
    total = by_query.new_zeros(words * words)
    return total.index_add_(0, places.flatten(), by_query.flatten()).view(words, words).T


def fixed_read_out_gradient(
    scores: Float[Tensor, "words words"],
    readout: float,
    task: DecisionLists,
    sequences: Int[Tensor, "batch seq"],
) -> Float[Tensor, "words words"]:
    """Return the gradient by W of the mean loss of sequences without repeats, at V = cP.

    Fast: of labels that are not those of a sequence's tokens only the number counts, as their logits are 0.
    """
    words, (batch, length) = len(scores), sequences.shape
    attention = scores.T[sequences[:, :, None], sequences[:, None, :]].softmax(-1)
    logits = readout * attention
    top = logits.amax(-1, keepdim=True)
    weights = (logits - top).exp()
    residual = weights / (weights.sum(-1, keepdim=True) + (words - length) * (-top).exp())
    decides = (sequences[:, None, :] == task.determining(sequences)[:, :, None]).to(residual)
    pulled = readout * (residual - decides)
    found = attention * (pulled - (attention * pulled).sum(-1, keepdim=True)) / (batch * length)
    return _summed(found, sequences, words)


def correct(
    logits: Float[Tensor, "batch query words"], labels: Int[Tensor, "batch query"]
) -> Bool[Tensor, "batch query"]:
    """Return which tokens are classified: the label's logit above all others. A tie is an error.

    At W = 0 all tokens of a sequence are tied, and the proofs count that as misclassified.
    """
    of_label = logits.gather(2, labels[..., None])
    others = logits.scatter(2, labels[..., None], -torch.inf)
    return of_label[..., 0] > others.amax(-1)


def weight_on_determining(
    task: DecisionLists,
    attention: Float[Tensor, "batch query key"],
    sequences: Int[Tensor, "batch seq"],
) -> Float[Tensor, "batch query"]:
    """Return how much attention every token pays to the token that determines its label."""
    decides = sequences[:, None, :] == task.determining(sequences)[:, :, None]
    return (attention * decides).sum(-1)


def uniform_attention_bound(
    task: DecisionLists, sequences: Int[Tensor, "batch seq"]
) -> Float[Tensor, " batch"]:
    """Return the largest accuracy on each sequence that uniform attention allows, whatever V is.

    All queries have the same output then, so no more than the tokens with the commonest label can be right.
    """
    labels = task.labels(sequences)
    counts = (labels[:, :, None] == labels[:, None, :]).sum(-1)
    return counts.amax(-1) / sequences.shape[1]
