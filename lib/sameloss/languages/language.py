"""The protocol of all languages: sentences, exact conditionals, and labels of downstream tasks."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sameloss.errors import LanguageError

MASK = 0
"""Token id of [MASK] (Section 2.1: W = {0, 1, ..., c}); words are 1..c."""


class Sentences(NamedTuple):
    """A batch of sentences; tokens beyond a sentence's length are padding, and ignored."""

    tokens: Int[Tensor, "batch seq"]
    lengths: Int[Tensor, " batch"]

    @classmethod
    def joined(cls, parts: Iterable["Sentences"]) -> "Sentences":
        """Concatenate batches of the same width `seq`."""
        return cls(*(torch.cat(field) for field in zip(*parts, strict=True)))

    @property
    def inside(self) -> Bool[Tensor, "batch seq"]:
        """True at tokens, False at padding."""
        return torch.arange(self.tokens.shape[1], device=self.tokens.device) < self.lengths[:, None]

    def chunks(self, most: int) -> Iterator[tuple[Int[Tensor, " bucket"], Int[Tensor, "bucket length"]]]:
        """Group sentences by length, in chunks of at most `most`: yield their rows and unpadded tokens.

        Raises:
            LanguageError: if a length exceeds the width of `tokens`.

        """
        longest, columns = int(self.lengths.max()) if len(self.lengths) else 0, self.tokens.shape[1]
        if longest > columns:
            raise LanguageError(f"A sentence of {longest} tokens does not fit in {columns} columns.")
        for length in self.lengths.unique().tolist():
            for rows in (self.lengths == length).nonzero().squeeze(1).split(most):
                yield rows, self.tokens[rows, :length].long()

    def rows(self, index: slice | Tensor) -> "Sentences":
        return Sentences(self.tokens[index], self.lengths[index])

    def to(self, device: torch.device | str) -> "Sentences":
        return Sentences(self.tokens.to(device), self.lengths.to(device))


