"""What a pre-training minimises: the masked loss, and terms that are added to it."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.checks import check_counts, check_not_negative
from sameloss.errors import ParameterError
from sameloss.languages import Language
from sameloss.languages.masking import Batch
from sameloss.models.differentiable_lstm import without_cudnn
from sameloss.training.adversary import Adversary, TaskExamples
from sameloss.training.masked_loss import BatchLoss, Losses, noisy_targets, plain_loss
from sameloss.training.trace_penalty import TracePenalty

Term = Callable[[nn.Module, Tensor], Float[Tensor, ""]]
"""What is added to the masked loss: a function of the model and of its logits on a part of a batch."""


@dataclass(frozen=True)
class Objective:
    """The settings of an objective; part of a run's key."""

    label_noise: float = 1.0
    mask_rate: float | None = None  # share of masked tokens; None: exactly one a sentence
    adversary: Adversary | None = None
    trace_penalty: TracePenalty | None = None
    exact_steps: int = 0  # at the start, without label noise: a quick way to saturation

    def __post_init__(self) -> None:
        """Refuse what is no objective."""
        check_not_negative(self, "label_noise")
        if self.mask_rate is not None and not 0 < self.mask_rate < 1:
            raise ParameterError(f"mask_rate must lie between 0 and 1; got {self.mask_rate}.")
        check_counts(self, "exact_steps", least=0)

    def at(self, step: int) -> "Objective":
        """Return what step 0, 1, ... minimises.

        >>> Objective(exact_steps=2).at(1).label_noise, Objective(exact_steps=2).at(2).label_noise
        (0.0, 1.0)
        """
        return replace(self, label_noise=0.0) if step < self.exact_steps else self

    def terms(self, generator: torch.Generator, examples: TaskExamples | None) -> list[Term]:
        """Return what a step adds to the masked loss, in the order of the sum."""
        terms: list[Term] = []
        if self.trace_penalty is not None:
            terms.append(self.trace_penalty.term(generator))
        if self.adversary is not None:
            terms.append(self.adversary.term(generator, examples))
        return terms


ORDINARY = Objective()
"""Sampled labels, one mask, nothing else."""


def loss_of(
    objective: Objective,
    generator: torch.Generator,
    language: Language,
    examples: TaskExamples | None = None,
) -> BatchLoss:
    """Return the loss of one step.

    Args:
        objective: its settings.
        generator: of the adversary's sentences and of the penalty's directions.
        language: whose exact conditionals are the targets where `label_noise` is not 1.
        examples: what an adversary draws from.

    """
    terms = objective.terms(generator, examples)
    if objective.label_noise == 1 and not terms:
        return plain_loss
    # A gradient is differentiated by the penalty alone.
    context = without_cudnn if objective.trace_penalty else nullcontext

    def loss(model: nn.Module, batch: Batch) -> Losses:
        with context():
            logits = model(batch.masked, batch.positions, batch.lengths)
        # In full precision exact targets keep their digits.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        targets = noisy_targets(language, batch, objective.label_noise).to(logits)
        masked = F.cross_entropy(logits, targets)
        return Losses(sum((term(model, logits) for term in terms), masked), masked)

    return loss
