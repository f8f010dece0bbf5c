"""Masked sentences: what a model reads and what it has to predict (Section 2.1)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from sameloss.errors import LanguageError
from sameloss.languages.language import MASK, Sentences


class Batch(NamedTuple):
    """Masked sentences with the words behind their masks; one row has one [MASK] to predict (Section 2.1)."""

    masked: Int[Tensor, "batch seq"]
    positions: Int[Tensor, " batch"]
    targets: Int[Tensor, " batch"]  # word - 1: an index into the logits
    lengths: Int[Tensor, " batch"] | None  # None where all sentences fill `seq`

    def rows(self, index: slice | Tensor) -> "Batch":
        """Select some of the masked sentences."""
        return self._each(lambda field: field[index])

    def parts(self, size: int | None) -> list["Batch"]:
        """Cut the masked sentences into parts of at most `size`, or into one part where it is None."""
        every = range(0, len(self.targets), size or len(self.targets))
        return [self.rows(slice(start, start + (size or len(self.targets)))) for start in every]

    def narrowed(self) -> "Batch":
        """Drop the columns that no sentence reaches, and the lengths where all sentences are full."""
        if self.lengths is None:
            return self
        width = int(self.lengths.max())
        padded = bool((self.lengths < width).any())
        return self._replace(masked=self.masked[:, :width], lengths=self.lengths if padded else None)

    def to(self, device: torch.device | str) -> "Batch":
        """Copy the masked sentences to a device."""
        return self._each(lambda field: field.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        lengths = None if self.lengths is None else change(self.lengths)
        return Batch(change(self.masked), change(self.positions), change(self.targets), lengths)


def padded(sentences: Sentences, seq: int) -> Sentences:
    """Widen the tokens of sentences to `seq` columns, with zeros after each sentence's end.

    >>> padded(Sentences(torch.tensor([[3, 1], [2, 9]]), torch.tensor([2, 1])), 3).tokens.tolist()
    [[3, 1, 0], [2, 0, 0]]
    """
    tokens, lengths = sentences
    tokens = F.pad(tokens.long(), (0, seq - tokens.shape[1]))
    return Sentences(tokens.where(torch.arange(seq) < lengths[:, None], 0), lengths)


def mask_share(sentences: Sentences, rate: float, rng: np.random.Generator) -> Batch:
    """Mask each token with probability `rate`, and one of every sentence that would have none (App. E).

    A sentence of k masks becomes k rows, each with one of the masked words as its target.
    """
    draws = torch.from_numpy(rng.random(tuple(sentences.tokens.shape))).to(sentences.tokens.device)
    draws = draws.where(sentences.inside, 2.0)
    hidden = draws <= draws.amin(1, keepdim=True).clamp(min=rate)
    rows, positions = hidden.nonzero(as_tuple=True)
    tokens = sentences.tokens.long()
    masked = tokens.where(~hidden, MASK)
    return Batch(masked[rows], positions, tokens[rows, positions] - 1, sentences.lengths[rows]).narrowed()


def mask_batch(sentences: Sentences, positions: Int[Tensor, " batch"]) -> Batch:
    """Mask one position of each sentence and keep the word behind it as the target.

    Raises:
        LanguageError: for a position outside of its sentence.

    """
    outside = (positions < 0) | (positions >= sentences.lengths)
    if outside.any():
        row = int(outside.nonzero()[0])
        raise LanguageError(
            f"Sentence {row} has {int(sentences.lengths[row])} tokens, numbered from 0; position "
            f"{int(positions[row])} is none of them."
        )
    tokens = sentences.tokens.long()
    targets = tokens.gather(1, positions[:, None]).squeeze(1) - 1
    return Batch(mask_one(tokens, positions), positions, targets, sentences.lengths).narrowed()


def mask_one(tokens: Int[Tensor, "batch seq"], positions: Int[Tensor, " batch"]) -> Int[Tensor, "batch seq"]:
    """Replace the token at `positions` of each sentence by [MASK], which gives x_-t (Section 2.1).

    >>> mask_one(torch.tensor([[3, 1, 2]]), torch.tensor([1]))
    tensor([[3, 0, 2]])
    """
    return tokens.scatter(1, positions[:, None], MASK)
