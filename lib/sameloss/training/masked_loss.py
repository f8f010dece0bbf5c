"""The masked loss, on sampled labels or on the exact conditionals.

Its targets are q + s (e_y - q), where q = Pr(. | x_-t) is the exact conditional, y the word that stood at
the mask and s the label noise. Ordinary training has s = 1. With s = 0 the targets are the exact
conditionals (soft labels). Any other s scales the noise of the labels and nothing else, because the mean
of e_y is q.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.languages import Language, Sentences
from sameloss.languages.masking import Batch


class Losses(NamedTuple):
    """What is minimised, and the masked loss in it, in nats a masked token."""

    total: Float[Tensor, ""]
    masked: Float[Tensor, ""]


BatchLoss = Callable[[nn.Module, Batch], Losses]
"""The losses of a model on a part of a batch; what it draws at random, it draws in the order of its calls."""


def plain_loss(model: nn.Module, batch: Batch) -> Losses:
    """Return the mean cross-entropy of the words behind the masks (Section 2.1)."""
    logits = model(batch.masked, batch.positions, batch.lengths)
    loss = F.cross_entropy(logits, batch.targets)
    return Losses(loss, loss)


def noisy_targets(language: Language, batch: Batch, noise: float) -> Float[Tensor, "batch word"]:
    """Return q + s (e_y - q) for each masked word, s being the noise; the language is asked unless s = 1."""
    words = F.one_hot(batch.targets, language.words).double()
    if noise == 1:
        return words
    truth = true_conditionals(language, batch)
    return truth + noise * (words - truth)


def true_conditionals(language: Language, batch: Batch) -> Float[Tensor, "batch word"]:
    """Return Pr(. | what is not masked) at the masked position of each sentence."""
    rows = torch.arange(len(batch.targets), device=batch.targets.device)
    lengths = batch.lengths
    if lengths is None:
        lengths = torch.full_like(batch.targets, batch.masked.shape[1])
    return language.conditionals(Sentences(batch.masked, lengths))[rows, batch.positions]
