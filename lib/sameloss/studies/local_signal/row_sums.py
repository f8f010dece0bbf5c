"""The law of what the noise adds to the answer: S, a sum of k independent soft thresholds of Gaussians.

Its characteristic function is ψ(u)^k, with ψ that of one row in closed form by Faddeeva's function w:
from α on, 2∫ exp(iω(t - α)) φ(t) dt = exp(-α²/2) w((ω + iα)/√2).
"""

from dataclasses import dataclass
from functools import cached_property
from math import exp, pi, sqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, wofz

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
