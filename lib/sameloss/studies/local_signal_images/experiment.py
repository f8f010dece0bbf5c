"""Stored runs: networks beside their tangent kernels, and lazy training."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from sameloss.device import best_device
from sameloss.errors import ParameterError
from sameloss.images import ImageSource
from sameloss.runs.stage import stage
from sameloss.seeds import generator_for
from sameloss.studies.local_signal_images import theory
from sameloss.studies.local_signal_images.theory import LogisticDescent, LogitNetwork, Scene


class Model:
    """Predictors, as tables of runs name them."""

    NETWORK = "network"
    GCV = "NTK, GCV"  # tangent kernel at the initial parameters, λ by cross-validation
    BEST = "NTK, best λ"  # the same with the λ that is best on the test set
    AFTER = "trained kernel"  # tangent kernel at the trained parameters
    LINEARISED = "linearised"  # network, trained
    PIXELS = "pixels"  # ridge regression on pixels
    CHANCE = "chance"  # always the most frequent class


class Measure:
    """Measurements, as tables of runs name them."""

    ACCURACY = "accuracy"  # on the test set
    TRAINED = "own accuracy"  # on the training set
    RIDGE = "ridge"  # λ over the mean eigenvalue
    BEFORE, ACTIVE = "active before", "active after"  # training: fraction of active neurons


RIDGES = tuple(10.0 ** (half / 2) for half in range(-12, 5))


@dataclass(frozen=True)
class KernelFit:
    """How a kernel is computed and solved; part of a run's key."""

    ridges: tuple[float, ...] = RIDGES  # λ over the mean eigenvalue
    chunk: int = 50  # images per pass of the Jacobian
    trained: bool = True  # whether the kernel at the trained parameters is solved, too


def set_up(
    source: ImageSource, scene: Scene, network: LogitNetwork, examples: int, seed: int
) -> tuple[theory.Sample, nn.Module, theory.Weights]:
    """Make the sample, the network and its initial parameters, on the device that computes."""
    device, channels = best_device(), source.shape[0]
    sample = theory.draw_sample(source.load(), scene, examples, seed)
    sample = theory.Sample._make(part.to(device) for part in sample)
    model, start = network.build(channels).to(device), network.initial_weights(channels, seed)
    return sample, model, {name: weights.to(device) for name, weights in start.items()}


def _order(seed: int) -> torch.Generator:
    return generator_for("order of visits", seed)


def _work(run: Any, steps: int, kernels: int = 0) -> float:
    """Floating-point operations of so many steps on the run's network, and of its tangent kernels."""
    size, products = theory.network_size(run.network, run.source.shape[0], run.scene.side)
    a_kernel = 2.0 * size * (run.examples + run.source.tested) * run.examples + 20 * run.examples**3
    return steps * run.descent.batch * 6 * products + kernels * a_kernel


def _comparison_work(run: Any) -> float:
    """A step of the linearised network counts as two."""
    steps = run.descent.steps + (2 * run.linear.steps if run.linear else 0)
    return _work(run, steps, 1 + run.kernel.trained if run.kernel else 0)


@stage("ImageComparison", work=_comparison_work, accelerated=True)
def image_comparison(
    source: ImageSource,
    scene: Scene,
    network: LogitNetwork,
    descent: LogisticDescent,
    examples: int,
    seed: int,
    kernel: KernelFit | None = None,
    linear: LogisticDescent | None = None,
) -> pd.DataFrame:
    """Compare a network with its tangent kernel and with its linearisation, on one sample.

    Args:
        source: images.
        scene: their backgrounds.
        network: architecture.
        descent: training of the network.
        examples: number of training images.
        seed: of sample, places, backgrounds, initial parameters and order of the examples.
        kernel: how kernels are solved; None: not at all.
        linear: training of the linearised network; None: it is not trained.

    Returns:
        One row per `measure`, `of` (a predictor or a layer) and `value`.

    """
    sample, model, start = set_up(source, scene, network, examples, seed)
    trained = theory.train(model, start, sample.x, sample.y, descent, _order(seed))
    rows = list(_accuracies(Model.NETWORK, partial(theory.outputs, model, trained), sample))
    for measure, weights in ((Measure.BEFORE, start), (Measure.ACTIVE, trained)):
        fractions = theory.active_fractions(model, weights, sample.x_test)
        rows += [(measure, f"layer {layer}", fraction) for layer, fraction in enumerate(fractions, 1)]
    if kernel is not None:
        rows += _kernel_rows(model, start, trained, sample, kernel)
    if linear is not None:
        change = theory.train(model, start, sample.x, sample.y, linear, _order(seed), linear=True)
        rows += _accuracies(Model.LINEARISED, partial(theory.outputs, model, change, start=start), sample)
    rows.append((Measure.ACCURACY, Model.CHANCE, sample.chance))
    return pd.DataFrame(rows, columns=["measure", "of", "value"])


