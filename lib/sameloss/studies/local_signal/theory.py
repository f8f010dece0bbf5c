"""Images with a local signal, the two numbers a filter's loss depends on, its flow, networks in few rows."""

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

    def draw(
        self, signal: Float[np.ndarray, " d"], count: int, random: np.random.Generator
    ) -> tuple[Float[np.ndarray, "image row d"], Int[np.ndarray, " image"]]:
        """Return images and labels; the signal's row is anywhere.

        Raises:
            ParameterError: for a signal w* that is not of length 1.

        """
        if abs(np.linalg.norm(signal) - 1) > 1e-9:
            raise ParameterError(f"The signal w* has length 1; got {np.linalg.norm(signal):g}.")
        y = random.choice([-1, 1], count)
        x = random.normal(0, self.sigma, (count, self.noise + 1, len(signal)))
        x[np.arange(count), random.integers(self.noise + 1, size=count)] = y[:, None] * signal
        return x, y


# The network of Section 3.4: one filter, whose answer to a row is a soft threshold.


@dataclass(frozen=True)
class Filter:
    """A filter w with bias b, as all that its population quantities depend on.

    Raises:
        ParameterError: for a filter that is zero.

    """

    c: float  # ⟨w, w*⟩
    v: float  # length of w's part across w*
    b: float  # bias; below zero, -b is the threshold

    def __post_init__(self) -> None:
        """Refuse a filter that answers nothing."""
        if not 0 < self.length < np.inf or not np.isfinite(self.b):
            raise ParameterError(
                "A filter needs c² + v² > 0, and all of it finite; "
                f"got c = {self.c}, v = {self.v}, b = {self.b}."
            )

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


def answers(
    x: Float[np.ndarray, "image row d"], w: Float[np.ndarray, " d"], b: float
) -> Float[np.ndarray, " image"]:
    """Return f_{w,b}(X), the sum over rows."""
    return soft_threshold(x @ w, b).sum(1)


# The law of what the noise adds to the answer: S, a sum of k independent soft thresholds of Gaussians.
#
# Its characteristic function is ψ(u)^k, with ψ that of one row in closed form by Faddeeva's function w:
# from α on, 2∫ exp(iω(t - α)) φ(t) dt = exp(-α²/2) w((ω + iα)/√2).

Frequencies = Float[np.ndarray, " frequency"]


def gaussian(x: float) -> float:
    """Return the density of a standard Gaussian."""
    return exp(-(x**2) / 2) / sqrt(2 * pi)


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

    def at(self, u: Frequencies) -> "Transforms":
        """Return what the integrals over u need."""
        tail = exp(-(self.alpha**2) / 2) * wofz((u * self.s + 1j * self.alpha) / sqrt(2))
        if self.b < 0:
            return Transforms(self, tail.real - self.surviving, -(u**2) * self.s * tail.real, -u * tail.imag)
        outer = np.exp(2j * u * self.b) * tail  # Z + b, where Z is above b
        inner = self._inner(u)
        corner = 2 * gaussian(self.alpha) * np.sin(2 * u * self.b)
        by_s = -u * (u * self.s * (4 * inner + outer.real) - corner)
        return Transforms(self, inner + outer.real - 1, by_s, -u * outer.imag)

    def _inner(self, u: Frequencies) -> Frequencies:
        """Return E cos(2uZ) where |Z| < b: what is left of the Gaussian without its tails."""
        omega = 2 * u * self.s
        tails = wofz((omega + 1j * self.alpha) / sqrt(2)) * np.exp(1j * omega * self.alpha)
        return np.exp(-(omega**2) / 2) - exp(-(self.alpha**2) / 2) * tails.real


class Transforms(NamedTuple):
    """The characteristic function ψ(u) of one row, at some u, and its derivatives."""

    of: RowSum
    less_one: Frequencies  # ψ - 1, which is small where few rows survive, and counted millions of times
    by_s: Frequencies
    by_b: Frequencies

    def power(self, rows: int) -> Frequencies:
        """Return ψ^rows, the characteristic function of the sum of some of the rows."""
        return 1 + self.power_less_one(rows)

    def power_less_one(self, rows: int) -> Frequencies:
        """Return ψ^rows - 1, to full precision also where it is tiny."""
        if self.of.b >= 0:  # ψ may be negative, or zero
            return (1 + self.less_one) ** rows - 1
        return np.expm1(rows * np.log1p(self.less_one))


