"""Images on noisy backgrounds (Karp 2024, Chapter 3), networks trained on them, and their tangent kernels."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap
from torch.nn import functional as F

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.images import Images, initial_weights, multiplications, visiting_order
from sameloss.seeds import generator_for

# Where an image lies on its background: the columns of Table B.1.
ANYWHERE, ANY_CORNER, ONE_CORNER = PLACEMENTS = ("random place", "random corner", "fixed corner")

Batch = Float[Tensor, "image *shape"]

Pixels = Float[Tensor, "image channel row column"]

Square = Float[Tensor, "image channel side side"]  # backgrounds, with or without an image on them

Weights = dict[str, Tensor]  # parameters by name

Logits = Float[Tensor, " image"]

Labels = Float[Tensor, " image"]  # -1 or 1

# Images on larger backgrounds


@dataclass(frozen=True)
class Scene:
    """The background of an image, and where the image lies on it; part of a run's key."""

    placement: str  # one of `PLACEMENTS`
    side: int  # of the background, pixels
    noise: float  # σ of the background; the pixels of images have standard deviation 1
    shrunk: int = 1  # factor by which images are downsampled


class Sample(NamedTuple):
    """Training and test images on their backgrounds."""

    x: Square
    y: Labels
    x_test: Float[Tensor, "test channel side side"]
    y_test: Labels

    @property
    def chance(self) -> float:
        """Accuracy of always predicting the most frequent class of the test set."""
        return float(self.y_test.unique(return_counts=True)[1].max()) / len(self.y_test)


def corners(placement: str, count: int, free: int, rng: torch.Generator) -> Int[Tensor, "image 2"]:
    """Draw the row and column of the top left pixel of each image.

    Args:
        placement: one of `PLACEMENTS`.
        count: number of images.
        free: side of the background minus that of the image.
        rng: source of randomness.

    >>> corners("fixed corner", 2, 8, torch.Generator()).tolist()
    [[0, 0], [0, 0]]

    """
    if placement == ANYWHERE:
        return torch.randint(0, free + 1, (count, 2), generator=rng)
    return free * torch.randint(0, 1 + (placement == ANY_CORNER), (count, 2), generator=rng)


def placed(images: Pixels, at: Int[Tensor, "image 2"], backgrounds: Square) -> Square:
    """Paste each image onto its background, its top left pixel at the row and column `at`."""
    whole, (rows, columns) = backgrounds.clone(), images.shape[2:]
    for index, (row, column) in enumerate(at.tolist()):
        whole[index, :, row : row + rows, column : column + columns] = images[index]
    return whole


def standardised(images: Images) -> Pixels:
    """Shift and scale all images so that the pixels of the training pool have mean 0 and variance 1."""
    pool = images.x[: images.pool]
    return (images.x - pool.mean()) / pool.std()


def draw_sample(images: Images, scene: Scene, examples: int, seed: int) -> Sample:
    """Draw training images from the pool and put them, and the whole test set, on backgrounds.

    Args:
        images: pool and test set.
        scene: background and placement.
        examples: number of training images.
        seed: of the sample, the places and the backgrounds.

    Raises:
        ParameterError: if there is one class only.

    """
    if images.y.unique().numel() < 2:
        raise ParameterError("Classification needs at least two classes; these images have one.")
    x, y = F.avg_pool2d(standardised(images), scene.shrunk), 2.0 * images.y - 1
    rows = torch.randperm(images.pool, generator=generator_for("sample", seed))[:examples]
    x_train = _on_backgrounds(x[rows], scene, 0, seed)
    x_test = _on_backgrounds(x[images.pool :], scene, 1, seed)
    return Sample(x_train, y[rows], x_test, y[images.pool :])


def _on_backgrounds(images: Pixels, scene: Scene, part: int, seed: int) -> Square:
    """Put images on backgrounds of their own; `part` is 0 for training and 1 for test images."""
    count, channels, rows, _ = images.shape
    at = corners(scene.placement, count, scene.side - rows, generator_for("places", seed, part))
    rng = generator_for("backgrounds", seed, part)
    backgrounds = torch.randn(count, channels, scene.side, scene.side, generator=rng)
    return placed(images, at, scene.noise * backgrounds)


