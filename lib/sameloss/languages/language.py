"""What every language of the book offers: sentences whose conditionals are known exactly."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

MASK = 0
"""Token id of [MASK] (Section 2.1: W = {0, 1, ..., c}); words are 1..c."""

LabelKind = Literal["likelihood", "posterior"]


class Sentences(NamedTuple):
    """Sentences of at most `seq` tokens; tokens at or after a sentence's length are ignored."""

    tokens: Int[Tensor, "batch seq"]
    lengths: Int[Tensor, " batch"]

    def buckets(self) -> Iterator[tuple[Int[Tensor, " bucket"], Int[Tensor, "bucket length"]]]:
        """Yield (rows, tokens cut to their common length), one bucket for each length."""
        for length in self.lengths.unique().tolist():
            rows = (self.lengths == length).nonzero().squeeze(1)
            yield rows, self.tokens[rows, :length]

    def rows(self, index: slice | Tensor) -> "Sentences":
        """Return some of the sentences."""
        return Sentences(self.tokens[index], self.lengths[index])


@runtime_checkable
class Language(Protocol):
    """A distribution over sentences with exactly computable conditionals (Section 2.2, App. A.2)."""

    @property
    def words(self) -> int:
        """Vocabulary size c, [MASK] not counted."""

    @property
    def max_length(self) -> int:
        """Length of the longest sentence, in tokens."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the downstream tasks."""

    def classes(self, task: str) -> int:
        """Return the number of classes of a task."""

    def sample(self, count: int, generator: torch.Generator) -> Sentences:
        """Draw sentences independently."""

    def conditionals(self, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
        """Return Pr(x_t = word + 1 | x_-t) for every position; zero after a sentence's end."""

    def log_prob(self, sentences: Sentences) -> Float[Tensor, " batch"]:
        """Return log Pr(x) in nats; a masked token is summed out."""

    def labels(self, sentences: Sentences, task: str, kind: LabelKind) -> Int[Tensor, " batch"]:
        """Return the downstream label of each sentence."""


def mask_one(tokens: Int[Tensor, "batch seq"], positions: Int[Tensor, " batch"]) -> Int[Tensor, "batch seq"]:
    """Return x_-t: the sentences with the token at `positions` replaced by [MASK] (Section 2.1).

    >>> mask_one(torch.tensor([[3, 1, 2]]), torch.tensor([1]))
    tensor([[3, 0, 2]])
    """
    return tokens.scatter(1, positions[:, None], MASK)
