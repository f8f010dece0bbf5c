"""Images with a local signal (Karp 2024, Section 3.3), the exact loss of one filter, and how it learns.

Everything about one filter depends on three numbers, c, v and b, and is exact for any number of rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from math import exp, hypot, log, pi, sqrt
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar
from scipy.special import expit, ndtr, ndtri, wofz

from sameloss.checks import check_count, check_positive
from sameloss.errors import ParameterError
from sameloss.store.store import Report

# The distribution of Section 3.3: one row holds the signal, all others are noise.


@dataclass(frozen=True)
class Patches:
    """Images of k + 1 rows: one is y·w*, in k there is noise of standard deviation σ.

    Raises:
        ParameterError: for fewer than two rows of noise, or no noise.

    """

    noise: int  # rows, k
    multiplier: float = 1.0  # of σ = log k/√k

    def __post_init__(self) -> None:
        """Refuse what is no such distribution."""
        check_count("noise", self.noise, least=2)
        check_positive(self, "multiplier")

    @property
    def sigma(self) -> float:
        """Return the standard deviation σ of every entry of the noise.

        >>> round(Patches(1000).sigma, 4)
        0.2184
        """
        return self.multiplier * log(self.noise) / sqrt(self.noise)

    @property
    def dimension(self) -> int:
        """Return d = 1/σ², as Theorem 3.2's proof needs: filters and noise overlap the signal alike."""
        return round(self.sigma**-2)

    def draw(
        self, signal: Float[np.ndarray, " d"], count: int, random: np.random.Generator
    ) -> tuple[Float[np.ndarray, "image row d"], Int[np.ndarray, " image"]]:
        """Return images and labels; the signal's row, of length 1, is anywhere."""
        y = random.choice([-1, 1], count)
        x = random.normal(0, self.sigma, (count, self.noise + 1, len(signal)))
        x[np.arange(count), random.integers(self.noise + 1, size=count)] = y[:, None] * signal
        return x, y


# The network of Section 3.4: one filter, whose answer to a row is a soft threshold.


class Filter(NamedTuple):
    """A filter w with bias b, as all that its population quantities depend on."""

    c: float  # ⟨w, w*⟩
    v: float  # length of w's part across w*, whose direction stays as it was
    b: float  # bias; below zero, -b is the threshold

    @property
    def length(self) -> float:
        """Return ‖w‖."""
        return hypot(self.c, self.v)


Numbers = TypeVar("Numbers", float, np.ndarray)


def soft_threshold(x: Numbers, b: float) -> Numbers:
    """Return φ_b(x) = ReLU(x + b) - ReLU(-x + b) (Section 3.4).

    Below zero -b is a threshold; at zero nothing is changed; above zero the slope is 2 between -b and b.

    >>> soft_threshold(np.array([-3.0, 0.5, 3.0]), -1.0)
    array([-2.,  0.,  2.])
    """
    return np.maximum(x + b, 0) - np.maximum(-x + b, 0)


def slopes(x: float, b: float) -> tuple[float, float]:
    """Return the derivatives of φ_b(x) by x and by b; at a kink as the thesis' indicators have them.

    >>> slopes(1.0, -0.5), slopes(0.2, -0.5), slopes(0.2, 0.5)
    ((1.0, 1.0), (0.0, 0.0), (2.0, 0.0))
    """
    up, down = float(x >= -b), float(x <= b)
    return up + down, up - down


# The law of what the noise adds to the answer: S, a sum of k independent soft thresholds of Gaussians.
#
# Its characteristic function is ψ(u)^k, with ψ that of one row in closed form by Faddeeva's function w:
# from α on, 2∫ exp(iω(t - α)) φ(t) dt = exp(-α²/2) w((ω + iα)/√2).

Frequencies = Float[np.ndarray, " frequency"]


