"""Every step of the proofs of Theorems 4.3 and 4.4 in random cases, and flows of whole matrices."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.integrate import OdeSolution, solve_ivp
from torch import Tensor

from sameloss.errors import NotConverged
from sameloss.studies.decision_lists import theory
from sameloss.studies.decision_lists.theory import DecisionLists, Matrix, Sequences, Sets, correct, forward

# A case is a query a and a set s. v marks the tokens of L_a up to k*, the first label-determining token of an
# occurrence of a that is misclassified; S is where a is misclassified and k* decides.

LONGEST = 4  # sets and lists of random cases: all sets are enumerated


@dataclass(frozen=True, eq=False)
class Case:
    """Every query in every set, at some parameters: arrays of (set, query)."""

    task: DecisionLists
    sets: Sets
    scores: Matrix
    read_out: Matrix
    readout: float  # c
    radius: float  # of V around cP, ε; 0: V = cP

    @cached_property
    def labels(self) -> Sequences:
        """Return the label of every token."""
        return self.task.labels(self.sets.sequences)

    @cached_property
    def deciding(self) -> Sequences:
        """Return the label-determining token."""
        return self.task.determining(self.sets.sequences)

    @cached_property
    def computed(self) -> theory.Forward:
        """Return what the model computes."""
        return forward(self.scores, self.read_out, self.sets.sequences, self.labels)

    @cached_property
    def wrong(self) -> Bool[Tensor, "sets query"]:
        """Return which queries are misclassified."""
        return ~correct(self.computed.logits, self.labels)

    @cached_property
    def weight(self) -> Float[Tensor, "sets query"]:
        """Return p, the attention on the label-determining token."""
        return (self.computed.attention * theory.decides(self.task, self.sets.sequences)).sum(-1)

    @cached_property
    def gradient(self) -> Float[Tensor, "sets query words"]:
        """Return the gradient of a query's loss on a set by its column of W."""
        by_key = theory.by_query_and_key(self.computed, self.read_out, self.sets.sequences)
        return self.by_token(by_key / self.sets.sequences.shape[1])

    def by_token(self, by_key: Float[Tensor, "sets query key"]) -> Float[Tensor, "sets query words"]:
        """Return numbers of a set's tokens as those of the whole vocabulary, 0 where it has none."""
        keys = self.sets.sequences[:, None, :].expand_as(by_key)
        return by_key.new_zeros(*by_key.shape[:2], self.task.words).scatter_add(2, keys, by_key)


def measured(case: Case) -> dict[str, float]:
    """Return every number that a step of the proofs is about; NaN: of no query, or of V = cP alone.

    Distances and excesses over a bound are over c, and the latter not positive where the bound holds.
    """
    gap, slope = _gradient_gap(case)
    numbers, exact = {"gradient": gap, "read_out_slope": slope}, case.radius == 0
    for name, measure in (("identity", _identity_gap), ("curvature", _curvature_share)):
        numbers[name] = measure(case) if exact else np.nan
    bounds = _bounds(case)
    light, mass = bounds.pop("light"), bounds.pop("mass")
    masses = {
        "of_triples": mass / theory.triple_mass(case.task, case.sets),
        "of_sets": mass / float(case.sets.probabilities.min()),
    }
    return {**numbers, "light": light if exact else np.nan, **bounds, **masses}


def _gradient_gap(case: Case) -> tuple[float, float]:
    """Return the distance of gradients by hand from automatic ones, over c, and max |∂L/∂V|."""
    parameters = (case.scores.clone().requires_grad_(), case.read_out.clone().requires_grad_())
    automatic = torch.autograd.grad(theory.population_loss(*parameters, case.task, case.sets), parameters)
    by_hand = theory.gradients(case.computed, case.read_out, *case.sets)
    gaps = [float((a - b).abs().max()) for a, b in zip(automatic, by_hand, strict=True)]
    return max(gaps) / case.readout, float(by_hand[1].abs().max())


def _identity_gap(case: Case) -> float:
    """Return how far −∂L/∂w at the label-determining token is from its closed form at V = cP, over c.

    (c/n) p_k [(1 − o_y)(1 − p_k) + Σ_{t ≠ k} o_π(t) p_t], which is not negative.
    """
    k, p, residual = case.deciding[..., None], case.weight, case.computed.residual
    descent = -case.gradient.gather(2, k)[..., 0]
    missing = -residual.gather(2, case.task.image[k])[..., 0]
    outputs = residual[..., case.task.image]  # of π(t) at t; the decider's own is left out
    others = (outputs * case.by_token(case.computed.attention)).scatter(2, k, 0.0).sum(-1)
    formula = case.readout / k.shape[1] * p * (missing * (1 - p) + others)
    return float((descent - formula).abs().max()) / case.readout


