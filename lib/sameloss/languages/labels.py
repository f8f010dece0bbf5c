"""Downstream labels of sentences, and what any classifier can reach (App. A.1)."""

from typing import Literal, NamedTuple, get_args

from jaxtyping import Int
from torch import Tensor

from sameloss.errors import LanguageError
from sameloss.languages.language import Language, Sentences

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
    return Ceilings(
        classes=language.classes(task),
        likelihood_defined=float(defined.double().mean()),
        likelihood_majority=_majority(likelihood[defined]),
        posterior_majority=_majority(guess[covered]),
        hidden_majority=float(posterior.sum(0).max() / hidden),
        agreement=float((likelihood == guess)[defined & covered].double().mean()),
        bayes=float(posterior.amax(1).sum() / hidden),
        likelihood_accuracy=float(found.sum() / hidden),
    )


def _majority(label: Int[Tensor, " batch"]) -> float:
    return float(label.bincount().max() / len(label)) if len(label) else float("nan")
