"""Every step of the proofs, and what happens where an assumption is dropped."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.integrate import OdeSolution, solve_ivp
from torch import Tensor

from sameloss.errors import NotConverged, ParameterError
from sameloss.studies.decision_lists.theory import (
    MOST_SETS,
    DecisionLists,
    Sets,
    by_query_and_key,
    correct,
    forward,
    gradients,
    random_lists,
    triple_mass,
    uniform_sets,
    weight_on_determining,
)

# The steps of the proofs of Theorems 4.3 and 4.4, evaluated case by case on small tasks.
#
# A case is a query a and a set s. v marks the tokens of L_a up to k*, the first label-determining token of an
# occurrence of a that is misclassified; S is where a is misclassified and k* decides.

LONGEST = 4
"""Of sets and lists in random cases: all sets are enumerated."""


class Case(NamedTuple):
    """Every query in every set, at some parameters: arrays of (set, query)."""

    task: DecisionLists
    sets: Sets
    scores: Float[Tensor, "words words"]
    read_out: Float[Tensor, "words words"]
    readout: float  # c
    radius: float  # of V around cP, ε; 0: V = cP

    @property
    def deciding(self) -> Int[Tensor, "sets seq"]:
        """Return the label-determining token."""
        return self.task.determining(self.sets.sequences)


class Seen(NamedTuple):
    """What the model does of a case: arrays of (set, query, token of the vocabulary)."""

    attention: Float[Tensor, "sets seq words"]
    residual: Float[Tensor, "sets seq words"]
    gradient: Float[Tensor, "sets seq words"]  # of the loss on that set, by the query's column of W
    wrong: Bool[Tensor, "sets seq"]
    decider_weight: Float[Tensor, "sets seq"]  # p of the label-determining token
    losses: Float[Tensor, "sets seq"]  # nats


def seen(case: Case) -> Seen:
    """Return attention, gradients and errors of a case."""
    sequences = case.sets.sequences
    labels = case.task.labels(sequences)
    found = forward(case.scores, case.read_out, sequences, labels)
    gradient = by_query_and_key(found, case.read_out, sequences) / sequences.shape[1]
    weight = weight_on_determining(case.task, found.attention, sequences)
    wrong = ~correct(found.logits, labels)
    by_token = (_by_token(case, found.attention), found.residual, _by_token(case, gradient))
    return Seen(*by_token, wrong, weight, found.losses)


def _by_token(case: Case, by_key: Float[Tensor, "sets query key"]) -> Float[Tensor, "sets query words"]:
    keys = case.sets.sequences[:, None, :].expand_as(by_key)
    return by_key.new_zeros(*by_key.shape[:2], case.task.words).scatter_add(2, keys, by_key)


def identity_gap(case: Case, of: Seen) -> float:
    """Return how far −∂L/∂w at the label-determining token is from its closed form at V = cP, over c.

    (c/n) p_k [(1 − o_y)(1 − p_k) + Σ_{t ≠ k} o_π(t) p_t], which is not negative.
    """
    length = case.sets.sequences.shape[1]
    k = case.deciding[..., None]
    own = -of.gradient.gather(2, k)[..., 0]
    p, missing = of.decider_weight, -of.residual.gather(2, case.task.image[k])[..., 0]
    outputs = of.residual[..., case.task.image]  # of π(t) at t; the decider's own is left out
    others = (outputs * of.attention).scatter(2, k, 0.0).sum(-1)
    formula = case.readout / length * p * (missing * (1 - p) + others)
    return float((own - formula).abs().max()) / case.readout


def read_out_slope(case: Case) -> float:
    """Return max |∂L/∂V|, which Lemma 4.1 takes to be at most 1."""
    sequences = case.sets.sequences
    found = forward(case.scores, case.read_out, sequences, case.task.labels(sequences))
    return float(gradients(found, case.read_out, sequences, case.sets.probabilities).read_out.abs().max())


def autograd_gap(case: Case) -> float:
    """Return the largest distance of the gradients by hand from automatic ones, over c."""
    scores, read_out = case.scores.clone().requires_grad_(), case.read_out.clone().requires_grad_()
    sequences, weights = case.sets.sequences, case.sets.probabilities
    found = forward(scores, read_out, sequences, case.task.labels(sequences))
    automatic = torch.autograd.grad(found.losses.mean(1) @ weights, (scores, read_out))
    with torch.no_grad():
        by_hand = gradients(found, read_out, sequences, weights)
    gaps = [float((a - b).abs().max()) for a, b in zip(automatic, by_hand, strict=True)]
    return max(gaps) / case.readout


def curvature_share(case: Case) -> float:
    """Return the largest curvature of a token's loss over the bound c²/8 + c, of every query in one set."""
    sequence = case.sets.sequences[0]
    targets = torch.eye(case.task.words, dtype=torch.float64)[case.task.labels(sequence[None])[0]]
    outputs = case.task.image[sequence]
    columns = case.scores[sequence].T[sequence]  # a row a query

    def loss(column: Tensor, target: Tensor) -> Tensor:
        logits = torch.zeros_like(target).index_put((outputs,), case.readout * column.softmax(0))
        return logits.logsumexp(0) - logits @ target

    found = torch.func.vmap(torch.func.hessian(loss))(columns, targets)
    largest = torch.linalg.eigvalsh(found).abs().max()
    return float(largest) / (case.readout**2 / 8 + case.readout)


