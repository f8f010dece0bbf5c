"""Images on noise (Chapter 3), the networks that are trained on them, and their tangent kernels."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.images import Images, ImageSource
from sameloss.seeds import generator_for

ANYWHERE, ANY_CORNER, ONE_CORNER = PLACEMENTS = ("random place", "random corner", "fixed corner")
"""Where an image lies on its background: the columns of Table B.1."""

Batch = Float[Tensor, "image *shape"]

Pixels = Float[Tensor, "image channel row column"]

Whole = Float[Tensor, "image channel side side"]
"""Images with what is around them, or that alone."""

Weights = dict[str, Tensor]
"""Parameters by name."""

Logits = Float[Tensor, "image *logit"]
"""One of each image where two classes are told apart, and otherwise one a class."""

Answers = Float[Tensor, " image"] | Int[Tensor, " image"]
"""-1 or 1 for a single logit; otherwise the class."""

# Images on larger backgrounds: where an image lies, and what lies around it.


@dataclass(frozen=True)
class Scene:
    """What surrounds an image; part of a run's key."""

    placement: str
    side: int  # pixels, of the background
    noise: float  # σ of the background, where the pixels of images have the standard deviation 1
    shrunk: int = 1  # so many pixels in a row of an image become one
    pictures: ImageSource | None = None  # backgrounds, times the noise, in the place of Gaussian ones
    tiles: int = 1  # pictures in a row, and in a column, of a background


class Sample(NamedTuple):
    """Images on their backgrounds, to be trained on and to be tested with."""

    x: Whole
    y: Answers
    tested: Float[Tensor, "test channel side side"]
    answers: Answers  # of the tested ones
    logits: int = 1  # one for two classes, otherwise as many

    @property
    def chance(self) -> float:
        """Return the accuracy of always giving the most frequent answer."""
        return float(self.answers.unique(return_counts=True)[1].max()) / len(self.answers)


def corners(placement: str, count: int, free: int, rng: torch.Generator) -> Int[Tensor, "image 2"]:
    """Draw the row and the column of the first pixel of each image.

    Args:
        placement: one of `PLACEMENTS`.
        count: number of images.
        free: rows, and columns, of the background that an image leaves.
        rng: of the places.

    >>> corners("fixed corner", 2, 8, torch.Generator()).tolist()
    [[0, 0], [0, 0]]

    """
    if placement == ANYWHERE:
        return torch.randint(0, free + 1, (count, 2), generator=rng)
    return free * torch.randint(0, 1 + (placement == ANY_CORNER), (count, 2), generator=rng)


def placed(images: Pixels, at: Int[Tensor, "image 2"], backgrounds: Whole) -> Whole:
    """Return the backgrounds with each image in its place."""
    whole, (rows, columns) = backgrounds.clone(), images.shape[2:]
    for index, (row, column) in enumerate(at.tolist()):
        whole[index, :, row : row + rows, column : column + columns] = images[index]
    return whole


def standardised(images: Images) -> Pixels:
    """Return all images in units of the standard deviation of the pool's pixels, its mean at zero."""
    pool = images.x[: images.pool]
    return (images.x - pool.mean()) / pool.std()


def composed(images: Images, scene: Scene, examples: int, seed: int) -> Sample:
    """Draw a sample of the pool, and put it and the whole test set on backgrounds of their own.

    Args:
        images: of two classes or more.
        scene: what surrounds them.
        examples: number of the sample.
        seed: of sample, places and backgrounds.

    Raises:
        ParameterError: for images of a single class, or of other channels than the backgrounds.

    """
    if images.classes < 2:
        raise ParameterError("Classes are to be told apart here; these images have one.")
    x = F.avg_pool2d(standardised(images), scene.shrunk)
    rows = torch.randperm(images.pool, generator=generator_for("sample", seed))[:examples]
    sample, tested = (
        _surrounded(part, scene, at, seed) for at, part in enumerate((x[rows], x[images.pool :]))
    )
    y, logits = (2.0 * images.y - 1, 1) if images.classes == 2 else (images.y, images.classes)
    return Sample(sample, y[rows], tested, y[images.pool :], logits)


