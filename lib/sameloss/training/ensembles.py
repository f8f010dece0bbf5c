"""Ensembles: models of one shape trained on the same batches as one stacked model, which saves time.

Each member is trained as `loop.pretrain` would train it, up to the order of floating-point sums.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap
from torch.nn import functional as F

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.languages.masking import Batch
from sameloss.models.enlarge import Filling, LayerMap, begins_as_copy, grow_tensors
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.training.loop import Optimisation

# AdamW's moments, and what a grown model inherits of them.

Carried = Literal["mapped", "reset", "stale"]
"""How a grown model inherits the moments.

- mapped: those of a copied parameter are copied with it; parameters that are drawn anew or set to zero start
  without moments, at step 0;
- reset: all parameters start without moments;
- stale: as mapped, but all parameters keep the old step count (Yao et al. 2023), so that zero moments are
  treated as averages over many gradients.
"""


class Moments(NamedTuple):
    """AdamW's state for one parameter; in an ensemble each field has a leading axis of members."""

    steps: Tensor
    mean: Tensor  # running average of the gradient
    square: Tensor  # and of its square

    @classmethod
    def none(cls, parameter: Tensor) -> "Moments":
        """The state before the first step."""
        return cls(
            torch.zeros((), dtype=torch.float64), torch.zeros_like(parameter), torch.zeros_like(parameter)
        )

    def members(self, index: int | Tensor) -> "Moments":
        """Select one member or several from an ensemble's moments."""
        return Moments(*(field[index] for field in self))


def moments_of(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Moments]:
    """Copy the moments of a model's parameters from its AdamW."""

    def copied(step: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor) -> Moments:
        return Moments(step.double().cpu().clone(), exp_avg.clone(), exp_avg_sq.clone())

    return {
        name: copied(**state) if (state := optimiser.state[p]) else Moments.none(p.detach())
        for name, p in model.named_parameters()
    }


def grown_moments(
    moments: Mapping[str, Moments], layers: LayerMap, filling: Filling, carried: Carried = "mapped"
) -> dict[str, Moments]:
    """Compute the moments of a grown encoder.

    Args:
        moments: those of the shallow model.
        layers: how it grows.
        filling: how its new layers are initialised.
        carried: how moments are inherited.

    """

    def new(name: str, source: Tensor) -> Tensor:
        return source.clone() if begins_as_copy(name, filling) else torch.zeros_like(source)

    fields = [
        grow_tensors({name: getattr(m, field) for name, m in moments.items()}, layers, new)
        for field in Moments._fields
    ]
    grown = {name: Moments(*(field[name] for field in fields)) for name in fields[0]}
    if carried == "reset":
        return {name: Moments.none(m.mean) for name, m in grown.items()}
    if carried == "stale":
        steps = torch.stack([m.steps for m in moments.values()]).max()
        return {name: m._replace(steps=steps.clone()) for name, m in grown.items()}
    return grown


# The ensemble.

ROWS_AT_ONCE = 256
"""Masked sentences in a forward pass of all members; more would not fit in the processor's caches."""


class EnsembleStep(NamedTuple):
    """The result of a training step."""

    done: int  # steps finished, including this one
    losses: Float[Tensor, " member"]  # nats per masked token on this batch


