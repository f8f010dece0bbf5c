"""What AdamW knows of each parameter, by the parameter's name, and what a grown model takes over of it."""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from sameloss.errors import ParameterError
from sameloss.models.grow import Filling, LayerMap, begins_as_copy, grow_tensors

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
    found = {}
    for name, parameter in model.named_parameters():
        state = optimiser.state[parameter]
        if state:
            steps = state["step"].double().cpu().clone()
            found[name] = Moments(steps, state["exp_avg"].clone(), state["exp_avg_sq"].clone())
        else:
            found[name] = Moments.none(parameter.detach())
    return found


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
        grow_tensors({name: found[at] for name, found in moments.items()}, layers, new) for at in range(3)
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
