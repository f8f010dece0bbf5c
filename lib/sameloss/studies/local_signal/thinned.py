"""Stochastic gradient descent (Algorithm 3.1), exact in law, from what passes the threshold.

Of a noise row only its component Z along w decides the answer, and a row below the threshold has no gradient at all. So
Z is drawn of the rows that survive, and what all of them add to the gradient across w is one Gaussian vector.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.special import expit, ndtri

from sameloss.checks import check_count
from sameloss.studies.local_signal.flow import Rates
from sameloss.studies.local_signal.patches import Patches
from sameloss.studies.local_signal.population import population, row_sum
from sameloss.studies.local_signal.row_sums import RowSum
from sameloss.studies.local_signal.soft_threshold import Filter, slopes, soft_threshold

Vector = Float[np.ndarray, " d"]

DENSE = 0.35
"""Where more rows survive, drawing all of them is faster."""


@dataclass
class Network:
    """A filter and its bias, as descent changes them; w* is the first unit vector."""

    w: Vector
    b: float

    @property
    def filter(self) -> Filter:
        """Return all that its population quantities depend on."""
        return Filter(float(self.w[0]), float(np.linalg.norm(self.w[1:])), float(self.b))


class Survivors(NamedTuple):
    """Noise rows of a batch that have a gradient."""

    image: Int[np.ndarray, " row"]
    z: Float[np.ndarray, " row"]  # ⟨w, X_i⟩


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
) -> pd.DataFrame:
    """Take steps on fresh batches.

    Args:
        patches: the distribution.
        network: where to begin; it is changed.
        rates: of w and b.
        batch: images a step.
        looks: steps after which to look, in ascending order.
        random: draws the batches.

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
        rows.append((step, own.c, own.v, own.b, found.loss, found.accuracy))
    return pd.DataFrame(rows, columns=["step", "c", "v", "b", "loss", "accuracy"])


def gradient(
    patches: Patches, network: Network, batch: int, random: np.random.Generator
) -> tuple[Vector, float]:
    """Return the gradients by w and by b of the mean loss over a fresh batch."""
    own = network.filter
    rows = survivors(row_sum(patches, own), batch, random)
    noise = np.bincount(rows.image, soft_threshold(rows.z, own.b), batch)
    y = random.choice([-1.0, 1.0], batch)
    signal, (slope, slope_b) = soft_threshold(own.c, own.b), slopes(own.c, own.b)
    pull = -y * expit(-(signal + y * noise)) / batch  # derivative of the mean loss by each answer
    up, down = rows.z >= -own.b, rows.z <= own.b
    of_rows, count = pull[rows.image], up.astype(float) + down
    unit = network.w / own.length
    across = random.normal(size=len(unit)) * patches.sigma * np.sqrt(np.sum((of_rows * count) ** 2))
    by_w = (of_rows @ (count * rows.z) / own.length - across @ unit) * unit + across
    by_w[0] += slope * (pull @ y)
    return by_w, float(of_rows @ (up.astype(float) - down) + slope_b * (pull @ y))


def survivors(noise: RowSum, batch: int, random: np.random.Generator) -> Survivors:
    """Draw the rows of a batch that pass the threshold; without a threshold all do."""
    if noise.surviving > DENSE:
        z = noise.s * random.standard_normal(batch * noise.rows)
        kept = np.flatnonzero(np.abs(z) >= -noise.b)
        return Survivors(kept // noise.rows, z[kept])
    count = random.binomial(batch * noise.rows, noise.surviving)
    share = random.random(count)
    size = -ndtri(noise.surviving * np.minimum(share, 1 - share))
    return Survivors(random.integers(batch, size=count), noise.s * np.copysign(size, share - 0.5))
