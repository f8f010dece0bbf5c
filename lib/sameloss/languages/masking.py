"""Masked sentences: what a model reads and what it has to predict (Section 2.1)."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from sameloss.languages.language import MASK, Sentences


class Batch(NamedTuple):
    """Masked sentences, one [MASK] each (Section 2.1), and the words behind the masks."""

    masked: Int[Tensor, "batch seq"]
    positions: Int[Tensor, " batch"]
    targets: Int[Tensor, " batch"]  # word - 1: an index into the logits
    lengths: Int[Tensor, " batch"] | None  # None where all sentences fill `seq`

    def rows(self, index: slice | Tensor) -> "Batch":
        """Return some of the masked sentences."""
        return Batch(*(field if field is None else field[index] for field in self))

    def parts(self, size: int | None) -> list["Batch"]:
        """Return the masked sentences in parts of at most `size`; in one where None."""
        every = range(0, len(self.targets), size or len(self.targets))
        return [self.rows(slice(start, start + (size or len(self.targets)))) for start in every]

    def narrowed(self) -> "Batch":
        """Return the same without the columns that no sentence reaches."""
        if self.lengths is None:
            return self
        width = int(self.lengths.max())
        padded = bool((self.lengths < width).any())
        return self._replace(masked=self.masked[:, :width], lengths=self.lengths if padded else None)

    def to(self, device: torch.device | str) -> "Batch":
        """Return the same on a device."""
        return Batch(*(field if field is None else field.to(device) for field in self))


def padded(sentences: Sentences, seq: int) -> Sentences:
    """Return the sentences as (batch, `seq`) tokens, zeros after each one's end.

    >>> padded(Sentences(torch.tensor([[3, 1], [2, 9]]), torch.tensor([2, 1])), 3).tokens.tolist()
    [[3, 1, 0], [2, 0, 0]]
    """
    tokens, lengths = sentences
    tokens = F.pad(tokens.long(), (0, seq - tokens.shape[1]))
    return Sentences(tokens.where(torch.arange(seq) < lengths[:, None], 0), lengths)


def mask_share(sentences: Sentences, rate: float, rng: np.random.Generator) -> Batch:
    """Mask each token with probability `rate`, and one of every sentence that would have none (App. E).

    A sentence of k masks becomes k rows, one for each masked word.
    """
    draws = torch.from_numpy(rng.random(tuple(sentences.tokens.shape))).to(sentences.tokens.device)
    draws = draws.where(sentences.inside, 2.0)
    hidden = draws <= draws.amin(1, keepdim=True).clamp(min=rate)
    rows, positions = hidden.nonzero(as_tuple=True)
    tokens = sentences.tokens.long()
    masked = tokens.where(~hidden, MASK)
    return Batch(masked[rows], positions, tokens[rows, positions] - 1, sentences.lengths[rows]).narrowed()


def mask_batch(sentences: Sentences, positions: Int[Tensor, " batch"]) -> Batch:
    """Mask one position of each sentence and keep the word behind it as the target."""
    tokens = sentences.tokens.long()
    targets = tokens.gather(1, positions[:, None]).squeeze(1) - 1
    return Batch(mask_one(tokens, positions), positions, targets, sentences.lengths).narrowed()


def mask_one(tokens: Int[Tensor, "batch seq"], positions: Int[Tensor, " batch"]) -> Int[Tensor, "batch seq"]:
    """Return x_-t: the sentences with the token at `positions` replaced by [MASK] (Section 2.1).

    >>> mask_one(torch.tensor([[3, 1, 2]]), torch.tensor([1]))
    tensor([[3, 0, 2]])
    """
    return tokens.scatter(1, positions[:, None], MASK)
