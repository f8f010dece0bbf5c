"""Random draws: alias tables for many discrete distributions at once, and Dirichlet distributions."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import gammaincinv, gammaln, softmax
from torch import Tensor


class AliasTables(NamedTuple):
    """Many discrete distributions with consecutively numbered outcomes: those of k start at `first[k]`."""

    first: Int[Tensor, " distribution"]
    outcomes: Float[Tensor, " distribution"]  # number of outcomes of each
    keep: Float[Tensor, " outcome"]
    shift: Int[Tensor, " outcome"]  # from an outcome to its alias

    def draw(self, kinds: Int[Tensor, " draw"], uniform: Float[Tensor, " draw"]) -> Int[Tensor, " draw"]:
        """Draw an outcome of each distribution in `kinds`.

        Each draw takes one float64 number from [0, 1), which is overwritten. `index_select`, and a sum in
        place of `torch.where`, are several times faster than indexing, and sampling spends its time here.
        """
        scaled = uniform.mul_(self.outcomes.index_select(0, kinds))
        column = scaled.long()
        at = self.first.index_select(0, kinds).add_(column)
        aliased = scaled.frac_() >= self.keep.index_select(0, at)
        return at.add_(self.shift.index_select(0, at).mul_(aliased))


def alias_table(probabilities: list[float]) -> tuple[list[float], list[int]]:
    """Build the alias table of one distribution (Vose 1991): columns `keep` and `alias`.

    A uniformly drawn column yields its own outcome with probability `keep`, and otherwise its `alias`.

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
        keep[k] = 1.0  # up to rounding
    return keep, alias


def alias_tables(distributions: Sequence[Float[Tensor, " _outcome"]]) -> AliasTables:
    """Build the tables of several distributions."""
    tables = [alias_table(weights.tolist()) for weights in distributions]
    keep = [probability for column, _ in tables for probability in column]
    shift = [alias - own for _, column in tables for own, alias in enumerate(column)]
    new = distributions[0].new_tensor
    count = new([len(column) for column, _ in tables], dtype=torch.long)
    return AliasTables(count.cumsum(0) - count, count.double(), new(keep), new(shift, dtype=torch.long))


LOG_SMALL = -40.0
"""Log quantile below which the power law of the Gamma distribution is exact in float64."""


def dirichlet(
    rng: np.random.Generator, shape: tuple[int, ...], concentration: float
) -> Float[np.ndarray, "*row column"]:
    """Draw rows from the symmetric Dirichlet distribution, as normalised Gamma quantiles.

    NumPy's sampler uses rejection, so a small change of the concentration would change all later numbers.
    Here the uniform numbers do not depend on it. Small quantiles, (u Γ(a + 1))^(1/a), are kept as logarithms,
    which cannot underflow.

    >>> dirichlet(np.random.default_rng(0), (2, 3), 0.01).sum(1)
    array([1., 1.])
    """
    uniform = np.maximum(rng.random(shape), 2.0**-54)  # avoids log(0)
    small = (np.log(uniform) + gammaln(concentration + 1)) / concentration
    quantile = np.maximum(gammaincinv(concentration, uniform), np.exp(LOG_SMALL - 1))
    return softmax(np.where(small < LOG_SMALL, small, np.log(quantile)), axis=-1)
