"""The stored steps of this study: a network beside its tangent kernel, and a network in lazy training."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor, nn

from sameloss.checks import check_counts
from sameloss.device import best_device
from sameloss.errors import ParameterError
from sameloss.images import ImageSource
from sameloss.runs.frames import TABLE, Tabled
from sameloss.seeds import generator_for
from sameloss.store.store import Report, Store
from sameloss.studies.local_signal_images.activity import active_shares
from sameloss.studies.local_signal_images.backgrounds import Sample, Scene, composed
from sameloss.studies.local_signal_images.descent import LogisticDescent, accuracy, outputs, train
from sameloss.studies.local_signal_images.kernel_ridge import check_ridge, chosen, fits
from sameloss.studies.local_signal_images.linearised import all_linear_outputs, train_linearised
from sameloss.studies.local_signal_images.networks import LogitNetwork, Weights
from sameloss.studies.local_signal_images.tangent import tangent_kernel

NETWORK, GCV, BEST, AFTER, LINEARISED, PIXELS, CHANCE = (
    "network",
    "NTK, GCV",
    "NTK, best λ",
    "trained kernel",
    "linearised",
    "pixels",
    "chance",
)
"""What predicts: the network; its tangent kernel at first, with λ by cross-validation and with the λ that is
best on the test set; that of the trained parameters; the linearised network, trained; ridge regression of
pixels; always the same answer."""

ACCURACY, TRAINED, RIDGE, BEFORE, ACTIVE = (
    "accuracy",
    "own accuracy",
    "ridge",
    "active before",
    "active after",
)
"""What is measured: shares of test images and of the sample; λ over the mean eigenvalue; active neurons."""

LINEAR_EFFORT = 2
"""A step of the linearised network takes so many of the network's."""

Row = tuple[str, str, float]


@dataclass(frozen=True)
class KernelFit:
    """How a kernel is computed and solved; part of a run's key."""

    ridges: tuple[float, ...] = tuple(
        10.0 ** (half / 2) for half in range(-12, 5)
    )  # λ over the mean eigenvalue
    chunk: int = 50  # images whose gradients are computed at once
    trained: bool = True  # whether the kernel at the trained parameters is solved, too

    def __post_init__(self) -> None:
        """Refuse no λ, or a negative one.

        Raises:
            ParameterError: in one sentence.

        """
        check_counts(self, "chunk")
        if not self.ridges:
            raise ParameterError("Ridge regression needs at least one λ; got none.")
        for ridge in self.ridges:
            check_ridge(ridge)


@dataclass(frozen=True)
class Trial(Tabled):
    """What all runs of this study share: images, their surroundings, a network and its training."""

    source: ImageSource
    scene: Scene
    network: LogitNetwork
    descent: LogisticDescent
    examples: int  # of the sample
    seed: int  # of sample, places, backgrounds, initialisation and order

    def __post_init__(self) -> None:
        """Refuse what cannot be composed."""
        check_counts(self, "examples")
        self.scene.check_fits(self.source.shape)
        if self.examples > self.source.pool:
            raise ParameterError(
                f"There are {self.source.pool} images to train on; {self.examples} were asked for."
            )

    @property
    def channels(self) -> int:
        """Return the channels of an image."""
        return self.source.shape[0]

    def begin(self) -> tuple[Sample, nn.Module, Weights]:
        """Return images on backgrounds, the network and its first parameters, on the device that computes."""
        device = best_device()
        sample = composed(self.source.load(), self.scene, self.examples, self.seed).to(device)
        drawn = self.network.drawn(self.channels, self.seed, sample.logits)
        model = self.network.build(self.channels, sample.logits).to(device)
        return sample, model, {name: own.to(device) for name, own in drawn.items()}

    def order(self) -> torch.Generator:
        """Begin the order of visits."""
        return generator_for("order of visits", self.seed)

    @property
    def training_effort(self) -> float:
        """Return a rough number of seconds of a training, of one core."""
        products = 3 * self.network.products(self.channels, self.scene.side)
        return self.descent.steps * (1e-3 + 3e-11 * self.descent.batch * products)


