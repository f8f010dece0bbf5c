"""Linear probes: softmax regression on frozen features, all seeds and tasks in one pass (App. A.4)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from sameloss.measures.downstream.validation import check_labels, check_positive

SMALLEST_SPREAD = 1e-6
"""Features that vary less than this are constant: they are centred, not scaled."""


@dataclass(frozen=True)
class ProbeSettings:
    """AdamW as in Appendix A.4 (learning rate 1e-3, 100 epochs); the batch is the released code's.

    `standardise` gives every feature mean 0 and variance 1 on the training sentences. Without it
    a fixed learning rate favours representations of a large scale: see chapter 02_existence.

    `projection` maps the features, before all else, to so many dimensions by a fixed random matrix, so
    that representations of different widths are read by probes of one capacity: 512 in Appendix A.4
    of the paper's OpenReview version, which its later versions do without.
    """

    epochs: int = 100
    batch: int = 512
    lr: float = 1e-3
    weight_decay: float = 0.0
    standardise: bool = True
    projection: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings with which nothing would be trained."""
        check_positive(self, "epochs", "batch", "lr")
        if self.projection is not None:
            check_positive(self, "projection")


@dataclass(frozen=True)
class LinearProbes:
    """One probe for each seed; the logits of the tasks stand side by side."""

    weight: Float[Tensor, "seed read logit"]
    bias: Float[Tensor, "seed 1 logit"]
    centre: Float[Tensor, "seed 1 read"]
    spread: Float[Tensor, "seed 1 read"]
    classes: tuple[int, ...]
    projection: Float[Tensor, "seed feature read"] | None = None

    def logits(self, features: Float[Tensor, "*seed example feature"]) -> list[Tensor]:
        """Return each task's logits, axes (seed, example, class)."""
        scaled = (_projected(features, self.projection) - self.centre) / self.spread
        return _logits(scaled, self.weight, self.bias, self.classes)

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


def fit_probes(
    features: Float[Tensor, "seed example feature"],
    labels: Int[Tensor, "seed example task"],
    classes: Sequence[int],
    settings: ProbeSettings,
    seed: int,
) -> LinearProbes:
    r"""Train one probe for each seed, each on its own sentences, from its own start, in its own order.

    A probe minimises the mean of $-\log \mathrm{softmax}(W h + b)_y$ over its examples (Section 2.1, App.
    A.4). Different tasks share no parameter and AdamW treats every parameter alone, so training them
    together changes nothing.

    Args:
        features: the training representations h of each seed; the probes are trained on their device.
        labels: 0-based classes y of each task.
        classes: number of classes of each task.
        settings: optimiser and length of training.
        seed: seed of projections, initial weights and orders.

    Returns:
        The probes of all seeds.

    Raises:
        ParameterError: for labels that `check_labels` refuses.

    >>> features = torch.tensor([[[0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]])  # of one seed
    >>> labels = torch.tensor([[[0], [0], [1], [1]]])  # of one task: the first feature
    >>> probes = fit_probes(features, labels, [2], ProbeSettings(lr=0.1), seed=0)
    >>> probes.correct(features, labels[0])[..., 0]
    tensor([[True, True, True, True]])

    """
    check_labels(labels, classes)
    generator = torch.Generator().manual_seed(seed)
    projection = _draw_projection(features, settings.projection, generator)
    features = _projected(features, projection)
    seeds, examples, width = features.shape
    centre, spread = _scaling(features, settings.standardise)
    start = torch.randn(seeds, width, sum(classes), generator=generator) / width**0.5
    weight = start.to(features).requires_grad_()
    bias = features.new_zeros(seeds, 1, sum(classes)).requires_grad_()
    optimiser = torch.optim.AdamW([weight, bias], lr=settings.lr, weight_decay=settings.weight_decay)
    scaled, own = (features - centre) / spread, torch.arange(seeds)[:, None] * examples
    labels = labels.to(features.device)
    with torch.enable_grad():
        for _ in range(settings.epochs):
            order = torch.rand(seeds, examples, generator=generator).argsort(1)
            for chosen in (own + order).to(features.device).split(settings.batch, dim=1):
                optimiser.zero_grad()
                logits = _logits(_rows(scaled, chosen), weight, bias, classes)
                _loss(logits, _rows(labels, chosen)).backward()
                optimiser.step()
    return LinearProbes(weight.detach(), bias.detach(), centre, spread, tuple(classes), projection)


def _draw_projection(
    features: Float[Tensor, "seed example feature"], width: int | None, generator: torch.Generator
) -> Float[Tensor, "seed feature {width}"] | None:
    """Draw each seed's projection, entries N(0, 1 / features): it keeps squared lengths, up to a factor."""
    if width is None:
        return None
    seeds, _, before = features.shape
    return (torch.randn(seeds, before, width, generator=generator) / before**0.5).to(features)


def _projected(features: Tensor, projection: Tensor | None) -> Tensor:
    return features if projection is None else features @ projection


def _rows(values: Tensor, chosen: Tensor) -> Tensor:
    """Return the chosen rows of each seed, by their numbers in the flattened (seed, example) axis."""
    return values.flatten(0, 1).index_select(0, chosen.flatten()).unflatten(0, chosen.shape)


def _logits(scaled: Tensor, weight: Tensor, bias: Tensor, classes: Sequence[int]) -> list[Tensor]:
    return list((scaled @ weight + bias).split(tuple(classes), dim=-1))


def _scaling(features: Tensor, standardise: bool) -> tuple[Tensor, Tensor]:
    centre = features.mean(1, keepdim=True)
    spread = features.std(1, keepdim=True)
    if not standardise:
        return torch.zeros_like(centre), torch.ones_like(spread)
    return centre, spread.where(spread > SMALLEST_SPREAD, 1.0)


def _loss(logits: list[Tensor], labels: Tensor) -> Tensor:
    """Sum over seeds and tasks of the mean cross-entropy: each probe's gradient is its own."""
    parts = (
        F.cross_entropy(task.flatten(0, 1), labels[..., number].flatten()) * len(task)
        for number, task in enumerate(logits)
    )
    return reduce(torch.add, parts)
