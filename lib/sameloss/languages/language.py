"""What every language of the book offers: sentences, exact conditionals, and labels of its tasks."""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, Protocol, get_args, runtime_checkable

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

    def chunks(self, most: int) -> Iterator[tuple[Int[Tensor, " bucket"], Int[Tensor, "bucket length"]]]:
        """Yield pieces of at most `most` sentences of one length: their rows, and tokens cut to this length.

        Raises:
            LanguageError: for a length that is more than the columns there are.

        """
        longest, columns = int(self.lengths.max()) if len(self.lengths) else 0, self.tokens.shape[1]
        if longest > columns:
            raise LanguageError(f"A sentence of {longest} tokens does not stand in {columns} columns.")
        for length in self.lengths.unique().tolist():
            for rows in (self.lengths == length).nonzero().squeeze(1).split(most):
                yield rows, self.tokens[rows, :length].long()

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


# Downstream labels of sentences, and what any classifier can reach (App. A.1).

LabelKind = Literal["likelihood", "posterior"]

NO_LABEL = -1
"""Label of a sentence that no class of the task can produce."""


def labels(language: Language, sentences: Sentences, task: str, kind: LabelKind) -> Int[Tensor, " batch"]:
    """Label each sentence by its most probable hidden symbol.

    The label `likelihood` is argmax_s Pr(tokens | s), as in the released code; for a grammar the tokens
    are the first ones, as many as the task's span. The label `posterior` is argmax_s Pr(s | x).

    Returns:
        0-based classes; `NO_LABEL` where every class has probability zero.

    """
    if kind not in get_args(LabelKind):
        raise LanguageError(f"Unknown label kind {kind!r}; choose likelihood or posterior.")
    scores = getattr(language, kind)(sentences, task)
    most, label = scores.max(1)
    return label.where(most > 0, NO_LABEL)


class Ceilings(NamedTuple):
    """What the labels of a task are like, as shares of sentences; `hidden` is the symbol that was there."""

    classes: int
    likelihood_defined: float
    likelihood_majority: float  # of the sentences with a label
    posterior_majority: float
    hidden_majority: float
    agreement: float  # of the two labels, where both are defined
    bayes: float  # accuracy of the best guess of the hidden symbol: that of the posterior label
    likelihood_accuracy: float  # of the likelihood label as a guess of the hidden symbol


def ceilings(language: Language, sentences: Sentences, task: str) -> Ceilings:
    """Estimate majority shares and the Bayes ceiling of a task.

    A label is a function of its sentence, so a perfect classifier reaches 100 %. Only the hidden symbol
    itself has a lower ceiling, E max_s Pr(s | x). The mean is over the sentences in which the task has a
    hidden symbol, weighted by its probability.
    """
    posterior = language.posterior(sentences, task)
    likelihood = labels(language, sentences, task, "likelihood")
    guess, defined = posterior.argmax(1), likelihood != NO_LABEL
    covered = posterior.amax(1) > 0
    hidden = posterior.sum()
    found = posterior.gather(1, likelihood.clamp(min=0)[:, None]).squeeze(1) * defined

    def majority(label: Tensor) -> float:
        return float(label.bincount().max() / len(label)) if len(label) else float("nan")

    return Ceilings(
        classes=language.classes(task),
        likelihood_defined=float(defined.double().mean()),
        likelihood_majority=majority(likelihood[defined]),
        posterior_majority=majority(guess[covered]),
        hidden_majority=float(posterior.sum(0).max() / hidden),
        agreement=float((likelihood == guess)[defined & covered].double().mean()),
        bayes=float(posterior.amax(1).sum() / hidden),
        likelihood_accuracy=float(found.sum() / hidden),
    )