def _curvature_share(case: Case) -> float:
    """Return the largest curvature of a token's loss over the bound c²/8 + c, of every query in one set."""
    sequence = case.sets.sequences[0]
    targets = torch.eye(case.task.words, dtype=torch.float64)[case.labels[0]]
    outputs = case.task.image[sequence]
    columns = case.scores[sequence].T[sequence]  # a row a query

    def loss(column: Tensor, target: Tensor) -> Tensor:
        logits = torch.zeros_like(target).index_put((outputs,), case.readout * column.softmax(0))
        return logits.logsumexp(0) - logits @ target

    hessians = torch.func.vmap(torch.func.hessian(loss))(columns, targets)
    return float(torch.linalg.eigvalsh(hessians).abs().max()) / (case.readout**2 / 8 + case.readout)


def _bounds(case: Case) -> dict[str, float]:
    """Return the largest excess of the proofs' bounds over all queries that are misclassified somewhere.

    on_failing: ⟨∂L, v⟩ + p(1 − p)(c − 4ε)/2n on S; elsewhere: ⟨∂L, v⟩ − 6ε/n on other sets; weight:
    p − (1/2 + ε/c) on S; light: Pr[S, p < 1/2n] − 2n² L/c, as another token has 1/n there, so that the
    query's loss is c/2n at least; mass: the least Pr[S].
    """
    c, epsilon, length = case.readout, case.radius, case.sets.sequences.shape[1]
    excess: dict[str, list[float]] = {name: [] for name in ("on_failing", "elsewhere", "weight", "light")}
    masses, cases = [], 0
    for token in range(case.task.words):
        rows, places = (case.sets.sequences == token).nonzero(as_tuple=True)
        wrong, deciders = case.wrong[rows, places], case.deciding[rows, places]
        if not wrong.any():
            continue
        ranks = case.task.ranks[token, deciders]
        last = int(ranks[wrong].min())
        failing, p = wrong & (ranks == last), case.weight[rows, places]
        slope = case.gradient[rows, places][:, list(case.task.lists[token][: last + 1])].sum(1)
        bound = -p * (1 - p) * (c - 4 * epsilon) / (2 * length)
        mass = case.sets.probabilities[rows[failing]]
        excess["on_failing"].append(float((slope - bound)[failing].max()) / c)
        if (~failing).any():
            excess["elsewhere"].append(float(slope[~failing].max() - 6 * epsilon / length) / c)
        excess["weight"].append(float(p[failing].max()) - 0.5 - epsilon / c)
        excess["light"].append(float(mass @ (p[failing] < 1 / (2 * length)).double()))
        masses.append(float(mass.sum()))
        cases += len(rows)
    largest = {name: max(values, default=np.nan) for name, values in excess.items()}
    loss = float(case.computed.losses.mean(1) @ case.sets.probabilities)
    largest["light"] -= 2 * length**2 * loss / c
    return {**largest, "cases": cases, "mass": min(masses, default=np.nan)}


