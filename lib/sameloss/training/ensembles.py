"""Many models of one shape trained on the same batches as one: what a batch costs is paid once.

It is the same computation as that of `loop.pretrain` for each of them, in another order of the sums.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Literal, NamedTuple, get_args

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

# What AdamW knows of each parameter, by the parameter's name, and what a grown model takes over of it.

Carried = Literal["mapped", "reset", "stale"]
"""What becomes of the moments when a model is grown.

- mapped: each parameter's go where it goes; those of copies are copies, and what is drawn anew or set to zero
  begins without moments, at step 0;
- reset: all begin so;
- stale: as mapped, but everything keeps the old number of steps (Yao et al. 2023), so that moments of zero
  are taken for averages over many gradients.
"""


class Moments(NamedTuple):
    """Running averages of a parameter's gradient and of its square, and over how many steps they run.

    Of an ensemble all three have the members first.
    """

    steps: Tensor
    mean: Tensor
    square: Tensor

    @classmethod
    def none(cls, parameter: Tensor) -> "Moments":
        """Return those of a parameter before its first step."""
        return cls(
            torch.zeros((), dtype=torch.float64), torch.zeros_like(parameter), torch.zeros_like(parameter)
        )


def moments_of(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Moments]:
    """Return copies of what an AdamW has for the parameters of a model."""

    def copied(step: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor) -> Moments:
        return Moments(step.double().cpu().clone(), exp_avg.clone(), exp_avg_sq.clone())

    known = {name: (p, optimiser.state[p]) for name, p in model.named_parameters()}
    return {name: copied(**s) if s else Moments.none(p.detach()) for name, (p, s) in known.items()}


def grown_moments(
    moments: Mapping[str, Moments], layers: LayerMap, filling: Filling, carried: Carried = "mapped"
) -> dict[str, Moments]:
    """Return what a grown encoder begins with.

    Args:
        moments: of the shallow model.
        layers: as it is grown.
        filling: what its new layers begin with.
        carried: what is taken over.

    Raises:
        ParameterError: for an unknown way.

    """
    if carried not in get_args(Carried):
        raise ParameterError(
            f"Unknown optimiser state {carried!r}; choose one of {', '.join(get_args(Carried))}."
        )

    def new(name: str, source: Tensor) -> Tensor:
        return source.clone() if begins_as_copy(name, filling) else torch.zeros_like(source)

    fields = [
        grow_tensors({name: getattr(own, field) for name, own in moments.items()}, layers, new)
        for field in Moments._fields
    ]
    grown = {name: Moments(*(field[name] for field in fields)) for name in fields[0]}
    if carried == "reset":
        return {name: Moments.none(found.mean) for name, found in grown.items()}
    if carried == "stale":
        most = torch.stack([found.steps for found in moments.values()]).max()
        return {name: found._replace(steps=most.clone()) for name, found in grown.items()}
    return grown


def stacked_moments(members: Iterable[Mapping[str, Moments]]) -> dict[str, Moments]:
    """Return the moments of several models as those of an ensemble."""
    members = list(members)
    return {
        name: Moments(*(torch.stack(field) for field in zip(*(own[name] for own in members), strict=True)))
        for name in members[0]
    }


ROWS_AT_ONCE = 256
"""Masked sentences that go through all members at once; more would leave the processor's caches."""

Targets = Callable[[Batch], Float[Tensor, "batch word"]]
"""What the models are to predict for a batch: words as one-hot rows, or exact conditionals."""


class EnsembleStep(NamedTuple):
    """What a step did."""

    done: int
    losses: Float[Tensor, " member"]  # nats a masked token, on this batch


