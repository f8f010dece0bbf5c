"""The residual block of wide networks, as the thesis' WRN-10-10 has it."""

from jaxtyping import Float
from torch import Tensor, nn


def _ready(channels: int) -> nn.Sequential:
    """Return normalisation by the statistics of the batch at hand, and a ReLU."""
    return nn.Sequential(nn.BatchNorm2d(channels, track_running_stats=False), nn.ReLU())


class WideBlock(nn.Module):
    """Two convolutions, each behind normalisation and ReLU, and a linear way around both."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.ready = _ready(before)
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.between = _ready(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        same = before == after and stride == 1
        self.around = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(
        self, x: Float[Tensor, "batch channel row column"]
    ) -> Float[Tensor, "batch out rows columns"]:
        """Return the sum."""
        h = self.ready(x)
        return self.around(h) + self.second(self.between(self.first(h)))
