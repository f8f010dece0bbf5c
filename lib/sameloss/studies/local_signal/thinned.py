"""Stochastic gradient descent (Algorithm 3.1), exact in law, from what passes the threshold.

Of a noise row only its component Z along w decides the answer, and a row below the threshold has no gradient
at all. So Z is drawn of the rows that survive, and what all of them add to the gradient across w is one
Gaussian vector.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.special import expit, ndtri

from sameloss.checks import check_count
from sameloss.store.store import Report
from sameloss.studies.local_signal.flow import Rates
from sameloss.studies.local_signal.patches import Patches
from sameloss.studies.local_signal.population import population, row_sum
from sameloss.studies.local_signal.row_sums import RowSum
from sameloss.studies.local_signal.soft_threshold import Filter, slopes, soft_threshold

Vector = Float[np.ndarray, " d"]

Images = Float[np.ndarray, " image"]


@dataclass
class Network:
    """A filter and its bias, as descent changes them; w* is the first unit vector."""

    w: Vector
    b: float

    @property
    def filter(self) -> Filter:
        """Return all that its population quantities depend on."""
        return Filter(float(self.w[0]), float(np.linalg.norm(self.w[1:])), float(self.b))


def begin(d: int, length: float, random: np.random.Generator) -> Network:
    """Return a filter of random direction, with b = 0."""
    check_count("d", d)
    w = random.normal(size=d)
    return Network(length * w / np.linalg.norm(w), 0.0)


def sgd(
    patches: Patches,
    network: Network,
    rates: Rates,
    batch: int,
    looks: Int[np.ndarray, " look"],
    random: np.random.Generator,
    report: Report = lambda done, text: None,
) -> pd.DataFrame:
    """Take steps on fresh batches.

    Args:
        patches: the distribution.
        network: where to begin; it is changed.
        rates: of w and b.
        batch: images a step.
        looks: steps after which to look, in ascending order.
        random: draws the batches.
        report: is told at every look.

    Returns:
        One row a look: `step`, `c`, `v`, `b`, and over the whole distribution `loss` (nats) and `accuracy`.

    """
    check_count("batch", batch)
    rows, step = [], 0
    for look in looks:
        for _ in range(step, look):
            by_w, by_b = gradient(patches, network, batch, random)
            network.w, network.b = network.w - rates.w * by_w, network.b - rates.b * by_b
        step, own = look, network.filter
        found = population(patches, own)
        report(step / looks[-1], f"step {step}")
        rows.append((step, own.c, own.v, own.b, found.loss, found.accuracy))
    return pd.DataFrame(rows, columns=["step", "c", "v", "b", "loss", "accuracy"])


def gradient(
    patches: Patches, network: Network, batch: int, random: np.random.Generator
) -> tuple[Vector, float]:
    """Return the gradients by w and by b of the mean loss over a fresh batch."""
    own = network.filter
    noise = noise_sums(row_sum(patches, own), batch, random)
    y = random.choice([-1.0, 1.0], batch)
    signal, (slope, slope_b) = soft_threshold(own.c, own.b), slopes(own.c, own.b)
    pull = -y * expit(-(signal + y * noise.answer)) / batch  # derivative of the mean loss by each answer
    across = random.normal(size=len(network.w)) * patches.sigma * np.sqrt(pull**2 @ noise.squares)
    unit = network.w / own.length
    by_w = (pull @ noise.along / own.length - across @ unit) * unit + across
    by_w[0] += slope * (pull @ y)
    return by_w, float(pull @ noise.by_b + slope_b * (pull @ y))


class NoiseSums(NamedTuple):
    """Sums over the noise rows of each image, h_i the slope of φ_b at Z_i = ⟨w, X_i⟩."""

    answer: Images  # of φ_b(Z_i)
    along: Images  # of h_i Z_i
    squares: Images  # of h_i²
    by_b: Images  # of the derivatives by b


def noise_sums(noise: RowSum, batch: int, random: np.random.Generator) -> NoiseSums:
    """Draw the rows that pass the threshold, all if there is none: how many of each sign, and their sizes."""
    share = noise.surviving / 2
    above = random.binomial(noise.rows, share, batch)
    below = random.binomial(noise.rows - above, share / (1 - share))
    count = np.concatenate([above, below])
    size = -noise.s * ndtri(share * (1 - random.random(count.sum())))

    def by_sign(of_rows: Float[np.ndarray, " row"]) -> Float[np.ndarray, "2 image"]:
        return _segments(of_rows, count).reshape(2, batch)

    sizes, number = by_sign(size), count.reshape(2, batch)
    if noise.b < 0:  # the slope is 1 and the answer ±(size + b)
        parts = (sizes + noise.b * number, sizes, number, number)
    else:
        twice = by_sign((size <= noise.b).astype(float))  # where the slope is 2
        capped = by_sign(np.minimum(size, noise.b))
        along = sizes + by_sign(size * (size <= noise.b))
        parts = (sizes + capped, along, number + 3 * twice, number - twice)
    answer, along, squares, by_b = parts
    return NoiseSums(answer[0] - answer[1], along[0] - along[1], squares.sum(0), by_b[0] - by_b[1])


def _segments(
    values: Float[np.ndarray, " row"], count: Int[np.ndarray, " segment"]
) -> Float[np.ndarray, " segment"]:
    """Return the sums of consecutive segments, some of them empty."""
    return np.diff(np.append(0.0, np.cumsum(values))[np.append(0, np.cumsum(count))])
