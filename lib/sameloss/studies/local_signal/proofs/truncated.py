"""Truncated Gaussians, as the proofs of Appendix B use them (Section B.1.2)."""

from math import exp, sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from sameloss.errors import ParameterError

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