@dataclass(frozen=True)
class RowSum:
    """The sum of `rows` independent φ_b(s·N(0, 1))."""

    rows: int
    s: float
    b: float

    @property
    def alpha(self) -> float:
        """Return |b|/s."""
        return abs(self.b) / self.s

    @cached_property
    def surviving(self) -> float:
        """Return the probability that a row is not 0: that it passes the threshold, where there is one."""
        return float(2 * ndtr(-self.alpha)) if self.b < 0 else 1.0

    @property
    def atom(self) -> float:
        """Return the probability that all rows are 0."""
        return (1 - self.surviving) ** self.rows if self.b < 0 else 0.0

    @property
    def deviation(self) -> float:
        """Return no less than the sum's standard deviation: |φ_b(Z)| is at most 2|Z|, and |Z| if b ≤ 0."""
        return (2 if self.b > 0 else 1) * self.s * sqrt(self.rows)

    def transforms(self, u: Frequencies) -> tuple[Frequencies, Frequencies, Frequencies]:
        """Return ψ - 1, which is small where few rows survive, and the derivatives of ψ by s and by b."""
        beyond = exp(-(self.alpha**2) / 2)
        tail = beyond * wofz((u * self.s + 1j * self.alpha) / sqrt(2))
        if self.b < 0:
            return tail.real - self.surviving, -(u**2) * self.s * tail.real, -u * tail.imag
        outer = np.exp(2j * u * self.b) * tail  # Z + b, where Z is above b
        omega = 2 * u * self.s  # below b it is 2Z: a Gaussian without its tails
        tails = wofz((omega + 1j * self.alpha) / sqrt(2)) * np.exp(1j * omega * self.alpha)
        inner = np.exp(-(omega**2) / 2) - beyond * tails.real
        corner = sqrt(2 / pi) * beyond * np.sin(2 * u * self.b)
        by_s = -u * (u * self.s * (4 * inner + outer.real) - corner)
        return inner + outer.real - 1, by_s, -u * outer.imag

    def power_less_one(self, less_one: Frequencies, rows: int) -> Frequencies:
        """Return ψ^rows - 1 from ψ - 1, to full precision also where it is tiny."""
        if self.b >= 0:  # ψ may be negative, or zero
            return (1 + less_one) ** rows - 1
        return np.expm1(rows * np.log1p(less_one))


def row_sum(patches: Patches, filter: Filter) -> RowSum:
    """Return the law of what the noise adds to the answer.

    Raises:
        ParameterError: for a filter that is zero, or not finite.

    """
    if not 0 < filter.length < np.inf or not np.isfinite(filter.b):
        raise ParameterError(f"A filter needs c² + v² > 0, and all of it finite; got {filter}.")
    return RowSum(patches.noise, patches.sigma * filter.length, filter.b)


# Loss, accuracy and gradients of one filter over the whole distribution, exact for any number of rows.
#
# With g = φ_b(c) and the noise's symmetric sum S, the answer to an image of label y is y(g + S'), S' as S.
# The logistic function is the law of a variable whose characteristic function is πu/sinh(πu), so that every
# expectation is an integral over u whose integrand falls as exp(-πu).

LAST = 12.0
"""Frequency beyond which πu/sinh(πu) is below 1e-14."""

WIDTH = 24.0
"""Radians that an integrand turns within one panel of the rule, at most."""

PANEL = 24
"""Points of Gauss and Legendre in a panel."""


class Population(NamedTuple):
    """The logistic loss (nats) of a filter over the whole distribution, and its derivatives."""

    loss: float
    by_c: float
    by_v: float
    by_b: float


def population(patches: Patches, filter: Filter) -> Population:
    """Return loss and gradients."""
    noise, signal = row_sum(patches, filter), soft_threshold(filter.c, filter.b)
    u, weights = _rule(LAST, signal, noise)
    weights = weights / np.sinh(pi * u)
    less_one, by_s, by_row_b = noise.transforms(u)
    others = 1 + noise.power_less_one(less_one, noise.rows - 1)
    all_rows = others * (1 + less_one)
    curved = 2 * np.sin(u * signal / 2) ** 2 * all_rows - noise.power_less_one(less_one, noise.rows)
    by_signal = weights @ (np.sin(u * signal) * all_rows) - 0.5
    by_row = -noise.rows * weights * np.cos(u * signal) * others / u
    slope, slope_b = slopes(filter.c, filter.b)
    by_length = by_row @ by_s * patches.sigma / filter.length
    return Population(
        loss=float(log(2) - signal / 2 + weights @ (curved / u)),  # curved: 1 - cos(ug) ψ^k
        by_c=float(by_signal * slope + by_length * filter.c),
        by_v=float(by_length * filter.v),
        by_b=float(by_signal * slope_b + by_row @ by_row_b),
    )


def accuracy(patches: Patches, filter: Filter) -> float:
    """Return the share of images whose label is the sign of the answer; f = 0 is wrong."""
    return share_above(row_sum(patches, filter), soft_threshold(filter.c, filter.b))


def share_above(noise: RowSum, signal: float) -> float:
    """Return P[g + S > 0]: exactly where at most one row survives, by an integral over the rest.

    What is left falls as u⁻⁴, so the integral may end where us is a hundred.
    """
    k, none, p = noise.rows, noise.atom, noise.surviving
    one = k * (1 - p) ** (k - 1) if noise.b < 0 else 0.0  # ways of one to survive, but for its own p
    single = ndtr((abs(noise.b) + abs(signal)) / noise.s) - ndtr(noise.alpha)
    u, weights = _rule(100 / noise.s, signal, noise)
    less_one, _, _ = noise.transforms(u)
    rest = 1 + noise.power_less_one(less_one, k) - none - one * (less_one + p)
    many = weights @ (np.sin(u * signal) / u * rest) / pi
    one_or_none = none * (signal > 0) + one * (p / 2 + np.sign(signal) * single)
    return float(np.clip(one_or_none + (1 - none - one * p) / 2 + many, 0, 1))


