"""The models whose stability is measured: from logistic regression to ResNet-20, each made of its spec.

All return logits, one column a class. None keeps anything between batches, so that many models of one shape
can be called as one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from sameloss.checks import check_counts
from sameloss.seeds import generator_for


@dataclass(frozen=True)
class Network(ABC):
    """A kind of model; part of a run's key."""

    convex: ClassVar[bool] = False
    """Whether its loss is convex in its parameters: it starts from zero."""

    @abstractmethod
    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return a model of what `inputs` returns, its parameters not yet drawn."""

    def inputs(self, images: Float[Tensor, "image *shape"]) -> Float[Tensor, "image *inputs"]:
        """Return what is learnt from: the images, or what is computed of each once and for all."""
        return images

    def products(self, shape: tuple[int, ...]) -> float:
        """Return the multiplications of an image's way through the model."""
        return _products(self, shape)

    def drawn(self, shape: tuple[int, ...], classes: int, seed: int) -> dict[str, Tensor]:
        """Return first parameters: He's normal weights, or none at all; no offsets."""
        model, rng = self.build(shape, classes), generator_for("initial parameters", seed)
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and not self.convex:
                fan_in = parameter[0].numel()
                parameter.data = torch.randn(parameter.shape, generator=rng) * (2 / fan_in) ** 0.5
            elif parameter.ndim > 1 or name.endswith("bias"):
                nn.init.zeros_(parameter)
        return {name: parameter.detach() for name, parameter in model.named_parameters()}


@cache  # runs that wait tell their efforts twice a second
def _products(network: Network, shape: tuple[int, ...]) -> float:
    image = network.inputs(torch.zeros(1, *shape))
    with FlopCounterMode(display=False) as counted:
        network.build(tuple(image.shape[1:]), 10)(image)
    return counted.get_total_flops() / 2


class Flat(nn.Module):
    """Images as vectors, through linear maps with ReLUs between."""

    def __init__(self, widths: Iterable[int]) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(m, n) for m, n in pairwise(widths))

    def forward(self, x: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch out"]:
        """Return the last map's outputs."""
        first, *others = self.maps
        h = first(x.flatten(1))
        for linear in others:
            h = linear(F.relu(h))
        return h


class OneLogit(nn.Module):
    """A model of two classes with one vector of weights: the logit of the first class is zero."""

    def __init__(self, pixels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(pixels, 1)

    def forward(self, x: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch 2"]:
        """Return both logits."""
        logit = self.linear(x.flatten(1))
        return torch.cat([torch.zeros_like(logit), logit], -1)


def _pixels(shape: tuple[int, ...]) -> int:
    return torch.Size(shape).numel()


@dataclass(frozen=True)
class LogisticRegression(Network):
    """A weight a pixel and an intercept; of more than two classes, of each class."""

    convex: ClassVar[bool] = True

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return it."""
        return OneLogit(_pixels(shape)) if classes == 2 else Flat((_pixels(shape), classes))


@dataclass(frozen=True)
class RandomFeatures(Network):
    """Logistic regression of random ReLU features: convex, with more parameters than examples.

    The features of an image are as long as the image, on average.
    """

    convex: ClassVar[bool] = True

    features: int

    def __post_init__(self) -> None:
        """Refuse none."""
        check_counts(self, "features")

    def inputs(self, images: Float[Tensor, "image *shape"]) -> Float[Tensor, "image feature"]:
        """Return the features, the same in every training."""
        vectors = images.flatten(1)
        rng = generator_for("random features", self.features)
        directions = torch.randn(vectors.shape[1], self.features, generator=rng).to(vectors)
        return F.relu(vectors @ directions) * (2 / self.features) ** 0.5

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return the map of the features."""
        return Flat((self.features, classes))


@dataclass(frozen=True)
class Perceptron(Network):
    """Hidden layers of some widths."""

    widths: tuple[int, ...]

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return it."""
        return Flat((_pixels(shape), *self.widths, classes))


class Convolutions(nn.Module):
    """Convolutions of 3 by 3 that halve the image one after the other, and a linear map of the mean."""

    def __init__(self, channels: Iterable[int], classes: int) -> None:
        super().__init__()
        *_, last = channels = tuple(channels)
        self.convolutions = nn.ModuleList(nn.Conv2d(m, n, 3, 2, 1) for m, n in pairwise(channels))
        self.linear = nn.Linear(last, classes)

    def forward(self, x: Float[Tensor, "batch channel row column"]) -> Float[Tensor, "batch out"]:
        """Return logits."""
        for convolution in self.convolutions:
            x = F.relu(convolution(x))
        return self.linear(x.mean((-2, -1)))


@dataclass(frozen=True)
class SmallCNN(Network):
    """A few convolutions."""

    channels: tuple[int, ...]

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return it."""
        return Convolutions((shape[0], *self.channels), classes)


def _normalised(convolution: nn.Conv2d) -> nn.Sequential:
    """Return a convolution and batch normalisation, by the statistics of the batch at hand."""
    return nn.Sequential(convolution, nn.BatchNorm2d(convolution.out_channels, track_running_stats=False))


class Residual(nn.Module):
    """Two convolutions and what went in, thinned and padded where the channels grow (He et al. 2016)."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.stride, self.more = after // before, after - before
        self.first = _normalised(nn.Conv2d(before, after, 3, self.stride, 1, bias=False))
        self.second = _normalised(nn.Conv2d(after, after, 3, 1, 1, bias=False))

    def forward(
        self, x: Float[Tensor, "batch channel row column"]
    ) -> Float[Tensor, "batch out rows columns"]:
        """Return the sum."""
        short = F.pad(x[..., :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return F.relu(short + self.second(F.relu(self.first(x))))


@dataclass(frozen=True)
class ResNet20(Network):
    """The residual network of CIFAR-10: 19 convolutions of 16, 32 and 64 channels, and a linear map."""

    width: int = 16

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return it."""
        first = _normalised(nn.Conv2d(shape[0], self.width, 3, 1, 1, bias=False))
        channels = [self.width * share for share in (1, 1, 1, 1, 2, 2, 2, 4, 4, 4)]
        blocks = [Residual(before, after) for before, after in pairwise(channels)]
        mean = [nn.AdaptiveAvgPool2d(1), nn.Flatten(-3), nn.Linear(channels[-1], classes)]
        return nn.Sequential(first, nn.ReLU(), *blocks, *mean)
