"""The paper's protocol for linear probes: AdamW for so many epochs (App. A.4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sameloss.checks import check_counts, check_positive
from sameloss.measures.downstream.probe import (
    LinearProbes,
    check_labels,
    draw_projection,
    logits_of,
    projected,
    scaling,
    sum_of_losses,
)


@dataclass(frozen=True)
class AdamWProbe:
    """AdamW as in Appendix A.4 (learning rate 1e-3, 100 epochs); the batch is the released code's.

    It stops where it is, far from the optimum on a laptop's few sentences: see chapter 02_existence.

    `standardise` gives every feature mean 0 and variance 1 on the training sentences. Without it
    a fixed learning rate favours representations of a large scale.
    """

    epochs: int = 100
    batch: int = 512
    lr: float = 1e-3
    weight_decay: float = 0.0
    standardise: bool = True
    projection: int | None = None

    def __post_init__(self) -> None:
        """Refuse settings with which nothing would be trained."""
        check_counts(self, "epochs", "batch", *(() if self.projection is None else ("projection",)))
        check_positive(self, "lr")

    @property
    def passes(self) -> int:
        """Return how many times it goes over its sentences."""
        return self.epochs

    def fit(
        self,
        features: Float[Tensor, "seed example feature"],
        labels: Int[Tensor, "seed example task"],
        classes: Sequence[int],
        seed: int,
    ) -> LinearProbes:
        """Train one probe for each seed, each from its own start, in its own order: see `Probe.fit`.

        AdamW treats every parameter alone, so training the probes of all tasks together changes nothing.

        >>> features = torch.tensor([[[0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]])  # of one seed
        >>> labels = torch.tensor([[[0], [0], [1], [1]]])  # of one task: the first feature
        >>> probes = AdamWProbe(lr=0.1).fit(features, labels, [2], seed=0)
        >>> probes.correct(features, labels[0])[..., 0]
        tensor([[True, True, True, True]])

        """
        check_labels(labels, classes)
        generator = torch.Generator().manual_seed(seed)
        projection = draw_projection(features, self.projection, generator)
        features, labels = projected(features, projection), labels.to(features.device)
        centre, spread = self._scaling(features)
        weight, bias = self._trained((features - centre) / spread, labels, classes, generator)
        ridge = features.new_zeros(len(features), len(classes))
        return LinearProbes(weight, bias, centre, spread, tuple(classes), ridge, projection)

    def _scaling(self, features: Float[Tensor, "seed example read"]) -> tuple[Tensor, Tensor]:
        centre, spread = scaling(features)
        return (centre, spread) if self.standardise else (torch.zeros_like(centre), torch.ones_like(spread))

    def _trained(
        self,
        read: Float[Tensor, "seed example read"],
        labels: Int[Tensor, "seed example task"],
        classes: Sequence[int],
        generator: torch.Generator,
    ) -> tuple[Float[Tensor, "seed read logit"], Float[Tensor, "seed 1 logit"]]:
        """Return weights and biases after all epochs."""
        seeds, examples, width = read.shape
        start = torch.randn(seeds, width, sum(classes), generator=generator) / width**0.5
        weight = start.to(read).requires_grad_()
        bias = read.new_zeros(seeds, 1, sum(classes)).requires_grad_()
        optimiser = torch.optim.AdamW([weight, bias], lr=self.lr, weight_decay=self.weight_decay)
        own = torch.arange(seeds)[:, None] * examples
        with torch.enable_grad():
            for _ in range(self.epochs):
                order = torch.rand(seeds, examples, generator=generator).argsort(1)
                for chosen in (own + order).to(read.device).split(self.batch, dim=1):
                    optimiser.zero_grad()
                    logits = logits_of(_rows(read, chosen), weight, bias, classes)
                    sum_of_losses(logits, _rows(labels, chosen)).backward()
                    optimiser.step()
        return weight.detach(), bias.detach()


def _rows(values: Tensor, chosen: Tensor) -> Tensor:
    """Return the chosen rows of each seed, by their numbers in the flattened (seed, example) axis."""
    return values.flatten(0, 1).index_select(0, chosen.flatten()).unflatten(0, chosen.shape)
