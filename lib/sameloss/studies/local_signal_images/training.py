"""The networks on images, how they are trained, and which of their neurons are active."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from sameloss.checks import check_choice, check_counts, check_not_negative, check_parts, check_positive
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.seeds import generator_for

# The residual block of wide networks, as the thesis' WRN-10-10 has it.


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


# The networks that are trained, each made of its spec: images in, a logit out, or one a class.

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


# How a network is trained: its loss, Adam or SGD, a rate that falls, and outputs that may be scaled.

Logits = Float[Tensor, "image *logit"]
"""One of each image where two classes are told apart, and otherwise one a class."""

Answers = Float[Tensor, " image"] | Int[Tensor, " image"]
"""-1 or 1 for a single logit; otherwise the class."""

BATCH_AT_TEST = 250
"""Images whose outputs are computed at once."""


@dataclass(frozen=True)
class LogisticDescent:
    """A training; part of a run's key."""

    lr: float
    batch: int
    steps: int
    optimiser: str = "Adam"  # or SGD
    momentum: float = 0.9  # of SGD
    drops: tuple[float, ...] = (0.6, 0.8)  # shares of the steps after which the rate falls
    factor: float = 0.2  # to which it falls each time
    decay: float = 0.0  # of weights

    def __post_init__(self) -> None:
        """Refuse what trains nothing."""
        check_counts(self, "batch", "steps")
        check_positive(self, "lr", "factor")
        check_parts(self, "momentum")
        check_not_negative(self, "decay")
        check_choice(self, "optimiser", ("Adam", "SGD"))

    def lr_at(self, step: int) -> float:
        """Return the rate of a step, the first one being 0.

        >>> [round(LogisticDescent(1.0, 1, 10).lr_at(step), 2) for step in (5, 6, 8)]
        [1.0, 0.2, 0.04]
        """
        return self.lr * self.factor ** sum(step >= share * self.steps for share in self.drops)

    def optimiser_of(self, weights: list[Tensor]) -> torch.optim.Optimizer:
        """Return the optimiser of some parameters."""
        if self.optimiser == "Adam":
            return torch.optim.Adam(weights, self.lr, weight_decay=self.decay)
        return torch.optim.SGD(weights, self.lr, self.momentum, weight_decay=self.decay)


def batches(count: int, descent: LogisticDescent, rng: torch.Generator) -> Iterator[Int[Tensor, " batch"]]:
    """Draw the rows of each step: one permutation of all after the other."""
    size = min(descent.batch, count)
    left = torch.empty(0, dtype=torch.long)
    for _ in range(descent.steps):
        if len(left) < size:
            left = torch.cat([left, torch.randperm(count, generator=rng)])
        rows, left = left[:size], left[size:]
        yield rows


def outputs(model: nn.Module, weights: Weights, x: Float[Tensor, "image *shape"]) -> Logits:
    """Return the logits of all images, batch by batch."""
    with torch.no_grad():
        return torch.cat([functional_call(model, weights, (part,)) for part in x.split(BATCH_AT_TEST)])


def accuracy(logits: Logits, answers: Answers) -> float:
    """Return the share of single logits with the sign of the answer, zero being an error; or of largest ones.

    >>> accuracy(torch.tensor([2.0, 0.0, -1.0]), torch.tensor([1.0, 1.0, -1.0])) == 2 / 3
    True
    >>> accuracy(torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 1.0]]), torch.tensor([1, 2]))
    0.5
    """
    right = logits * answers > 0 if logits.ndim == 1 else logits.argmax(1) == answers
    return float(right.double().mean())


def mean_loss(logits: Logits, answers: Answers) -> Float[Tensor, ""]:
    """Return the mean of log(1 + e^-yf), or of the cross-entropy of several logits, in nats."""
    return F.softplus(-answers * logits).mean() if logits.ndim == 1 else F.cross_entropy(logits, answers)


def train(
    model: nn.Module,
    start: Weights,
    x: Float[Tensor, "image *shape"],
    y: Answers,
    descent: LogisticDescent,
    rng: torch.Generator,
    scale: float | None = None,
) -> Weights:
    """Train a network; return its parameters.

    Args:
        model: gives logits of images.
        start: first parameters, which stay as they are.
        x: images.
        y: of each.
        descent: how.
        rng: of the order of visits.
        scale: α, where training is made lazy: outputs are α(f - f₀), and the rate lr/α² (Chizat et al. 2019).

    Raises:
        NonFiniteLoss: for a training that diverged.

    """
    weights = {name: own.clone().requires_grad_() for name, own in start.items()}
    optimiser = descent.optimiser_of(list(weights.values()))
    alpha = 1.0 if scale is None else scale
    first = None if scale is None else outputs(model, start, x)
    for step, rows in enumerate(batches(len(x), descent, rng)):
        optimiser.param_groups[0]["lr"] = descent.lr_at(step) / alpha**2
        found = functional_call(model, weights, (x[rows],))
        loss = mean_loss(found if first is None else alpha * (found - first[rows]), y[rows])
        check_finite(loss, descent)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {name: own.detach() for name, own in weights.items()}


def check_finite(loss: Float[Tensor, ""], descent: LogisticDescent) -> None:
    """Refuse to go on where the loss is no number.

    Raises:
        NonFiniteLoss: with the rate.

    """
    if not torch.isfinite(loss):
        raise NonFiniteLoss(f"Training diverged at the learning rate {descent.lr:g}; choose a smaller one.")


# Which neurons are active (Figure 3.2): the share of a layer's ReLUs whose output is not zero.


def active_shares(model: nn.Module, weights: Weights, x: Float[Tensor, "image *shape"]) -> list[float]:
    """Return the share of active neurons of each layer of ReLUs, over all of its units, pixels and images.

    >>> model = nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Flatten(0))
    >>> active_shares(model, {}, torch.tensor([[-1.0], [2.0], [0.0], [3.0]]))
    [0.5]
    """
    layers = [layer for layer in model.modules() if isinstance(layer, nn.ReLU)]
    active, seen = [0.0] * len(layers), [0] * len(layers)

    def watch(at: int) -> torch.utils.hooks.RemovableHandle:
        def count(_: nn.Module, given: object, result: Tensor) -> None:
            active[at] += float((result > 0).sum())
            seen[at] += result.numel()

        return layers[at].register_forward_hook(count)

    watching = [watch(at) for at in range(len(layers))]
    outputs(model, weights, x)
    for handle in watching:
        handle.remove()
    return [own / count for own, count in zip(active, seen, strict=True)]
