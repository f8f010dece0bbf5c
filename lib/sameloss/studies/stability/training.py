"""The models whose stability is measured, trained many at once, and linear paths between twins."""

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

from sameloss.device import best_device
from sameloss.errors import NonFiniteLoss
from sameloss.images import Images, initial_weights, multiplications
from sameloss.seeds import generator_for

# The models whose stability is measured, from logistic regression to ResNet-20.
#
# All return logits. None keeps state between batches, so `vmap` can call many models of one shape as one.


@dataclass(frozen=True)
class Network(ABC):
    """A model's specification; part of a run's key."""

    convex: ClassVar[bool] = False
    """Whether the loss is convex in the parameters; training then starts from zero."""

    @abstractmethod
    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        """Build a model for inputs of a shape; its parameters are not those of `drawn`."""

    def inputs(self, images: Float[Tensor, "image *shape"]) -> Float[Tensor, "image *inputs"]:
        """Fixed features of the images; by default the images themselves."""
        return images

    def drawn(self, shape: tuple[int, ...], classes: int, seed: int) -> dict[str, Tensor]:
        """Initial parameters: He's normal weights, or zero for convex models; zero biases."""
        return initial_weights(self.build(shape, classes), seed, lambda _: 0.0 if self.convex else 2.0)


@cache  # waiting runs are asked for their effort twice a second
def products(network: Network, shape: tuple[int, ...]) -> float:
    """Multiplications of a forward pass of one image."""
    image = network.inputs(torch.zeros(1, *shape))
    return multiplications(network.build(tuple(image.shape[1:]), 10), image)


def _flat(widths: Iterable[int]) -> nn.Sequential:
    """Linear layers with ReLUs in between."""
    _, *layers = [layer for m, n in pairwise(widths) for layer in (nn.ReLU(), nn.Linear(m, n))]
    return nn.Sequential(nn.Flatten(), *layers)


@dataclass(frozen=True)
class LogisticRegression(Network):
    """Logistic regression on pixels, with an intercept; of two classes, the logit of the first is zero."""

    convex: ClassVar[bool] = True

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        pixels = math.prod(shape)
        return _flat((pixels, classes)) if classes > 2 else _flat((pixels, 1)).append(nn.ZeroPad1d((1, 0)))


@dataclass(frozen=True)
class RandomFeatures(Network):
    """Logistic regression on random ReLU features: convex, with more parameters than examples.

    On average, the features of an image have the same norm as the image.
    """

    convex: ClassVar[bool] = True

    features: int

    def inputs(self, images: Float[Tensor, "image *shape"]) -> Float[Tensor, "image feature"]:
        """Features, the same in every training."""
        vectors = images.flatten(1)
        rng = generator_for("random features", self.features)
        directions = torch.randn(vectors.shape[1], self.features, generator=rng).to(vectors)
        return F.relu(vectors @ directions) * (2 / self.features) ** 0.5

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return _flat((self.features, classes))


@dataclass(frozen=True)
class Perceptron(Network):
    """A multilayer perceptron with hidden layers of given widths."""

    widths: tuple[int, ...]

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return _flat((math.prod(shape), *self.widths, classes))


@dataclass(frozen=True)
class SmallCNN(Network):
    """3 by 3 convolutions with stride 2, average pooling and a linear layer."""

    channels: tuple[int, ...]

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        layers: list[nn.Module] = []
        for before, after in pairwise((shape[0], *self.channels)):
            layers += [nn.Conv2d(before, after, 3, 2, 1), nn.ReLU()]
        return nn.Sequential(*layers, *_classifier(self.channels[-1], classes))


def _classifier(channels: int, classes: int) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(-3), nn.Linear(channels, classes)


def _normalised(before: int, after: int, stride: int = 1) -> nn.Sequential:
    """A convolution with batch normalisation, always by the statistics of the current batch."""
    convolution = nn.Conv2d(before, after, 3, stride, 1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after, track_running_stats=False))


