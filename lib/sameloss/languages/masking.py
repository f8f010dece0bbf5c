"""Masked sentences: the input of a model and the word it has to predict (Section 2.1)."""

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
    """Masked sentences and their targets: each row predicts the word behind one [MASK] (Section 2.1)."""

    masked: Int[Tensor, "batch seq"]
    positions: Int[Tensor, " batch"]
    targets: Int[Tensor, " batch"]  # word - 1, an index into the logits
    lengths: Int[Tensor, " batch"] | None  # None if there is no padding

    def rows(self, index: slice | Tensor) -> "Batch":
        return self._map(lambda field: field[index])

    def parts(self, size: int | None) -> list["Batch"]:
        """Split into batches of at most `size` rows; None for a single one."""
        count = len(self.targets)
        size = size or count
        return [self.rows(slice(start, start + size)) for start in range(0, count, size)]

    def narrowed(self) -> "Batch":
        """Drop columns that are all padding, and the lengths if no padding is left."""
        if self.lengths is None:
            return self
        width = int(self.lengths.max())
        padded = bool((self.lengths < width).any())
        return self._replace(masked=self.masked[:, :width], lengths=self.lengths if padded else None)

    def to(self, device: torch.device | str) -> "Batch":
        return self._map(lambda field: field.to(device))

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        lengths = None if self.lengths is None else change(self.lengths)
        return Batch(change(self.masked), change(self.positions), change(self.targets), lengths)


def padded(sentences: Sentences, seq: int) -> Sentences:
    """Pad the tokens of sentences with zeros to `seq` columns.

    >>> padded(Sentences(torch.tensor([[3, 1], [2, 9]]), torch.tensor([2, 1])), 3).tokens.tolist()
    [[3, 1, 0], [2, 0, 0]]
    """
    tokens, lengths = sentences
    tokens = F.pad(tokens.long(), (0, seq - tokens.shape[1]))
    return Sentences(tokens.where(torch.arange(seq) < lengths[:, None], 0), lengths)


def mask_share(sentences: Sentences, rate: float, rng: np.random.Generator) -> Batch:
    """Mask each token with probability `rate`, but at least one per sentence (App. E).

    A sentence with k masks becomes k rows, one for each masked word as the target.
    """
    draws = torch.from_numpy(rng.random(tuple(sentences.tokens.shape))).to(sentences.tokens.device)
    draws = draws.where(sentences.inside, 2.0)
    hidden = draws <= draws.amin(1, keepdim=True).clamp(min=rate)
    rows, positions = hidden.nonzero(as_tuple=True)
    tokens = sentences.tokens.long()
    masked = tokens.where(~hidden, MASK)
    return Batch(masked[rows], positions, tokens[rows, positions] - 1, sentences.lengths[rows]).narrowed()


def mask_batch(sentences: Sentences, positions: Int[Tensor, " batch"]) -> Batch:
    """Mask one position of each sentence.

    Raises:
        LanguageError: for a position outside its sentence.

    """
    if ((positions < 0) | (positions >= sentences.lengths)).any():
        raise LanguageError("Positions must lie in 0..length - 1 of their sentences.")
    tokens = sentences.tokens.long()
    targets = tokens.gather(1, positions[:, None]).squeeze(1) - 1
    return Batch(mask_one(tokens, positions), positions, targets, sentences.lengths).narrowed()


def prefix_batch(sentences: Sentences, positions: Int[Tensor, " batch"]) -> Batch:
    """Cut each sentence after one position, for a causal model that predicts the next token there.

    The targets are token ids, as for `HuggingFaceModel(model)`. Repeat the rows of a sentence for the loss
    at several of its positions.

    Raises:
        LanguageError: for a position that no token of its sentence follows.

    >>> prefix_batch(Sentences(torch.tensor([[3, 1, 2]]), torch.tensor([3])), torch.tensor([1]))[:3]
    (tensor([[3, 1]]), tensor([1]), tensor([2]))

    """
    if ((positions < 0) | (positions + 1 >= sentences.lengths)).any():
        raise LanguageError(
            "Positions must lie in 0..length - 2 of their sentences, so that a token follows."
        )
    tokens, lengths = sentences.tokens.long(), positions + 1
    targets = tokens.gather(1, lengths[:, None]).squeeze(1)
    prefixes = tokens.where(torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None], 0)
    return Batch(prefixes, positions, targets, lengths).narrowed()


def mask_one(tokens: Int[Tensor, "batch seq"], positions: Int[Tensor, " batch"]) -> Int[Tensor, "batch seq"]:
    """Replace the token at one position of each sentence by [MASK], giving x_-t (Section 2.1).

    >>> mask_one(torch.tensor([[3, 1, 2]]), torch.tensor([1]))
    tensor([[3, 0, 2]])
    """
    return tokens.scatter(1, positions[:, None], MASK)
