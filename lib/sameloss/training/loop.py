"""Masked-LM pre-training: how it is executed, schedule, AdamW, SGD and SAM (Section 2.2, App. A.3, A.4)."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import distributed, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from sameloss.checks import (
    check_choice,
    check_counts,
    check_not_negative,
    check_parts,
    check_positive,
    check_shares,
)
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.languages.masking import Batch
from sameloss.models.masked_model import MaskedLanguageModel, Shape
from sameloss.training.objectives import BatchLoss, plain_loss

# How a training is executed: precision, compilation, batches by length, processes.

WIDTHS = 8
"""A micro-batch is as wide as a multiple of this, or as the longest sentence there is. So there are few
shapes, and few programs are compiled."""


@dataclass(frozen=True)
class Execution:
    """How a training is executed; part of a run's key, because each setting changes the result.

    Most change its last digits only. Products in bfloat16 change more, and so do the other draws of
    dropout that a setting brings.
    """

    autocast: bool = False  # products in bfloat16; weights, moments and LayerNorms stay float32
    compiled: bool = False  # torch.compile with static shapes, as CUDA graphs on a GPU
    by_length: bool = False  # a micro-batch holds sentences of similar length: no padding is computed
    processes: int = 1  # each with its share of every batch (DistributedDataParallel)

    def __post_init__(self) -> None:
        """Refuse an impossible number of processes, and compilation for every width there is."""
        check_counts(self, "processes")
        if self.compiled and not self.by_length:
            raise ParameterError("compiled needs by_length: else each width of a batch would be compiled.")

    @property
    def dtype(self) -> torch.dtype:
        """Return the precision in which products are computed."""
        return torch.bfloat16 if self.autocast else torch.float32

    def for_shape(self, shape: Shape) -> "Execution":
        """Return the same without what the shape's family lacks."""
        return replace(self, autocast=False, compiled=False) if shape.plain else self

    def eager_in_one_process(self) -> "Execution":
        """Return the same, neither compiled nor shared by processes: every objective can run under it."""
        return replace(self, processes=1, compiled=False)

    def parts(self, batch: Batch, size: int | None, longest: int) -> list[Batch]:
        """Return the batch in micro-batches.

        Args:
            batch: masked sentences.
            size: sentences that a micro-batch has at most; one micro-batch where it is None.
            longest: tokens of the longest sentence that there can be.

        """
        if not self.by_length or batch.lengths is None:
            return batch.parts(size)
        order = batch.lengths.argsort(stable=True)
        last_of_each = [lengths[-1] for lengths in batch.lengths[order].split(size or len(order))]
        lengths = torch.stack(last_of_each).tolist()  # one wait for the device
        widths = [min(-length // WIDTHS * -WIDTHS, longest) for length in lengths]
        parts = batch.rows(order).parts(size)
        return [
            part._replace(masked=F.pad(part.masked, (0, width - part.masked.shape[1])))
            for width, part in zip(widths, parts, strict=True)
        ]

    @contextmanager
    def prepared(self, model: nn.Module) -> Iterator[nn.Module]:
        """Give the module that is called in the model's place, with the same parameters."""
        forward = model
        if self.compiled:
            for parameter in model.parameters():
                # A replayed backward pass hands out the same memory again: gradients need their own.
                parameter.grad = torch.zeros_like(parameter)
            mode = "reduce-overhead" if next(model.parameters()).is_cuda else "default"
            forward = cast(nn.Module, torch.compile(model, dynamic=False, mode=mode))
        try:
            yield DistributedDataParallel(forward) if self.processes > 1 else forward
        finally:
            if self.compiled:
                torch.compiler.reset()  # frees its programs, and lets the next training have as many


PLAIN = Execution()
"""Training in float32, not compiled, in one process: what the laptop does."""


# One process of several that share a training.


class Process(NamedTuple):
    """One of the processes that share a training."""

    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """Tell whether this process writes."""
        return self.rank == 0

    def mean(self, value: float) -> float:
        """Return the mean of a number over all processes, the same on each of them."""
        if self.world == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64)
        if distributed.get_backend() == "nccl":
            total = total.cuda()
        distributed.all_reduce(total)
        return float(total) / self.world


ALONE = Process()
"""The process of a training that is not shared."""


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
        more = part is not parts[-1]  # gradients are exchanged once, as a sum
        with model.no_sync() if more and isinstance(model, DistributedDataParallel) else nullcontext():
            with torch.autocast(part.masked.device.type, torch.bfloat16, enabled=execution.autocast):
                losses = loss(model, part)
            (losses.total * share).backward()
        masked.append(losses.masked.detach() * share)
    return float(sum(masked))  # only now the device is waited for


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
