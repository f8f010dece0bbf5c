"""What every language of the book offers: sentences whose conditionals are known exactly."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sameloss.errors import LanguageError

MASK = 0
"""Token id of [MASK] (Section 2.1: W = {0, 1, ..., c}); words are 1..c."""


class Sentences(NamedTuple):
    """Sentences of at most `seq` tokens; what stands at or after a sentence's length is ignored."""

    tokens: Int[Tensor, "batch seq"]
    lengths: Int[Tensor, " batch"]

    @classmethod
    def joined(cls, parts: Iterable["Sentences"]) -> "Sentences":
        """Join several sets of sentences, all of one width `seq`, into one."""
        return cls(*(torch.cat(field) for field in zip(*parts, strict=True)))

    @property
    def inside(self) -> Bool[Tensor, "batch seq"]:
        """Mark the places that come before the end of their sentence."""
        return torch.arange(self.tokens.shape[1], device=self.tokens.device) < self.lengths[:, None]

    def buckets(self) -> Iterator[tuple[Int[Tensor, " bucket"], Int[Tensor, "bucket length"]]]:
        """Yield the sentences of each length: their rows, and their tokens cut to this length.

        Raises:
            LanguageError: for a length that is more than the columns there are.

        """
        if len(self.lengths) and self.lengths.max() > self.tokens.shape[1]:
            most, columns = int(self.lengths.max()), self.tokens.shape[1]
            raise LanguageError(f"A sentence of {most} tokens does not stand in {columns} columns.")
        for length in self.lengths.unique().tolist():
            rows = (self.lengths == length).nonzero().squeeze(1)
            yield rows, self.tokens[rows, :length]

    def chunks(self, most: int) -> Iterator[tuple[Int[Tensor, " bucket"], Int[Tensor, "bucket length"]]]:
        """Yield the buckets in pieces of at most `most` sentences, as a dynamic programme reads them."""
        for rows, tokens in self.buckets():
            yield from zip(rows.split(most), tokens.long().split(most), strict=True)

    def rows(self, index: slice | Tensor) -> "Sentences":
        """Select some of the sentences."""
        return Sentences(self.tokens[index], self.lengths[index])

    def to(self, device: torch.device | str) -> "Sentences":
        """Copy tokens and lengths to a device."""
        return Sentences(self.tokens.to(device), self.lengths.to(device))


@runtime_checkable
class Language(Protocol):
    """A distribution over sentences with exactly computable conditionals (Section 2.2, App. A.2)."""

    @property
    def words(self) -> int:
        """The number of words c of the vocabulary; [MASK] is not counted."""

    @property
    def max_length(self) -> int:
        """The number of tokens of the longest sentence."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the downstream tasks."""

    def classes(self, task: str) -> int:
        """Return the number of classes of a task."""

    def sample(self, count: int, generator: torch.Generator) -> Sentences:
        """Draw independent sentences."""

    def conditionals(self, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
        """Compute Pr(x_t = word + 1 | x_-t) for every position; places after a sentence's end hold zeros."""

    def log_prob(self, sentences: Sentences) -> Float[Tensor, " batch"]:
        """Compute log Pr(x) in nats; a masked token is summed out."""

    def likelihood(self, sentences: Sentences, task: str) -> Float[Tensor, "batch class"]:
        """Compute Pr(tokens | class) up to a factor for each sentence; all are zero where no class can be."""

    def posterior(self, sentences: Sentences, task: str) -> Float[Tensor, "batch class"]:
        """Compute Pr(class | x); a row sums to one less the mass of derivations without a class."""


@runtime_checkable
class LanguageSpec(Protocol):
    """What a language is built from: a frozen dataclass of plain values, which is part of a run's key."""

    @property
    def words(self) -> int:
        """The number of words c of the vocabulary; [MASK] is not counted."""

    @property
    def max_length(self) -> int:
        """The number of tokens of the longest sentence."""

    def build(self) -> Language:
        """Make the language."""


def check_tokens(tokens: Int[Tensor, "batch seq"], words: int) -> None:
    """Refuse token ids outside 0..words.

    Raises:
        LanguageError: naming one of them.

    """
    if not tokens.numel():
        return
    least, most = int(tokens.min()), int(tokens.max())
    if least < 0 or most > words:
        raise LanguageError(f"Token ids lie in 0..{words}; got {most if most > words else least}.")


def check_possible(possible: Bool[Tensor, "bucket length"], rows: Int[Tensor, " bucket"]) -> None:
    """Refuse sentences with an undefined conditional: those whose x_-t has probability zero.

    Raises:
        LanguageError: naming the first.

    """
    if not possible.all():
        row, position = (~possible).nonzero()[0].tolist()
        raise LanguageError(
            f"Sentence {int(rows[row])} cannot occur in this language whatever its token {position} is, "
            "so that token's conditional is undefined."
        )


def substituted_conditionals(language: Language, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
    r"""Compute Pr(x_t | x_-t) by its definition, one joint probability for each word (App. A.2).

    $$\Pr(x_t = w \mid x_{-t}) = \Pr(x_t = w, x_{-t}) / \sum_{w'} \Pr(x_t = w', x_{-t})$$

    It is the slow reference for `Language.conditionals`, with words × positions times as much work. It is
    defined for sentences without [MASK] or, where the language sums masks out, with any number of them.
    """
    tokens, lengths = sentences
    log_joint = torch.full((*tokens.shape, language.words), -torch.inf, dtype=torch.float64)
    for position in range(tokens.shape[1]):
        rows = (lengths > position).nonzero().squeeze(1)
        for word in range(1, language.words + 1):
            changed = tokens[rows].index_fill(1, torch.tensor(position), word)
            log_joint[rows, position, word - 1] = language.log_prob(Sentences(changed, lengths[rows]))
    return log_joint.softmax(-1).nan_to_num(0.0)