def _uniform(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def random_case(generator: torch.Generator, radius: bool = False, rare: bool = False) -> Case:
    """Draw a small task with sets, scores and a read-out.

    Args:
        generator: of everything.
        radius: whether V is only near cP.
        rare: whether some sets never occur and others seldom do; else all are equally likely.

    """
    words = int(torch.randint(5, 8, (), generator=generator))
    length = int(torch.randint(2, LONGEST + 1, (), generator=generator))
    task = theory.random_lists(words, min(LONGEST, words - 1), generator)
    sets = theory.uniform_sets(words, length)
    if rare:
        weights = _uniform(len(sets.sequences), generator=generator) ** 4
        kept = torch.rand(len(weights), generator=generator) < 0.4
        kept[int(torch.randint(len(kept), (), generator=generator))] = True
        sets = Sets(sets.sequences[kept], (weights / (weights * kept).sum())[kept])
    c = float(10 ** (0.3 + 1.7 * _uniform(generator=generator)))
    spread = 10 ** (1.5 * _uniform(generator=generator) - 0.5)
    scores = spread * torch.randn(words, words, generator=generator, dtype=torch.float64)
    epsilon = 0.2 * c * float(_uniform(generator=generator)) if radius else 0.0
    noise = 2 * _uniform(words, words, generator=generator) - 1
    return Case(task, sets, scores, task.read_out(c) + epsilon * noise, c, epsilon)


def nearly_ordered_case(generator: torch.Generator) -> Case:
    """Draw a case whose scores nearly follow the lists, V off cP by a fifth of c, sets unequally likely.

    Here a pair of scores in the wrong order is misclassified in some of its sets and not in others.
    """
    words, c = int(torch.randint(5, 8, (), generator=generator)), 10.0
    task = theory.random_lists(words, 3, generator)
    sequences = theory.uniform_sets(words, LONGEST).sequences
    weights = 1e-3 + _uniform(len(sequences), generator=generator) ** 2
    scores = 0.3 * torch.randn(words, words, generator=generator, dtype=torch.float64)
    for token, listed in enumerate(task.lists):
        scores[list(listed), token] += torch.linspace(1.0, 0.5, len(listed), dtype=torch.float64)
    read_out = task.read_out(c) + c / 5 * (2 * _uniform(words, words, generator=generator) - 1)
    return Case(task, Sets(sequences, weights / weights.sum()), scores, read_out, c, c / 5)


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


# Flows of whole matrices over explicit sets: what happens where an assumption of the theorems is dropped.


@dataclass(frozen=True, eq=False)
class MatrixFlow:
    """The gradient flow of W from 0, and of V if wanted, on the exact loss of explicit sequences."""

    task: DecisionLists
    sets: Sets
    read_out: Matrix  # V at the start
    readout: float  # c, for the solver's scale
    horizon: float  # in the flow's own time
    trains_read_out: bool = False
    method: str = "RK45"  # SciPy's; LSODA where the flow is stiff

    @cached_property
    def solution(self) -> OdeSolution:
        """Return W over n/c, and by how much V has moved, by time.

        Raises:
            NotConverged: where the solver gives up.

        """
        (sequences, weights), labels = self.sets, self.task.labels(self.sets.sequences)

        def force(_: float, state: Float[np.ndarray, " entry"]) -> Float[np.ndarray, " entry"]:
            scores, read_out = self._matrices(state)
            by_scores, by_read_out = theory.gradients(
                forward(scores, read_out, sequences, labels), read_out, sequences, weights
            )
            moves = [-by_scores / self._scale, *([-by_read_out] if self.trains_read_out else [])]
            return torch.stack(moves).flatten().numpy()

        begin, span = np.zeros((1 + self.trains_read_out) * self.task.words**2), (0.0, self.horizon)
        solved = solve_ivp(force, span, begin, method=self.method, dense_output=True, rtol=1e-6, atol=1e-9)
        if not solved.success:
            raise NotConverged(f"The flow to {self.horizon:g} stopped at {solved.t[-1]:g}: {solved.message}")
        return solved.sol

    @property
    def _scale(self) -> float:
        return self.sets.sequences.shape[1] / self.readout

    def _matrices(self, state: Float[np.ndarray, " entry"]) -> tuple[Matrix, Matrix]:
        scores, *moved = torch.from_numpy(state).view(-1, self.task.words, self.task.words)
        return scores * self._scale, self.read_out + moved[0] if moved else self.read_out

    def at(self, time: float) -> tuple[Matrix, Matrix]:
        """Return W and V at a time."""
        return self._matrices(self.solution(time))

    def wrong(self, time: float) -> Bool[Tensor, "sets seq"]:
        """Return which occurrences are misclassified at a time."""
        labels = self.task.labels(self.sets.sequences)
        return ~correct(forward(*self.at(time), self.sets.sequences, labels).logits, labels)

    def errs(self, time: float, token: int | None = None) -> bool:
        """Return whether an occurrence is misclassified at a time, of one token if given."""
        wrong = self.wrong(time)
        return bool((wrong if token is None else wrong & (self.sets.sequences == token)).any())

    def first(self, holds: Callable[[float], bool]) -> float:
        """Return the first time at which something holds, between two steps of the solver; NaN: never."""
        knots = [float(knot) for knot in self.solution.ts]
        at = next((at for at, knot in enumerate(knots) if holds(knot)), None)
        if at is None:
            return np.nan
        low, high = knots[max(at - 1, 0)], knots[at]
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    def perfect(self, token: int | None = None) -> float:
        """Return the first time at which all, or a token's, occurrences are classified; NaN: never."""
        return self.first(lambda time: not self.errs(time, token))


def lost_again() -> tuple[DecisionLists, Sets]:
    """Return a task whose token 0 is classified perfectly after one step, and not for ever (ours).

    Its list is (3, 6, 0); only sets with it matter. "There exists a t" is not "from t on".
    """
    lists = tuple((3, 6, 0) if token == 0 else (token,) for token in range(7))
    rows = [[0, 1, 4], [0, 1, 5], [0, 2, 3], [0, 2, 4], [0, 3, 6], [0, 4, 5], [0, 5, 6], [1, 2, 3]]
    masses = torch.tensor([0.0027, 0.2107, 0.5228, 0.0247, 0.0021, 0.0182, 0.0017], dtype=torch.float64)
    probabilities = torch.cat([masses, 1 - masses.sum(0, keepdim=True)])
    return DecisionLists(tuple(range(7)), lists), Sets(torch.tensor(rows), probabilities)
