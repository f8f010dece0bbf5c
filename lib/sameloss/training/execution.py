"""How training is executed: precision, compilation, processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import distributed, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from sameloss.checks import check_counts
from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.models.masked_model import Option, Shape

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

    @property
    def options(self) -> list[Option]:
        """Return what this asks of a family of models."""
        asked: dict[Option, bool] = {"bfloat16": self.autocast, "compilation": self.compiled}
        return [option for option, wanted in asked.items() if wanted]

    def for_shape(self, shape: Shape) -> "Execution":
        """Return the same without what the shape's family lacks."""
        return replace(
            self,
            autocast=self.autocast and "bfloat16" in shape.options,
            compiled=self.compiled and "compilation" in shape.options,
        )

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
        return [_as_wide_as(width, part) for width, part in zip(widths, parts, strict=True)]

    @contextmanager
    def prepared(self, model: nn.Module) -> Iterator[nn.Module]:
        """Give the module that is called in the model's place, with the same parameters."""
        forward = self._programs(model) if self.compiled else model
        try:
            yield DistributedDataParallel(forward) if self.processes > 1 else forward
        finally:
            if self.compiled:
                torch.compiler.reset()  # frees its programs, and lets the next training have as many

    def _programs(self, model: nn.Module) -> nn.Module:
        on_gpu = next(model.parameters()).device.type == "cuda"
        for parameter in model.parameters():
            # A replayed backward pass hands out the same memory again: gradients are added into their own.
            parameter.grad = torch.zeros_like(parameter)
        mode = "reduce-overhead" if on_gpu else "default"
        return cast(nn.Module, torch.compile(model, dynamic=False, mode=mode))

    @contextmanager
    def precision(self, device: torch.device) -> Iterator[None]:
        """Compute products in bfloat16 where that is asked for."""
        with torch.autocast(device.type, torch.bfloat16, enabled=self.autocast):
            yield


def _as_wide_as(width: int, batch: Batch) -> Batch:
    """Return the batch with columns of padding added or left out."""
    return batch._replace(masked=F.pad(batch.masked, (0, width - batch.masked.shape[1])))


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
