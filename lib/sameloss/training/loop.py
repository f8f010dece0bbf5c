"""The pre-training loop: execution, schedule, AdamW, SGD and SAM (Section 2.2, App. A.3, A.4)."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple, cast

import torch
from torch import distributed, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from sameloss.checks import (
    check_choice,
    check_counts,
    check_half_open,
    check_not_negative,
    check_positive,
    check_unit_interval,
)
from sameloss.device import best_device
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.languages.masking import Batch
from sameloss.models.masked_model import MaskedLanguageModel, Shape
from sameloss.training.objectives import BatchLoss, plain_loss

# Execution: precision, compilation, batches by length, processes.

WIDTHS = 8
"""Micro-batches by length are padded to a multiple of this or to the longest possible sentence, so that few
programs are compiled."""


@dataclass(frozen=True)
class Execution:
    """How a training is executed; part of a run's key, because each setting changes the result.

    Most settings change only its last digits; bfloat16 changes more, and so does dropout, whose draws depend
    on the settings.
    """

    autocast: bool = False  # matrix products in bfloat16; weights, moments and LayerNorms stay in float32
    compiled: bool = False  # torch.compile with static shapes, and CUDA graphs on a GPU
    by_length: bool = False  # micro-batches of sentences of similar length, to save computing on padding
    processes: int = 1  # DistributedDataParallel

    def __post_init__(self) -> None:
        check_counts(self, "processes")
        if self.compiled and not self.by_length:
            raise ParameterError("compiled needs by_length; else every width of a batch would be compiled.")

    @property
    def dtype(self) -> torch.dtype:
        """Precision of matrix products."""
        return torch.bfloat16 if self.autocast else torch.float32

    def for_shape(self, shape: Shape) -> "Execution":
        """Switch off what the shape's family does not support."""
        return replace(self, autocast=False, compiled=False) if shape.plain else self

    def eager_in_one_process(self) -> "Execution":
        """Switch off compilation and parallelism, which only ordinary training supports."""
        return replace(self, processes=1, compiled=False)

    def parts(self, batch: Batch, size: int | None, longest: int) -> list[Batch]:
        """Split a batch into micro-batches.

        Args:
            batch: masked sentences.
            size: maximal number of sentences of a micro-batch; None: a single micro-batch.
            longest: tokens of the longest possible sentence.

        """
        if not self.by_length or batch.lengths is None:
            return batch.parts(size)
        order = batch.lengths.argsort(stable=True)
        maxima = torch.stack([lengths[-1] for lengths in batch.lengths[order].split(size or len(order))])
        widths = [min(-length // WIDTHS * -WIDTHS, longest) for length in maxima.tolist()]  # a single sync
        return [
            part._replace(masked=F.pad(part.masked, (0, width - part.masked.shape[1])))
            for width, part in zip(widths, batch.rows(order).parts(size), strict=True)
        ]

    @contextmanager
    def prepared(self, model: nn.Module) -> Iterator[nn.Module]:
        """Wrap the model for the forward pass; the wrapper shares its parameters."""
        forward = model
        if self.compiled:
            for parameter in model.parameters():
                # A replayed backward pass reuses its memory, so gradients need their own.
                parameter.grad = torch.zeros_like(parameter)
            mode = "default" if next(model.parameters()).is_cpu else "reduce-overhead"
            forward = cast(nn.Module, torch.compile(model, dynamic=False, mode=mode))
        try:
            yield DistributedDataParallel(forward) if self.processes > 1 else forward
        finally:
            if self.compiled:
                torch.compiler.reset()  # frees the programs, whose number is limited


PLAIN = Execution()
"""float32, not compiled, in one process."""


# Data-parallel processes.


class Process(NamedTuple):
    """One of the processes of a data-parallel training."""

    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files."""
        return self.rank == 0

    def mean(self, value: float) -> float:
        """Average a number over all processes."""
        if self.world == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64)
        if distributed.get_backend() == "nccl":
            total = total.to(best_device())
        distributed.all_reduce(total)
        return float(total) / self.world


ALONE = Process()
"""The only process of a training."""

# Settings of the optimiser.


@dataclass(frozen=True)
class Optimisation:
    """The optimiser's settings; part of a run's key.

    Weight decay is off by default, like dropout: both regularise explicitly, and the book is about implicit
    regularisation.
    """

    steps: int
    batch: int
    lr: float
    warmup: float = 0.06  # fraction of the steps
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-6
    optimiser: str = "adamw"  # or sgd
    schedule: str = "linear"  # after the warm-up: linear decay to zero, or constant
    sam_radius: float = 0.0  # of sharpness-aware minimisation; 0: off

    def __post_init__(self) -> None:
        check_counts(self, "steps", "batch")
        check_positive(self, "lr", "epsilon")
        check_not_negative(self, "weight_decay", "sam_radius")
        check_unit_interval(self, "warmup")
        check_half_open(self, "beta1", "beta2")
        check_choice(self, "optimiser", ("adamw", "sgd"))
        check_choice(self, "schedule", ("linear", "constant"))

    def lasting(self, steps: int) -> "Optimisation":
        """Change the number of steps, but not (if possible) the number of warm-up steps.

        >>> Optimisation(steps=100, batch=1, lr=1.0, warmup=0.1).lasting(400).warmup
        0.025
        """
        return replace(self, steps=steps, warmup=min(1.0, self.warmup * self.steps / steps))

    def lr_at(self, step: int) -> float:
        """Learning rate of step 0, 1, ...

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
    """The result of a training step."""

    done: int  # steps finished, including this one
    loss: float  # masked loss on this batch, in nats per masked token
    lr: float


def make_optimiser(model: nn.Module, settings: Optimisation) -> torch.optim.Optimizer:
    """Make AdamW or plain SGD; as in BERT, weight decay is applied to matrices only."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    # fused: for small models, separate updates cost as much as the gradients.
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
    """Train in place from step `start` on, and yield after every step.

    Model and optimiser are the only state between steps, so training can resume from both as saved after a
    yield: bit for bit on a CPU with at most two processes; otherwise sums may be taken in another order.

    Args:
        model: the model to train.
        optimiser: from `make_optimiser`, with its state when resuming.
        batch_at: the batch of a step, from which each process takes its part.
        settings: steps, learning rate, schedule.
        loss_at: the loss of a step; repeated calls must return the same.
        start: number of steps already done.
        micro_batch: maximal number of sentences in a forward pass; bounds memory.
        execution: precision, compilation, batches by length, number of processes.
        process: this process.

    Raises:
        NonFiniteLoss: if a loss is NaN or infinite, before it can spoil the parameters and what is saved of
            them; this check makes every step synchronise with the device.

    """
    device = next(model.parameters()).device
    with execution.prepared(model) as forward:
        for step in range(start, settings.steps):
            batch = batch_at(step).rows(slice(process.rank, None, process.world)).to(device)
            lr = settings.lr_at(step)
            for group in optimiser.param_groups:
                group["lr"] = lr
            parts = execution.parts(batch, micro_batch, model.max_length)
            loss, objective = _set_gradient(forward, loss_at(step), parts, execution)
            if settings.sam_radius:
                with sam_ascent(model, settings.sam_radius):
                    objective += _set_gradient(forward, loss_at(step), parts, execution)[1]
            loss = process.mean(loss if math.isfinite(objective) else objective)  # so that all processes stop
            if not math.isfinite(loss):
                raise NonFiniteLoss(f"The loss is {loss} at step {step + 1} with lr = {lr:.3g}")
            optimiser.step()
            yield TrainingStep(step + 1, loss, lr)


def _set_gradient(model: nn.Module, loss: BatchLoss, parts: list[Batch], execution: Execution) -> list[float]:
    """Set the gradient of the mean loss over a batch; return its masked loss and its loss with penalties."""
    model.zero_grad(set_to_none=not execution.compiled)
    size, means = sum(len(part.targets) for part in parts), []
    for part in parts:
        weight = len(part.targets) / size
        more = part is not parts[-1]  # gradients are exchanged once, after the last part
        with model.no_sync() if more and isinstance(model, DistributedDataParallel) else nullcontext():
            with torch.autocast(part.masked.device.type, torch.bfloat16, enabled=execution.autocast):
                losses = loss(model, part)
            (losses.total * weight).backward()
        means.append(torch.stack([losses.masked.detach(), losses.total.detach()]) * weight)
    return reduce(torch.add, means).tolist()  # synchronises only here


@contextmanager
def sam_ascent(model: nn.Module, radius: float) -> Iterator[None]:
    """Move the parameters by `radius` along their gradient, and back on exit (Foret et al. 2021)."""
    moved = [(p, p.grad, p.detach().clone()) for p in model.parameters() if p.grad is not None]
    norm = torch.stack([gradient.norm() for _, gradient, _ in moved]).norm().clamp(min=1e-12)
    with torch.no_grad():
        for p, gradient, _ in moved:
            p.add_(gradient * (radius / norm))
    try:
        yield
    finally:
        with torch.no_grad():
            for p, _, before in moved:
                p.copy_(before)