def _rule(last: float, signal: float, noise: RowSum) -> tuple[Frequencies, Frequencies]:
    """Return nodes and weights from 0 to a frequency, in panels within which cos(ug) and ψ^k hardly turn."""
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
    """Return nodes and weights of the rule of Gauss and Legendre on [-1, 1]."""
    return np.polynomial.legendre.leggauss(points)


# How one filter learns on the whole distribution: gradient flow and gradient descent (Algorithm 3.1, n = ∞),
# with the rates η_w = lr and η_b = lr/k.

State = Float[np.ndarray, "3"]

COARSE = 60
"""Thresholds that are tried before the best is refined."""


def flow(patches: Patches, start: Filter, lr: float, steps: Float[np.ndarray, " look"]) -> pd.DataFrame:
    """Follow the gradient flow; its time is counted in steps of the rate.

    Args:
        patches: the distribution.
        start: the filter at step 0.
        lr: η_w.
        steps: when to look, in ascending order, from 0 on.

    Returns:
        One row a look: `step`, `c`, `v`, `b`, `loss` (nats) and `accuracy`.

    """
    found = solve_ivp(
        lambda _, state: _change(patches, lr, state),
        (0, steps[-1]),
        np.array(start),
        method="LSODA",
        t_eval=steps,
        rtol=1e-7,
        atol=1e-10,
    )
    if not found.success:
        raise ParameterError(f"The flow cannot be followed to step {steps[-1]:g}: {found.message}")
    return _looked_at(patches, zip(steps, found.y.T, strict=True))


def descend(patches: Patches, start: Filter, lr: float, steps: int) -> pd.DataFrame:
    """Take steps of gradient descent; the table is as that of `flow`, with a row a step."""
    states = [np.array(start)]
    for _ in range(steps):
        states.append(states[-1] + _change(patches, lr, states[-1]))
    return _looked_at(patches, enumerate(states))


def _change(patches: Patches, lr: float, state: State) -> State:
    """Return what a step adds to c, v and b."""
    found = population(patches, Filter(*state))
    return -lr * np.array([found.by_c, found.by_v, found.by_b / patches.noise])


def _looked_at(patches: Patches, states: Iterable[tuple[float, Iterable[float]]]) -> pd.DataFrame:
    filters = [(step, Filter(*state)) for step, state in states]
    rows = [(step, *own, population(patches, own).loss, accuracy(patches, own)) for step, own in filters]
    return pd.DataFrame(rows, columns=["step", "c", "v", "b", "loss", "accuracy"])


def dies(patches: Patches, start: Filter, lr: float) -> bool:
    """Descend until the signal is under the threshold, or above it with c > 0; return whether it is under.

    Where it is under, it has no gradient, and noise shrinks the rest.

    Raises:
        ParameterError: where neither happens for a hundred k steps.

    """
    state, steps = np.array(start), 100 * patches.noise
    for _ in range(steps):
        state = state + _change(patches, lr, state)
        c, _, b = state
        if abs(c) <= -b:
            return True
        if c > abs(b):
            return False
    raise ParameterError(f"From c = {start.c:g} nothing is decided in {steps:,} steps; take a larger rate.")


def best_threshold(patches: Patches) -> tuple[float, float]:
    """Return the threshold |b|/c that is right most often, and how often: of filters along w*.

    Accuracy depends on b/c and v/c alone, and v only adds noise.
    """

    def wrong(ratio: float) -> float:
        return 1 - accuracy(patches, Filter(1.0, 0.0, -ratio))

    tried = np.linspace(0, 1, COARSE, endpoint=False)
    best = tried[np.argmin([wrong(ratio) for ratio in tried])]
    around = (max(best - 1 / COARSE, 0.0), min(best + 1 / COARSE, 1.0))
    found = minimize_scalar(wrong, bounds=around, method="bounded", options={"xatol": 1e-6})
    return float(found.x), 1 - float(found.fun)


# Several orthogonal features in the place of one (remark in Section 3.3): an image has one of r, at random.


def one_filter(patches: Patches, features: int) -> float:
    """Return what one filter can reach that answers alike to some of r features, and guesses the others.

    Of r' it has 1/√r' of its length along each, as if the noise were √r' times as strong.
    """
    seen = np.unique(np.geomspace(1, features, 2 + round(log(features, 4))).round())  # r is among them
    right = [best_threshold(Patches(patches.noise, patches.multiplier * sqrt(r)))[1] for r in seen]
    return float(max(seen / features * right + (1 - seen / features) / 2))