# Networks


def _norm_relu(channels: int) -> nn.Sequential:
    """Batch normalisation by the statistics of the current batch, then a ReLU."""
    return nn.Sequential(nn.BatchNorm2d(channels, track_running_stats=False), nn.ReLU())


class WideBlock(nn.Module):
    """Pre-activation residual block of two convolutions."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.ready = _norm_relu(before)
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.between = _norm_relu(after)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        same = before == after and stride == 1
        self.around = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Pixels) -> Float[Tensor, "image out rows columns"]:
        h = self.ready(x)
        return self.around(h) + self.second(self.between(self.first(h)))


@dataclass(frozen=True)
class LogitNetwork:
    """Base of the networks; part of a run's key."""

    def build(self, channels: int) -> nn.Sequential:
        """Make the network for images of some number of channels; it has one logit per image."""
        raise NotImplementedError

    def initial_weights(self, channels: int, seed: int) -> Weights:
        """Draw initial parameters: He initialisation, variance 1/width in the last layer, zero biases."""
        return initial_weights(self.build(channels), seed, lambda weights: 2.0 if weights.ndim == 4 else 1.0)


def _pooled(layers: Iterable[nn.Module], features: int) -> nn.Sequential:
    """Layers, the mean over all pixels and a linear map to one logit."""
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(features, 1), nn.Flatten(0)]
    return nn.Sequential(*layers, *head)


@cache  # waiting runs are asked for their expected seconds twice a second
def network_size(network: LogitNetwork, channels: int, side: int) -> tuple[int, float]:
    """Number of parameters, and of multiplications in the forward pass of one image.

    >>> network_size(PooledCNN(), 1, 16)[0]
    14081
    """
    model = network.build(channels)
    products = multiplications(model, torch.zeros(1, channels, side, side))
    return sum(weights.numel() for weights in model.parameters()), products


@dataclass(frozen=True)
class PooledCNN(LogitNetwork):
    """Convolutions of 3 by 3 with ReLUs, the mean over all pixels and a linear map."""

    channels: tuple[int, ...] = (16, 32, 32)
    strides: tuple[int, ...] = (1, 2, 1)

    def build(self, channels: int) -> nn.Sequential:
        layers = list[nn.Module]()
        for (before, after), stride in zip(pairwise((channels, *self.channels)), self.strides, strict=True):
            layers += nn.Conv2d(before, after, 3, stride, 1), nn.ReLU()
        return _pooled(layers, self.channels[-1])


@dataclass(frozen=True)
class WideResNet(LogitNetwork):
    """WRN-10-k (Zagoruyko and Komodakis 2016): a convolution, then three residual blocks."""

    width: int = 10  # k

    def build(self, channels: int) -> nn.Sequential:
        widths = (16, 16 * self.width, 32 * self.width, 64 * self.width)
        blocks = [WideBlock(*ends, stride) for ends, stride in zip(pairwise(widths), (1, 2, 2), strict=True)]
        first = nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False)
        return _pooled([first, *blocks, *_norm_relu(widths[-1])], widths[-1])


# Training

TEST_BATCH = 250  # images per forward pass where no gradient is needed


@dataclass(frozen=True)
class LogisticDescent:
    """Optimiser and learning-rate schedule; part of a run's key."""

    lr: float
    batch: int
    steps: int
    optimiser: str = "Adam"  # or SGD
    momentum: float = 0.9  # of SGD
    drops: tuple[float, ...] = (0.6, 0.8)  # fractions of the steps after which the learning rate drops
    factor: float = 0.2  # of each drop
    decay: float = 0.0  # weight decay

    def lr_at(self, step: int) -> float:
        """Learning rate of a step, counted from 0.

        >>> [round(LogisticDescent(1.0, 1, 10).lr_at(step), 2) for step in (5, 6, 8)]
        [1.0, 0.2, 0.04]
        """
        return self.lr * self.factor ** sum(step >= fraction * self.steps for fraction in self.drops)

    def optimiser_of(self, weights: list[Tensor]) -> torch.optim.Optimizer:
        if self.optimiser == "Adam":
            return torch.optim.Adam(weights, self.lr, weight_decay=self.decay)
        return torch.optim.SGD(weights, self.lr, self.momentum, weight_decay=self.decay)


