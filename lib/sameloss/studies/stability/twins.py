"""Samples that differ in one example, and the order in which both are visited (Karp 2024, Section 2.3)."""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from sameloss.errors import ParameterError


class Twins(NamedTuple):
    """Pairs of samples S and S': rows of the pool, and in S' one is replaced by a row of the test set."""

    samples: Int[Tensor, "pair position"]  # rows of the pool, none twice
    replaced: Int[Tensor, " pair"]  # positions i
    by: Int[Tensor, " pair"]  # rows z of the test set

    def rows(self, pool: int) -> Int[Tensor, "model position"]:
        """Return rows of the pool with the test set below it: S and S' of one pair after the other."""
        others = self.samples.clone()
        others[torch.arange(len(others)), self.replaced] = pool + self.by
        return torch.stack([self.samples, others], 1).flatten(0, 1)


def check_sample(size: int, pool: int, batch: int) -> None:
    """Refuse a sample from which stability cannot be estimated.

    Raises:
        ParameterError: for more than half the pool, where samples would share most of their examples, or
            fewer examples than a batch.

    """
    if size > pool // 2:
        raise ParameterError(
            f"A sample of m = {size} is more than half of a pool of {pool}: samples would hardly differ; "
            f"choose at most {pool // 2}."
        )
    if size < batch:
        raise ParameterError(f"A sample of m = {size} does not fill a batch of {batch}; choose a larger one.")


def drawn_twins(pool: int, tested: int, size: int, pairs: int, rng: torch.Generator) -> Twins:
    """Draw pairs: S without replacement, i and z uniformly."""
    samples = torch.stack([torch.randperm(pool, generator=rng)[:size] for _ in range(pairs)])
    replaced = torch.randint(size, (pairs,), generator=rng)
    return Twins(samples, replaced, torch.randint(tested, (pairs,), generator=rng))


def all_swaps(sample: Int[Tensor, " position"], candidates: Int[Tensor, " candidate"]) -> Twins:
    """Return a sample with every position replaced by every candidate.

    Args:
        sample: rows of the pool.
        candidates: rows of the test set.

    """
    grid = torch.cartesian_prod(torch.arange(len(sample)), candidates)
    return Twins(sample.expand(len(grid), -1), grid[:, 0], grid[:, 1])


def swapped(sample: Int[Tensor, " position"], i: int, z: int, rows: int) -> Int[Tensor, " position"]:
    """Return the sample with another row at a position.

    Args:
        sample: rows of what there is, none twice.
        i: the position.
        z: the other row.
        rows: how many there are.

    Raises:
        ParameterError: for a position or a row that is not there, or a row that the sample has elsewhere.

    >>> swapped(torch.tensor([4, 2, 7]), 1, 5, rows=8)
    tensor([4, 5, 7])

    """
    if not 0 <= i < len(sample):
        raise ParameterError(
            f"i = {i} is no position of a sample of {len(sample)}; the last is {len(sample) - 1}."
        )
    if not 0 <= z < rows:
        raise ParameterError(f"z = {z} is no row of {rows}; the last is {rows - 1}.")
    others = sample.clone()
    others[i] = z
    if (others == z).sum() > 1:
        raise ParameterError(f"Row {z} is in the sample already; choose a z that is not.")
    return others


def visiting_order(size: int, batch: int, steps: int, rng: torch.Generator) -> Int[Tensor, "step batch"]:
    """Return the positions of every batch: one permutation after the other, so each comes once an epoch."""
    epochs = -(-steps * batch // size)
    visits = torch.cat([torch.randperm(size, generator=rng) for _ in range(epochs)])
    return visits[: steps * batch].reshape(steps, batch)
