"""How a network is trained: its loss, Adam or SGD, a rate that falls, and outputs that may be scaled."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from sameloss.checks import check_choice, check_counts, check_not_negative, check_parts, check_positive
from sameloss.errors import NonFiniteLoss
from sameloss.studies.local_signal_images.networks import Weights

Logits = Float[Tensor, "image *logit"]
"""One of each image where two classes are told apart, and otherwise one a class."""

Answers = Float[Tensor, " image"] | Int[Tensor, " image"]
"""-1 or 1 for a single logit; otherwise the class."""

BATCH_AT_TEST = 250
"""Images whose outputs are computed at once."""


@dataclass(frozen=True)
class LogisticDescent:
    """A training; part of a run's key."""

    lr: float
    batch: int
    steps: int
    optimiser: str = "Adam"  # or SGD
    momentum: float = 0.9  # of SGD
    drops: tuple[float, ...] = (0.6, 0.8)  # shares of the steps after which the rate falls
    factor: float = 0.2  # to which it falls each time
    decay: float = 0.0  # of weights

    def __post_init__(self) -> None:
        """Refuse what trains nothing."""
        check_counts(self, "batch", "steps")
        check_positive(self, "lr", "factor")
        check_parts(self, "momentum")
        check_not_negative(self, "decay")
        check_choice(self, "optimiser", ("Adam", "SGD"))

    def lr_at(self, step: int) -> float:
        """Return the rate of a step, the first one being 0.

        >>> [round(LogisticDescent(1.0, 1, 10).lr_at(step), 2) for step in (5, 6, 8)]
        [1.0, 0.2, 0.04]
        """
        return self.lr * self.factor ** sum(step >= share * self.steps for share in self.drops)

    def optimiser_of(self, weights: list[Tensor]) -> torch.optim.Optimizer:
        """Return the optimiser of some parameters."""
        if self.optimiser == "Adam":
            return torch.optim.Adam(weights, self.lr, weight_decay=self.decay)
        return torch.optim.SGD(weights, self.lr, self.momentum, weight_decay=self.decay)


def batches(count: int, descent: LogisticDescent, rng: torch.Generator) -> Iterator[Int[Tensor, " batch"]]:
    """Draw the rows of each step: one permutation of all after the other."""
    size = min(descent.batch, count)
    left = torch.empty(0, dtype=torch.long)
    for _ in range(descent.steps):
        if len(left) < size:
            left = torch.cat([left, torch.randperm(count, generator=rng)])
        rows, left = left[:size], left[size:]
        yield rows


def outputs(model: nn.Module, weights: Weights, x: Float[Tensor, "image *shape"]) -> Logits:
    """Return the logits of all images, batch by batch."""
    with torch.no_grad():
        return torch.cat([functional_call(model, weights, (part,)) for part in x.split(BATCH_AT_TEST)])


def accuracy(logits: Logits, answers: Answers) -> float:
    """Return the share of single logits with the sign of the answer, zero being an error; or of largest ones.

    >>> accuracy(torch.tensor([2.0, 0.0, -1.0]), torch.tensor([1.0, 1.0, -1.0])) == 2 / 3
    True
    >>> accuracy(torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 1.0]]), torch.tensor([1, 2]))
    0.5
    """
    right = logits * answers > 0 if logits.ndim == 1 else logits.argmax(1) == answers
    return float(right.double().mean())


def mean_loss(logits: Logits, answers: Answers) -> Float[Tensor, ""]:
    """Return the mean of log(1 + e^-yf), or of the cross-entropy of several logits, in nats."""
    return F.softplus(-answers * logits).mean() if logits.ndim == 1 else F.cross_entropy(logits, answers)


def train(
    model: nn.Module,
    start: Weights,
    x: Float[Tensor, "image *shape"],
    y: Answers,
    descent: LogisticDescent,
    rng: torch.Generator,
    scale: float | None = None,
) -> Weights:
    """Train a network; return its parameters.

    Args:
        model: gives logits of images.
        start: first parameters, which stay as they are.
        x: images.
        y: of each.
        descent: how.
        rng: of the order of visits.
        scale: α, where training is made lazy: outputs are α(f - f₀), and the rate lr/α² (Chizat et al. 2019).

    Raises:
        NonFiniteLoss: for a training that diverged.

    """
    weights = {name: own.clone().requires_grad_() for name, own in start.items()}
    optimiser = descent.optimiser_of(list(weights.values()))
    alpha = 1.0 if scale is None else scale
    first = None if scale is None else outputs(model, start, x)
    for step, rows in enumerate(batches(len(x), descent, rng)):
        optimiser.param_groups[0]["lr"] = descent.lr_at(step) / alpha**2
        found = functional_call(model, weights, (x[rows],))
        loss = mean_loss(found if first is None else alpha * (found - first[rows]), y[rows])
        check_finite(loss, descent)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {name: own.detach() for name, own in weights.items()}


def check_finite(loss: Float[Tensor, ""], descent: LogisticDescent) -> None:
    """Refuse to go on where the loss is no number.

    Raises:
        NonFiniteLoss: with the rate.

    """
    if not torch.isfinite(loss):
        raise NonFiniteLoss(f"Training diverged at the learning rate {descent.lr:g}; choose a smaller one.")