def batch_outputs(model: nn.Module, weights: Weights, x: Batch, start: Weights | None = None) -> Logits:
    """Logits of a batch, by the network or by its linearisation f(x; θ₀) + ⟨∇f(x; θ₀), δ⟩.

    Args:
        model: network.
        weights: θ, or δ for the linearisation.
        x: images.
        start: θ₀ of the linearisation; None: the network.

    """
    if start is None:
        return functional_call(model, weights, (x,))
    f0, slope = jvp(partial(functional_call, model, args=(x,)), (start,), (weights,))  # type: ignore[misc]
    return f0 + slope


def outputs(model: nn.Module, weights: Weights, x: Batch, start: Weights | None = None) -> Logits:
    """`batch_outputs` of any number of images, without gradients."""
    with torch.no_grad():
        return torch.cat([batch_outputs(model, weights, part, start) for part in x.split(TEST_BATCH)])


def accuracy(logits: Logits, labels: Labels) -> float:
    """Fraction of correct predictions; a logit of zero is an error.

    >>> accuracy(torch.tensor([2.0, 0.0, -1.0]), torch.tensor([1.0, 1.0, -1.0])) == 2 / 3
    True
    """
    return float((logits * labels > 0).double().mean())


def mean_loss(logits: Logits, labels: Labels) -> Float[Tensor, ""]:
    """Mean of log(1 + e^-yf), in nats."""
    return F.softplus(-labels * logits).mean()


def train(
    model: nn.Module,
    start: Weights,
    x: Batch,
    y: Labels,
    descent: LogisticDescent,
    rng: torch.Generator,
    scale: float | None = None,
    *,
    linear: bool = False,
) -> Weights:
    """Train a network and return its parameters, or its linearisation and return δ.

    Args:
        model: network.
        start: initial parameters θ₀, which are not modified.
        x: images.
        y: labels.
        descent: optimiser and schedule.
        rng: of the order of the examples.
        scale: α of lazy training, with outputs α(f - f₀) and learning rate lr/α² (Chizat et al. 2019).
        linear: train δ of the linearisation at θ₀, from zero.

    Raises:
        NonFiniteLoss: if training diverges.

    """
    begin = torch.zeros_like if linear else torch.clone
    weights = {name: begin(first).requires_grad_() for name, first in start.items()}
    optimiser = descent.optimiser_of(list(weights.values()))
    alpha = 1.0 if scale is None else scale
    first_outputs = None if scale is None else outputs(model, start, x)
    order = visiting_order(len(x), min(descent.batch, len(x)), descent.steps, rng)
    for step, rows in enumerate(order):
        optimiser.param_groups[0]["lr"] = descent.lr_at(step) / alpha**2
        logits = batch_outputs(model, weights, x[rows], start if linear else None)
        loss = mean_loss(logits if first_outputs is None else alpha * (logits - first_outputs[rows]), y[rows])
        if not torch.isfinite(loss):
            raise NonFiniteLoss(
                f"Training diverged at the learning rate {descent.lr:g}; choose a smaller one."
            )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {name: trained.detach() for name, trained in weights.items()}


def active_fractions(model: nn.Module, weights: Weights, x: Batch) -> list[float]:
    """Fraction of active neurons in each layer of ReLUs (Figure 3.2), over units, pixels and images.

    >>> model = nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Flatten(0))
    >>> active_fractions(model, {}, torch.tensor([[-1.0], [2.0], [0.0], [3.0]]))
    [0.5]
    """
    counts: dict[nn.Module, list[int]] = {m: [0, 0] for m in model.modules() if isinstance(m, nn.ReLU)}

    def count(layer: nn.Module, _: object, result: Tensor) -> None:
        active, total = counts[layer]
        counts[layer] = [active + int((result > 0).sum()), total + result.numel()]

    hooks = [layer.register_forward_hook(count) for layer in counts]
    outputs(model, weights, x)
    for hook in hooks:
        hook.remove()
    return [active / total for active, total in counts.values()]