@runtime_checkable
class Language(Protocol):
    """A distribution over sentences with exactly computable conditionals (Section 2.2, App. A.2)."""

    @property
    def words(self) -> int:
        """Vocabulary size c, without [MASK]."""

    @property
    def max_length(self) -> int:
        """Tokens of the longest sentence."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the downstream tasks."""

    def classes(self, task: str) -> int:
        """Number of classes of a task."""

    def sample(self, count: int, generator: torch.Generator) -> Sentences:
        """Draw independent sentences."""

    def conditionals(self, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
        """Compute Pr(x_t = word + 1 | x_-t) at every position; rows of padding are zero."""

    def log_prob(self, sentences: Sentences) -> Float[Tensor, " batch"]:
        """Compute log Pr(x) in nats; masked tokens are summed out."""

    def likelihood(self, sentences: Sentences, task: str) -> Float[Tensor, "batch class"]:
        """Compute Pr(tokens | class), up to a factor per sentence; a row is zero if no class is possible."""

    def posterior(self, sentences: Sentences, task: str) -> Float[Tensor, "batch class"]:
        """Compute Pr(class | x); a row sums to one minus the probability that x has no class."""


class LanguageSpec:
    """The configuration of a language: a frozen dataclass of plain values, part of a run's key."""

    pretrained: ClassVar[bool] = False
    """Whether a pre-trained model, whose passes take longest, draws and reads the sentences."""

    if TYPE_CHECKING:  # a dataclass would take a property here for the default of a field

        @property
        def words(self) -> int:
            """Vocabulary size c, without [MASK]."""

        @property
        def max_length(self) -> int:
            """Tokens of the longest sentence."""

    def build(self) -> Language:
        """Construct the language."""
        raise NotImplementedError

    def drawn(self, seed: int) -> "LanguageSpec":
        """The draw of this seed; a language that is not random is its only draw."""
        return replace(self, seed=seed)  # type: ignore[type-var]

    def reading_flops(self, sentences: float, conditionals: float = 0.0) -> float:
        """Floating-point operations of a pre-trained model, as far as they can be told beforehand.

        Args:
            sentences: that it draws or reads.
            conditionals: of them at random positions, each with a pass per candidate over what follows.

        """
        return 0.0


def check_task(language: Language, task: str) -> None:
    """Raise a LanguageError for an unknown task."""
    if task not in language.tasks:
        choice = f"choose one of {', '.join(language.tasks)}" if language.tasks else "this language has none"
        raise LanguageError(f"Unknown task {task!r}; {choice}.")


def check_tokens(tokens: Int[Tensor, "batch seq"], words: int) -> None:
    """Raise a LanguageError unless all token ids lie in 0..words."""
    wrong = tokens[(tokens < 0) | (tokens > words)]
    if len(wrong):
        raise LanguageError(f"Token ids lie in 0..{words}; got {int(wrong[0])}.")


def check_possible(possible: Bool[Tensor, "bucket length"], rows: Int[Tensor, " bucket"]) -> None:
    """Raise a LanguageError for the first sentence with Pr(x_-t) = 0, where the conditional is undefined."""
    if not possible.all():
        row, position = (~possible).nonzero()[0].tolist()
        raise LanguageError(
            f"Sentence {int(rows[row])} cannot occur in this language whatever its token {position} is, "
            "so that token's conditional is undefined."
        )


def substituted_conditionals(language: Language, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
    r"""Compute Pr(x_t | x_-t) by its definition, from one joint probability per word (App. A.2).

    $$\Pr(x_t = w \mid x_{-t}) = \Pr(x_t = w, x_{-t}) / \sum_{w'} \Pr(x_t = w', x_{-t})$$

    A slow reference for `Language.conditionals`, at words × positions times its cost. Sentences may contain
    [MASK] if the language can sum it out.
    """
    tokens, lengths = sentences
    log_joint = torch.full((*tokens.shape, language.words), -torch.inf, dtype=torch.float64)
    for position in range(tokens.shape[1]):
        rows = (lengths > position).nonzero().squeeze(1)
        for word in range(1, language.words + 1):
            changed = tokens[rows].index_fill(1, torch.tensor(position), word)
            log_joint[rows, position, word - 1] = language.log_prob(Sentences(changed, lengths[rows]))
    return log_joint.softmax(-1).nan_to_num(0.0)


# Downstream labels, and the best accuracy any classifier can reach (App. A.1).

LabelKind = Literal["likelihood", "posterior"]

NO_LABEL = -1
"""Label of a sentence that no class of the task can generate."""


def labels(language: Language, sentences: Sentences, task: str, kind: LabelKind) -> Int[Tensor, " batch"]:
    """Label each sentence by its most probable hidden symbol.

    The label `likelihood` is argmax_s Pr(tokens | s), as in the released code; a grammar scores only the
    first tokens, as many as the task spans. The label `posterior` is argmax_s Pr(s | x).

    Returns:
        0-based classes; `NO_LABEL` if every class has probability zero.

    """
    scores = getattr(language, kind)(sentences, task)
    best, label = scores.max(1)
    return label.where(best > 0, NO_LABEL)


class Ceilings(NamedTuple):
    """Statistics of a task's labels, as fractions of sentences; `hidden` is the true symbol."""

    classes: int
    likelihood_defined: float
    likelihood_majority: float  # among labelled sentences
    posterior_majority: float
    hidden_majority: float
    agreement: float  # of the two labels, if both are defined
    bayes: float  # accuracy of the posterior label as a guess of the hidden symbol, the best possible
    likelihood_accuracy: float  # the same of the likelihood label


def ceilings(language: Language, sentences: Sentences, task: str) -> Ceilings:
    """Estimate majority fractions and the Bayes ceiling of a task.

    A label is a function of its sentence, so a perfect classifier reaches 100 %. Only the hidden symbol
    itself has a lower ceiling, E max_s Pr(s | x), where the mean is weighted by the probability that the
    sentence has such a symbol.
    """
    posterior = language.posterior(sentences, task)
    likelihood = labels(language, sentences, task, "likelihood")
    guess, defined, covered = posterior.argmax(1), likelihood != NO_LABEL, posterior.amax(1) > 0
    correct = posterior.gather(1, likelihood.clamp(min=0)[:, None]).squeeze(1) * defined

    def majority(label: Tensor) -> float:
        return float(label.bincount().max() / len(label)) if len(label) else float("nan")

    return Ceilings(
        classes=language.classes(task),
        likelihood_defined=float(defined.double().mean()),
        likelihood_majority=majority(likelihood[defined]),
        posterior_majority=majority(guess[covered]),
        hidden_majority=float(posterior.sum(0).max() / posterior.sum()),
        agreement=float((likelihood == guess)[defined & covered].double().mean()),
        bayes=float(posterior.amax(1).sum() / posterior.sum()),
        likelihood_accuracy=float(correct.sum() / posterior.sum()),
    )
