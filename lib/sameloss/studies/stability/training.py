"""The models whose stability is measured, many of one shape trained as one, and paths between twins."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
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

from sameloss.device import best_device
from sameloss.errors import NonFiniteLoss
from sameloss.images import Images
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
def products(network: Network, shape: tuple[int, ...]) -> float:
    """Return the multiplications of an image's way through a model."""
    image = network.inputs(torch.zeros(1, *shape))
    with FlopCounterMode(display=False) as counted:
        network.build(tuple(image.shape[1:]), 10)(image)
    return counted.get_total_flops() / 2


def _flat(widths: Iterable[int]) -> nn.Sequential:
    """Return linear maps of vectors with ReLUs between."""
    _, *layers = [layer for m, n in pairwise(widths) for layer in (nn.ReLU(), nn.Linear(m, n))]
    return nn.Sequential(nn.Flatten(), *layers)


@dataclass(frozen=True)
class LogisticRegression(Network):
    """A weight a pixel and an intercept; of more than two classes, of each class."""

    convex: ClassVar[bool] = True

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return it; of two classes the logit of the first is zero."""
        pixels = math.prod(shape)
        return _flat((pixels, classes)) if classes > 2 else _flat((pixels, 1)).append(nn.ZeroPad1d((1, 0)))


@dataclass(frozen=True)
class RandomFeatures(Network):
    """Logistic regression of random ReLU features: convex, with more parameters than examples.

    The features of an image are as long as the image, on average.
    """

    convex: ClassVar[bool] = True

    features: int

    def inputs(self, images: Float[Tensor, "image *shape"]) -> Float[Tensor, "image feature"]:
        """Return the features, the same in every training."""
        vectors = images.flatten(1)
        rng = generator_for("random features", self.features)
        directions = torch.randn(vectors.shape[1], self.features, generator=rng).to(vectors)
        return F.relu(vectors @ directions) * (2 / self.features) ** 0.5

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return the map of the features."""
        return _flat((self.features, classes))


@dataclass(frozen=True)
class Perceptron(Network):
    """Hidden layers of some widths."""

    widths: tuple[int, ...]

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return it."""
        return _flat((math.prod(shape), *self.widths, classes))


@dataclass(frozen=True)
class SmallCNN(Network):
    """Convolutions of 3 by 3 that halve the image one after the other, and a linear map of the mean."""

    channels: tuple[int, ...]

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return it."""
        layers: list[nn.Module] = []
        for before, after in pairwise((shape[0], *self.channels)):
            layers += [nn.Conv2d(before, after, 3, 2, 1), nn.ReLU()]
        return nn.Sequential(*layers, *_linear_of_mean(self.channels[-1], classes))


def _linear_of_mean(channels: int, classes: int) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(-3), nn.Linear(channels, classes)