Rows = Iterator[tuple[str, str, float]]


def _accuracies(of: str, predict: Callable[[Tensor], Tensor], sample: theory.Sample) -> Rows:
    yield Measure.ACCURACY, of, theory.accuracy(predict(sample.x_test), sample.y_test)
    yield Measure.TRAINED, of, theory.accuracy(predict(sample.x), sample.y)


def _kernel_rows(
    model: nn.Module, start: theory.Weights, trained: theory.Weights, sample: theory.Sample, fit: KernelFit
) -> Rows:
    """Solve every kernel for every λ; yield the accuracy and the λ that cross-validation chooses."""
    for name, kernel, first in _kernels(model, start, trained, sample, fit):
        fitted = theory.fits(kernel, first, sample.y, fit.ridges)
        accuracies = [theory.accuracy(one.outputs, sample.y_test) for one in fitted]
        chosen = min(range(len(fitted)), key=lambda at: fitted[at].score)
        yield Measure.ACCURACY, name, accuracies[chosen]
        yield Measure.RIDGE, name, fitted[chosen].ridge
        if name == Model.GCV:
            yield Measure.ACCURACY, Model.BEST, max(accuracies)


def _kernels(
    model: nn.Module, start: theory.Weights, trained: theory.Weights, sample: theory.Sample, fit: KernelFit
) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield name, kernel between all images and the sample, and initial function f₀ on all images."""
    x, size = torch.cat([sample.x, sample.x_test]), len(sample.x)
    zero = x.new_zeros(len(x))
    yield Model.GCV, theory.tangent_kernel(model, start, x, size, fit.chunk), theory.outputs(model, start, x)
    if fit.trained:
        yield Model.AFTER, theory.tangent_kernel(model, trained, x, size, fit.chunk), zero
    flat = x.flatten(1).double()
    yield Model.PIXELS, flat @ flat[:size].T / flat.shape[1] + 1, zero  # + 1: an intercept


@stage(
    "LazyTraining",
    work=lambda run: _work(run, run.descent.steps * (len(run.scales) + 2)),
    accelerated=True,
)
def lazy_training(
    source: ImageSource,
    scene: Scene,
    network: LogitNetwork,
    descent: LogisticDescent,
    examples: int,
    seed: int,
    scales: tuple[float, ...] = (1.0,),
) -> pd.DataFrame:
    """Train a network with its output scaled up, so that its parameters hardly move (Chizat et al. 2019).

    The parameters are those of `image_comparison`; `descent` trains the linearised network, too, and `scales`
    are values of α.

    Returns:
        One row per `scale`: test `accuracy`, training accuracy, the distance `moved` by the parameters over
        their initial norm, and in every row the `limit`, the test accuracy of the linearised network.

    """
    sample, model, start = set_up(source, scene, network, examples, seed)
    first, first_test = (theory.outputs(model, start, x) for x in (sample.x, sample.x_test))
    initial = parameters_to_vector(start.values())
    rows = []
    for scale in scales:
        trained = theory.train(model, start, sample.x, sample.y, descent, _order(seed), scale)
        on_test = theory.accuracy(theory.outputs(model, trained, sample.x_test) - first_test, sample.y_test)
        on_sample = theory.accuracy(theory.outputs(model, trained, sample.x) - first, sample.y)
        moved = parameters_to_vector(trained.values()) - initial
        rows.append((scale, on_test, on_sample, float(moved.norm()) / float(initial.norm())))
    linear = theory.train(model, start, sample.x, sample.y, descent, _order(seed), 1.0, linear=True)
    limit = theory.accuracy(theory.outputs(model, linear, sample.x_test, start) - first_test, sample.y_test)
    table = pd.DataFrame(rows, columns=["scale", Measure.ACCURACY, Measure.TRAINED, "moved"])
    return table.assign(limit=limit)


LAZY_LR = 0.2  # learning rate of lazy training, by SGD


def require_images(source: ImageSource, sizes: Iterable[tuple[int, int]], examples: int) -> None:
    """Require images that fit on their backgrounds, and as many as there are to train on.

    Args:
        source: of the images.
        sizes: factors by which they are downsampled, with sides of their backgrounds.
        examples: number of training images.

    Raises:
        ParameterError: if they do not, or there are fewer.

    """
    for shrunk, side in sizes:
        if (size := max(source.shape[1:]) // shrunk) > side:
            raise ParameterError(
                f"An image of {size} pixels a side does not fit on a background of {side}; choose "
                "smaller images, or the preset gpu or paper."
            )
    if examples > source.pool:
        raise ParameterError(f"There are {source.pool} images to train on; {examples} were asked for.")
