"""Linear probes, and the features they read."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from sameloss.errors import ParameterError
from sameloss.languages import Language, Sentences
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.seeds import generator_for

# What a downstream classifier asks of its labels before it trains.


def check_labels(
    labels: Int[Tensor, "*seed example task"], classes: Sequence[int], tasks: Sequence[str] = ()
) -> None:
    """Refuse training labels from which nothing can be learned.

    A task that by its definition has one class passes: its classifier is trivial, but not wrong
    (the root of a grammar with one start symbol).

    Args:
        labels: 0-based classes of the training sentences, which every seed has of its own.
        classes: number of classes of each task.
        tasks: names for the message; numbers from 0 where there are none.

    Raises:
        ParameterError: for no sentences, fewer sentences than classes, labels out of range, or only
            one class of several.

    """
    if not labels.shape[-2]:
        raise ParameterError("There are no labelled sentences to train on; give at least one a class.")
    names = tasks or [str(number) for number in range(len(classes))]
    for name, count, own in zip(names, classes, labels.unbind(-1), strict=True):
        _check_task(own, count, name)


def _check_task(labels: Int[Tensor, "*seed example"], classes: int, name: str) -> None:
    examples = labels.shape[-1]
    if classes > examples:
        raise ParameterError(
            f"Task {name} has {classes} classes and only {examples} training sentences; "
            "give at least one a class."
        )
    least, most = int(labels.min()), int(labels.max())
    if least < 0 or most >= classes:
        wrong = least if least < 0 else most
        raise ParameterError(f"Labels of task {name} lie in 0..{classes - 1}; got {wrong}.")
    single = (labels == labels[..., :1]).all(-1)
    if classes > 1 and single.any():
        only = int(labels[..., 0][single][0])
        raise ParameterError(
            f"All {examples} training sentences of task {name} are of class {only}; "
            "a classifier needs sentences of at least two classes."
        )


# Linear probes: softmax regression on frozen features (Section 2.1, App. A.4).
#
# `OptimalProbe` solves it; the paper trains it with AdamW for 100 epochs.

SMALLEST_SPREAD = 1e-6
"""Features that vary less than this are constant: they are centred, not scaled."""


@dataclass(frozen=True)
class LinearProbes:
    """One probe for each seed; the logits of the tasks stand side by side.

    A probe reads the features mapped by `projection`, less `centre`, divided by `spread`. `ridge` is the
    weight λ of λ/2 ‖(W, b)‖² for each task, which was added to the mean loss when the probe was fitted.
    """

    weight: Float[Tensor, "seed read logit"]
    bias: Float[Tensor, "seed 1 logit"]
    centre: Float[Tensor, "seed 1 read"]
    spread: Float[Tensor, "seed 1 read"]
    classes: tuple[int, ...]
    ridge: Float[Tensor, "seed task"]
    projection: Float[Tensor, "seed feature read"] | None = None

    def read(self, features: Float[Tensor, "*seed example feature"]) -> Float[Tensor, "seed example read"]:
        """Return what the probes see of features."""
        return (projected(features, self.projection) - self.centre) / self.spread

    def logits(self, features: Float[Tensor, "*seed example feature"]) -> list[Tensor]:
        """Return each task's logits, axes (seed, example, class)."""
        weight = self.weight / self.spread.mT  # what is read is not made: of many sentences it fills a memory
        bias = self.bias - self.centre @ weight
        weight = weight if self.projection is None else self.projection.to(weight) @ weight
        return logits_of(features.to(weight), weight, bias, self.classes)

    def predict(self, features: Float[Tensor, "*seed example feature"]) -> Int[Tensor, "seed example task"]:
        """Return the most probable class of each example and task."""
        return torch.stack([task.argmax(-1) for task in self.logits(features)], dim=-1)

    def correct(
        self,
        features: Float[Tensor, "*seed example feature"],
        labels: Int[Tensor, "example task"],
    ) -> Bool[Tensor, "seed example task"]:
        """Return which predictions are right, on the CPU."""
        return self.predict(features).cpu() == labels.cpu()

    def gradient(
        self, features: Float[Tensor, "seed example feature"], labels: Int[Tensor, "seed example task"]
    ) -> Float[Tensor, " seed"]:
        """Return the largest entry of the gradient of what is minimised: how far a probe is from its optimum.

        Args:
            features: the sentences that the probes were fitted to.
            labels: their classes.

        """
        read = self.read(features).double()
        weight, bias = (part.detach().double().requires_grad_() for part in (self.weight, self.bias))
        with torch.enable_grad():
            loss = sum_of_losses(logits_of(read, weight, bias, self.classes), labels.to(read.device))
            each = self.ridge.repeat_interleave(torch.tensor(self.classes).to(self.ridge.device), dim=1)
            penalty = (each[:, None] * torch.cat([weight, bias], 1) ** 2).sum() / 2
            slopes = torch.autograd.grad(loss + penalty, [weight, bias])
        return torch.cat([slope.abs().flatten(1) for slope in slopes], 1).amax(1)


