"""How a training is executed: precision, compilation, batches by length, processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from sameloss.corpus import Batch
from sameloss.errors import ParameterError

WIDTHS = 8
"""Micro-batches are as wide as a multiple of this, or as the longest sentence there is: few shapes, so that
few programs are compiled."""


@dataclass(frozen=True)
class Execution:
    """Part of a run's key: each setting changes a result, all but bfloat16 in its last digits only."""

    autocast: bool = False  # products in bfloat16; weights, moments and LayerNorms stay float32
    compiled: bool = False  # torch.compile with static shapes, as CUDA graphs on a GPU
    by_length: bool = False  # a micro-batch holds sentences of similar length: no padding is computed
    processes: int = 1  # each with its share of every batch (DistributedDataParallel)

    def __post_init__(self) -> None:
        """Refuse what is no number of processes."""
        if self.processes < 1:
            raise ParameterError(f"processes must be at least 1; got {self.processes}.")

    def alone(self) -> "Execution":
        """Return the same in one process and not compiled: what every objective can run under."""
        return replace(self, processes=1, compiled=False)

    def parts(self, batch: Batch, size: int | None, longest: int) -> list[Batch]:
        """Return the batch in micro-batches of at most `size` sentences of at most `longest` tokens."""
        if not self.by_length or batch.lengths is None:
            return batch.parts(size)
        ordered = batch.rows(batch.lengths.argsort(stable=True))
        return [_cut(part, longest) for part in ordered.parts(size)]

    def forward(self, model: nn.Module) -> nn.Module:
        """Return what to call in the model's place; its parameters are the model's."""
        on_gpu = next(model.parameters()).device.type == "cuda"
        forward = DistributedDataParallel(model) if self.processes > 1 else model
        if not self.compiled:
            return forward
        torch.compiler.reset()  # after some programs of one class, whatever the model, no more are compiled
        for parameter in model.parameters():
            # A replayed backward pass hands out the same memory again: gradients are added into their own.
            parameter.grad = torch.zeros_like(parameter)
        return torch.compile(forward, dynamic=False, mode="reduce-overhead" if on_gpu else "default")

    @contextmanager
    def precision(self, device: torch.device) -> Iterator[None]:
        """Compute products in bfloat16 where asked for."""
        with torch.autocast(device.type, torch.bfloat16, enabled=self.autocast):
            yield


def _cut(part: Batch, longest: int) -> Batch:
    """Return the same as wide as its longest sentence, filled up to one of the few widths."""
    width = min(-int(part.lengths.max()) // WIDTHS * -WIDTHS, longest)
    return part._replace(masked=F.pad(part.masked, (0, width - part.masked.shape[1])))


PLAIN = Execution()
"""Float32, eager, one process: what the laptop does."""