# The empirical tangent kernel K(x, x') = ⟨∇f(x; θ), ∇f(x'; θ)⟩ over all parameters (Jacot et al. 2018)

# Parameters per single-precision partial sum of the kernel; partial sums are added in double precision.
PARAMETERS_AT_ONCE = 2048

Kernel = Float[Tensor, "image example"]


def jacobian(model: nn.Module, weights: Weights, x: Batch, chunk: int) -> Float[Tensor, "image parameter"]:
    """Gradient of the logit of every image with respect to all parameters.

    Args:
        model: network with a single logit per image that does not depend on other images.
        weights: θ.
        x: images.
        chunk: number of images per vectorised pass, which bounds the memory.

    """

    def output(parameters: Weights, image: Tensor) -> Tensor:
        return functional_call(model, parameters, (image[None],))[0]

    gradients = vmap(grad(output), (None, 0), chunk_size=chunk)(weights, x)
    return torch.cat([rows.flatten(1) for rows in gradients.values()], 1)


def products(rows: Float[Tensor, "image parameter"], examples: Float[Tensor, "example parameter"]) -> Kernel:
    """All inner products of rows, accumulated in double precision."""
    kernel = torch.zeros(len(rows), len(examples), dtype=torch.float64, device=rows.device)
    pairs = zip(rows.split(PARAMETERS_AT_ONCE, 1), examples.split(PARAMETERS_AT_ONCE, 1), strict=True)
    for left, right in pairs:
        kernel += (left @ right.T).double()
    return kernel


def tangent_kernel(model: nn.Module, weights: Weights, x: Batch, examples: int, chunk: int) -> Kernel:
    """Kernel between all images and the first `examples` of them, which are trained on."""
    rows = jacobian(model, weights, x, chunk)
    return products(rows, rows[:examples])


# Kernel ridge regression around an initial function f₀, for several λ
#
# With residuals r = y - f₀(X), predictions are f(x) = f₀(x) + k(x, X)(K + λI)⁻¹ r. This is the linearised
# network f₀ + ⟨∇f₀, δ⟩ with the δ that minimises the sum of (f(xᵢ) - yᵢ)² plus λ‖δ‖².

Column = Float[Tensor, " example"]


def cross_validation(eigenvalues: Column, residuals: Column, ridge: float) -> float:
    """Score of generalised cross-validation (Golub et al. 1979), n‖(I - H)r‖² / tr(I - H)².

    H = K(K + λI)⁻¹. If all examples had the same leverage, this would be the leave-one-out error.

    Args:
        eigenvalues: of K.
        residuals: r in the eigenbasis of K.
        ridge: λ > 0.

    """
    left = ridge / (eigenvalues + ridge)  # eigenvalues of I - H
    return float((left * residuals).square().mean() / left.mean().square())


class Fitted(NamedTuple):
    """Predictions for one λ."""

    ridge: float  # λ over the mean eigenvalue
    score: float  # of generalised cross-validation
    outputs: Float[Tensor, " test"]


def fits(
    kernel: Kernel, first: Float[Tensor, " image"], y: Column, ridges: tuple[float, ...]
) -> list[Fitted]:
    """Predict all images after the examples, for each λ.

    Args:
        kernel: between all images, the examples first, and the examples.
        first: f₀ of all images.
        y: labels of the examples.
        ridges: positive λ, in units of the mean eigenvalue of the kernel.

    """
    size = len(y)
    eigenvalues, vectors = torch.linalg.eigh(kernel[:size])
    eigenvalues = eigenvalues.clamp(min=0)  # a Gram matrix has negative eigenvalues only by rounding
    first = first.to(kernel)
    residuals = vectors.T @ (y.to(kernel) - first[:size])
    fitted = []
    for ratio in ridges:
        ridge = ratio * float(eigenvalues.mean())
        change = kernel[size:] @ (vectors @ (residuals / (eigenvalues + ridge)))
        score = cross_validation(eigenvalues, residuals, ridge)
        fitted.append(Fitted(ratio, score, first[size:] + change))
    return fitted
