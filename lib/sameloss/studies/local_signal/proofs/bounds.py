"""The inequalities of the proofs: truncated normals, small balls, several filters."""

from dataclasses import replace
from itertools import product
from math import ceil, comb, exp, floor, pi, sqrt
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from sameloss.checks import check_count
from sameloss.errors import ParameterError
from sameloss.seeds import generator_for
from sameloss.studies.local_signal.tangent.rows import (
    TangentKernel,
    best_weights,
    initial_filters,
    threshold_at_signal,
)
from sameloss.studies.local_signal.theory import Patches

# Truncated Gaussians, as the proofs of Appendix B use them (Section B.1.2).

Points = Float[np.ndarray, " point"]


class Moments(NamedTuple):
    """Of Z ~ N(0, s²) given Z ≥ -b."""

    mean: float
    variance: float
    second: float  # E[Z² | Z ≥ -b]


def hazard(x: float) -> float:
    """Return φ(x)/Φᶜ(x), also where both are tiny; its inverse is Mills' ratio."""
    return float(np.exp(norm.logpdf(x) - log_ndtr(-x)))


def _above(x: float, s: float) -> Moments:
    """Return the moments of s·N(0, 1) given that it is at least s·x."""
    rate = hazard(x)
    return Moments(s * rate, s**2 * (1 + x * rate - rate**2), s**2 * (1 + x * rate))


def printed_moments(b: float, s: float) -> Moments:
    """Return (B.1) to (B.3) as printed, with α = |b|/s.

    Raises:
        ParameterError: for b > 0, where they are other numbers than the moments.

    """
    if b > 0:
        raise ParameterError(f"(B.1) to (B.3) are printed with |b|/s, which needs b <= 0; got b = {b}.")
    return _above(abs(b) / _width(s), s)


def moments(b: float, s: float) -> Moments:
    """Return the moments for any b: (B.1) to (B.3) with -b/s in the place of α.

    >>> moments(1.0, 1.0).mean < printed_moments(-1.0, 1.0).mean
    True
    """
    return _above(-b / _width(s), s)


def _width(s: float) -> float:
    if not 0 < s < np.inf:
        raise ParameterError(f"The standard deviation s must be positive and finite; got {s}.")
    return s


def projected(z: float, c: float, v: float) -> float:
    """Return E[cA | cA + vB = z] for A and B alike and independent (B.4); of vB it is z less that (B.5).

    Raises:
        ParameterError: where c² + v² = 0, so that the condition says nothing.

    """
    if not c**2 + v**2 > 0:
        raise ParameterError(f"(B.4) needs c² + v² > 0; got c = {c}, v = {v}.")
    return z * c**2 / (c**2 + v**2)


def projected_by_integration(z: float, c: float, v: float) -> float:
    """Return the same by the conditional density itself, with σ = 1: what (B.4) is checked against.

    The mass of c²A² + v²B² at cA + vB = z is a Gaussian of width v/√(c² + v²) around its top, so the rule's
    points are laid there.
    """
    top, width = z * c / (c**2 + v**2), abs(v) / sqrt(c**2 + v**2)
    a = top + width * np.linspace(-9, 9, 2001)
    density = np.exp(-(a**2) / 2 - ((z - c * a) / v) ** 2 / 2 + z**2 / (2 * (c**2 + v**2)))
    return float(c * (density @ a) / density.sum())


def mills_bounds(x: Points) -> tuple[Points, Points, Points]:
    """Return the lower bound of (B.6), Mills' ratio Φᶜ(x)/φ(x), and the upper bound."""
    ratio = np.exp(log_ndtr(-x) - norm.logpdf(x))
    return 2 / (np.sqrt(x**2 + 4) + x), ratio, 2 / (np.sqrt(x**2 + 2) + x)


class SoftMoments(NamedTuple):
    """Of a thresholded row S = φ_b(Z), Z ~ N(0, s²)."""

    absolute: float  # E|S|
    variance: float  # E S²
    passing: float  # P[S ≠ 0]


def soft_moments(b: float, s: float, cut: float = np.inf) -> SoftMoments:
    """Return the moments of S = φ_b(Z), given |S| ≤ cut, as Lemmas B.6 and B.9 need them.

    Args:
        b: bias; below zero, -b is the threshold. Above zero S = 2Z for |Z| < b, and Z ± b outside.
        s: standard deviation of Z.
        cut: largest |S| that is looked at.

    >>> [round(x, 6) for x in soft_moments(0.0, 1.0)]  # of Z itself: √(2/π) and 1
    [0.797885, 1.0, 1.0]

    """
    offset, start = b / _width(s), abs(b) / s
    end = max(start, cut / s - offset)  # |S| ≤ cut where |Z| is below it
    outer = [_outer_moment(power, offset, start, end) for power in range(3)]
    inner = _inner_moments(min(start, cut / (2 * s))) if b > 0 else (0.0, 0.0, 0.0)
    zero = 1 - 2 * float(ndtr(-start)) if b < 0 else 0.0
    kept = outer[0] + inner[0] + zero
    return SoftMoments(
        s * (outer[1] + inner[1]) / kept, s**2 * (outer[2] + inner[2]) / kept, (outer[0] + inner[0]) / kept
    )