def _surrounded(images: Pixels, scene: Scene, part: int, seed: int) -> Whole:
    """Put images on noise, or on pictures: of the pool (part 0, for training) or of the test set (part 1)."""
    count, channels, rows, _ = images.shape
    at = corners(scene.placement, count, scene.side - rows, generator_for("places", seed, part))
    rng = generator_for("backgrounds", seed, part)
    if scene.pictures is None:
        around = torch.randn(count, channels, scene.side, scene.side, generator=rng)
        return placed(images, at, scene.noise * around)
    pictures, tiles = scene.pictures.load(), scene.tiles
    unit = standardised(pictures)
    if unit.shape[1] != channels:
        raise ParameterError(
            f"Backgrounds have {unit.shape[1]} channels, and images {channels}; they must agree."
        )
    known = unit[pictures.pool :] if part else unit[: pictures.pool]
    drawn = known[torch.randint(0, len(known), (count * tiles**2,), generator=rng)]
    parts = F.interpolate(drawn, (scene.side // tiles,) * 2, mode="bilinear", antialias=True)
    squares = parts.unflatten(0, (-1, tiles, tiles)).permute(0, 3, 1, 4, 2, 5)  # row, pixel, column, pixel
    return placed(images, at, scene.noise * squares.flatten(4).flatten(2, 3))


# The networks that are trained, each made of its spec: images in, a logit out, or one a class.


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

    def forward(self, x: Pixels) -> Float[Tensor, "image out rows columns"]:
        """Return the sum."""
        h = self.ready(x)
        return self.around(h) + self.second(self.between(self.first(h)))


@dataclass(frozen=True)
class LogitNetwork:
    """A kind of network; part of a run's key."""

    @property
    def features(self) -> int:
        """Return the number of channels that are averaged over the pixels."""
        raise NotImplementedError

    def layers(self, channels: int) -> Iterator[nn.Module]:
        """Make the layers between an image and the mean over its pixels, the last one's channels last."""
        raise NotImplementedError

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


@cache  # runs that wait tell their efforts twice a second
def network_size(network: LogitNetwork, channels: int, side: int) -> tuple[int, float]:
    """Return the numbers of parameters, and of multiplications of an image's way through.

    >>> network_size(PooledCNN(), 1, 16)[0]
    14081
    """
    model = network.build(channels)
    with FlopCounterMode(display=False) as counted:
        model(torch.zeros(1, channels, side, side))
    return sum(weights.numel() for weights in model.parameters()), counted.get_total_flops() / 2


@dataclass(frozen=True)
class PooledCNN(LogitNetwork):
    """Convolutions of 3 by 3, ReLUs behind them, the mean over all pixels and a linear map."""

    channels: tuple[int, ...] = (16, 32, 32)
    strides: tuple[int, ...] = (1, 2, 1)

    @property
    def features(self) -> int:
        """Return the last layer's channels."""
        return self.channels[-1]

    def layers(self, channels: int) -> Iterator[nn.Module]:
        """Make the convolutions."""
        for (before, after), stride in zip(pairwise((channels, *self.channels)), self.strides, strict=True):
            yield nn.Conv2d(before, after, 3, stride, 1)
            yield nn.ReLU()


@dataclass(frozen=True)
class WideResNet(LogitNetwork):
    """WRN-10-k (Zagoruyko and Komodakis 2016): a convolution and three residual blocks of two each."""

    width: int = 10  # k

    @property
    def features(self) -> int:
        """Return the last block's channels."""
        return 64 * self.width

    def layers(self, channels: int) -> Iterator[nn.Module]:
        """Make the blocks."""
        widths = (16, 16 * self.width, 32 * self.width, 64 * self.width)
        yield nn.Conv2d(channels, widths[0], 3, 1, 1, bias=False)
        for (before, after), stride in zip(pairwise(widths), (1, 2, 2), strict=True):
            yield WideBlock(before, after, stride)
        yield from _ready(widths[-1])


# How a network is trained: its loss, Adam or SGD, a rate that falls, and outputs that may be scaled.

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


def batches(count: int, descent: LogisticDescent, rng: torch.Generator) -> tuple[Int[Tensor, " batch"], ...]:
    """Draw the rows of each step: one permutation of all after the other."""
    size = min(descent.batch, count)
    epochs = range(-(-descent.steps * size // count))
    order = torch.cat([torch.randperm(count, generator=rng) for _ in epochs])
    return order.split(size)[: descent.steps]


def batch_outputs(model: nn.Module, weights: Weights, x: Batch, start: Weights | None = None) -> Logits:
    """Return the logits of a batch; of the network, or of its linearisation f(x; θ₀) + ⟨∇f(x; θ₀), δ⟩.

    Args:
        model: gives logits of images.
        weights: of the network; or δ.
        x: images.
        start: θ₀ of the linearisation, which takes one forward derivative and no kernel.

    """
    if start is None:
        return functional_call(model, weights, (x,))

    def network(parameters: Weights) -> Tensor:
        logits: Tensor = functional_call(model, parameters, (x,))
        return logits

    first, moved = jvp(network, (start,), (weights,))  # type: ignore[misc]
    return first + moved


def outputs(model: nn.Module, weights: Weights, x: Batch, start: Weights | None = None) -> Logits:
    """Return the logits of all images, batch by batch."""
    with torch.no_grad():
        return torch.cat([batch_outputs(model, weights, part, start) for part in x.split(BATCH_AT_TEST)])


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
    x: Batch,
    y: Answers,
    descent: LogisticDescent,
    rng: torch.Generator,
    scale: float | None = None,
    *,
    linear: bool = False,
) -> Weights:
    """Train a network and return its parameters; or the network linearised in them, and return its δ.

    Args:
        model: gives logits of images.
        start: first parameters θ₀, which stay as they are.
        x: images.
        y: of each.
        descent: how.
        rng: of the order of visits.
        scale: α, where training is made lazy: outputs are α(f - f₀), and the rate lr/α² (Chizat et al. 2019).
        linear: whether δ is trained from zero, as the thesis does it in the place of a kernel.

    Raises:
        NonFiniteLoss: for a training that diverged.

    """
    begin = torch.zeros_like if linear else torch.clone
    weights = {name: begin(first).requires_grad_() for name, first in start.items()}
    optimiser = descent.optimiser_of(list(weights.values()))
    alpha = 1.0 if scale is None else scale
    at_start = None if scale is None else outputs(model, start, x)
    for step, rows in enumerate(batches(len(x), descent, rng)):
        optimiser.param_groups[0]["lr"] = descent.lr_at(step) / alpha**2
        logits = batch_outputs(model, weights, x[rows], start if linear else None)
        loss = mean_loss(logits if at_start is None else alpha * (logits - at_start[rows]), y[rows])
        if not torch.isfinite(loss):
            raise NonFiniteLoss(
                f"Training diverged at the learning rate {descent.lr:g}; choose a smaller one."
            )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {name: trained.detach() for name, trained in weights.items()}


def active_shares(model: nn.Module, weights: Weights, x: Batch) -> list[float]:
    """Return the share of active neurons (Figure 3.2) of each layer of ReLUs, over all units, pixels, images.

    >>> model = nn.Sequential(nn.Flatten(), nn.ReLU(), nn.Flatten(0))
    >>> active_shares(model, {}, torch.tensor([[-1.0], [2.0], [0.0], [3.0]]))
    [0.5]
    """
    layers: list[nn.Module] = [layer for layer in model.modules() if isinstance(layer, nn.ReLU)]
    counts = torch.zeros(len(layers), 2, dtype=torch.float64)  # of active neurons, and of all

    def count(layer: nn.Module, given: object, result: Tensor) -> None:
        counts[layers.index(layer)] += torch.tensor([int((result > 0).sum()), result.numel()])

    watching = [layer.register_forward_hook(count) for layer in layers]
    outputs(model, weights, x)
    for handle in watching:
        handle.remove()
    return (counts[:, 0] / counts[:, 1]).tolist()


# The tangent kernel of a finite network, exactly: K(x, x') = ⟨∇f(x), ∇f(x')⟩ over all parameters θ, at a θ
# that is given (Jacot et al. 2018).

PARAMETERS_AT_ONCE = 2048
"""Products of single precision are added up over so many parameters, and these sums in double precision."""

MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
"""Bytes that this machine has."""

Kernel = Float[Tensor, "image example"]


def jacobian(model: nn.Module, weights: Weights, x: Batch, chunk: int) -> Float[Tensor, "image parameter"]:
    """Return the gradient of every image's output in all parameters, a row an image.

    Args:
        model: gives one logit an image, each independent of the others.
        weights: θ.
        x: images.
        chunk: images whose gradients are computed at once, which bounds the memory on the way.

    """

    def output(parameters: Weights, image: Tensor) -> Tensor:
        return functional_call(model, parameters, (image[None],))[0]

    gradients = vmap(grad(output), (None, 0))
    parts = (gradients(weights, part) for part in x.split(chunk))
    return torch.cat([torch.cat([rows.flatten(1) for rows in part.values()], 1) for part in parts])


def products(rows: Float[Tensor, "image parameter"], examples: Float[Tensor, "example parameter"]) -> Kernel:
    """Return all inner products, in double precision."""
    kernel = torch.zeros(len(rows), len(examples), dtype=torch.float64, device=rows.device)
    pairs = zip(rows.split(PARAMETERS_AT_ONCE, 1), examples.split(PARAMETERS_AT_ONCE, 1), strict=True)
    for left, right in pairs:
        kernel += (left @ right.T).double()
    return kernel


def tangent_kernel(model: nn.Module, weights: Weights, x: Batch, examples: int, chunk: int) -> Kernel:
    """Return the kernel of all images with the first of them, which are trained on.

    Raises:
        ParameterError: where gradients (twice), the kernel, and what solving it takes do not fit.

    """
    images, parameters = len(x), sum(part.numel() for part in weights.values())
    needed = 8 * images * parameters + 8 * examples * (images + 3 * examples)
    if needed > MEMORY:
        raise ParameterError(
            f"The tangent kernel of {images:,} images and {parameters:,} parameters takes "
            f"{needed / 1e9:,.0f} GB, and there are {MEMORY / 1e9:,.0f}; choose fewer examples or a "
            "smaller network."
        )
    rows = jacobian(model, weights, x, chunk)
    return products(rows, rows[:examples])


# Kernel ridge regression around a first function, for many λ at once, and λ by generalised cross-validation.
#
# With residuals r = y - f₀(X) the machine is f(x) = f₀(x) + k(x, X)(K + λI)⁻¹ r. It is the network linearised
# in its parameters, f₀ + ⟨∇f₀, δ⟩, with the δ that minimises the sum of (f(xᵢ) - yᵢ)² plus λ‖δ‖².

Column = Float[Tensor, " example"]


def cross_validation(eigenvalues: Column, residuals: Column, ridge: float) -> float:
    """Return the score of generalised cross-validation (Golub et al. 1979): n‖(I - H)r‖² / tr(I - H)².

    H = K(K + λI)⁻¹. Were all examples alike in H, this would be the mean squared error of leaving one out.

    Args:
        eigenvalues: of K.
        residuals: r, in the coordinates of K's eigenvectors.
        ridge: λ, positive.

    """
    left = ridge / (eigenvalues + ridge)  # eigenvalues of I - H
    return float((left * residuals).square().mean() / left.mean().square())


class Fitted(NamedTuple):
    """Predictions with one λ."""

    ridge: float
    score: float  # of generalised cross-validation
    outputs: Float[Tensor, " test"]


def fits(
    kernel: Kernel, first: Float[Tensor, " image"], y: Column, ridges: tuple[float, ...]
) -> list[Fitted]:
    """Return the predictions on all images but the examples, for each λ.

    Args:
        kernel: of all images with the examples, the examples first.
        first: f₀ of all images.
        y: of the examples.
        ridges: λ in units of the kernel's mean eigenvalue, positive.

    """
    size = len(y)
    eigenvalues, vectors = torch.linalg.eigh(kernel[:size])
    eigenvalues = eigenvalues.clamp(min=0)  # below it is rounding: the kernel is one of inner products
    first = first.to(kernel)
    residuals = vectors.T @ (y.to(kernel) - first[:size])
    unit = float(eigenvalues.mean())
    fitted = []
    for ridge in (share * unit for share in ridges):
        change = kernel[size:] @ (vectors @ (residuals / (eigenvalues + ridge)))
        score = cross_validation(eigenvalues, residuals, ridge)
        fitted.append(Fitted(ridge / unit, score, first[size:] + change))
    return fitted
