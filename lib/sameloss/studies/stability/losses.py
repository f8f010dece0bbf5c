"""Losses of single examples: the cross-entropy that is trained, and bounded ones, which (2.1) asks for."""

import math

from jaxtyping import Float, Int
from torch import Tensor

from sameloss.errors import ParameterError

CLIPPED_AT = math.log(10)
"""Nats: what guessing among ten classes costs."""

LOG_P = Float[Tensor, "*model example label"]
LABELS = Int[Tensor, "*model example"]
LOSSES = Float[Tensor, "*model example"]


def cross_entropy(log_p: LOG_P, labels: LABELS) -> LOSSES:
    """Return minus the log probability of the label, in nats: unbounded."""
    return -log_p.gather(-1, labels[..., None])[..., 0]


def clipped(log_p: LOG_P, labels: LABELS) -> LOSSES:
    """Return the cross-entropy, at most log 10, over log 10."""
    return cross_entropy(log_p, labels).clamp(max=CLIPPED_AT) / CLIPPED_AT


def brier(log_p: LOG_P, labels: LABELS) -> LOSSES:
    """Return half the squared distance of the probabilities from the label's unit vector."""
    p = log_p.exp()
    own = p.gather(-1, labels[..., None])[..., 0]
    return (p.square().sum(-1) - 2 * own + 1) / 2


def zero_one(log_p: LOG_P, labels: LABELS) -> LOSSES:
    """Return 1 where another class is the most probable."""
    return (log_p.argmax(-1) != labels).to(log_p)


LOSS = {"cross-entropy": cross_entropy, "clipped": clipped, "Brier": brier, "0-1": zero_one}
"""By name. All but the first lie in [0, 1]."""

BOUNDED = tuple(name for name in LOSS if name != "cross-entropy")


def check_bounded(name: str) -> None:
    """Refuse a loss that (2.1) says nothing about.

    Raises:
        ParameterError: naming those that lie in [0, 1].

    """
    if name not in BOUNDED:
        raise ParameterError(
            f"Bound (2.1) is about losses in [0, 1], which {name} is not; choose one of {', '.join(BOUNDED)}."
        )


def total_variation(log_p: LOG_P, others: LOG_P) -> LOSSES:
    """Return half the sum of differences of two models' probabilities: no loss in [0, 1] differs by more.

    >>> import torch
    >>> one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.25, 0.75]])
    >>> total_variation(one.log(), other.log())
    tensor([0.7500])
    """
    return (log_p.exp() - others.exp()).abs().sum(-1) / 2