def _outer_moment(power: int, a: float, start: float, end: float) -> float:
    """Return E[(|z| + a)^power; start ≤ |z| ≤ end], z ~ N(0, 1)."""
    return _upper_moment(power, a, start) - _upper_moment(power, a, end)


def _upper_moment(power: int, a: float, x: float) -> float:
    tail, density = 2 * float(ndtr(-x)), 2 * float(norm.pdf(x))
    first = density + a * tail
    if power < 2:
        return (tail, first)[power]
    return (tail if np.isinf(x) else tail + x * density) + 2 * a * density + a**2 * tail


def _inner_moments(x: float) -> tuple[float, float, float]:
    """Return P, E|2z| and E[4z²] where |z| < x."""
    mass, density = 1 - 2 * float(ndtr(-x)), float(norm.pdf(x))
    return mass, 4 * (1 / sqrt(2 * np.pi) - density), 4 * (mass - 2 * x * density)


def noise_share(alpha: float) -> float:
    """Return Φᶜ(α) + 1.5αφ(α): the bound on the noise part in Lemma 3.1's proof, over |c| k σ².

    The thesis bounds it by α² ~ log k on the way to log³k; it is never above 0.575.
    """
    return float(norm.sf(alpha) + 1.5 * alpha * norm.pdf(alpha))


def thresholded_share(alpha: float) -> float:
    """Return Φᶜ(α)/2: the same for b ≤ 0 with |S_i| = |Z_i| - |b| in the place of 2|Z_i| + |b|."""
    return float(norm.sf(alpha) / 2)


def largest_noise_share() -> tuple[float, float]:
    """Return where `noise_share` is largest, 1/√3, and how large it is there.

    >>> [f"{x:.3f}" for x in largest_noise_share()]
    ['0.577', '0.574']
    """
    at = 1 / sqrt(3)
    return at, float(norm.sf(at) + 1.5 * at * exp(-(at**2) / 2) / sqrt(2 * np.pi))


# How much mass a random sum puts in an interval (Lemma B.10), and two slabs of a Gaussian (Lemma B.11).

MOST_SIGNS = 16
"""Rademacher variables that are enumerated."""

REACH = 9.0
"""Standard deviations beyond which a Gaussian is taken to have no mass."""

Weights = Float[np.ndarray, " n"]


def rademacher_sums(weights: Weights) -> Float[np.ndarray, " sums"]:
    """Return all 2ⁿ sums Σ ε_i a_i in ascending order; all are equally likely.

    Raises:
        ParameterError: for a weight below 1 in size, or more than `MOST_SIGNS` of them.

    """
    check_count("weights", len(weights))
    if len(weights) > MOST_SIGNS:
        raise ParameterError(f"At most {MOST_SIGNS} signs are enumerated; got {len(weights)}.")
    if not (abs(weights) >= 1).all():
        raise ParameterError(f"Lemma B.10 needs |a_i| >= 1; got {abs(weights).min():g}.")
    sums = np.zeros(1)
    for weight in weights:
        sums = np.concatenate([sums - weight, sums + weight])
    return np.sort(sums)


def largest_mass(weights: Weights, half_length: float) -> float:
    """Return the largest probability that Σ ε_i a_i lies in a closed interval of length 2Δ.

    >>> largest_mass(np.ones(3), 1.0), largest_mass(np.ones(3), 0.99)
    (0.75, 0.375)
    """
    sums = rademacher_sums(weights)
    slack = 1e-12 * abs(weights).sum()  # of sums that are equal but for rounding
    ends = np.searchsorted(sums, sums + 2 * half_length + slack, side="right")
    return float((ends - np.arange(len(sums))).max() / len(sums))


def natural_number(half_length: float, strict_below: bool = True) -> int:
    """Return s with s - 1 ≤ Δ < s, or with s - 1 < Δ ≤ s where the other side is strict."""
    return floor(half_length) + 1 if strict_below else ceil(half_length)


def leading_bound(n: int, s: int) -> float:
    """Return s√(2/π)/√n, the bound of Lemma B.10 without its o(1)."""
    return s * sqrt(2 / (pi * n))


def erdos_bound(n: int, s: int) -> float:
    """Return the s largest binomial coefficients over 2ⁿ: the exact maximum, reached at a_i = 1.

    It is never above `leading_bound`, because each coefficient is at most the central one.
    """
    check_count("n", n)
    largest = sorted((comb(n, j) for j in range(n + 1)), reverse=True)[:s]
    return sum(largest) / 2**n


class Slabs(NamedTuple):
    """Two probabilities about standard Gaussians X and Y (Lemma B.11)."""

    joint: float  # P[|X| ≥ x, |Y| ≥ y]
    product: float  # P[|X| ≥ x] P[|Y| ≥ y], which is no larger (Šidák)


