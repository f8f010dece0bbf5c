"""One process of several that share a training."""

from typing import NamedTuple

import torch
from torch import distributed


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