# Loss, accuracy and gradients of one filter over the whole distribution, exact for any number of rows.
#
# With g = φ_b(c) and the noise's symmetric sum S, the answer to an image of label y is y(g + S'), S' as S.
# The logistic function is the law of a variable whose characteristic function is πu/sinh(πu), so that every
# expectation is an integral over u whose integrand falls as exp(-πu).

Nodes = Float[np.ndarray, " frequency"]

LAST = 12.0
"""Frequency beyond which πu/sinh(πu) is below 1e-14."""

WIDTH = 24.0
"""Radians that an integrand turns within one panel of the rule, at most."""

PANEL = 24
"""Points of Gauss and Legendre in a panel."""


@dataclass(frozen=True)
class Population:
    """What is true of a filter over the whole distribution."""

    noise: RowSum  # what noise adds to the answer
    signal: float  # g, the signal's answer
    loss: float  # logistic, nats
    by_c: float  # derivatives of the loss
    by_v: float
    by_b: float

    @property
    def accuracy(self) -> float:
        """Return the share of images whose label is the sign of the answer; f = 0 is wrong."""
        return share_above(self.noise, self.signal)


def row_sum(patches: Patches, filter: Filter) -> RowSum:
    """Return the law of what the noise adds to the answer."""
    return RowSum(patches.noise, patches.sigma * filter.length, filter.b)


