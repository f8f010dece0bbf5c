"""The models whose stability is measured, many of one shape trained as one, and paths between twins."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from sameloss.checks import check_counts, check_not_negative, check_positive
from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.seeds import generator_for

# The models whose stability is measured: from logistic regression to ResNet-20, each made of its spec.
#
# All return logits, one column a class. None keeps anything between batches, so that many models of one shape
# can be called as one.


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


# Many small models trained as one: what a step costs beside its arithmetic is paid once.

FAR = 10.0
"""A loss on the sample of so many times that of guessing is a diverged one."""

ROWS_AT_ONCE = 4096
"""Images that go through a stack at once when nothing is learnt."""

Weights = dict[str, Tensor]
"""Parameters by name; of a stack, models first."""


@dataclass(frozen=True)
class Descent:
    """Stochastic gradient descent as the thesis has it (Section 2.3)."""

    lr: float
    batch: int
    steps: int
    momentum: float = 0.0
    drops: tuple[tuple[int, float], ...] = ()  # from a step on, another rate

    def __post_init__(self) -> None:
        """Refuse settings no training has."""
        check_positive(self, "lr")
        check_counts(self, "batch", "steps")
        check_not_negative(self, "momentum")

    def lr_at(self, step: int) -> float:
        """Return the rate of step 0, 1, ...

        >>> plain = Descent(0.1, 1, 100, drops=((50, 0.01), (80, 0.001)))
        >>> [plain.lr_at(step) for step in (0, 49, 50, 79, 99)]
        [0.1, 0.1, 0.01, 0.01, 0.001]
        """
        return [self.lr, *(lr for first, lr in self.drops if first <= step)][-1]


class Stack:
    """Models of one shape, and how they move."""

    def __init__(self, network: nn.Module, models: Sequence[Weights], copies: int = 1) -> None:
        """Take so many copies of each model, one after the other; the models are not changed.

        Args:
            network: what takes their weights.
            models: the weights of each.
            copies: of each.

        """
        self.network = network
        self.weights = {
            name: torch.stack([own[name] for own in models]).repeat_interleave(copies, 0)
            for name in models[0]
        }
        self.velocity = {name: torch.zeros_like(own) for name, own in self.weights.items()}
        self._gradient: Callable[[Weights, Tensor, Tensor], Weights] | None = None

    def _gradients(self, own: Weights, x: Tensor, y: Tensor) -> Weights:
        """Return the gradient of the cross-entropy of one model."""

        def loss(weights: Weights) -> Tensor:
            return F.cross_entropy(functional_call(self.network, weights, (x,)), y)

        return grad(loss)(own)

    def learn(
        self,
        x: Float[Tensor, "model batch *shape"],
        y: Int[Tensor, "model batch"],
        lr: float,
        momentum: float,
    ) -> None:
        """Take a step of gradient descent on a batch of each model's own."""
        if self._gradient is None:
            # What vmap and grad do for every operation takes longer than it, in small models: once is enough.
            self._gradient = make_fx(lambda *given: vmap(self._gradients)(*given))(self.weights, x, y)
        found = self._gradient(self.weights, x, y)
        self.velocity = {name: momentum * own + found[name] for name, own in self.velocity.items()}
        self.weights = {name: own - lr * self.velocity[name] for name, own in self.weights.items()}

    def state_dict(self) -> dict[str, Weights]:
        """Return all that training changes."""
        return {"weights": self.weights, "velocity": self.velocity}

    def load_state_dict(self, state: dict[str, Weights]) -> None:
        """Take over what `state_dict` returned.

        Raises:
            ValueError: where it is of other models.

        """
        shapes = [
            {name: own.shape for name, own in part.items()} for part in (self.weights, state["weights"])
        ]
        if shapes[0] != shapes[1]:
            raise ValueError("The state is of other models.")
        self.weights, self.velocity = state["weights"], state["velocity"]

    def vectors(self) -> Float[Tensor, "model parameter"]:
        """Return all parameters of each model in one row, in float64."""
        return torch.cat([own.flatten(1) for own in self.weights.values()], 1).double()


