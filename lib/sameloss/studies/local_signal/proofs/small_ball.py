"""How much mass a random sum puts in an interval (Lemma B.10), and two slabs of a Gaussian (Lemma B.11)."""

from math import ceil, comb, floor, pi, sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from scipy.special import ndtr
from scipy.stats import norm

from sameloss.checks import check_count
from sameloss.errors import ParameterError

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
