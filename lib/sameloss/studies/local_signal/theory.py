"""Images with a local signal (Karp 2024, Section 3.3): exact loss, accuracy and training of a single filter.

Population quantities of a filter depend on three numbers, c, v and b, and are exact for any number of rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from math import exp, hypot, log, pi, sqrt
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar
from scipy.special import expit, ndtr, ndtri, wofz

from sameloss.checks import check_count, check_positive
from sameloss.errors import ParameterError

# The data distribution (Section 3.3): one row carries the signal, all others are noise.


@dataclass(frozen=True)
class Patches:
    """Images of k + 1 rows: one row is y·w*, the other k are Gaussian noise of standard deviation σ.

    Raises:
        ParameterError: for fewer than two noise rows, or a multiplier that is not positive.

    """

    noise: int  # number of noise rows, k
    multiplier: float = 1.0  # of σ = log k/√k

    def __post_init__(self) -> None:
        check_count("noise", self.noise, least=2)
        check_positive(self, "multiplier")

    @property
    def sigma(self) -> float:
        """Standard deviation σ of each entry of the noise.

        >>> round(Patches(1000).sigma, 4)
        0.2184
        """
        return self.multiplier * log(self.noise) / sqrt(self.noise)

    @property
    def dimension(self) -> int:
        """Row dimension 1/σ², as in the proof of Theorem 3.2: filters and noise overlap equally with w*."""
        return round(self.sigma**-2)


# The network (Section 3.4): one filter, soft-thresholded on each row and summed over rows.


class Filter(NamedTuple):
    """A filter w with bias b, reduced to what its population quantities depend on."""

    c: float  # ⟨w, w*⟩
    v: float  # norm of the part of w orthogonal to w*, whose direction never changes
    b: float  # bias; where negative, -b is the threshold

    @property
    def length(self) -> float:
        """‖w‖."""
        return hypot(self.c, self.v)


Numbers = TypeVar("Numbers", float, np.ndarray)


def soft_threshold(x: Numbers, b: float) -> Numbers:
    """Soft threshold φ_b(x) = ReLU(x + b) - ReLU(-x + b) (Section 3.4).

    For b < 0 the threshold is -b, for b = 0 it is the identity, and for b > 0 its slope is 2 on [-b, b].

    >>> soft_threshold(np.array([-3.0, 0.5, 3.0]), -1.0)
    array([-2.,  0.,  2.])
    """
    return np.maximum(x + b, 0) - np.maximum(-x + b, 0)


def slopes(x: float, b: float) -> tuple[float, float]:
    """Derivatives of φ_b(x) with respect to x and b; at kinks, those of the thesis' indicators.

    >>> slopes(1.0, -0.5), slopes(0.2, -0.5), slopes(0.2, 0.5)
    ((1.0, 1.0), (0.0, 0.0), (2.0, 0.0))
    """
    up, down = float(x >= -b), float(x <= b)
    return up + down, up - down


# Distribution of the noise's contribution S to the output: a sum of k i.i.d. soft-thresholded Gaussians.
#
# Its characteristic function is ψ(u)^k, with that of one row, ψ, in closed form by the Faddeeva function w:
# the integral of 2 exp(iω(t - α)) φ(t) over t ≥ α is exp(-α²/2) w((ω + iα)/√2).

Frequencies = Float[np.ndarray, " frequency"]


@dataclass(frozen=True)
class RowSum:
    """The sum of `rows` independent copies of φ_b(s·N(0, 1))."""

    rows: int
    s: float
    b: float

    @property
    def alpha(self) -> float:
        """α = |b|/s."""
        return abs(self.b) / self.s

    @cached_property
    def surviving(self) -> float:
        """Probability that a row is not thresholded to zero."""
        return float(2 * ndtr(-self.alpha)) if self.b < 0 else 1.0

    @property
    def atom(self) -> float:
        """Probability that all rows are zero."""
        return (1 - self.surviving) ** self.rows if self.b < 0 else 0.0

    @property
    def deviation(self) -> float:
        """Upper bound on the standard deviation: |φ_b(Z)| is at most 2|Z|, and at most |Z| if b ≤ 0."""
        return (2 if self.b > 0 else 1) * self.s * sqrt(self.rows)

    def transforms(self, u: Frequencies) -> tuple[Frequencies, Frequencies, Frequencies]:
        """ψ - 1, accurate where few rows survive, and the derivatives of ψ with respect to s and b."""
        beyond = exp(-(self.alpha**2) / 2)
        tail = beyond * wofz((u * self.s + 1j * self.alpha) / sqrt(2))
        if self.b < 0:
            return tail.real - self.surviving, -(u**2) * self.s * tail.real, -u * tail.imag
        outer = np.exp(2j * u * self.b) * tail  # |Z| > b, where φ_b(Z) = Z ± b
        omega = 2 * u * self.s  # |Z| < b, where φ_b(Z) = 2Z: a Gaussian without its tails
        tails = wofz((omega + 1j * self.alpha) / sqrt(2)) * np.exp(1j * omega * self.alpha)
        inner = np.exp(-(omega**2) / 2) - beyond * tails.real
        corner = sqrt(2 / pi) * beyond * np.sin(2 * u * self.b)
        by_s = -u * (u * self.s * (4 * inner + outer.real) - corner)
        return inner + outer.real - 1, by_s, -u * outer.imag

    def power_minus_one(self, psi_minus_one: Frequencies, rows: int) -> Frequencies:
        """ψ^rows - 1 from ψ - 1, to full relative precision."""
        if self.b >= 0:  # where ψ may be zero or negative
            return (1 + psi_minus_one) ** rows - 1
        return np.expm1(rows * np.log1p(psi_minus_one))


def row_sum(patches: Patches, filter: Filter) -> RowSum:
    """Distribution of the noise's contribution to the output.

    Raises:
        ParameterError: where the filter is zero or not finite.

    """
    if not 0 < filter.length < np.inf or not np.isfinite(filter.b):
        raise ParameterError(f"A filter needs c² + v² > 0 and finite entries; got {filter}.")
    return RowSum(patches.noise, patches.sigma * filter.length, filter.b)


# Loss, accuracy and gradients of one filter over the population, exact for any number of rows.
#
# With g = φ_b(c) and S symmetric, the output for label y has the law of y(g + S). The logistic function is
# the distribution function of a variable with characteristic function πu/sinh(πu), so that every expectation
# is an integral over u whose integrand decays as exp(-πu).

LAST = 12.0
"""Frequency beyond which πu/sinh(πu) is below 1e-14."""

WIDTH = 24.0
"""Largest phase, in radians, by which an integrand turns within one panel of the quadrature."""

PANEL = 24
"""Gauss-Legendre nodes per panel."""


class Population(NamedTuple):
    """The expected logistic loss (nats) of a filter and its derivatives."""

    loss: float
    by_c: float
    by_v: float
    by_b: float


def population(patches: Patches, filter: Filter) -> Population:
    """Exact loss and gradients, as integrals over the frequency u."""
    noise, signal = row_sum(patches, filter), soft_threshold(filter.c, filter.b)
    u, weights = _quadrature(LAST, signal, noise)
    weights = weights / np.sinh(pi * u)
    psi_minus_one, by_s, by_row_b = noise.transforms(u)
    others = 1 + noise.power_minus_one(psi_minus_one, noise.rows - 1)  # ψ^(k-1)
    all_rows = others * (1 + psi_minus_one)  # ψ^k
    decay = noise.power_minus_one(psi_minus_one, noise.rows)
    curved = 2 * np.sin(u * signal / 2) ** 2 * all_rows - decay  # 1 - cos(ug) ψ^k
    by_signal = weights @ (np.sin(u * signal) * all_rows) - 0.5
    by_row = -noise.rows * weights * np.cos(u * signal) * others / u
    slope, slope_b = slopes(filter.c, filter.b)
    by_length = by_row @ by_s * patches.sigma / filter.length
    return Population(
        loss=float(log(2) - signal / 2 + weights @ (curved / u)),
        by_c=float(by_signal * slope + by_length * filter.c),
        by_v=float(by_length * filter.v),
        by_b=float(by_signal * slope_b + by_row @ by_row_b),
    )


def accuracy(patches: Patches, filter: Filter) -> float:
    """Probability that the output has the sign of the label; an output of zero counts as wrong."""
    return positive_probability(row_sum(patches, filter), soft_threshold(filter.c, filter.b))


def threshold_error(patches: Patches, ratio: float) -> float:
    """Error of a filter along w* with threshold |b| = ratio · c, which depends on the ratio alone."""
    return 1 - accuracy(patches, Filter(1.0, 0.0, -ratio))


def positive_probability(noise: RowSum, signal: float) -> float:
    """P[g + S > 0]: in closed form where at most one row survives, by quadrature otherwise.

    The remaining integrand decays as u⁻⁴, so the integral may end at us = 100.
    """
    k, none, p = noise.rows, noise.atom, noise.surviving
    one = k * (1 - p) ** (k - 1) if noise.b < 0 else 0.0  # P[exactly one row survives], over p
    single = ndtr((abs(noise.b) + abs(signal)) / noise.s) - ndtr(noise.alpha)
    u, weights = _quadrature(100 / noise.s, signal, noise)
    psi_minus_one, _, _ = noise.transforms(u)
    rest = 1 + noise.power_minus_one(psi_minus_one, k) - none - one * (psi_minus_one + p)
    many = weights @ (np.sin(u * signal) / u * rest) / pi
    one_or_none = none * (signal > 0) + one * (p / 2 + np.sign(signal) * single)
    return float(np.clip(one_or_none + (1 - none - one * p) / 2 + many, 0, 1))


def _quadrature(last: float, signal: float, noise: RowSum) -> tuple[Frequencies, Frequencies]:
    """Nodes and weights on [0, last], in panels within which cos(ug) and ψ^k hardly turn."""
    turns = abs(signal) + 2 * max(noise.b, 0)
    first = min(0.5 / (turns + noise.deviation), last)
    widest = max(WIDTH / turns if turns else last, first)
    edges = [0.0, first]
    while edges[-1] < last:
        edges.append(min(edges[-1] + min(edges[-1], widest), last))
    points, weights = legendre(PANEL)
    halves = np.diff(edges)[:, None] / 2
    return (np.array(edges[:-1])[:, None] + halves * (1 + points)).ravel(), (halves * weights).ravel()


@cache
def legendre(points: int) -> tuple[Frequencies, Frequencies]:
    """Gauss-Legendre nodes and weights on [-1, 1]."""
    return np.polynomial.legendre.leggauss(points)


# Training on the population: gradient flow and gradient descent (Algorithm 3.1, n = ∞), with learning rates
# η_w = lr and η_b = lr/k.

State = Float[np.ndarray, "3"]

COARSE = 60
"""Grid of thresholds from which the best is refined."""


def flow(patches: Patches, start: Filter, lr: float, steps: Float[np.ndarray, " step"]) -> pd.DataFrame:
    """Integrate gradient flow, with time in units of steps of size `lr`.

    Args:
        patches: the data distribution.
        start: the filter at step 0.
        lr: η_w.
        steps: times of evaluation, increasing from 0.

    Returns:
        One row per evaluation: `step`, `c`, `v`, `b`, `loss` (nats) and `accuracy`.

    """

    def velocity(_: float, state: State) -> State:
        return update(patches, lr, state)

    solution = solve_ivp(velocity, (0, steps[-1]), start, "LSODA", steps, rtol=1e-7, atol=1e-10)
    if not solution.success:
        raise ParameterError(f"The flow cannot be followed to step {steps[-1]:g}: {solution.message}")
    return evaluated(patches, zip(steps, solution.y.T, strict=True))


def descend(patches: Patches, start: Filter, lr: float, steps: int) -> pd.DataFrame:
    """Run gradient descent; the table is that of `flow`, with one row per step."""
    states = [np.array(start)]
    for _ in range(steps):
        states.append(states[-1] + update(patches, lr, states[-1]))
    return evaluated(patches, enumerate(states))


def update(patches: Patches, lr: float, state: State) -> State:
    """The change of (c, v, b) by a step of gradient descent."""
    gradient = population(patches, Filter(*state))
    return -lr * np.array([gradient.by_c, gradient.by_v, gradient.by_b / patches.noise])


def evaluated(patches: Patches, states: Iterable[tuple[float, Iterable[float]]]) -> pd.DataFrame:
    """Table of `flow` for pairs of a step and a filter (c, v, b)."""
    filters = [(step, Filter(*state)) for step, state in states]
    rows = [(step, *w, population(patches, w).loss, accuracy(patches, w)) for step, w in filters]
    return pd.DataFrame(rows, columns=["step", "c", "v", "b", "loss", "accuracy"])


def best_threshold(patches: Patches) -> tuple[float, float]:
    """The threshold |b|/c with the highest accuracy, and that accuracy, over all filters.

    Accuracy depends on b/c and v/c only, and v > 0 only adds noise.
    """
    error = partial(threshold_error, patches)
    best = min(np.linspace(0, 1, COARSE, endpoint=False), key=error)
    bounds = (max(best - 1 / COARSE, 0.0), min(best + 1 / COARSE, 1.0))
    optimum = minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return float(optimum.x), 1 - float(optimum.fun)


# Stochastic gradient descent (Algorithm 3.1), simulated exactly in law from the rows that survive.
#
# A noise row affects the output through its projection Z on w only, and below the threshold it has no
# gradient. So only the surviving Z are drawn; given these, the gradient orthogonal to w is Gaussian.

Vector = Float[np.ndarray, " d"]


def in_population(w: Vector, b: float) -> Filter:
    """Reduce a filter to c, v and b; w* is the first unit vector."""
    return Filter(float(w[0]), float(np.linalg.norm(w[1:])), float(b))


def gradient(
    patches: Patches, w: Vector, b: float, batch: int, random: np.random.Generator
) -> tuple[Vector, float]:
    """Gradients of the mean loss over a fresh batch with respect to w and b."""
    filter = in_population(w, b)
    output, along, squares, by_row_b = noise_sums(row_sum(patches, filter), batch, random)
    y = random.choice([-1.0, 1.0], batch)
    signal, (slope, slope_b) = soft_threshold(filter.c, b), slopes(filter.c, b)
    pull = -y * expit(-(signal + y * output)) / batch  # derivative of the mean loss by each output
    across = random.normal(size=len(w)) * patches.sigma * np.sqrt(pull**2 @ squares)
    unit = w / filter.length
    by_w = (pull @ along / filter.length - across @ unit) * unit + across
    by_w[0] += slope * (pull @ y)
    return by_w, float(pull @ by_row_b + slope_b * (pull @ y))


def noise_sums(noise: RowSum, batch: int, random: np.random.Generator) -> Float[np.ndarray, "4 image"]:
    """Draw the surviving noise rows of each image: how many of each sign, and their magnitudes.

    Returns:
        Sums over the rows of φ_b(Z), hZ, h² and ∂φ_b(Z)/∂b, with Z = ⟨w, X⟩ and h the slope of φ_b at Z.

    """
    p = noise.surviving / 2
    above = random.binomial(noise.rows, p, batch)
    below = random.binomial(noise.rows - above, p / (1 - p))
    count = np.concatenate([above, below])
    ends = np.append(0, np.cumsum(count))
    size = -noise.s * ndtri(p * (1 - random.random(ends[-1])))

    def by_sign(values: Float[np.ndarray, " row"]) -> Float[np.ndarray, "2 image"]:
        """Sums over the rows of each sign and image, which may be none."""
        return np.diff(np.append(0.0, np.cumsum(values))[ends]).reshape(2, batch)

    sizes, number = by_sign(size), count.reshape(2, batch).astype(float)
    if noise.b < 0:  # slope 1, and φ_b(Z) = ±(size + b)
        output, along, squares, by_b = sizes + noise.b * number, sizes, number, number
    else:
        twice = by_sign((size <= noise.b).astype(float))  # rows at which the slope is 2
        output = sizes + by_sign(np.minimum(size, noise.b))
        along = sizes + by_sign(size * (size <= noise.b))
        squares, by_b = number + 3 * twice, number - twice
    return np.stack([output[0] - output[1], along[0] - along[1], squares.sum(0), by_b[0] - by_b[1]])
