"""The networks that are trained, each made of its spec: images in, a logit out, or one a class."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from sameloss.checks import check_counts
from sameloss.errors import ParameterError
from sameloss.seeds import generator_for
from sameloss.studies.local_signal_images.wide_resnet import WideBlock

Weights = dict[str, Tensor]
"""Parameters by name."""


@dataclass(frozen=True)
class LogitNetwork(ABC):
    """A kind of network; part of a run's key."""

    @abstractmethod
    def layers(self, channels: int) -> Iterator[nn.Module]:
        """Make the layers between an image and the mean over its pixels, the last one's channels last."""

    @property
    @abstractmethod
    def features(self) -> int:
        """Return the number of channels that are averaged over the pixels."""

    @abstractmethod
    def narrowed(self, divisor: int) -> "LogitNetwork":
        """Return the network with so many times fewer channels in its layers, and at least one."""

    def build(self, channels: int, logits: int = 1) -> nn.Sequential:
        """Return a network of images with so many channels, its parameters not yet drawn.

        Its outputs are (image), or with several logits (image, logit).
        """
        mean = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(self.features, logits)]
        alone = [nn.Flatten(0)] if logits == 1 else []
        return nn.Sequential(*self.layers(channels), *mean, *alone)

    def drawn(self, channels: int, seed: int, logits: int = 1) -> Weights:
        """Return first parameters: He's normal weights for ReLUs, 1/width for the last map; no offsets."""
        model, rng = self.build(channels, logits), generator_for("initial parameters", seed)
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                gain = 2 if parameter.ndim == 4 else 1
                drawn = torch.randn(parameter.shape, generator=rng)
                parameter.data = drawn * (gain / parameter[0].numel()) ** 0.5
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        return {name: parameter.detach() for name, parameter in model.named_parameters()}

    def parameters(self, channels: int) -> int:
        """Return the number of parameters."""
        return _parameters(self, channels)

    def products(self, channels: int, side: int) -> float:
        """Return the multiplications of an image's way through the network."""
        return _products(self, channels, side)


@cache  # runs that wait tell their efforts twice a second
def _parameters(network: LogitNetwork, channels: int) -> int:
    return sum(own.numel() for own in network.build(channels).parameters())


@cache
def _products(network: LogitNetwork, channels: int, side: int) -> float:
    with FlopCounterMode(display=False) as counted:
        network.build(channels)(torch.zeros(1, channels, side, side))
    return counted.get_total_flops() / 2


@dataclass(frozen=True)
class PooledCNN(LogitNetwork):
    """Convolutions of 3 by 3, ReLUs behind them, the mean over all pixels and a linear map.

    >>> PooledCNN().parameters(1)
    14081
    """

    channels: tuple[int, ...] = (16, 32, 32)
    strides: tuple[int, ...] = (1, 2, 1)

    def __post_init__(self) -> None:
        """Refuse a stride too few, or no channels.

        Raises:
            ParameterError: in one sentence.

        """
        if len(self.strides) != len(self.channels) or not self.channels:
            raise ParameterError(
                f"A network needs a stride for each layer; got {len(self.channels)} layers and "
                f"{len(self.strides)} strides."
            )

    @property
    def features(self) -> int:
        """Return the last layer's channels."""
        return self.channels[-1]

    def narrowed(self, divisor: int) -> "PooledCNN":
        """Return the network with fewer channels in every layer.

        >>> PooledCNN().narrowed(4).channels
        (4, 8, 8)
        """
        return replace(self, channels=tuple(max(1, own // divisor) for own in self.channels))

    def layers(self, channels: int) -> Iterator[nn.Module]:
        """Make the convolutions."""
        for (before, after), stride in zip(pairwise((channels, *self.channels)), self.strides, strict=True):
            yield nn.Conv2d(before, after, 3, stride, 1)
            yield nn.ReLU()


@dataclass(frozen=True)
class WideResNet(LogitNetwork):
    """WRN-10-k (Zagoruyko and Komodakis 2016): a convolution and three residual blocks of two each."""

    width: int = 10  # k

    def __post_init__(self) -> None:
        """Refuse none."""
        check_counts(self, "width")

    @property
    def features(self) -> int:
        """Return the last block's channels."""
        return 64 * self.width

    def narrowed(self, divisor: int) -> "WideResNet":
        """Return the network with fewer channels in its blocks."""
        return replace(self, width=max(1, self.width // divisor))

    def layers(self, channels: int) -> Iterator[nn.Module]:
        """Make the blocks."""
        widths = (16, 16 * self.width, 32 * self.width, 64 * self.width)
        yield nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False)
        for (before, after), stride in zip(pairwise(widths), (1, 2, 2), strict=True):
            yield WideBlock(before, after, stride)
        yield nn.BatchNorm2d(widths[-1], track_running_stats=False)
        yield nn.ReLU()
