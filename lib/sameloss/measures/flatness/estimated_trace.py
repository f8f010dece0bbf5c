"""An estimated trace: independent draws by parameter, and what they cost."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.models.parts import depth, parameter_group, parameter_layer
from sameloss.statistics.estimate import Estimate


class Cost(NamedTuple):
    """What an estimate took: passes of one sentence through the model, and seconds."""

    forward: int
    backward: int  # a Hessian-vector product counts as one forward and three backward passes
    seconds: float


@dataclass(frozen=True)
class EstimatedTrace:
    """Independent draws of a trace, split by parameter; the parts of a draw add up to its total.

    `draws[name]` holds, for each draw (a sentence, a batch, or a random direction), an unbiased
    value of the part of the trace that belongs to the parameter `name`.
    """

    draws: dict[str, Float[Tensor, " draw"]]
    cost: Cost

    @property
    def total(self) -> Estimate:
        """Return the trace over all parameters."""
        return self.by(lambda name: "total")["total"]

    @property
    def parts(self) -> dict[str, Estimate]:
        """Return the trace by kind of parameter: embeddings, attention, MLP, LayerNorm, head."""
        return self.by(parameter_group)

    @property
    def layers(self) -> dict[str, Estimate]:
        """Return the trace by depth: embedding, layer 1, 2, ..., head."""
        found = self.by(parameter_layer)
        return {name: found[name] for name in sorted(found, key=depth)}

    def scaled(self, factor: Callable[[str], float]) -> "EstimatedTrace":
        """Return the trace with the part of each parameter multiplied by a factor of its name."""
        return replace(self, draws={name: factor(name) * values for name, values in self.draws.items()})

    def by(self, group: Callable[[str], str]) -> dict[str, Estimate]:
        """Return the trace of each group of parameters; its error includes correlations in the group.

        >>> draws = {"word": torch.tensor([1.0, 3.0]), "head": torch.tensor([5.0, 3.0])}
        >>> EstimatedTrace(draws, Cost(2, 2, 0.0)).by(lambda name: "all")
        {'all': Estimate(mean=6.0, standard_error=0.0, count=2)}

        """
        grouped: dict[str, list[Tensor]] = {}
        for name, values in self.draws.items():
            grouped.setdefault(group(name), []).append(values)
        return {key: Estimate.of(torch.stack(parts).sum(0)) for key, parts in grouped.items()}