@runtime_checkable
class Probe(Protocol):
    """How linear probes are fitted.

    `projection` maps the features, before all else, to so many dimensions by a fixed random matrix, so
    that representations of different widths are read by probes of one capacity: 512 in Appendix A.4
    of the paper's OpenReview version, which its later versions do without.
    """

    @property
    def projection(self) -> int | None:
        """Return the number of dimensions that features are mapped to; None: they are left as they are."""

    @property
    def passes(self) -> int:
        """Return roughly how many times it goes over its sentences."""

    def fit(
        self,
        features: Float[Tensor, "seed example feature"],
        labels: Int[Tensor, "seed example task"],
        classes: Sequence[int],
        seed: int,
    ) -> LinearProbes:
        r"""Fit one probe for each seed to its own sentences.

        A probe minimises the mean of $-\log \mathrm{softmax}(W h + b)_y$ over its examples (Section 2.1,
        App. A.4). Different tasks share no parameter.

        Args:
            features: the training representations h of each seed; the probes are fitted on their device.
            labels: 0-based classes y of each task.
            classes: number of classes of each task.
            seed: seed of all that is random.

        Returns:
            The probes of all seeds.

        Raises:
            ParameterError: for labels that `check_labels` refuses.

        """


def draw_projection(
    features: Float[Tensor, "seed example feature"], width: int | None, generator: torch.Generator
) -> Float[Tensor, "seed feature {width}"] | None:
    """Draw each seed's projection, entries N(0, 1 / features): it keeps squared lengths, up to a factor."""
    if width is None:
        return None
    seeds, _, before = features.shape
    return (torch.randn(seeds, before, width, generator=generator) / before**0.5).to(features)


def projected(features: Tensor, projection: Tensor | None) -> Tensor:
    """Return projected features, or the features themselves where there is no projection."""
    return features if projection is None else features @ projection


def scaling(features: Float[Tensor, "seed example read"]) -> tuple[Tensor, Tensor]:
    """Return what gives every feature mean 0 and variance 1: centre and spread, axes (seed, 1, read)."""
    spread = features.std(1, keepdim=True)
    return features.mean(1, keepdim=True), spread.where(spread > SMALLEST_SPREAD, 1.0)


def logits_of(read: Tensor, weight: Tensor, bias: Tensor, classes: Sequence[int]) -> list[Tensor]:
    """Return each task's logits."""
    return list((read @ weight + bias).split(tuple(classes), dim=-1))


def sum_of_losses(logits: list[Tensor], labels: Tensor) -> Tensor:
    """Sum over seeds and tasks of the mean cross-entropy: each probe's gradient is its own."""
    parts = (
        F.cross_entropy(task.flatten(0, 1), labels[..., number].flatten()) * len(task)
        for number, task in enumerate(logits)
    )
    return reduce(torch.add, parts)


# What a probe reads: representations of sentences, computed once (Section 2.1, App. A.4).

CHUNK = 4096
"""Sentences that go through the model at once."""


@torch.no_grad()
def contextual_features(
    model: MaskedLanguageModel, sentences: Sentences
) -> Float[Tensor, "sentence seq_d_model"]:
    """Concatenate the final representations of all tokens of a sentence (App. A.4).

    Nothing is masked. Places beyond the end of a sentence hold zeros, and so does what is no number: a model
    that diverged tells a probe nothing, instead of ending it.

    Returns:
        One row a sentence, float32, on the CPU.

    """
    device = next(model.parameters()).device
    parts = []
    for start in range(0, len(sentences.lengths), CHUNK):
        tokens, lengths = (x.to(device) for x in sentences.rows(slice(start, start + CHUNK)))
        ragged = bool((lengths < tokens.shape[1]).any())
        features = model.features(tokens.long(), lengths if ragged else None)
        inside = torch.arange(tokens.shape[1], device=device) < lengths[:, None]
        told = (features * inside[..., None]).flatten(1).float().cpu()
        parts.append(told.nan_to_num(0.0, 0.0, 0.0))
    return torch.cat(parts)


def random_expansion(
    features: Float[Tensor, "sentence feature"], width: int
) -> Float[Tensor, "sentence {width}"]:
    """Append random ReLU features of the whole sentence until there are `width`.

    The map is the same for all models that have as many features. It gives a narrow model as many features
    to be read as a wide one has, and no new information.

    Raises:
        ParameterError: where there are more features already.

    """
    before = features.shape[1]
    if width < before:
        raise ParameterError(f"{before} features cannot be expanded to {width}.")
    generator = generator_for("random expansion", before, width)
    weights = torch.randn(before, width - before, generator=generator) / before**0.5
    return torch.cat([features, (features @ weights.to(features)).relu()], 1)


def one_hot_features(language: Language, sentences: Sentences) -> Float[Tensor, "sentence seq_word"]:
    """Represent each token by itself: what a probe does with no pre-training at all."""
    rows = torch.eye(language.words + 1, device=sentences.tokens.device)[:, 1:]
    return rows[sentences.tokens.long() * sentences.inside].flatten(1)
