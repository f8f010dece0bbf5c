"""A penalty on the Fisher trace of a batch: flatness as an explicit regulariser."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sameloss.errors import ParameterError


@dataclass(frozen=True)
class TracePenalty:
    """The settings of a penalty; part of a run's key. A negative weight rewards sharpness.

    Along plain SGD it should be of the logarithm: a force that grows with the trace ran away in some
    seeds, as a reward and as a penalty.
    """

    weight: float  # mu, of the Fisher trace
    logarithm: bool = False  # or of its logarithm

    def __post_init__(self) -> None:
        """Refuse what is no penalty."""
        if not (isfinite(self.weight) and self.weight):
            raise ParameterError(
                f"A trace penalty's weight must be a number other than 0; got {self.weight}."
            )

    def term(self, generator: torch.Generator) -> Callable[[nn.Module, Tensor], Float[Tensor, ""]]:
        """Return what a step adds to the masked loss; each call draws signs from the generator."""

        def penalty(model: nn.Module, logits: Tensor) -> Tensor:
            signs = random_signs(logits.shape, generator).to(logits)
            with torch.autocast(logits.device.type, enabled=False):  # it differentiates, in full precision
                trace = fisher_trace_along(model, logits, signs)
                return self.weight * (trace.log() if self.logarithm else trace)

        return penalty


def fisher_trace_along(
    model: nn.Module, logits: Float[Tensor, "batch word"], signs: Float[Tensor, "batch word"]
) -> Float[Tensor, ""]:
    r"""Estimate the mean Fisher trace of a batch from one backward pass, differentiably (Appendix B).

    With random signs $\epsilon$, $v = \sqrt f\odot\epsilon - f\,(\sqrt f\cdot\epsilon)$ has the
    covariance diag f - f f^T, and independent v of mean zero do not mix:
    $\mathbb E\lVert\sum_i J_i^\top v_i\rVert^2$ is the sum of the traces of J_i^T (diag f_i - f_i f_i^T) J_i.
    Nothing is held constant, so the gradient is that of the trace.
    """
    f = logits.softmax(-1)
    root = f.sqrt() * signs
    v = root - f * root.sum(-1, keepdim=True)
    gradients = torch.autograd.grad(logits, list(model.parameters()), v, create_graph=True)
    return sum((g.square().sum() for g in gradients), logits.new_zeros(())) / len(logits)


def random_signs(shape: torch.Size, generator: torch.Generator) -> Float[Tensor, "..."]:
    """Return +1 and -1, equally likely."""
    return torch.randint(0, 2, shape, generator=generator) * 2.0 - 1