def train(
    stack: Stack,
    x: Float[Tensor, "row *shape"],
    y: Int[Tensor, " row"],
    rows: Int[Tensor, "model position"],
    order: Int[Tensor, "seed step batch"],
    descent: Descent,
    start: int = 0,
) -> Iterator[int]:
    """Train every model on its own sample in place, and yield the number of steps done.

    Args:
        stack: the models, as many for each seed.
        x: inputs of all samples.
        y: their labels.
        rows: of each model's sample.
        order: the positions in a sample that are visited, batch by batch, by all models of a seed.
        descent: rate, momentum, steps.
        start: steps already done.

    """
    for step in range(start, descent.steps):
        visited = order[:, step].repeat_interleave(len(rows) // len(order), 0)
        batch = rows.gather(1, visited)
        stack.learn(x[batch], y[batch], descent.lr_at(step), descent.momentum)
        yield step + 1


def check_learnt(losses: Float[Tensor, " model"], classes: int, descent: Descent, step: int) -> None:
    """Refuse models that training has lost.

    Args:
        losses: of each on its own sample, nats.
        classes: what guessing costs is the log of these.
        descent: names the rate.
        step: so many were done.

    Raises:
        NonFiniteLoss: with the rate to lower.

    """
    if not (losses < FAR * math.log(classes)).all():  # nor is NaN
        momentum = f" with momentum {descent.momentum:g}" if descent.momentum else ""
        raise NonFiniteLoss(
            f"A training diverged by step {step} at the learning rate {descent.lr:g}{momentum}: its loss is "
            f"{float(losses.max()):.3g} nats; choose a lower rate."
        )


def log_probabilities(
    network: nn.Module, weights: Weights, x: Float[Tensor, "row *shape"], rows: Int[Tensor, "model example"]
) -> Float[Tensor, "model example label"]:
    """Return what each model of a stack predicts of its rows, in float64."""

    def predicted(own: Weights, inputs: Tensor) -> Tensor:
        return functional_call(network, own, (inputs,))

    with torch.no_grad():
        parts = rows.split(max(1, ROWS_AT_ONCE // len(rows)), 1)
        logits = [vmap(predicted)(weights, x[part]) for part in parts]
    return torch.cat(logits, 1).double().log_softmax(-1)


# The straight line between two models, and beyond both (Frankle et al. 2020; Karp 2024, Section 2.4).

GRID = tuple(round(-1 + 0.04 * step, 2) for step in range(76))
"""α of the thesis: from -1 to 2, 0 at S' and 1 at S."""


def check_grid(alphas: Sequence[float]) -> None:
    """Refuse a path without its ends.

    Raises:
        ParameterError: where 0 or 1 is not among the points.

    """
    if 0.0 not in alphas or 1.0 not in alphas:
        raise ParameterError(
            f"A path is measured against its ends: α = 0 and 1 must be among {list(alphas)}."
        )


def along(first: Weights, second: Weights, alpha: float) -> Weights:
    """Return α of the first model and 1 - α of the second.

    Raises:
        ParameterError: for models of different shapes.

    """
    shapes = [{name: tuple(own.shape) for name, own in weights.items()} for weights in (first, second)]
    if shapes[0] != shapes[1]:
        raise ParameterError(f"No line joins models of different shapes: {shapes[0]} and {shapes[1]}.")
    return {name: alpha * own + (1 - alpha) * second[name] for name, own in first.items()}


def accuracies_along(
    weights: Weights, accuracy: Callable[[Weights], Float[Tensor, " model"]], alphas: Sequence[float] = GRID
) -> Float[np.ndarray, "alpha pair"]:
    """Return the accuracies on the lines between all pairs of a stack.

    Args:
        weights: S and S' of the first pair, then of the second.
        accuracy: of every model of a stack, one a pair.
        alphas: where on the line.

    """
    check_grid(alphas)
    first, second = ({name: own[at::2] for name, own in weights.items()} for at in (0, 1))
    return np.stack([accuracy(along(first, second, alpha)).cpu().numpy() for alpha in alphas])


def barrier(
    accuracies: Float[np.ndarray, "alpha *pair"], alphas: Sequence[float] = GRID
) -> Float[np.ndarray, "*pair"]:
    """Return by how much accuracy falls between the ends, below the worse of them.

    >>> float(barrier(np.array([0.5, 0.9, 0.6, 0.8, 0.5]), (-1, 0, 0.5, 1, 2)).round(9))
    0.2
    """
    check_grid(alphas)
    at = np.array(alphas)
    ends = np.minimum(accuracies[alphas.index(0)], accuracies[alphas.index(1)])
    return np.asarray(ends - accuracies[(at >= 0) & (at <= 1)].min(0))
