"""Masked-LM pre-training with AdamW, linear warm-up and linear decay (Section 2.2, App. A.3)."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from sameloss.corpus import Batch
from sameloss.errors import NonFiniteLoss, ParameterError


@dataclass(frozen=True)
class Optimisation:
    """The optimiser's settings; part of a run's key.

    No dropout and no weight decay by default: both are explicit regularisers, and the book is
    about the implicit one.
    """

    steps: int
    batch: int
    lr: float
    warmup: float = 0.06  # share of the steps
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        """Refuse settings no training has."""
        for name in ("steps", "batch", "lr"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} must be positive; got {getattr(self, name)}.")

    def lr_at(self, step: int) -> float:
        """Return the learning rate of step 0, 1, ...: up over the warm-up, then down to zero.

        >>> o = Optimisation(steps=100, batch=1, lr=1.0, warmup=0.1)
        >>> [round(o.lr_at(s), 2) for s in (0, 9, 10, 55, 99)]
        [0.1, 1.0, 1.0, 0.5, 0.01]
        """
        warm = max(1, round(self.warmup * self.steps))
        if step < warm:
            return self.lr * (step + 1) / warm
        return self.lr * (self.steps - step) / (self.steps - warm)


class Step(NamedTuple):
    """What a step did; `done` counts the steps finished."""

    done: int
    loss: float  # nats a masked token, on this batch
    lr: float


def make_optimiser(model: nn.Module, settings: Optimisation) -> torch.optim.AdamW:
    """Return AdamW over all parameters (weight decay, if any, spares vectors as BERT does)."""
    decayed = [p for p in model.parameters() if p.ndim > 1]
    spared = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]
    betas = (settings.beta1, settings.beta2)
    return torch.optim.AdamW(groups, lr=settings.lr, betas=betas, eps=settings.epsilon)


def pretrain(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    batch_at: Callable[[int], Batch],
    settings: Optimisation,
    *,
    start: int = 0,
    micro_batch: int | None = None,
) -> Iterator[Step]:
    """Train in place from step `start` on and yield after every step.

    The loop keeps nothing between steps but the model and the optimiser: whoever saves both after
    a yield can go on from there, bit for bit.

    Args:
        model: maps (masked, positions, lengths) to logits.
        optimiser: from `make_optimiser`, with its state when resuming.
        batch_at: the batch of a step.
        settings: steps, learning rate, schedule.
        start: number of steps already done.
        micro_batch: sentences that go through the model at once; bounds memory.

    Raises:
        NonFiniteLoss: before the parameters are touched by a loss that is NaN or infinite.

    """
    device = next(model.parameters()).device
    for step in range(start, settings.steps):
        batch = batch_at(step).to(device)
        lr = settings.lr_at(step)
        for group in optimiser.param_groups:
            group["lr"] = lr
        optimiser.zero_grad()
        loss = _accumulate_gradient(model, batch, micro_batch or len(batch.targets))
        if not math.isfinite(loss):
            raise NonFiniteLoss(f"The loss is {loss} at step {step + 1} with lr = {lr:.3g}")
        optimiser.step()
        yield Step(step + 1, loss, lr)


def _accumulate_gradient(model: nn.Module, batch: Batch, micro_batch: int) -> float:
    """Add the gradient of the batch's mean loss, part by part, and return that loss."""
    total = 0.0
    size = len(batch.targets)
    for rows in torch.arange(size, device=batch.targets.device).split(micro_batch):
        part = batch.rows(rows)
        logits = model(part.masked, part.positions, part.lengths)
        loss = F.cross_entropy(logits, part.targets, reduction="sum") / size
        loss.backward()
        total += loss.item()
    return total