class Ensemble:
    """Models of one shape, with their weights stacked along a leading axis of members."""

    def __init__(
        self, models: Sequence[MaskedLanguageModel], moments: Sequence[dict[str, Moments]] | None = None
    ) -> None:
        """Copy the models.

        Args:
            models: one or more, of one shape and on one device.
            moments: AdamW's state for each; None: that before the first step.

        """
        self._skeleton = models[0]
        members = [{name: p.detach() for name, p in model.named_parameters()} for model in models]
        moments = moments or [{name: Moments.none(p) for name, p in member.items()} for member in members]
        self.weights = {name: torch.stack([member[name] for member in members]) for name in members[0]}
        self.device = next(iter(self.weights.values())).device
        self.moments = {}
        for name in self.weights:
            fields = zip(*(member[name] for member in moments), strict=True)
            self.moments[name] = Moments(*(torch.stack(field).to(self.device) for field in fields))

    def __len__(self) -> int:
        return len(next(iter(self.weights.values())))

    def member(self, at: int) -> MaskedLanguageModel:
        """One member as a model, valid until the next call."""
        self._skeleton.load_state_dict({name: stacked[at] for name, stacked in self.weights.items()})
        return self._skeleton

    def moments_of(self, at: int) -> dict[str, Moments]:
        """AdamW's state for one member."""
        return {name: moments.members(at) for name, moments in self.moments.items()}

    def kept(self, members: Sequence[int]) -> "Ensemble":
        """Copy some members, with their moments, into a smaller ensemble."""
        subset, index = copy(self), torch.tensor(members, device=self.device)
        subset.weights = {name: stacked[index] for name, stacked in self.weights.items()}
        subset.moments = {name: moments.members(index) for name, moments in self.moments.items()}
        return subset

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """Everything that training changes."""
        return {
            "weights": dict(self.weights),
            "moments": {name: tuple(moments) for name, moments in self.moments.items()},
        }

    def load_state_dict(self, state: dict[str, dict[str, Any]]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            RuntimeError: for a state of another shape.

        """
        for name, weights in self.weights.items():
            if name not in state["weights"] or state["weights"][name].shape != weights.shape:
                raise RuntimeError(f"The state is not one of this shape: {name}.")
        self.weights = dict(state["weights"])
        self.moments = {name: Moments(*moments) for name, moments in state["moments"].items()}

    @torch.no_grad()
    def logits(self, batch: Batch) -> Float[Tensor, "member batch word"]:
        """Logits of all members, without gradients."""
        forward, parts = vmap(self._forward, in_dims=(0, None)), batch.to(self.device).parts(ROWS_AT_ONCE)
        return torch.cat([forward(self.weights, part) for part in parts], 1)

    def _forward(self, weights: dict[str, Tensor], batch: Batch) -> Float[Tensor, "batch word"]:
        return functional_call(self._skeleton, weights, (batch.masked, batch.positions, batch.lengths))

    def step(
        self, batch: Batch, targets: Float[Tensor, "batch word"], settings: Optimisation, lr: float
    ) -> Float[Tensor, " member"]:
        """Take a step of AdamW with every member, and return their losses before it."""
        batch, targets = batch.to(self.device), targets.to(self.device, torch.float32)

        def loss(weights: dict[str, Tensor]) -> Float[Tensor, ""]:
            return F.cross_entropy(self._forward(weights, batch), targets)

        if len(self) > 1:
            gradients, losses = vmap(grad_and_value(loss))(self.weights)
        else:  # the same, but a third faster
            weights = {name: stacked[0].requires_grad_() for name, stacked in self.weights.items()}
            value = loss(weights)
            grads = torch.autograd.grad(value, list(weights.values()))
            gradients = {name: grad[None] for name, grad in zip(weights, grads, strict=True)}
            losses = value.detach()[None]
        steps = torch.stack([moments.steps for moments in self.moments.values()]) + 1
        biases = [1 - beta ** steps.float() for beta in (settings.beta1, settings.beta2)]
        for name, count, *bias in zip(self.moments, steps, *biases, strict=True):
            self.moments[name] = self.moments[name]._replace(steps=count)
            self._update(name, gradients[name], settings, lr, bias)
        return losses

    def _update(
        self, name: str, gradient: Tensor, settings: Optimisation, lr: float, bias: Sequence[Tensor]
    ) -> None:
        """Update one parameter of all members in place; `bias` corrects each member's two moments."""
        weights, moments = self.weights[name], self.moments[name]
        first, second = (factor.reshape(-1, *[1] * (gradient.ndim - 1)) for factor in bias)
        mean = moments.mean.lerp_(gradient, 1 - settings.beta1)
        square = moments.square.mul_(settings.beta2).addcmul_(gradient, gradient, value=1 - settings.beta2)
        if settings.weight_decay and gradient.ndim > 2:
            weights.mul_(1 - lr * settings.weight_decay)
        scale = (square / second).sqrt_().add_(settings.epsilon)
        weights.sub_(lr / first * mean / scale)


def train_together(
    ensemble: Ensemble,
    batch_at: Callable[[int], Batch],
    targets: Callable[[Batch], Float[Tensor, "batch word"]],
    settings: Optimisation,
    start: int = 0,
) -> Iterator[EnsembleStep]:
    """Train all members in place on the same batches, and yield after every step.

    Args:
        ensemble: the models to train.
        batch_at: the batch of a step.
        targets: one-hot words or exact conditionals of a batch.
        settings: steps, learning rate, schedule; AdamW without SAM.
        start: number of steps already done.

    Raises:
        ParameterError: for another optimiser.
        NonFiniteLoss: if the losses of all members are NaN or infinite. A single member that diverges is
            trained on, and reports its loss.

    """
    if settings.optimiser != "adamw" or settings.sam_radius:
        raise ParameterError("An ensemble is trained by AdamW without SAM.")
    for step in range(start, settings.steps):
        batch, lr = batch_at(step), settings.lr_at(step)
        losses = ensemble.step(batch, targets(batch), settings, lr)
        if not losses.isfinite().any():
            raise NonFiniteLoss(f"The loss is {float(losses[0])} at step {step + 1} with lr = {lr:.3g}")
        yield EnsembleStep(step + 1, losses)
