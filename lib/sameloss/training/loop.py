"""Masked-LM pre-training: schedule, AdamW, SGD and SAM (Section 2.2, App. A.3, A.4)."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.languages.masking import Batch
from sameloss.training.execution import PLAIN, Execution
from sameloss.training.masked_loss import BatchLoss, plain_loss
from sameloss.training.process import ALONE, Process


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
    optimiser: str = "adamw"  # or sgd
    schedule: str = "linear"  # after the warm-up: down to zero, or constant
    sam_radius: float = 0.0  # of sharpness-aware minimisation; 0: without

    def __post_init__(self) -> None:
        """Refuse settings no training has."""
        for name in ("steps", "batch", "lr"):
            if not getattr(self, name) > 0:
                raise ParameterError(f"{name} must be positive; got {getattr(self, name)}.")
        for name, valid in {"optimiser": ("adamw", "sgd"), "schedule": ("linear", "constant")}.items():
            if getattr(self, name) not in valid:
                raise ParameterError(f"Unknown {name} {getattr(self, name)!r}; choose {' or '.join(valid)}.")

    def lr_at(self, step: int) -> float:
        """Return the learning rate of step 0, 1, ...: up over the warm-up, then down to zero or constant.

        >>> o = Optimisation(steps=100, batch=1, lr=1.0, warmup=0.1)
        >>> [round(o.lr_at(s), 2) for s in (0, 9, 10, 55, 99)]
        [0.1, 1.0, 1.0, 0.5, 0.01]
        """
        warm = max(1, round(self.warmup * self.steps)) if self.warmup else 0
        if step < warm:
            return self.lr * (step + 1) / warm
        if self.schedule == "constant":
            return self.lr
        return self.lr * (self.steps - step) / (self.steps - warm)


class Step(NamedTuple):
    """What a step did; `done` counts the steps finished."""

    done: int
    loss: float  # the masked loss on this batch, nats a masked token
    lr: float


def make_optimiser(model: nn.Module, settings: Optimisation) -> torch.optim.Optimizer:
    """Return AdamW or plain SGD over all parameters (weight decay, if any, spares vectors as BERT does)."""
    decayed = [p for p in model.parameters() if p.ndim > 1]
    spared = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]
    # One kernel for all parameters: for small models the updates cost as much as the gradients.
    if settings.optimiser == "sgd":
        return torch.optim.SGD(groups, lr=settings.lr, fused=True)
    betas = (settings.beta1, settings.beta2)
    return torch.optim.AdamW(groups, lr=settings.lr, betas=betas, eps=settings.epsilon, fused=True)


def pretrain(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    batch_at: Callable[[int], Batch],
    settings: Optimisation,
    *,
    loss_at: Callable[[int], BatchLoss] = lambda step: plain_loss,
    start: int = 0,
    micro_batch: int | None = None,
    execution: Execution = PLAIN,
    process: Process = ALONE,
) -> Iterator[Step]:
    """Train in place from step `start` on and yield after every step.

    The loop keeps nothing between steps but the model and the optimiser: whoever saves both after
    a yield can go on from there: on a CPU, in up to two processes, bit for bit; elsewhere sums may be
    taken in another order.

    Args:
        model: maps (masked, positions, lengths) to logits of sentences of at most `max_length` tokens.
        optimiser: from `make_optimiser`, with its state when resuming.
        batch_at: the batch of a step; of several processes each gets the same and takes its share.
        settings: steps, learning rate, schedule.
        loss_at: the loss of a step, the same whenever it is asked for.
        start: number of steps already done.
        micro_batch: sentences that go through the model at once; bounds memory.
        execution: precision, compilation, batches by length, number of processes.
        process: which of them this is.

    Raises:
        NonFiniteLoss: before the parameters are touched by a loss that is NaN or infinite, and after
            the warm-up by one that is far worse than guessing.

    """
    device = next(model.parameters()).device
    with execution.prepared(model) as forward:
        for step in range(start, settings.steps):
            batch = batch_at(step).rows(slice(process.rank, None, process.world)).to(device)
            lr = settings.lr_at(step)
            for group in optimiser.param_groups:
                group["lr"] = lr
            parts = execution.parts(batch, micro_batch, model.max_length)
            loss = process.mean(_gradient(forward, loss_at(step), parts, execution))
            if not math.isfinite(loss):
                raise NonFiniteLoss(f"The loss is {loss} at step {step + 1} with lr = {lr:.3g}")
            if settings.sam_radius:
                with _uphill(model, settings.sam_radius):
                    _gradient(forward, loss_at(step), parts, execution)
            optimiser.step()
            yield Step(step + 1, loss, lr)


def _gradient(model: nn.Module, loss: BatchLoss, parts: list[Batch], execution: Execution) -> float:
    """Set the gradient of the mean loss over the parts of a batch; return the masked loss."""
    model.zero_grad(set_to_none=not execution.compiled)
    size, masked = sum(len(part.targets) for part in parts), 0.0
    for part in parts:
        share = len(part.targets) / size
        with _apart(model) if part is not parts[-1] else nullcontext():
            with execution.precision(part.masked.device):
                losses = loss(model, part)
            (losses.total * share).backward()
        masked = masked + losses.masked.detach() * share
    return float(masked)  # only now the device is waited for


def _apart(model: nn.Module) -> AbstractContextManager:
    """Keep processes from exchanging gradients that are not complete yet."""
    return model.no_sync() if hasattr(model, "no_sync") else nullcontext()


@contextmanager
def _uphill(model: nn.Module, radius: float) -> Iterator[None]:
    """Move the parameters by `radius` along their gradient, and back (Foret et al. 2021)."""
    moved = [p for p in model.parameters() if p.grad is not None]
    before = [p.detach().clone() for p in moved]
    norm = torch.stack([p.grad.norm() for p in moved]).norm()
    with torch.no_grad():
        for p in moved:
            p.add_(p.grad * (radius / norm))
    yield
    with torch.no_grad():
        for p, value in zip(moved, before, strict=True):
            p.copy_(value)
