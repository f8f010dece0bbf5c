"""Flows of whole matrices over explicit sets: what happens where an assumption of the theorems is dropped."""

from collections.abc import Callable
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.integrate import OdeSolution, solve_ivp
from torch import Tensor

from sameloss.errors import NotConverged, ParameterError
from sameloss.studies.decision_lists.attention import correct, forward, gradients
from sameloss.studies.decision_lists.task import MOST_SETS, DecisionLists, Sets

HALVINGS = 40
"""Of the interval in which a flow becomes perfect."""


class Weighted(NamedTuple):
    """Sequences in which tokens may be repeated, and their probabilities."""

    sequences: Int[Tensor, "sets seq"]
    probabilities: Float[Tensor, " sets"]


class Matrices(NamedTuple):
    """Both matrices of the model, in double precision."""

    scores: Float[Tensor, "words words"]
    read_out: Float[Tensor, "words words"]


class MatrixFlow(NamedTuple):
    """A flow of W, or of W and V, in the flow's own time."""

    task: DecisionLists
    sequences: Int[Tensor, "sets seq"]
    solution: OdeSolution
    read_out: Float[Tensor, "words words"]  # at the start
    trains_read_out: bool
    scale: float  # of W in the solver

    def at(self, time: float) -> Matrices:
        """Return the matrices at a time."""
        words = self.task.words
        found = torch.from_numpy(self.solution(time)).view(-1, words, words)
        read_out = self.read_out + found[1] if self.trains_read_out else self.read_out
        return Matrices(found[0] * self.scale, read_out)

    def wrong(self, time: float) -> Tensor:
        """Return which occurrences are misclassified at a time, as (sets, seq)."""
        labels = self.task.labels(self.sequences)
        return ~correct(forward(*self.at(time), self.sequences, labels).logits, labels)

    def wrong_of(self, token: int, time: float) -> bool:
        """Return whether an occurrence of one token is misclassified at a time."""
        return bool((self.wrong(time) & (self.sequences == token)).any())

    def perfect_of(self, token: int) -> float:
        """Return the first time at which all occurrences of a token are classified; NaN: never."""
        return self.first(lambda time: not self.wrong_of(token, time))

    def first(self, holds: Callable[[float], bool]) -> float:
        """Return the first time at which something holds, between two steps of the solver; NaN: never."""
        knots = self.solution.ts
        at = next((at for at, knot in enumerate(knots) if holds(float(knot))), None)
        if at is None:
            return np.nan
        low, high = float(knots[max(at - 1, 0)]), float(knots[at])
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    @property
    def perfect(self) -> float:
        """Return the first time at which every occurrence is classified; NaN: not within the horizon."""
        return self.first(lambda time: not self.wrong(time).any())


def matrix_flow(
    task: DecisionLists,
    sets: Sets | Weighted,
    start: Matrices,
    readout: float,
    horizon: float,
    trains_read_out: bool = False,
    method: Literal["RK45", "LSODA"] = "RK45",
) -> MatrixFlow:
    """Follow the gradient flow of W, and of V if wanted, on the exact loss of explicit sequences.

    Args:
        task: its lists.
        sets: sequences and their probabilities.
        start: W and V.
        readout: c, for the solver's scale.
        horizon: in the flow's own time.
        trains_read_out: whether V moves, too.
        method: SciPy's; LSODA where the flow is stiff.

    Raises:
        NotConverged: where the solver gives up.

    """
    sequences, weights = sets.sequences, sets.probabilities
    labels, size, scale = task.labels(sequences), task.words**2, sequences.shape[1] / readout

    def force(_: float, state: Float[np.ndarray, " entry"]) -> Float[np.ndarray, " entry"]:
        found = torch.from_numpy(state).view(-1, task.words, task.words)
        read_out = start.read_out + found[1] if trains_read_out else start.read_out
        computed = forward(found[0] * scale, read_out, sequences, labels)
        by_scores, by_read_out = gradients(computed, read_out, sequences, weights)
        moved = [-by_scores / scale, -by_read_out] if trains_read_out else [-by_scores / scale]
        return torch.stack(moved).flatten().numpy()

    begin = np.zeros(2 * size if trains_read_out else size)
    begin[:size] = (start.scores / scale).flatten().numpy()
    found = solve_ivp(force, (0.0, horizon), begin, method=method, dense_output=True, rtol=1e-6, atol=1e-9)
    if not found.success:
        raise NotConverged(f"The flow to {horizon:g} stopped at {found.t[-1]:g}: {found.message}")
    return MatrixFlow(task, sequences, found.sol, start.read_out, trains_read_out, scale)


def all_sequences(words: int, length: int) -> Weighted:
    """Return all sequences, repeated tokens and all (Assumption 4.1 dropped), equally likely.

    Raises:
        ParameterError: where there are more than `MOST_SETS`.

    """
    if (count := words**length) > MOST_SETS:
        raise ParameterError(
            f"There are {count:.3g} sequences of {length} of {words} tokens, and at most {MOST_SETS:,} are "
            "enumerated; take a smaller task, or draw sequences."
        )
    rows = torch.tensor(list(product(range(words), repeat=length)))
    return Weighted(rows, torch.full((len(rows),), 1 / len(rows), dtype=torch.float64))


def lost_again() -> tuple[DecisionLists, Sets]:
    """Return a task whose token 0 is classified perfectly after one step, and not for ever (ours).

    Its list is (3, 6, 0); only sets with it matter. "There exists a t" is not "from t on".
    """
    lists = tuple((3, 6, 0) if token == 0 else (token,) for token in range(7))
    rows = [[0, 1, 4], [0, 1, 5], [0, 2, 3], [0, 2, 4], [0, 3, 6], [0, 4, 5], [0, 5, 6], [1, 2, 3]]
    masses = torch.tensor([0.0027, 0.2107, 0.5228, 0.0247, 0.0021, 0.0182, 0.0017], dtype=torch.float64)
    probabilities = torch.cat([masses, 1 - masses.sum(0, keepdim=True)])
    return DecisionLists(tuple(range(7)), lists), Sets(torch.tensor(rows), probabilities)