class Bounds(NamedTuple):
    """The largest excess of each bound over all cases, over c; not positive where it holds, NaN: no case."""

    on_failing: float  # ⟨∂L, v⟩ + p(1 − p)(c − 4ε)/2n on S
    elsewhere: float  # ⟨∂L, v⟩ − 6ε/n on other sets
    weight: float  # p − (1/2 + ε/c) on S, times c
    cases: int


def proof_bounds(case: Case, of: Seen) -> Bounds:
    """Return the excess of the proofs' bounds over every query that is misclassified somewhere."""
    length, c, epsilon = case.sets.sequences.shape[1], case.readout, case.radius
    on: list[float] = []
    off: list[float] = []
    heavy: list[float] = []
    cases = 0
    for token, rows, places in _occurrences(case):
        wrong, deciders = of.wrong[rows, places], case.deciding[rows, places]
        if not wrong.any():
            continue
        first = _first_failing(case.task, token, deciders[wrong])
        kept = list(case.task.lists[token][: case.task.ranks[token, first] + 1])
        slope = of.gradient[rows, places][:, kept].sum(1)
        failing, p = wrong & (deciders == first), of.decider_weight[rows, places]
        bound = -p * (1 - p) * (c - 4 * epsilon) / (2 * length)
        on.append(float((slope - bound)[failing].max()) / c)
        if (~failing).any():
            off.append(float(slope[~failing].max() - 6 * epsilon / length) / c)
        heavy.append(float(p[failing].max()) - 0.5 - epsilon / c)
        cases += len(rows)
    highest = partial(max, default=torch.nan)
    return Bounds(highest(on), highest(off), highest(heavy), cases)


def least_failing_mass(case: Case, of: Seen) -> float:
    """Return the least Pr[S] over all queries that are misclassified somewhere: of Assumption 4.2."""
    masses = (float(case.sets.probabilities[rows].sum()) for rows, _ in _failing(case, of))
    return min(masses, default=torch.nan)


def light_mass_excess(case: Case, of: Seen) -> float:
    """Return the largest Pr[S, p < 1/2n] − 2n² L/c over all queries misclassified somewhere, at V = cP.

    Where the decider has so little, another token has 1/n, and the query's loss is c/2n at least.
    """
    length, probabilities = case.sets.sequences.shape[1], case.sets.probabilities
    bound = 2 * length**2 * float(of.losses.mean(1) @ probabilities) / case.readout
    light = of.decider_weight < 1 / (2 * length)
    masses = (float(probabilities[rows] @ light[rows, at].double()) for rows, at in _failing(case, of))
    return max(masses, default=torch.nan) - bound


def _failing(case: Case, of: Seen) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield S of every query that is misclassified somewhere: its sets, and the query's places in them."""
    for token, rows, places in _occurrences(case):
        possible = case.sets.probabilities[rows] > 0
        wrong = of.wrong[rows, places] & possible
        deciders = case.deciding[rows, places]
        if wrong.any():
            failing = wrong & (deciders == _first_failing(case.task, token, deciders[wrong]))
            yield rows[failing], places[failing]


def _occurrences(case: Case) -> Iterator[tuple[int, Tensor, Tensor]]:
    for token in range(case.task.words):
        rows, places = (case.sets.sequences == token).nonzero(as_tuple=True)
        if len(rows):
            yield token, rows, places