def population(patches: Patches, filter: Filter) -> Population:
    """Return loss and gradients."""
    noise, signal = row_sum(patches, filter), soft_threshold(filter.c, filter.b)
    u, weights = _rule(LAST, signal, noise)
    weights = weights / np.sinh(pi * u)
    row = noise.at(u)
    others = row.power(noise.rows - 1)
    all_rows = others * (1 + row.less_one)
    curved = 2 * np.sin(u * signal / 2) ** 2 * all_rows - row.power_less_one(noise.rows)  # 1 - cos(ug) ψ^k
    by_signal = weights @ (np.sin(u * signal) * all_rows) - 0.5
    by_row = -noise.rows * weights * np.cos(u * signal) * others / u
    slope, slope_b = slopes(filter.c, filter.b)
    by_length = by_row @ row.by_s * patches.sigma / filter.length
    return Population(
        noise,
        signal,
        loss=float(log(2) - signal / 2 + weights @ (curved / u)),
        by_c=float(by_signal * slope + by_length * filter.c),
        by_v=float(by_length * filter.v),
        by_b=float(by_signal * slope_b + by_row @ row.by_b),
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
    row = noise.at(u)
    rest = row.power(k) - none - one * (row.less_one + p)
    many = weights @ (np.sin(u * signal) / u * rest) / pi
    one_or_none = none * (signal > 0) + one * (p / 2 + np.sign(signal) * single)
    return float(np.clip(one_or_none + (1 - none - one * p) / 2 + many, 0, 1))


def _rule(last: float, signal: float, noise: RowSum) -> tuple[Nodes, Nodes]:
    """Return nodes and weights from 0 to a frequency, in panels within which cos(ug) and ψ^k hardly turn."""
    turns = abs(signal) + 2 * max(noise.b, 0)
    first = min(0.5 / (turns + noise.deviation), last)
    widest = max(WIDTH / turns if turns else last, first)
    edges = [0.0, first]
    while edges[-1] < last:
        edges.append(min(edges[-1] + min(edges[-1], widest), last))
    points, weights = _legendre()
    halves = np.diff(edges)[:, None] / 2
    return (np.array(edges[:-1])[:, None] + halves * (1 + points)).ravel(), (halves * weights).ravel()


@cache
def _legendre() -> tuple[Nodes, Nodes]:
    return np.polynomial.legendre.leggauss(PANEL)


# How one filter learns on the whole distribution: gradient flow and gradient descent (Algorithm 3.1, n = ∞).
#
# Both are about c, v and b: the part of w across w* keeps its direction.

State = Float[np.ndarray, "3"]

COARSE = 60
"""Thresholds that are tried before the best is refined."""


@dataclass(frozen=True)
class Rates:
    """Learning rates η_w and η_b.

    Raises:
        ParameterError: for rates that are not positive.

    """

    w: float
    b: float

    def __post_init__(self) -> None:
        """Refuse rates with which nothing is learnt."""
        check_positive(self, "w", "b")

    @property
    def each(self) -> State:
        """Return the rate of c, v and b."""
        return np.array([self.w, self.w, self.b])


def thesis_rates(patches: Patches, lr: float) -> Rates:
    """Return η_b = η_w/k (Algorithm 3.1)."""
    return Rates(lr, lr / patches.noise)


def flow(patches: Patches, start: Filter, rates: Rates, steps: Float[np.ndarray, " look"]) -> pd.DataFrame:
    """Follow the gradient flow; its time is counted in steps of the rates.

    Args:
        patches: the distribution.
        start: the filter at step 0.
        rates: of descent.
        steps: when to look, in ascending order, from 0 on.

    Returns:
        One row a look: `step`, `c`, `v`, `b`, `loss` (nats) and `accuracy`.

    """
    found = solve_ivp(
        lambda _, state: -rates.each * _gradient(patches, state),
        (0, steps[-1]),
        _state(start),
        method="LSODA",
        t_eval=steps,
        rtol=1e-7,
        atol=1e-10,
    )
    if not found.success:
        raise ParameterError(f"The flow cannot be followed to step {steps[-1]:g}: {found.message}")
    return _looks(patches, steps, found.y.T)


def descend(patches: Patches, start: Filter, rates: Rates, steps: int) -> pd.DataFrame:
    """Take steps of gradient descent; the table is as that of `flow`, with a row a step."""
    states = [_state(start)]
    for _ in range(steps):
        states.append(states[-1] - rates.each * _gradient(patches, states[-1]))
    return _looks(patches, np.arange(steps + 1.0), np.array(states))


def _state(filter: Filter) -> State:
    return np.array([filter.c, filter.v, filter.b])


def _gradient(patches: Patches, state: State) -> State:
    found = population(patches, Filter(*state))
    return np.array([found.by_c, found.by_v, found.by_b])


def _looks(
    patches: Patches, steps: Float[np.ndarray, " look"], states: Float[np.ndarray, "look 3"]
) -> pd.DataFrame:
    rows = []
    for step, state in zip(steps, states, strict=True):
        found = population(patches, Filter(*state))
        rows.append((step, *state, found.loss, found.accuracy))
    return pd.DataFrame(rows, columns=["step", "c", "v", "b", "loss", "accuracy"])


def is_dead(filter: Filter) -> bool:
    """Return whether the signal is below the threshold: then it has no gradient, and noise shrinks the rest.

    >>> is_dead(Filter(-0.1, 0.0, -0.2)), is_dead(Filter(0.3, 0.0, -0.2))
    (True, False)
    """
    return bool(filter.b < 0 and abs(filter.c) <= -filter.b)


def dies(patches: Patches, start: Filter, rates: Rates) -> bool:
    """Descend until the signal is under the threshold, or above it with c > 0; return whether it is under.

    Raises:
        ParameterError: where neither happens for a hundred k steps.

    """
    state = _state(start)
    for _ in range(100 * patches.noise):
        state = state - rates.each * _gradient(patches, state)
        if is_dead(Filter(*state)):
            return True
        if state[0] > abs(state[2]):
            return False
    raise ParameterError(
        f"From c = {start.c:g} nothing is decided in {100 * patches.noise:,} steps; take a larger rate."
    )


CARRIED = 4.0
"""Rates below so many |c|/k are expected not to carry c across zero before b stops it."""


def may_die(patches: Patches, start: Filter, lr: float) -> bool:
    """Return whether a start is expected to end in the dead zone: c < 0, and too small a rate to cross zero.

    In the dead zone, |c| ≤ |b| with b < 0, the signal is under the threshold and has no gradient.

    The thesis' Lemma B.3 takes η over the size of the start to be of order k, which excludes it.
    """
    return start.c < 0 and lr < CARRIED * abs(start.c) / patches.noise


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


# Stochastic gradient descent (Algorithm 3.1), exact in law, from what passes the threshold.
#
# Of a noise row only its component Z along w decides the answer, and a row below the threshold has no
# gradient at all. So Z is drawn of the rows that survive, and what all of them add to the gradient across w
# is one Gaussian vector.

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
