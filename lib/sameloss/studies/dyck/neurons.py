"""Exact facts about single neurons and stacked inputs (Fact F.2, Lemmas F.3 and F.5)."""

from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int

from sameloss.studies.dyck.language import Inputs, bracket_strings
from sameloss.studies.dyck.transformer import AT_KINK, Transformer, run

PRIME = 2**31 - 1


def cyclic_matrix(k: int) -> Int[np.ndarray, "rows columns"]:
    """Return Lemma F.5's matrix: k + 1 ones, k times -1, and all their cyclic shifts.

    >>> cyclic_matrix(1).tolist()
    [[1, 1, -1], [-1, 1, 1], [1, -1, 1]]
    """
    first = np.array([1] * (k + 1) + [-1] * k)
    return np.array([np.roll(first, shift) for shift in range(2 * k + 1)])


def exact_rank(matrix: Int[np.ndarray, "rows columns"]) -> int:
    """Return the rank over the integers modulo a prime; that over the reals is at least as large.

    >>> exact_rank(np.array([[1, 2], [2, 4]])), exact_rank(cyclic_matrix(2))
    (1, 5)
    """
    rest, rank = matrix.astype(np.int64) % PRIME, 0
    for column in range(rest.shape[1]):
        pivots = np.flatnonzero(rest[rank:, column])
        if not len(pivots):
            continue
        rest[[rank, rank + pivots[0]]] = rest[[rank + pivots[0], rank]]
        inverse = pow(int(rest[rank, column]), -1, PRIME)
        rest[rank] = rest[rank] * inverse % PRIME
        rest[rank + 1 :] = (rest[rank + 1 :] - rest[rank + 1 :, column : column + 1] * rest[rank]) % PRIME
        rank += 1
        if rank == len(rest):
            break
    return rank


class AllowedNeurons(NamedTuple):
    """How many neurons, up to scale, conditions (3) and (4) leave for one sign of u_i."""

    all: int
    described: int  # V^(c) a multiple of 1, as Lemma F.3 says
    smooth: int  # at no input at the ReLU's kink


def allowed_neurons(length: int) -> AllowedNeurons:
    """Count the V with V·z in {0, 1} for every z = Σ x_j with g* = 1, exhaustively.

    Where u_i > 0, (3) makes the active values equal, here 1; (4) and the symmetry z → -z forbid a negative
    one. Exchanging two brackets changes V·z by twice a difference of coordinates, so all of V^(c) is in
    one grid of halves. V^(p)_t is 0, or ±1/2 where V^(c)·z is 1/2 for all z masked at t.
    """
    grid = torch.tensor(list(product((-2, -1, 0, 1, 2), repeat=length)))  # in halves
    options = torch.ones(len(grid), dtype=torch.long)
    smooth = torch.ones(len(grid), dtype=torch.bool)
    strings = bracket_strings(length - 1)
    strings = strings[strings.sum(1) == -1]
    for mask in range(length):
        others = grid[:, torch.arange(length) != mask]
        values = others @ strings.T  # in halves: 0, 1, 2 are 0, 1/2, 1
        unmasked = ((values == 0) | (values == 2)).all(1)
        options *= unmasked.long() + 2 * (values == 1).all(1)
        smooth &= (values == 2).all(1)
    multiples = (grid == grid[:, :1]).all(1)
    nothing = (grid == 0).all(1)
    options[nothing] = 0
    return AllowedNeurons(int(options.sum()), int(options[multiples].sum()), int(smooth.sum()))


def wrong_activations(model: Transformer, inputs: Inputs) -> int:
    """Return how many pairs of input and active neuron have signs of g* and u_i that differ (Fact F.2)."""
    active = run(model, inputs).preactivations > AT_KINK
    return int((active & (inputs.target[:, None] * model.head <= 0)).sum())