class Residual(nn.Module):
    """A residual block; where channels grow the shortcut is subsampled and zero-padded (He et al. 2016)."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.stride, self.more = after // before, after - before
        self.first, self.second = _normalised(before, after, self.stride), _normalised(after, after)

    def forward(self, x: Float[Tensor, "image channel h w"]) -> Float[Tensor, "image out row column"]:
        short = F.pad(x[..., :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.more))
        return F.relu(short + self.second(F.relu(self.first(x))))


@dataclass(frozen=True)
class ResNet20(Network):
    """The residual network for CIFAR-10: 19 convolutions of 16, 32 and 64 channels, and a linear layer."""

    width: int = 16

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        channels = [self.width * factor for factor in (1, 1, 1, 1, 2, 2, 2, 4, 4, 4)]
        blocks = [Residual(before, after) for before, after in pairwise(channels)]
        first, last = _normalised(shape[0], self.width), _classifier(channels[-1], classes)
        return nn.Sequential(first, nn.ReLU(), *blocks, *last)


# Many small models trained as one, so that the overhead of a step is paid only once.

ROWS_AT_ONCE = 4096
"""Images per forward pass of a stack without gradients."""

Weights = dict[str, Tensor]
"""Parameters by name; of a stack, with a leading dimension of models."""


@dataclass(frozen=True)
class Descent:
    """Stochastic gradient descent as in the thesis (Section 2.3)."""

    lr: float
    batch: int
    steps: int
    momentum: float = 0.0
    drops: tuple[tuple[int, float], ...] = ()  # (step, multiple of the learning rate from there on)

    def lr_at(self, step: int) -> float:
        """Learning rate of step 0, 1, ...

        >>> plain = Descent(0.1, 1, 100, drops=((50, 0.1), (80, 0.01)))
        >>> [round(plain.lr_at(step), 5) for step in (0, 49, 50, 79, 99)]
        [0.1, 0.1, 0.01, 0.01, 0.001]
        """
        return self.lr * [1.0, *(factor for first, factor in self.drops if first <= step)][-1]


class Stack:
    """Models of one shape, each with its own sample, trained as one."""

    def __init__(
        self, network: Network, images: Images, rows: Int[Tensor, "model position"], seeds: Sequence[int]
    ) -> None:
        """Initialise one model per sample.

        Args:
            network: of all models.
            images: the pool and the test set below it.
            rows: of each model's sample.
            seeds: of initial parameters, each for the same number of consecutive models.

        """
        device = best_device()
        self.x, self.y = network.inputs(images.x.to(device)), images.y.to(device)
        self.rows, self.classes = rows.to(device), images.classes
        self.tested = torch.arange(images.pool, len(self.x), device=device).expand(len(rows), -1)
        shape = tuple(self.x.shape[1:])
        self.network = network.build(shape, images.classes).to(self.x)
        drawn = [network.drawn(shape, images.classes, seed) for seed in seeds]
        stacked = {name: torch.stack([weights[name] for weights in drawn]).to(self.x) for name in drawn[0]}
        copies = len(rows) // len(seeds)
        self.weights: Weights = {name: w.repeat_interleave(copies, 0) for name, w in stacked.items()}
        self.velocity = {name: torch.zeros_like(w) for name, w in self.weights.items()}

    def _logits(self, weights: Weights, x: Tensor) -> Tensor:
        """Logits of one model."""
        return functional_call(self.network, weights, (x,))

    def train(self, order: Int[Tensor, "seed step batch"], descent: Descent, start: int = 0) -> Iterator[int]:
        """Train every model on its sample; after each step, yield the number of steps done.

        Args:
            order: positions of the sample in each batch, the same for all models of a seed.
            descent: rate, momentum, steps.
            start: steps already done.

        """

        def loss(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
            return F.cross_entropy(self._logits(weights, x), y)

        gradient_of, order = None, order.to(self.rows.device)
        for step in range(start, descent.steps):
            positions = order[:, step].repeat_interleave(len(self.rows) // len(order), 0)  # of all of a seed
            batch = self.rows.gather(1, positions)
            inputs = self.weights, self.x[batch], self.y[batch]
            if (
                gradient_of is None
            ):  # traced once: vmap and grad cost more than the operations of small models
                gradient_of = make_fx(vmap(grad(loss)))(*inputs)
            gradient, lr = gradient_of(*inputs), descent.lr_at(step)
            self.velocity = {name: descent.momentum * v + gradient[name] for name, v in self.velocity.items()}
            self.weights = {name: w - lr * self.velocity[name] for name, w in self.weights.items()}
            yield step + 1

    def state_dict(self) -> dict[str, Weights]:
        return {"weights": self.weights, "velocity": self.velocity}

    def load_state_dict(self, state: dict[str, Weights]) -> None:
        self.weights, self.velocity = state["weights"], state["velocity"]

    def vectors(self) -> Float[Tensor, "model parameter"]:
        """Parameters of each model as one vector, in float64."""
        return torch.cat([w.flatten(1) for w in self.weights.values()], 1).double()

    def log_probabilities(
        self, rows: Int[Tensor, "model example"], weights: Weights | None = None
    ) -> Float[Tensor, "model example label"]:
        """Predictions of each model on its rows, in float64; with `weights` those of other models."""
        parts = rows.split(max(1, ROWS_AT_ONCE // len(rows)), 1)
        with torch.no_grad():
            logits = [vmap(self._logits)(weights or self.weights, self.x[part]) for part in parts]
        return torch.cat(logits, 1).double().log_softmax(-1)


def check_learnt(losses: Float[Tensor, " model"], classes: int, descent: Descent, step: int) -> None:
    """Require training losses of less than ten times that of guessing.

    Raises:
        NonFiniteLoss: naming the learning rate.

    """
    if not (losses < 10 * math.log(classes)).all():  # nor is NaN
        raise NonFiniteLoss(
            f"A training diverged by step {step} at the learning rate {descent.lr:g} with momentum "
            f"{descent.momentum:g}: its loss is {float(losses.max()):.3g} nats; choose a lower rate."
        )


# The straight line through two models (Frankle et al. 2020; Karp 2024, Section 2.4).

GRID = tuple(round(-1 + 0.04 * step, 2) for step in range(76))
"""α of the thesis, from -1 to 2; 0 at S' and 1 at S."""


def accuracies_along(
    stack: Stack, pairs: Int[Tensor, " pair"], rows: Int[Tensor, "pair example"],
    alphas: Sequence[float] = GRID,
) -> Float[np.ndarray, "alpha pair"]:  # fmt: skip
    """Accuracies of α times the first model of a pair plus 1 - α times the second.

    Args:
        stack: pairs of consecutive models.
        pairs: indices of pairs.
        rows: of the test images of each pair.
        alphas: values of α.

    """
    ends = {name: (w[2 * pairs], w[2 * pairs + 1]) for name, w in stack.weights.items()}
    accuracies = []
    for alpha in alphas:
        weights = {name: alpha * first + (1 - alpha) * second for name, (first, second) in ends.items()}
        predicted = stack.log_probabilities(rows, weights).argmax(-1)
        accuracies.append((predicted == stack.y[rows]).double().mean(1))
    return torch.stack(accuracies).cpu().numpy()