def filter_each(patches: Patches, features: int) -> float:
    """Return what r filters reach, each along a feature of its own, all with the best threshold.

    Their noise is independent, as if it had r times as many rows; the other filters answer nothing to the
    signal.

    >>> filter_each(Patches(1000), 1) == best_threshold(Patches(1000))[1]
    True
    """
    rows = patches.noise * features
    return best_threshold(Patches(rows, patches.sigma / Patches(rows).sigma))[1]


# Stochastic gradient descent (Algorithm 3.1), exact in law, from what passes the threshold.
#
# Of a noise row only its component Z along w decides the answer, and a row below the threshold has no
# gradient at all. So Z is drawn of the rows that survive, and what all of them add to the gradient across w
# is one Gaussian vector.

Vector = Float[np.ndarray, " d"]

Images = Float[np.ndarray, " image"]


def first_filter(d: int, length: float, random: np.random.Generator) -> Vector:
    """Return a filter of random direction."""
    w = random.normal(size=d)
    return length * w / np.linalg.norm(w)


def in_population(w: Vector, b: float) -> Filter:
    """Return a filter as its population quantities depend on it; w* is the first unit vector."""
    return Filter(float(w[0]), float(np.linalg.norm(w[1:])), float(b))


def sgd(
    patches: Patches,
    w: Vector,
    lr: float,
    batch: int,
    looks: Int[np.ndarray, " look"],
    random: np.random.Generator,
    report: Report = lambda done, text: None,
) -> pd.DataFrame:
    """Take steps on fresh batches.

    Args:
        patches: the distribution.
        w: the filter at step 0, where b is 0.
        lr: η_w.
        batch: images a step.
        looks: steps after which to look, in ascending order.
        random: draws the batches.
        report: is told at every look.

    Returns:
        The table of `flow`.

    """
    b, seen = 0.0, []
    for step in range(1, looks[-1] + 1):
        by_w, by_b = gradient(patches, w, b, batch, random)
        w, b = w - lr * by_w, b - lr / patches.noise * by_b
        if step in looks:
            report(step / looks[-1], f"step {step}")
            seen.append((step, in_population(w, b)))
    return _looked_at(patches, seen)


def gradient(
    patches: Patches, w: Vector, b: float, batch: int, random: np.random.Generator
) -> tuple[Vector, float]:
    """Return the gradients by w and by b of the mean loss over a fresh batch."""
    own = in_population(w, b)
    answer, along, squares, by_row_b = noise_sums(row_sum(patches, own), batch, random)
    y = random.choice([-1.0, 1.0], batch)
    signal, (slope, slope_b) = soft_threshold(own.c, own.b), slopes(own.c, own.b)
    pull = -y * expit(-(signal + y * answer)) / batch  # derivative of the mean loss by each answer
    across = random.normal(size=len(w)) * patches.sigma * np.sqrt(pull**2 @ squares)
    unit = w / own.length
    by_w = (pull @ along / own.length - across @ unit) * unit + across
    by_w[0] += slope * (pull @ y)
    return by_w, float(pull @ by_row_b + slope_b * (pull @ y))


def noise_sums(
    noise: RowSum, batch: int, random: np.random.Generator
) -> tuple[Images, Images, Images, Images]:
    """Draw the rows that pass the threshold, all if there is none: how many of each sign, and their sizes.

    Returns:
        Sums over the noise rows of each image: of φ_b(Z_i), h_i Z_i, h_i² and the derivatives by b, with
        Z_i = ⟨w, X_i⟩ and h_i the slope of φ_b there.

    """
    share = noise.surviving / 2
    above = random.binomial(noise.rows, share, batch)
    below = random.binomial(noise.rows - above, share / (1 - share))
    count = np.concatenate([above, below])
    ends = np.append(0, np.cumsum(count))
    size = -noise.s * ndtri(share * (1 - random.random(ends[-1])))

    def by_sign(of_rows: Float[np.ndarray, " row"]) -> Float[np.ndarray, "2 image"]:
        """Return the sums over the rows of each sign and image, some of which have none."""
        return np.diff(np.append(0.0, np.cumsum(of_rows))[ends]).reshape(2, batch)

    sizes, number = by_sign(size), count.reshape(2, batch).astype(float)
    if noise.b < 0:  # the slope is 1 and the answer ±(size + b)
        answer, along, squares, by_b = sizes + noise.b * number, sizes, number, number
    else:
        twice = by_sign((size <= noise.b).astype(float))  # where the slope is 2
        answer = sizes + by_sign(np.minimum(size, noise.b))
        along = sizes + by_sign(size * (size <= noise.b))
        squares, by_b = number + 3 * twice, number - twice
    return answer[0] - answer[1], along[0] - along[1], squares.sum(0), by_b[0] - by_b[1]
