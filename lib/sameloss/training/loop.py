"""Masked-LM pre-training: schedule, AdamW, SGD and SAM (Section 2.2, App. A.3, A.4)."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sameloss.checks import (
    check_choice,
    check_counts,
    check_not_negative,
    check_parts,
    check_positive,
    check_shares,
)
from sameloss.errors import NonFiniteLoss
from sameloss.languages.masking import Batch
from sameloss.models.masked_model import MaskedLanguageModel
from sameloss.training.execution import ALONE, PLAIN, Execution, Process
from sameloss.training.objectives import BatchLoss, plain_loss


@dataclass(frozen=True)
class Optimisation:
    """The optimiser's settings; part of a run's key.

    By default there is no weight decay, as there is no dropout: both are explicit regularisers, and the
    book is about the implicit one.
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
        check_counts(self, "steps", "batch")
        check_positive(self, "lr", "epsilon")
        check_not_negative(self, "weight_decay", "sam_radius")
        check_shares(self, "warmup")
        check_parts(self, "beta1", "beta2")
        check_choice(self, "optimiser", ("adamw", "sgd"))
        check_choice(self, "schedule", ("linear", "constant"))

    def lasting(self, steps: int) -> "Optimisation":
        """Return the same over another number of steps, with as many of warm-up as before, or all.

        >>> Optimisation(steps=100, batch=1, lr=1.0, warmup=0.1).lasting(400).warmup
        0.025
        """
        return replace(self, steps=steps, warmup=min(1.0, self.warmup * self.steps / steps))

    def lr_at(self, step: int) -> float:
        """Return the learning rate of step 0, 1, ...

        It rises over the warm-up, and then falls to zero or stays.

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


class TrainingStep(NamedTuple):
    """What a step of a training did."""

    done: int  # steps finished, this one included
    loss: float  # the masked loss on this batch, nats a masked token
    lr: float


def make_optimiser(model: nn.Module, settings: Optimisation) -> torch.optim.Optimizer:
    """Return AdamW or plain SGD over all parameters; weight decay, if any, spares vectors, as BERT's does."""
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
    model: MaskedLanguageModel,
    optimiser: torch.optim.Optimizer,
    batch_at: Callable[[int], Batch],
    settings: Optimisation,
    *,
    loss_at: Callable[[int], BatchLoss] = lambda step: plain_loss,
    start: int = 0,
    micro_batch: int | None = None,
    execution: Execution = PLAIN,
    process: Process = ALONE,
) -> Iterator[TrainingStep]:
    """Train in place from step `start` on and yield after every step.

    The loop keeps nothing between steps but the model and the optimiser. Whoever saves both after a yield
    can go on from there: bit for bit on a CPU, in up to two processes; elsewhere sums may be taken in
    another order.

    Args:
        model: what is trained.
        optimiser: from `make_optimiser`, with its state when resuming.
        batch_at: the batch of a step; of several processes each gets the same and takes its share.
        settings: steps, learning rate, schedule.
        loss_at: the loss of a step, the same whenever it is asked for.
        start: number of steps already done.
        micro_batch: sentences that go through the model at once; bounds memory.
        execution: precision, compilation, batches by length, number of processes.
        process: which of them this is.

    Raises:
        NonFiniteLoss: where a loss is NaN or infinite, before the parameters are touched by it. So every
            step waits for the device; what is yielded, and saved after it, is known to be sound.

    """
    device = next(model.parameters()).device
    with execution.prepared(model) as forward:
        for step in range(start, settings.steps):
            batch = batch_at(step).rows(slice(process.rank, None, process.world)).to(device)
            lr = settings.lr_at(step)
            for group in optimiser.param_groups:
                group["lr"] = lr
            parts = execution.parts(batch, micro_batch, model.max_length)
            loss = process.mean(_set_gradient(forward, loss_at(step), parts, execution))
            if not math.isfinite(loss):
                raise NonFiniteLoss(f"The loss is {loss} at step {step + 1} with lr = {lr:.3g}")
            if settings.sam_radius:
                with _sam_ascent(model, settings.sam_radius):
                    _set_gradient(forward, loss_at(step), parts, execution)
            optimiser.step()
            yield TrainingStep(step + 1, loss, lr)


def _set_gradient(model: nn.Module, loss: BatchLoss, parts: list[Batch], execution: Execution) -> float:
    """Set the gradient of the mean loss over the parts of a batch; return the masked loss."""
    model.zero_grad(set_to_none=not execution.compiled)
    size, masked = sum(len(part.targets) for part in parts), []
    for part in parts:
        share = len(part.targets) / size
        with nullcontext() if part is parts[-1] else _without_gradient_exchange(model):
            with execution.precision(part.masked.device):
                losses = loss(model, part)
            (losses.total * share).backward()
        masked.append(losses.masked.detach() * share)
    return float(sum(masked))  # only now the device is waited for


def _without_gradient_exchange(model: nn.Module) -> AbstractContextManager[None]:
    """Keep processes from exchanging gradients that are not complete yet."""
    return model.no_sync() if isinstance(model, DistributedDataParallel) else nullcontext()


@contextmanager
def _sam_ascent(model: nn.Module, radius: float) -> Iterator[None]:
    """Move the parameters by `radius` along their gradient, and back (Foret et al. 2021)."""
    moved = [(p, p.grad, p.detach().clone()) for p in model.parameters() if p.grad is not None]
    norm = torch.stack([gradient.norm() for _, gradient, _ in moved]).norm()
    with torch.no_grad():
        for p, gradient, _ in moved:
            p.add_(gradient * (radius / norm))
    yield
    with torch.no_grad():
        for p, _, before in moved:
            p.copy_(before)
