"""Draws from many distributions at once: alias tables, and probabilities from a Dirichlet."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import gammaincinv, gammaln, softmax
from torch import Tensor


class AliasTables(NamedTuple):
    """Many distributions, whose outcomes are numbered through: those of owner k start at `first[k]`."""

    first: Int[Tensor, " owner"]
    outcomes: Float[Tensor, " owner"]  # how many each has
    keep: Float[Tensor, " outcome"]
    shift: Int[Tensor, " outcome"]  # from an outcome to its alias

    def draw(self, kinds: Int[Tensor, " draw"], uniform: Float[Tensor, " draw"]) -> Int[Tensor, " draw"]:
        """Draw an outcome of each owner in `kinds`: a column, then its own outcome or its alias.

        Each draw takes one float64 number uniform in [0, 1); the numbers are overwritten.
        `index_select` and the sum in place of a choice are several times faster than what is more
        usual, and this is where sampling spends its time.
        """
        scaled = uniform.mul_(self.outcomes.index_select(0, kinds))
        column = scaled.long()
        at = self.first.index_select(0, kinds).add_(column)
        aliased = scaled.frac_() >= self.keep.index_select(0, at)
        return at.add_(self.shift.index_select(0, at).mul_(aliased))

    def to(self, device: torch.device) -> "AliasTables":
        """Copy the tables to a device."""
        return AliasTables(*(table.to(device) for table in self))


def alias_table(probabilities: list[float]) -> tuple[list[float], list[int]]:
    """Make the columns `keep` and `alias` of one distribution (Vose 1991).

    Each column keeps its own outcome with probability `keep` and else gives `alias`; short columns
    are filled up from long ones.

    >>> alias_table([0.25, 0.75])
    ([0.5, 1.0], [1, 1])
    """
    size, total = len(probabilities), sum(probabilities)
    keep = [p * size / total for p in probabilities]
    alias = list(range(size))
    short = [k for k in range(size) if keep[k] < 1]
    long = [k for k in range(size) if keep[k] >= 1]
    while short and long:
        low, high = short.pop(), long[-1]
        alias[low] = high
        keep[high] -= 1 - keep[low]
        if keep[high] < 1:
            short.append(long.pop())
    for k in short + long:
        keep[k] = 1.0  # what rounding left
    return keep, alias


def alias_tables(owner: Int[Tensor, " outcome"], weights: Float[Tensor, " outcome"]) -> AliasTables:
    """Make the tables of many distributions, whose outcomes lie together in order of their owner."""
    count = owner.bincount()
    first = count.cumsum(0) - count
    parts = [alias_table(part.tolist()) for part in weights.split(count.tolist())]
    keep = [kept for part, _ in parts for kept in part]
    shift = [other - own for _, part in parts for own, other in enumerate(part)]
    return AliasTables(first, count.double(), weights.new_tensor(keep), owner.new_tensor(shift))


SMALL = -40.0
"""Logarithm below which a Gamma quantile is its power law to the last digit."""


def dirichlet(
    rng: np.random.Generator, shape: tuple[int, ...], concentration: float
) -> Float[np.ndarray, "*row column"]:
    """Draw rows from the symmetric Dirichlet distribution: normalised quantiles of the Gamma.

    A generator's own draws reject, so that a small change of the concentration changes all later
    numbers. Here the uniform numbers do not depend on the concentration. The logarithm of a small
    quantile, that of (u Γ(a + 1))^(1/a), cannot underflow.

    >>> dirichlet(np.random.default_rng(0), (2, 3), 0.01).sum(1)
    array([1., 1.])
    """
    uniform = np.maximum(rng.random(shape), 2.0**-54)  # zero has no logarithm
    small = (np.log(uniform) + gammaln(concentration + 1)) / concentration
    quantile = np.maximum(gammaincinv(concentration, uniform), np.exp(SMALL - 1))
    return softmax(np.where(small < SMALL, small, np.log(quantile)), axis=-1)


def tables_of_rows(rows: Float[Tensor, "row column"]) -> AliasTables:
    """Return one table for each row of a matrix of weights."""
    owner = torch.arange(len(rows), device=rows.device).repeat_interleave(rows.shape[1])
    return alias_tables(owner, rows.flatten())