def slabs(x: float, y: float, correlation: float) -> Slabs:
    """Return both sides of the step that the thesis does not name, P[A, E] ≥ P[A] P[E].

    Args:
        x: threshold of w, C|⟨w, w*⟩|/‖w‖, which is at most C.
        y: threshold of the initial filter.
        correlation: of the two projections.

    """
    if not -1 <= correlation <= 1:
        raise ParameterError(f"A correlation lies in [-1, 1]; got {correlation}.")
    return Slabs(_joint(x, y, correlation), float(4 * ndtr(-x) * ndtr(-y)))


def _joint(x: float, y: float, correlation: float) -> float:
    """Return P[|X| ≥ x, |Y| ≥ y] by Gauss and Legendre over X ≥ x; the other half is its mirror image."""
    rest = sqrt(1 - correlation**2)
    if rest < 1e-6:
        return float(2 * ndtr(-max(x, y)))
    nodes, weights = np.polynomial.legendre.leggauss(400)
    z = x + REACH * (nodes + 1) / 2
    other = ndtr((correlation * z - y) / rest) + ndtr((-correlation * z - y) / rest)
    return float(REACH * (weights * norm.pdf(z)) @ other)


def certain_share(share: float = 0.999) -> float:
    """Return D with P[|N(0, 1)| ≤ D] = share: the Init Event of Theorem B.1, as d grows."""
    return float(norm.isf((1 - share) / 2))


def proof_log_k(share: float = 0.999, error: float = 0.1) -> float:
    """Return log k from which the proof of Theorem B.1 itself gives the error, with the best C.

    Error ≥ ¼(1 - P) with P ≤ exp(-kp/8) + s√(2/π)/√(kp/2), s - 1 ≤ 1/Cσ < s and p = 4Φᶜ(C)Φᶜ(D); for
    large k that is √(4/π)/(C√p log k), so that log k is decided by the largest C√p.
    """
    mass = 4 * ndtr(-certain_share(share))
    best = minimize_scalar(lambda c: -c * sqrt(mass * ndtr(-c)), bounds=(0.1, 4), method="bounded")
    return float(sqrt(4 / pi) / (-best.fun * (1 - 4 * error)))


# Both sides of Lemma B.12: with several filters, too, a row of noise is often heard as loudly as the signal.
#
# g(x) = Σ_j ⟨W_j, x⟩ 1{gate j is open at x} is what a row adds to the tangent kernel. Where noise opens the
# same gates as the signal, |g| is a Gaussian's; so P[|g(ε)| ≥ Cσ|g(w*)|] ≥ q/2, with q the probability of
# those gates and P[|N(0, 1)| ≤ C] = q/2. Neither depends on W.

FILTERS = (1, 2, 4)

STARTS = 4
"""Of each number of filters."""

DRAWN = 5000
"""Rows of noise over which probabilities are shares."""

PATCHES = Patches(1000)

Rows = Float[np.ndarray, "row r"]


def several_filters(first_seed: int = 100) -> pd.DataFrame:
    """Return both sides for some starts, every set of gates that are open to the signal, and two W.

    Thresholds are at the signal or just above it, for which q is least.

    Returns:
        Columns `filters`, `start`, `open` (gates), `weights`, `same` (q), `strength` (C) and `heard`, P[A].

    """
    rows = []
    for m, start in product(FILTERS, range(STARTS)):
        rng = generator_for("several filters", first_seed + start, m)
        kernel = threshold_at_signal(PATCHES, initial_filters(PATCHES, m, rng))
        x = torch.randn(DRAWN, kernel.filters.shape[1], generator=rng, dtype=torch.float64).numpy()
        for gates in list(product((0.0, 1.0), repeat=m))[1:]:  # with none open the signal is not heard
            own = replace(kernel, sees_signal=np.array(gates))
            drawn = torch.randn(kernel.filters.shape, generator=rng, dtype=torch.float64).numpy()
            best = best_weights(own).reshape(drawn.shape)
            about = {"filters": m, "start": start, "open": int(sum(gates))}
            rows += [
                {**about, "weights": name, **both_sides(own, weights, x)}
                for name, weights in (("best", best), ("drawn", drawn))
            ]
    return pd.DataFrame(rows)


def both_sides(kernel: TangentKernel, weights: Float[np.ndarray, "m r"], x: Rows) -> dict[str, float]:
    """Return q, C and P[|g(ε)| ≥ Cσ|g(w*)|] as shares of rows of noise, which are in units of σ."""
    seen = open_gates(kernel, x)
    same = float((seen == kernel.sees_signal.astype(bool)).all(1).mean())
    strength = float(norm.ppf((1 + same / 2) / 2))
    heard = abs(((x @ weights.T) * seen).sum(1))
    signal = abs(weights[:, 0] @ kernel.sees_signal)  # of w*, which is the first axis and 1/σ long here
    return {"same": same, "strength": strength, "heard": float((heard >= strength * signal).mean())}


def open_gates(kernel: TangentKernel, x: Rows) -> Bool[np.ndarray, "row m"]:
    """Return which gates rows of noise open."""
    return abs(x @ kernel.filters.T) >= kernel.thresholds