def _first_failing(task: DecisionLists, token: int, deciders: Int[Tensor, " wrong"]) -> int:
    return int(deciders[task.ranks[token, deciders].argmin()])


def random_case(generator: torch.Generator, radius: bool = False, rare: bool = False) -> Case:
    """Draw a small task with sets, scores and a read-out.

    Args:
        generator: of everything.
        radius: whether V is only near cP.
        rare: whether some sets never occur and others seldom do; else all are equally likely.

    """
    draw = lambda low, high: int(torch.randint(low, high + 1, (), generator=generator))  # noqa: E731
    words, length = draw(5, 7), draw(2, LONGEST)
    task = random_lists(words, min(LONGEST, words - 1), generator)
    sets = _rare(uniform_sets(words, length), generator) if rare else uniform_sets(words, length)
    c = float(10 ** (0.3 + 1.7 * torch.rand((), generator=generator, dtype=torch.float64)))
    spread = 10 ** (1.5 * torch.rand((), generator=generator, dtype=torch.float64) - 0.5)
    scores = spread * torch.randn(words, words, generator=generator, dtype=torch.float64)
    epsilon = 0.2 * c * float(torch.rand((), generator=generator, dtype=torch.float64)) if radius else 0.0
    noise = 2 * torch.rand(words, words, generator=generator, dtype=torch.float64) - 1
    return Case(task, sets, scores, task.read_out(c) + epsilon * noise, c, epsilon)


def _rare(sets: Sets, generator: torch.Generator) -> Sets:
    """Let most sets not occur, and the others with very different probabilities."""
    weights = torch.rand(len(sets.sequences), generator=generator, dtype=torch.float64) ** 4
    kept = torch.rand(len(weights), generator=generator) < 0.4
    kept[int(torch.randint(len(kept), (), generator=generator))] = True
    weights = weights * kept
    return Sets(sets.sequences, weights / weights.sum()).possible


def assumption_excess(case: Case, of: Seen) -> tuple[float, float]:
    """Return Pr[S] over the δ of Assumptions 4.3 and 4.4; below 1 the assumption does not give 4.2."""
    mass = least_failing_mass(case, of)
    return mass / triple_mass(case.task, case.sets), mass / float(case.sets.probabilities.min())


def sketch_slope(p: tuple[float, ...], readout: float, absent: int) -> float:
    """Return ⟨∂L, v⟩ on one sequence for the sketch's "always ≤ 0 otherwise", l. 1720.

    The list is (b, k, a), the sequence (b, k, a, t) with attention `p`, so b decides; v marks b and k
    although k is not the first token that fails.

    Args:
        p: attention on b, k, a, t.
        readout: c.
        absent: labels that are not in the sequence.

    """
    weights = torch.tensor(p, dtype=torch.float64)
    outputs = (readout * weights).exp()
    outputs = outputs / (outputs.sum() + absent)
    residual = readout * (outputs - torch.tensor([1.0, 0, 0, 0], dtype=torch.float64))
    gradient = weights * (residual - (weights * residual).sum()) / len(p)
    return float(gradient[:2].sum())


def nearly_ordered_case(generator: torch.Generator) -> Case:
    """Draw a case whose scores nearly follow the lists, V off cP by a fifth of c, sets unequally likely.

    Here a pair of scores in the wrong order is misclassified in some of its sets and not in others.
    """
    words, length, c = int(torch.randint(5, 8, (), generator=generator)), LONGEST, 10.0
    task = random_lists(words, 3, generator)
    sets = uniform_sets(words, length)
    weights = 1e-3 + torch.rand(len(sets.sequences), generator=generator, dtype=torch.float64) ** 2
    scores = 0.3 * torch.randn(words, words, generator=generator, dtype=torch.float64)
    for token, own in enumerate(task.lists):
        scores[list(own), token] += torch.linspace(1.0, 0.5, len(own), dtype=torch.float64)
    noise = 2 * torch.rand(words, words, generator=generator, dtype=torch.float64) - 1
    read_out = task.read_out(c) + c / 5 * noise
    return Case(task, Sets(sets.sequences, weights / weights.sum()), scores, read_out, c, c / 5)


# Flows of whole matrices over explicit sets: what happens where an assumption of the theorems is dropped.

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