class Ensemble:
    """Models of one shape, their weights stacked, members first."""

    def __init__(
        self, models: Sequence[MaskedLanguageModel], moments: Sequence[dict[str, Moments]] | None = None
    ) -> None:
        """Take the models as they are; they are not changed.

        Args:
            models: at least one, all of one shape and on one device.
            moments: what AdamW knows of each of them; None: nothing yet.

        Raises:
            ParameterError: for no models, or some of different shapes.

        """
        shapes = {tuple((n, tuple(p.shape)) for n, p in model.named_parameters()) for model in models}
        if len(shapes) != 1:
            raise ParameterError(f"An ensemble is of one shape; got {len(shapes)} shapes.")
        self._skeleton = models[0]
        own = [{name: p.detach() for name, p in model.named_parameters()} for model in models]
        self.weights = {name: torch.stack([member[name] for member in own]) for name in own[0]}
        self.device = next(iter(self.weights.values())).device
        nothing = [{name: Moments.none(p) for name, p in member.items()} for member in own]
        stacked = stacked_moments(moments or nothing)
        self.moments = {
            name: Moments(*(field.to(self.device) for field in known)) for name, known in stacked.items()
        }

    def __len__(self) -> int:
        """Return the number of members."""
        return len(next(iter(self.weights.values())))

    def member(self, at: int) -> MaskedLanguageModel:
        """Return the skeleton with one member's weights in it, until it is asked for another."""
        self._skeleton.load_state_dict({name: stacked[at] for name, stacked in self.weights.items()})
        return self._skeleton

    def moments_of(self, at: int) -> dict[str, Moments]:
        """Return what AdamW knows of one member."""
        return {name: Moments(*(field[at] for field in own)) for name, own in self.moments.items()}

    def kept(self, members: Sequence[int]) -> "Ensemble":
        """Return an ensemble of some members, with what AdamW knows of them."""
        chosen, at = copy(self), torch.tensor(members, device=self.device)
        parts = self.state_dict().items()
        chosen.load_state_dict({part: {name: all_[at] for name, all_ in own.items()} for part, own in parts})
        return chosen

    def state_dict(self) -> dict[str, dict[str, Tensor]]:
        """Return all that training changes: weights, and each field of the moments."""
        fields = {
            field: {name: getattr(own, field) for name, own in self.moments.items()}
            for field in Moments._fields
        }
        return {"weights": dict(self.weights), **fields}

    def load_state_dict(self, state: dict[str, dict[str, Tensor]]) -> None:
        """Take over what `state_dict` returned, of as many members as there are in it.

        Raises:
            RuntimeError: where it is of another shape.

        """
        for name, weights in self.weights.items():
            if name not in state["weights"] or state["weights"][name].shape[1:] != weights.shape[1:]:
                raise RuntimeError(f"The state is not one of this shape: {name}.")
        self.weights = dict(state["weights"])
        fields = [state[field] for field in Moments._fields]
        self.moments = {name: Moments(*(field[name] for field in fields)) for name in self.weights}

    def logits(self, batch: Batch) -> Float[Tensor, "member batch word"]:
        """Return what all members predict, without gradients."""
        with torch.no_grad():
            parts = batch.parts(ROWS_AT_ONCE)
            logits = [
                vmap(lambda weights, part=part: self._apply(weights, part))(self.weights) for part in parts
            ]
        return torch.cat(logits, 1)

    def _apply(self, weights: dict[str, Tensor], batch: Batch) -> Float[Tensor, "batch word"]:
        there = batch.to(self.device)
        return functional_call(self._skeleton, weights, (there.masked, there.positions, there.lengths))

    def step(
        self, batch: Batch, targets: Float[Tensor, "batch word"], settings: Optimisation, lr: float
    ) -> Tensor:
        """Take a step of AdamW with every member; return their losses on the batch before it."""
        batch, targets = batch.to(self.device), targets.to(self.device, torch.float32)

        def loss(weights: dict[str, Tensor]) -> Float[Tensor, ""]:
            return F.cross_entropy(self._apply(weights, batch), targets)

        if len(self) > 1:
            gradients, losses = vmap(grad_and_value(loss))(self.weights)
        else:  # the same of a single member, in two thirds of the time
            alone = {name: stacked[0].requires_grad_() for name, stacked in self.weights.items()}
            found = loss(alone)
            slopes = torch.autograd.grad(found, list(alone.values()))
            gradients = {name: slope[None] for name, slope in zip(alone, slopes, strict=True)}
            losses = found.detach()[None]
        for name, biases in self._biases(settings).items():
            self._update(name, gradients[name], settings, lr, biases)
        return losses

    def _biases(self, settings: Optimisation) -> dict[str, tuple[Tensor, Tensor]]:
        """Count a step; return what each member's moments of each parameter are too small by."""
        steps = torch.stack([own.steps for own in self.moments.values()]) + 1
        self.moments = {
            name: own._replace(steps=count)
            for (name, own), count in zip(self.moments.items(), steps, strict=True)
        }
        first, second = (1 - beta ** steps.float() for beta in (settings.beta1, settings.beta2))
        return dict(zip(self.moments, zip(first, second, strict=True), strict=True))

    def _update(
        self, name: str, gradient: Tensor, settings: Optimisation, lr: float, biases: tuple[Tensor, Tensor]
    ) -> None:
        """Change one parameter of all members; each has its own number of steps."""
        weights, old = self.weights[name], self.moments[name]
        first, second = (bias.reshape(-1, *[1] * (gradient.ndim - 1)) for bias in biases)
        mean = old.mean.lerp_(gradient, 1 - settings.beta1)
        square = old.square.mul_(settings.beta2).addcmul_(gradient, gradient, value=1 - settings.beta2)
        if settings.weight_decay and gradient.ndim > 2:
            weights.mul_(1 - lr * settings.weight_decay)
        scale = (square / second).sqrt_().add_(settings.epsilon)
        weights.sub_(lr / first * mean / scale)


def train_together(
    ensemble: Ensemble,
    batch_at: Callable[[int], Batch],
    targets: Targets,
    settings: Optimisation,
    start: int = 0,
) -> Iterator[EnsembleStep]:
    """Train all members in place on the same batches, and yield after every step.

    Args:
        ensemble: what is trained.
        batch_at: the batch of a step.
        targets: of a batch.
        settings: steps, learning rate, schedule; AdamW without SAM.
        start: number of steps already done.

    Raises:
        ParameterError: for settings that an ensemble does not train with.
        NonFiniteLoss: where the loss of every member is NaN or infinite. One that diverges among others
            goes on as it is, and its loss says so.

    """
    if settings.optimiser != "adamw" or settings.sam_radius:
        raise ParameterError("An ensemble is trained by AdamW without SAM.")
    for step in range(start, settings.steps):
        batch = batch_at(step)
        losses = ensemble.step(batch, targets(batch), settings, settings.lr_at(step))
        if not losses.isfinite().any():
            loss, lr = float(losses[0]), settings.lr_at(step)
            raise NonFiniteLoss(f"The loss is {loss} at step {step + 1} with lr = {lr:.3g}")
        yield EnsembleStep(step + 1, losses)