def _normalised(before: int, after: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution and batch normalisation, by the statistics of the batch at hand."""
    convolution = nn.Conv2d(before, after, 3, stride, 1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after, track_running_stats=False))


class Residual(nn.Module):
    """Two convolutions and what went in, thinned and padded where the channels grow (He et al. 2016)."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.stride, self.more = after // before, after - before
        self.first, self.second = _normalised(before, after, self.stride), _normalised(after, after)

    def forward(
        self, x: Float[Tensor, "image channel row column"]
    ) -> Float[Tensor, "image out height width"]:
        """Return the sum."""
        short = F.pad(x[..., :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return F.relu(short + self.second(F.relu(self.first(x))))


@dataclass(frozen=True)
class ResNet20(Network):
    """The residual network of CIFAR-10: 19 convolutions of 16, 32 and 64 channels, and a linear map."""

    width: int = 16

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Return it."""
        channels = [self.width * factor for factor in (1, 1, 1, 1, 2, 2, 2, 4, 4, 4)]
        blocks = [Residual(before, after) for before, after in pairwise(channels)]
        last = _linear_of_mean(channels[-1], classes)
        return nn.Sequential(_normalised(shape[0], self.width), nn.ReLU(), *blocks, *last)


# Many small models trained as one: what a step costs beside its arithmetic is paid once.

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

    def lr_at(self, step: int) -> float:
        """Return the rate of step 0, 1, ...

        >>> plain = Descent(0.1, 1, 100, drops=((50, 0.01), (80, 0.001)))
        >>> [plain.lr_at(step) for step in (0, 49, 50, 79, 99)]
        [0.1, 0.1, 0.01, 0.01, 0.001]
        """
        return [self.lr, *(lr for first, lr in self.drops if first <= step)][-1]


class Stack:
    """Models of one shape, each with a sample of its own, trained as one."""

    def __init__(
        self, network: Network, images: Images, rows: Int[Tensor, "model position"], seeds: Sequence[int]
    ) -> None:
        """Take a model for each sample.

        Args:
            network: what all of them are.
            images: the pool and the test set below it.
            rows: of each model's sample.
            seeds: of first parameters, each for equally many models, one after the other.

        """
        device = best_device()
        self.x, self.y = network.inputs(images.x.to(device)), images.y.to(device)
        self.rows, self.classes = rows.to(device), images.classes
        self.tested = torch.arange(images.pool, len(self.x), device=device).expand(len(rows), -1)
        shape = tuple(self.x.shape[1:])
        self.network = network.build(shape, images.classes).to(self.x)
        first = [network.drawn(shape, images.classes, seed) for seed in seeds]
        self.weights: Weights = {
            name: torch.stack([own[name] for own in first])
            .to(self.x)
            .repeat_interleave(len(rows) // len(seeds), 0)
            for name in first[0]
        }
        self.velocity = {name: torch.zeros_like(own) for name, own in self.weights.items()}

    def _logits(self, weights: Weights, x: Tensor) -> Tensor:
        """Return those of one model."""
        return functional_call(self.network, weights, (x,))

    def train(self, order: Int[Tensor, "seed step batch"], descent: Descent, start: int = 0) -> Iterator[int]:
        """Train every model on its sample, and yield the number of steps done.

        Args:
            order: the positions in a sample that are visited, batch by batch, by all models of a seed.
            descent: rate, momentum, steps.
            start: steps already done.

        """

        def loss(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(self._logits(weights, x), y)

        gradients, order = None, order.to(self.rows.device)
        for step in range(start, descent.steps):
            batch = self.rows.gather(1, order[:, step].repeat_interleave(len(self.rows) // len(order), 0))
            given = self.weights, self.x[batch], self.y[batch]
            if gradients is None:
                # Once: in small models, what vmap and grad do for an operation takes longer than it does.
                gradients = make_fx(vmap(grad(loss)))(*given)
            gradient, momentum, lr = gradients(*given), descent.momentum, descent.lr_at(step)
            self.velocity = {name: momentum * own + gradient[name] for name, own in self.velocity.items()}
            self.weights = {name: own - lr * self.velocity[name] for name, own in self.weights.items()}
            yield step + 1

    def state_dict(self) -> dict[str, Weights]:
        """Return all that training changes."""
        return {"weights": self.weights, "velocity": self.velocity}

    def load_state_dict(self, state: dict[str, Weights]) -> None:
        """Take over what `state_dict` returned."""
        self.weights, self.velocity = state["weights"], state["velocity"]

    def vectors(self) -> Float[Tensor, "model parameter"]:
        """Return all parameters of each model in one row, in float64."""
        return torch.cat([own.flatten(1) for own in self.weights.values()], 1).double()

    def log_probabilities(
        self, rows: Int[Tensor, "model example"], weights: Weights | None = None
    ) -> Float[Tensor, "model example label"]:
        """Return what each model, or others of its shape, predicts of its rows, in float64."""
        weights = self.weights if weights is None else weights
        with torch.no_grad():
            parts = rows.split(max(1, ROWS_AT_ONCE // len(rows)), 1)
            logits = [vmap(self._logits)(weights, self.x[part]) for part in parts]
        return torch.cat(logits, 1).double().log_softmax(-1)


def check_learnt(losses: Float[Tensor, " model"], classes: int, descent: Descent, step: int) -> None:
    """Refuse models that training has lost: whose loss is ten times that of guessing on their own sample.

    Raises:
        NonFiniteLoss: with the rate to lower.

    """
    if not (losses < 10 * math.log(classes)).all():  # nor is NaN
        raise NonFiniteLoss(
            f"A training diverged by step {step} at the learning rate {descent.lr:g} with momentum "
            f"{descent.momentum:g}: its loss is {float(losses.max()):.3g} nats; choose a lower rate."
        )


# The straight line between two models, and beyond both (Frankle et al. 2020; Karp 2024, Section 2.4).

GRID = tuple(round(-1 + 0.04 * step, 2) for step in range(76))
"""α of the thesis: from -1 to 2, 0 at S' and 1 at S."""


def accuracies_along(
    stack: Stack, pairs: Int[Tensor, " pair"], rows: Int[Tensor, "pair example"]
) -> Float[np.ndarray, "alpha pair"]:
    """Return the accuracies of α of the first model of a pair and 1 - α of the second, α in `GRID`.

    Args:
        stack: of which two models after each other are a pair.
        pairs: the numbers of some.
        rows: of the images that each is tested on.

    """
    accuracies = []
    for alpha in GRID:
        weights = {
            name: alpha * own[2 * pairs] + (1 - alpha) * own[2 * pairs + 1]
            for name, own in stack.weights.items()
        }
        predicted = stack.log_probabilities(rows, weights).argmax(-1)
        accuracies.append((predicted == stack.y[rows]).double().mean(1))
    return torch.stack(accuracies).cpu().numpy()