@dataclass(frozen=True)
class ImageComparison(Trial):
    """A network beside its tangent kernel, on one sample.

    Its table has a row a `measure`, what it is `of` (a predictor, or a layer), and its `value`.
    """

    kernel: KernelFit | None = None  # None: it is not solved
    linear: LogisticDescent | None = None  # of the linearised network; None: it is not trained

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train, solve, and test."""
        sample, model, start = self.begin()
        trained = train(model, start, sample.x, sample.y, self.descent, self.order())
        report(0.5, f"noise {self.scene.noise:g}")
        rows = [
            *_network(model, start, trained, sample),
            *self._kernels(model, start, trained, sample),
            *self._linearised(model, start, sample),
            (ACCURACY, CHANCE, sample.chance),
        ]
        pd.DataFrame(rows, columns=["measure", "of", "value"]).to_csv(folder / TABLE, index=False)

    def _kernels(self, model: nn.Module, start: Weights, trained: Weights, sample: Sample) -> Iterator[Row]:
        if self.kernel is None:
            return
        if sample.logits > 1:
            raise ParameterError(
                f"A kernel is solved for two classes; of {sample.logits} the linearised network is trained."
            )
        fit = self.kernel
        x, size = torch.cat([sample.x, sample.tested]), len(sample.x)
        kernel = tangent_kernel(model, start, x, size, fit.chunk)
        yield from _solved(kernel, outputs(model, start, x), sample, fit.ridges, GCV, BEST)
        if fit.trained:
            kernel = tangent_kernel(model, trained, x, size, fit.chunk)
            yield from _solved(kernel, torch.zeros(len(x)).to(x), sample, fit.ridges, AFTER)
        flat = x.flatten(1).double()
        pixels = flat @ flat[:size].T / flat.shape[1] + 1  # with an intercept
        yield from _solved(pixels, torch.zeros(len(x)).to(x), sample, fit.ridges, PIXELS)

    def _linearised(self, model: nn.Module, start: Weights, sample: Sample) -> Iterator[Row]:
        if self.linear is None:
            return
        change = train_linearised(model, start, sample.x, sample.y, self.linear, self.order())
        for measure, x, y in ((ACCURACY, sample.tested, sample.answers), (TRAINED, sample.x, sample.y)):
            yield measure, LINEARISED, accuracy(all_linear_outputs(model, start, change, x), y)

    @property
    def effort(self) -> float:
        """Return a rough number of seconds, of one core."""
        total, images = self.training_effort, self.examples + self.source.tested
        if self.kernel is not None:
            products = self.network.parameters(self.channels) * images * self.examples
            solved = 2e-11 * products + 1.5e-9 * self.examples**3
            total += (1 + self.kernel.trained) * (solved + 3e-4 * images)
        if self.linear is not None:
            total += LINEAR_EFFORT * self.training_effort * self.linear.steps / self.descent.steps
        return total


def _network(model: nn.Module, start: Weights, trained: Weights, sample: Sample) -> Iterator[Row]:
    """Return accuracies of the trained network, and its active neurons."""
    yield ACCURACY, NETWORK, accuracy(outputs(model, trained, sample.tested), sample.answers)
    yield TRAINED, NETWORK, accuracy(outputs(model, trained, sample.x), sample.y)
    for measure, weights in ((BEFORE, start), (ACTIVE, trained)):
        for layer, share in enumerate(active_shares(model, weights, sample.tested), 1):
            yield measure, f"layer {layer}", share


def _solved(
    kernel: Tensor,
    first: Tensor,
    sample: Sample,
    ridges: tuple[float, ...],
    name: str,
    best: str | None = None,
) -> Iterator[Row]:
    """Return the accuracy with the λ of cross-validation, and if asked for that with the best one."""
    found = fits(kernel, first, sample.y, ridges)
    own = chosen(found)
    yield ACCURACY, name, accuracy(own.outputs, sample.answers)
    yield RIDGE, name, own.ridge
    if best is not None:
        yield ACCURACY, best, max(accuracy(fit.outputs, sample.answers) for fit in found)


@dataclass(frozen=True)
class LazyTraining(Trial):
    """A network whose output is scaled up, so that its parameters hardly move (Chizat et al. 2019).

    Its table has a row a `scale`: the `accuracy` on the test set, `own accuracy` on the sample, how far
    parameters `moved`, over the norm of the first ones, and in all rows the same the `limit`: the accuracy of
    the linearised network after the same training.
    """

    scales: tuple[float, ...] = (1.0,)  # α

    def __post_init__(self) -> None:
        """Refuse scales that are none.

        Raises:
            ParameterError: in one sentence.

        """
        super().__post_init__()
        if not self.scales or min(self.scales) <= 0:
            raise ParameterError(f"Lazy training needs positive scales of the output; got {self.scales}.")

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Train once a scale."""
        rows = []
        for at, scale in enumerate(self.scales, 1):
            rows.append(self._row(scale))
            report(at / (len(self.scales) + LINEAR_EFFORT), f"scale {scale:g}")
        pd.DataFrame(rows).assign(limit=self._limit()).to_csv(folder / TABLE, index=False)

    def _limit(self) -> float:
        """Return the accuracy of the linearised network after the same training."""
        sample, model, start = self.begin()
        change = train_linearised(model, start, sample.x, sample.y, self.descent, self.order(), centred=True)
        found = all_linear_outputs(model, start, change, sample.tested) - outputs(model, start, sample.tested)
        return accuracy(found, sample.answers)

    def _row(self, scale: float) -> dict[str, float]:
        sample, model, start = self.begin()
        trained = train(model, start, sample.x, sample.y, self.descent, self.order(), scale)

        def change(x: Tensor) -> Tensor:
            return outputs(model, trained, x) - outputs(model, start, x)

        return {
            "scale": scale,
            ACCURACY: accuracy(change(sample.tested), sample.answers),
            TRAINED: accuracy(change(sample.x), sample.y),
            "moved": _norm({name: trained[name] - own for name, own in start.items()}) / _norm(start),
        }

    @property
    def effort(self) -> float:
        """Return a rough number of seconds, of one core."""
        return self.training_effort * (len(self.scales) + LINEAR_EFFORT)


def _norm(weights: Weights) -> float:
    return float(torch.cat([own.flatten() for own in weights.values()]).norm())
