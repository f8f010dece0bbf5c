"""Many small models trained as one: what a step costs beside its arithmetic is paid once."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from sameloss.checks import check_counts, check_not_negative, check_positive
from sameloss.errors import NonFiniteLoss

FAR = 10.0
"""A loss on the sample of so many times that of guessing is a diverged one."""

ROWS_AT_ONCE = 4096
"""Images that go through a stack at once when nothing is learnt."""

Weights = dict[str, Tensor]
"""Parameters by name; of a stack, models first."""


@dataclass(frozen=True)
class Descent:
    """Stochastic gradient descent as the thesis has it (Section 2.3)."""

    lr: float
    batch: int
    steps: int
    momentum: float = 0.0
    drops: tuple[tuple[int, float], ...] = ()  # from a step on, another rate

    def __post_init__(self) -> None:
        """Refuse settings no training has."""
        check_positive(self, "lr")
        check_counts(self, "batch", "steps")
        check_not_negative(self, "momentum")

    def lr_at(self, step: int) -> float:
        """Return the rate of step 0, 1, ...

        >>> plain = Descent(0.1, 1, 100, drops=((50, 0.01), (80, 0.001)))
        >>> [plain.lr_at(step) for step in (0, 49, 50, 79, 99)]
        [0.1, 0.1, 0.01, 0.01, 0.001]
        """
        return [self.lr, *(lr for first, lr in self.drops if first <= step)][-1]


class Stack:
    """Models of one shape, and how they move."""

    def __init__(self, network: nn.Module, models: Sequence[Weights], copies: int = 1) -> None:
        """Take so many copies of each model, one after the other; the models are not changed.

        Args:
            network: what takes their weights.
            models: the weights of each.
            copies: of each.

        """
        self.network = network
        self.weights = {
            name: torch.stack([own[name] for own in models]).repeat_interleave(copies, 0)
            for name in models[0]
        }
        self.velocity = {name: torch.zeros_like(own) for name, own in self.weights.items()}
        self._gradient: Callable[[Weights, Tensor, Tensor], Weights] | None = None

    def _gradients(self, own: Weights, x: Tensor, y: Tensor) -> Weights:
        """Return the gradient of the cross-entropy of one model."""

        def loss(weights: Weights) -> Tensor:
            return F.cross_entropy(functional_call(self.network, weights, (x,)), y)

        return grad(loss)(own)

    def learn(
        self,
        x: Float[Tensor, "model batch *shape"],
        y: Int[Tensor, "model batch"],
        lr: float,
        momentum: float,
    ) -> None:
        """Take a step of gradient descent on a batch of each model's own."""
        if self._gradient is None:
            # What vmap and grad do for every operation takes longer than it, in small models: once is enough.
            self._gradient = make_fx(lambda *given: vmap(self._gradients)(*given))(self.weights, x, y)
        found = self._gradient(self.weights, x, y)
        self.velocity = {name: momentum * own + found[name] for name, own in self.velocity.items()}
        self.weights = {name: own - lr * self.velocity[name] for name, own in self.weights.items()}

    def state_dict(self) -> dict[str, Weights]:
        """Return all that training changes."""
        return {"weights": self.weights, "velocity": self.velocity}

    def load_state_dict(self, state: dict[str, Weights]) -> None:
        """Take over what `state_dict` returned.

        Raises:
            ValueError: where it is of other models.

        """
        shapes = [
            {name: own.shape for name, own in part.items()} for part in (self.weights, state["weights"])
        ]
        if shapes[0] != shapes[1]:
            raise ValueError("The state is of other models.")
        self.weights, self.velocity = state["weights"], state["velocity"]

    def vectors(self) -> Float[Tensor, "model parameter"]:
        """Return all parameters of each model in one row, in float64."""
        return torch.cat([own.flatten(1) for own in self.weights.values()], 1).double()


def train(
    stack: Stack,
    x: Float[Tensor, "row *shape"],
    y: Int[Tensor, " row"],
    rows: Int[Tensor, "model position"],
    order: Int[Tensor, "seed step batch"],
    descent: Descent,
    start: int = 0,
) -> Iterator[int]:
    """Train every model on its own sample in place, and yield the number of steps done.

    Args:
        stack: the models, as many for each seed.
        x: inputs of all samples.
        y: their labels.
        rows: of each model's sample.
        order: the positions in a sample that are visited, batch by batch, by all models of a seed.
        descent: rate, momentum, steps.
        start: steps already done.

    """
    for step in range(start, descent.steps):
        visited = order[:, step].repeat_interleave(len(rows) // len(order), 0)
        batch = rows.gather(1, visited)
        stack.learn(x[batch], y[batch], descent.lr_at(step), descent.momentum)
        yield step + 1


def check_learnt(losses: Float[Tensor, " model"], classes: int, descent: Descent, step: int) -> None:
    """Refuse models that training has lost.

    Args:
        losses: of each on its own sample, nats.
        classes: what guessing costs is the log of these.
        descent: names the rate.
        step: so many were done.

    Raises:
        NonFiniteLoss: with the rate to lower.

    """
    if not (losses < FAR * math.log(classes)).all():  # nor is NaN
        momentum = f" with momentum {descent.momentum:g}" if descent.momentum else ""
        raise NonFiniteLoss(
            f"A training diverged by step {step} at the learning rate {descent.lr:g}{momentum}: its loss is "
            f"{float(losses.max()):.3g} nats; choose a lower rate."
        )


def log_probabilities(
    network: nn.Module, weights: Weights, x: Float[Tensor, "row *shape"], rows: Int[Tensor, "model example"]
) -> Float[Tensor, "model example label"]:
    """Return what each model of a stack predicts of its rows, in float64."""

    def predicted(own: Weights, inputs: Tensor) -> Tensor:
        return functional_call(network, own, (inputs,))

    with torch.no_grad():
        parts = rows.split(max(1, ROWS_AT_ONCE // len(rows)), 1)
        logits = [vmap(predicted)(weights, x[part]) for part in parts]
    return torch.cat(logits, 1).double().log_softmax(-1)
