"""SGD and Adam on freshly sampled labels, many replicas at once (Theorem 3.3)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.errors import NonFiniteLoss
from sameloss.studies.manifold_flow.population import Population

BLOCK = 4096
"""Labels drawn at once, about."""

LARGEST = 1e6
"""A parameter beyond it counts as diverged."""


@runtime_checkable
class Algorithm(Protocol):
    """A first-order algorithm: from a gradient, and a state of its own, to a change of the parameters."""

    @property
    def rate(self) -> float:
        """The learning rate."""

    def begin(self, variance: Float[Tensor, " parameter"], replicas: int) -> tuple[Tensor, ...]:
        """Return the state before the first step; `variance` is that of the gradient."""

    def update(self, gradient: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the change of the parameters and the next state."""


@dataclass(frozen=True)
class SGD:
    """Plain stochastic gradient descent."""

    rate: float

    def begin(self, variance: Float[Tensor, " parameter"], replicas: int) -> tuple[Tensor, ...]:
        """Return no state."""
        return ()

    def update(self, gradient: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return -rate × gradient."""
        return -self.rate * gradient, state


@dataclass(frozen=True)
class Adam:
    """Adam, begun where its second moment has settled, so that no bias needs correction."""

    rate: float
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def begin(self, variance: Float[Tensor, " parameter"], replicas: int) -> tuple[Tensor, ...]:
        """Return a first moment of zero and the second moment at the start."""
        return torch.zeros(replicas, len(variance), dtype=variance.dtype), variance.repeat(replicas, 1)

    def update(self, gradient: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return Adam's change."""
        first = torch.lerp(gradient, state[0], self.beta1)
        second = torch.lerp(gradient.square(), state[1], self.beta2)
        return -self.rate * first / (second.sqrt() + self.epsilon), (first, second)


Labels = Iterator[Float[Tensor, "replica context word"]]
"""What each step sees: the share of each context and label in each replica's batch."""


def sampled_labels(population: Population, batch: int, replicas: int, generator: torch.Generator) -> Labels:
    """Draw contexts and labels afresh for every step and replica."""
    joint = population.joint
    steps = max(1, BLOCK // (batch * replicas))
    while True:
        drawn = torch.multinomial(joint.flatten(), steps * replicas * batch, True, generator=generator)
        for rows in drawn.view(steps, replicas, batch):
            counts = torch.zeros(replicas, joint.numel(), dtype=joint.dtype)
            counts.scatter_add_(1, rows, torch.full_like(rows, 1 / batch, dtype=joint.dtype))
            yield counts.unflatten(1, joint.shape)


def exact_labels(population: Population, replicas: int) -> Labels:
    """Give every step the whole population: gradient descent, without noise."""
    while True:
        yield population.joint.expand(replicas, -1, -1)


def gradients(
    population: Population, theta: Float[Tensor, "replica parameter"], labels: Tensor
) -> Float[Tensor, "replica parameter"]:
    """Return each replica's gradient of the loss on its labels."""
    theta = theta.detach().requires_grad_()
    logits = population.logits(theta)
    # Softmax and sum over a short last axis are slow in torch: several times faster across it.
    f = logits.detach().mT.contiguous().softmax(-2).mT
    shares = labels @ labels.new_ones(labels.shape[-1], 1)
    return torch.autograd.grad(logits, theta, shares * f - labels)[0]


class Replicas(NamedTuple):
    """Where replicas are at given steps."""

    steps: list[int]
    theta: Float[Tensor, "time replica parameter"]

    def each(self, quantity: Callable[[Tensor], Tensor]) -> Float[Tensor, "time replica"]:
        """Return a scalar of the parameters, batched over leading axes, at every step."""
        return quantity(self.theta)


def replicate(
    population: Population,
    start: Float[Tensor, "*replica parameter"],
    algorithm: Algorithm,
    labels: Labels,
    steps: list[int],
    variance: Float[Tensor, " parameter"] | None = None,
) -> Replicas:
    """Run replicas of an algorithm from one point, and stop at the given steps to look.

    Args:
        population: the model and what it predicts.
        start: where all replicas begin, or each.
        algorithm: SGD or Adam, with its rate.
        labels: what each step sees; see `sampled_labels`.
        steps: increasing, 0 for the start.
        variance: of the gradient, for Adam to begin with.

    Raises:
        NonFiniteLoss: where a replica diverges.

    """
    batch = next(labels)
    theta = start.expand(len(batch), -1)
    state = algorithm.begin(torch.zeros_like(theta[0]) if variance is None else variance, len(theta))
    wanted, seen = set(steps), []
    for step in range(steps[-1] + 1):
        if step in wanted:
            seen.append(_checked(theta, algorithm, step))
        change, state = algorithm.update(gradients(population, theta, batch), state)
        theta, batch = theta + change, next(labels)
    return Replicas(steps, torch.stack(seen))


def _checked(theta: Tensor, algorithm: Algorithm, step: int) -> Tensor:
    if not (theta.abs() < LARGEST).all():
        raise NonFiniteLoss(
            f"{type(algorithm).__name__} with learning rate {algorithm.rate:g} diverged before step {step}; "
            "the rate times the Hessian's largest eigenvalue must stay well below 2."
        )
    return theta
