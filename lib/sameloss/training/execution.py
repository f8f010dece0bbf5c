"""How a training is executed: precision, compilation, batches by length, processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.models.shape import Option, Shape

WIDTHS = 8
"""Micro-batches are as wide as a multiple of this, or as the longest sentence there is: few shapes, so that
few programs are compiled."""


@dataclass(frozen=True)
class Execution:
    """Part of a run's key: each setting changes a result.

    In its last digits only; but bfloat16 and, where there is dropout, other draws of it change more.
    """

    autocast: bool = False  # products in bfloat16; weights, moments and LayerNorms stay float32
    compiled: bool = False  # torch.compile with static shapes, as CUDA graphs on a GPU
    by_length: bool = False  # a micro-batch holds sentences of similar length: no padding is computed
    processes: int = 1  # each with its share of every batch (DistributedDataParallel)

    def __post_init__(self) -> None:
        """Refuse what is no number of processes, and programs for every width there is."""
        if self.processes < 1:
            raise ParameterError(f"processes must be at least 1; got {self.processes}.")
        if self.compiled and not self.by_length:
            raise ParameterError("compiled needs by_length: else each width of a batch would be compiled.")

    @property
    def dtype(self) -> torch.dtype:
        """Return what products are computed in."""
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
        """Return the batch in micro-batches of at most `size` sentences of at most `longest` tokens."""
        if not self.by_length or batch.lengths is None:
            return batch.parts(size)
        parts = batch.rows(batch.lengths.argsort(stable=True)).parts(size)
        lengths = torch.stack([part.lengths[-1] for part in parts]).tolist()  # one wait for the device
        widths = [min(-length // WIDTHS * -WIDTHS, longest) for length in lengths]
        return [_as_wide_as(width, part) for width, part in zip(widths, parts, strict=True)]

    @contextmanager
    def prepared(self, model: nn.Module) -> Iterator[nn.Module]:
        """Give what to call in the model's place; its parameters are the model's."""
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
        return torch.compile(model, dynamic=False, mode="reduce-overhead" if on_gpu else "default")

    @contextmanager
    def precision(self, device: torch.device) -> Iterator[None]:
        """Compute products in bfloat16 where asked for."""
        with torch.autocast(device.type, torch.bfloat16, enabled=self.autocast):
            yield


def _as_wide_as(width: int, batch: Batch) -> Batch:
    """Return the same with columns of padding added or left out."""
    return batch._replace(masked=F.pad(batch.masked, (0, width - batch.masked.shape[1])))


PLAIN = Execution()
"""Float32, eager, one process: what the laptop does."""
