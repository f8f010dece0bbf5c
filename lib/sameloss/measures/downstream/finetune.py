"""Fine-tuning: a whole model and a linear head, trained on one task (App. A.4)."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.checks import check_counts, check_not_negative, check_positive
from sameloss.errors import NonFiniteLoss
from sameloss.languages import Sentences
from sameloss.measures.downstream.probe import check_labels
from sameloss.models.masked_model import MaskedLanguageModel

CHUNK = 4096
"""Sentences that are classified at once."""


@dataclass(frozen=True)
class FinetuneSettings:
    """AdamW as in Appendix A.4: learning rate 1e-4, 200 warm-up steps, 10 epochs.

    The appendix says neither the size of a batch nor what follows the warm-up. Here the learning rate
    stays constant after it.
    """

    epochs: int = 10
    batch: int = 128
    lr: float = 1e-4
    warmup_steps: int = 200
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        """Refuse settings with which nothing would be trained."""
        check_counts(self, "epochs", "batch")
        check_positive(self, "lr")
        check_not_negative(self, "warmup_steps", "weight_decay")

    def lr_at(self, step: int) -> float:
        """Return the learning rate of step 0, 1, ...: it rises over the warm-up, then stays constant.

        >>> [FinetuneSettings(lr=1.0, warmup_steps=4).lr_at(step) for step in (0, 1, 3, 4, 99)]
        [0.25, 0.5, 1.0, 1.0, 1.0]
        """
        return self.lr * min(1.0, (step + 1) / max(1, self.warmup_steps))


@dataclass(frozen=True)
class FinetunedClassifier:
    """A model and a linear head that reads the first token's representation, in the place of [CLS]."""

    model: MaskedLanguageModel
    weight: Float[Tensor, "class d_model"]
    bias: Float[Tensor, " class"]

    def logits(self, sentences: Sentences) -> Float[Tensor, "example class"]:
        """Return the logits of the classes, on the model's device."""
        tokens, lengths = sentences
        ragged, device = bool((lengths < tokens.shape[1]).any()), self.weight.device
        features = self.model.features(tokens.to(device).long(), lengths.to(device) if ragged else None)
        return F.linear(features[:, 0], self.weight, self.bias)

    @torch.no_grad()
    def predict(self, sentences: Sentences) -> Int[Tensor, " example"]:
        """Return the most probable class of each sentence, on the CPU."""
        parts = torch.arange(len(sentences.lengths)).split(CHUNK)
        return torch.cat([self.logits(sentences.rows(part)).argmax(-1).cpu() for part in parts])

    def correct(self, sentences: Sentences, labels: Int[Tensor, " example"]) -> Bool[Tensor, " example"]:
        """Return which predictions are right, on the CPU."""
        return self.predict(sentences) == labels.cpu()


@torch.enable_grad()
def finetune(
    model: MaskedLanguageModel,
    sentences: Sentences,
    labels: Int[Tensor, " example"],
    classes: int,
    settings: FinetuneSettings,
    seed: int,
) -> FinetunedClassifier:
    """Train a copy of a pre-trained model and a new head on one task (App. A.4); the model stays as it is.

    The paper's head reads the representation of [CLS]. Sentences of our languages have no such
    token, so it reads that of their first token, which stands in its place. A model that was
    pre-trained with dropout is fine-tuned without, so that all are fine-tuned alike.

    Args:
        model: a pre-trained model; the copy is trained on its device.
        sentences: the training sentences, of equal or different lengths.
        labels: their 0-based classes.
        classes: number of classes.
        settings: optimiser and length of training.
        seed: seed of the head's initial weights and of the sentences' order.

    Returns:
        The tuned copy with its head.

    Raises:
        ParameterError: for labels that `check_labels` refuses.
        NonFiniteLoss: where the training diverged.

    >>> from sameloss.models.encoder import Encoder, EncoderShape
    >>> model = Encoder(EncoderShape(8, 2, 1, 16), words=3, max_length=2, seed=0)
    >>> tokens = torch.tensor([[1, 1], [1, 2], [2, 1], [2, 2]] * 8)
    >>> sentences, labels = Sentences(tokens, torch.full((32,), 2)), tokens[:, 1] - 1
    >>> settings = FinetuneSettings(epochs=10, batch=8, lr=1e-2, warmup_steps=5)
    >>> tuned = finetune(model, sentences, labels, 2, settings, seed=0)
    >>> float(tuned.correct(sentences, labels).float().mean())
    1.0

    """
    check_labels(labels[:, None], [classes])
    generator = torch.Generator().manual_seed(seed)
    tuned = _untrained(model, classes, generator)
    parameters = [*tuned.model.parameters(), tuned.weight, tuned.bias]
    optimiser = torch.optim.AdamW(parameters, weight_decay=settings.weight_decay)
    for step, chosen in enumerate(_batches(len(labels), settings, generator)):
        for group in optimiser.param_groups:
            group["lr"] = settings.lr_at(step)
        optimiser.zero_grad()
        logits = tuned.logits(sentences.rows(chosen))
        loss = F.cross_entropy(logits, labels[chosen].to(logits.device))
        loss.backward()
        optimiser.step()
    if not loss.isfinite():
        raise NonFiniteLoss(f"Fine-tuning ended with a loss of {loss.item()}; choose a smaller lr.")
    tuned.model.eval()
    return tuned


def _untrained(model: MaskedLanguageModel, classes: int, generator: torch.Generator) -> FinetunedClassifier:
    """Put a random head on a copy of the model, all of it to be trained and none of it dropped."""
    copy = deepcopy(model).requires_grad_().eval()
    for module in copy.modules():
        module.training = isinstance(module, nn.RNNBase)  # elsewise cuDNN would refuse its gradient
    embedding = copy.word.weight
    width = embedding.shape[1]
    weight = torch.randn(classes, width, generator=generator) / width**0.5
    bias = embedding.new_zeros(classes).requires_grad_()
    return FinetunedClassifier(copy, weight.to(embedding).requires_grad_(), bias)


def _batches(examples: int, settings: FinetuneSettings, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the numbers of each batch's sentences, in a new order each epoch."""
    for _ in range(settings.epochs):
        yield from torch.randperm(examples, generator=generator).split(settings.batch)
