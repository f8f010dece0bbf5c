"""Loss, accuracy and gradients of one filter over the whole distribution, exact for any number of rows.

With g = φ_b(c) and the noise's symmetric sum S, the answer to an image of label y is y(g + S'), S' as S. The
logistic function is the law of a variable whose characteristic function is πu/sinh(πu), so that every
expectation is an integral over u whose integrand falls as exp(-πu).
"""

from dataclasses import dataclass
from functools import cache
from math import log, pi

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from sameloss.studies.local_signal.patches import Patches
from sameloss.studies.local_signal.row_sums import RowSum
from sameloss.studies.local_signal.soft_threshold import Filter, slopes, soft_threshold

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
