"""The law of what the noise adds to the answer: S, a sum of k independent soft thresholds of Gaussians.

Its characteristic function is ψ(u)^k, with ψ that of one row in closed form by Faddeeva's function w:
from α on, 2∫ exp(iω(t - α)) φ(t) dt = exp(-α²/2) w((ω + iα)/√2).
"""

from dataclasses import dataclass
from functools import cached_property
from math import exp, pi, sqrt

import numpy as np
from jaxtyping import Complex, Float
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

    def row(self, u: Frequencies) -> Frequencies:
        """Return ψ(u) = E cos(u φ_b(Z)), of one row."""
        return 1 + self._row_less_one(u)

    def of(self, rows: int, u: Frequencies) -> Frequencies:
        """Return ψ(u)^rows, the characteristic function of some of the rows."""
        return 1 + self.less_one(rows, u)

    def less_one(self, rows: int, u: Frequencies) -> Frequencies:
        """Return ψ(u)^rows - 1, to full precision also where it is tiny."""
        if self.b >= 0:  # ψ may be negative, or zero
            return self.row(u) ** rows - 1
        return np.expm1(rows * np.log1p(self._row_less_one(u)))

    def _row_less_one(self, u: Frequencies) -> Frequencies:
        """Return ψ(u) - 1, which is small where few rows survive, and counted millions of times."""
        if self.b < 0:
            return self._tail(u).real - self.surviving
        return self._inner(u) + self._outer(u).real - 1

    def by_s(self, u: Frequencies) -> Frequencies:
        """Return the derivative of ψ(u) by s."""
        if self.b < 0:
            return -(u**2) * self.s * self._tail(u).real
        corner = 2 * gaussian(self.alpha) * np.sin(2 * u * self.b)
        return -u * (u * self.s * (4 * self._inner(u) + self._outer(u).real) - corner)

    def by_b(self, u: Frequencies) -> Frequencies:
        """Return the derivative of ψ(u) by b."""
        return -u * (self._tail(u) if self.b < 0 else self._outer(u)).imag

    def _tail(self, u: Frequencies) -> Complex[np.ndarray, " frequency"]:
        """Return twice the transform of the Gaussian's density from α on, with α at zero."""
        return exp(-(self.alpha**2) / 2) * wofz((u * self.s + 1j * self.alpha) / sqrt(2))

    def _outer(self, u: Frequencies) -> Complex[np.ndarray, " frequency"]:
        """Return the same of φ_b(Z) = Z + b, for Z above b > 0."""
        return np.exp(2j * u * self.b) * self._tail(u)

    def _inner(self, u: Frequencies) -> Frequencies:
        """Return E cos(2uZ) where |Z| < b: what is left of the Gaussian without its tails."""
        omega = 2 * u * self.s
        tails = np.exp(1j * omega * self.alpha - self.alpha**2 / 2) * wofz(
            (omega + 1j * self.alpha) / sqrt(2)
        )
        return np.exp(-(omega**2) / 2) - tails.real
