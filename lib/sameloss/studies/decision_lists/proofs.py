"""Every step of the proofs of Theorems 4.3 and 4.4 in random cases, and the flow of Theorem 4.4."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from sameloss.studies.decision_lists import theory
from sameloss.studies.decision_lists.theory import DecisionLists, Matrix, Sequences, Sets, correct, forward

# A case is a query a and a set s. k* is the first label-determining token, in the order of L_a, of any
# misclassified occurrence of a; v marks the tokens of L_a up to k*; in the sets S k* decides and a is wrong.

LONGEST = 4  # sets and lists of random cases: all sets are enumerated


@dataclass(frozen=True, eq=False)
class Case:
    """Every query in every set at given parameters: arrays of (set, query)."""

    task: DecisionLists
    sets: Sets
    scores: Matrix
    read_out: Matrix
    readout: float  # c
    radius: float  # ε, of V around cP; 0: V = cP

    @cached_property
    def labels(self) -> Sequences:
        return self.task.labels(self.sets.sequences)

    @cached_property
    def computed(self) -> theory.Forward:
        return forward(self.scores, self.read_out, self.sets.sequences, self.labels)

    @cached_property
    def weight(self) -> Float[Tensor, "sets query"]:
        """Attention p on the label-determining token."""
        return (self.computed.attention * theory.decides(self.task, self.sets.sequences)).sum(-1)

    @cached_property
    def gradient(self) -> Float[Tensor, "sets query words"]:
        """Gradient of a query's loss on a set by its column of W."""
        by_key = theory.score_gradients(self.computed, self.read_out, self.sets.sequences)
        return self.by_token(by_key / self.sets.sequences.shape[1])

    def by_token(self, by_key: Float[Tensor, "sets query key"]) -> Float[Tensor, "sets query words"]:
        """Spread values of a set's tokens over the vocabulary, 0 at all others."""
        keys = self.sets.sequences[:, None, :].expand_as(by_key)
        return by_key.new_zeros(*by_key.shape[:2], self.task.words).scatter_add(2, keys, by_key)


def measured(case: Case) -> dict[str, float]:
    """What the steps of the proofs bound; NaN where there is no such query, or V = cP is assumed and false.

    Distances and excesses over a bound are divided by c; an excess is positive where the bound fails.
    """
    parameters = (case.scores.clone().requires_grad_(), case.read_out.clone().requires_grad_())
    automatic = torch.autograd.grad(theory.population_loss(*parameters, case.task, case.sets), parameters)
    by_hand = theory.gradients(case.computed, case.read_out, *case.sets)
    gap = max(float((a - b).abs().max()) for a, b in zip(automatic, by_hand, strict=True))
    return {
        "gradient": gap / case.readout,
        "read_out_slope": float(by_hand[1].abs().max()),
        "identity": np.nan if case.radius else _identity_gap(case),
        "curvature": np.nan if case.radius else _curvature_ratio(case),
        **_bounds(case),
    }


def _identity_gap(case: Case) -> float:
    """Distance of −∂L/∂w at the label-determining token from its closed form at V = cP, over c.

    (c/n) p_k [(1 − o_y)(1 − p_k) + Σ_{t ≠ k} o_π(t) p_t], which is not negative.
    """
    k, p = case.task.determining(case.sets.sequences)[..., None], case.weight
    residual = case.computed.residual
    descent = -case.gradient.gather(2, k)[..., 0]
    missing = -residual.gather(2, case.task.image[k])[..., 0]
    outputs = residual[..., case.task.image]  # of π(t) at t, but for k
    others = (outputs * case.by_token(case.computed.attention)).scatter(2, k, 0.0).sum(-1)
    formula = case.readout / k.shape[1] * p * (missing * (1 - p) + others)
    return float((descent - formula).abs().max()) / case.readout


def _curvature_ratio(case: Case) -> float:
    """Largest curvature of a token's loss over the bound c²/8 + c, for every query of one set."""
    sequence = case.sets.sequences[0]
    targets = torch.eye(case.task.words, dtype=torch.float64)[case.labels[0]]
    outputs = case.task.image[sequence]
    columns = case.scores[sequence].T[sequence]  # one row per query

    def loss(column: Tensor, target: Tensor) -> Tensor:
        logits = torch.zeros_like(target).index_put((outputs,), case.readout * column.softmax(0))
        return logits.logsumexp(0) - logits @ target

    hessians = torch.func.vmap(torch.func.hessian(loss))(columns, targets)
    return float(torch.linalg.eigvalsh(hessians).abs().max()) / (case.readout**2 / 8 + case.readout)


def _bounds(case: Case) -> dict[str, float]:
    """Largest excess over each bound of the proofs, for all queries that are misclassified somewhere.

    light: Pr[S, p < 1/2n] − 2n² L/c at V = cP, as another token has 1/n there, so that the query's loss is
    c/2n at least; on_failing: ⟨∂L, v⟩ + p(1 − p)(c − 4ε)/2n on S; elsewhere: ⟨∂L, v⟩ − 6ε/n on other sets;
    weight: p − (1/2 + ε/c) on S. Beside them the number of `cases`, and the least Pr[S] over δ of
    Assumption 4.3 (`of_triples`) and of Assumption 4.4 (`of_sets`).
    """
    (tokens, probabilities), p, c, epsilon = case.sets, case.weight, case.readout, case.radius
    words, length = case.task.words, tokens.shape[1]
    wrong = ~correct(case.computed.logits, case.labels)
    ranks = case.task.ranks[tokens, case.task.determining(tokens)]
    never = torch.full((words,), words)
    last = never.scatter_reduce(0, tokens[wrong], ranks[wrong], "amin")[tokens]  # rank of k*
    failing, seen = wrong & (ranks == last), last < words
    slope = (case.gradient * (case.task.ranks[tokens] <= last[..., None])).sum(-1)
    bound = -p * (1 - p) * (c - 4 * epsilon) / (2 * length)

    def mass(occurrences: Bool[Tensor, "sets query"]) -> Float[Tensor, " words"]:
        total = torch.zeros(words, dtype=torch.float64)
        return total.index_add(0, tokens[occurrences], probabilities[occurrences.nonzero()[:, 0]])

    masses, light = mass(failing), mass(failing & (p < 1 / (2 * length)))
    loss, least = float(case.computed.losses.mean(1) @ probabilities), -_largest(-masses[masses > 0])
    return {
        "light": np.nan if epsilon else _largest(light[masses > 0]) - 2 * length**2 * loss / c,
        "on_failing": _largest((slope - bound)[failing]) / c,
        "elsewhere": _largest(slope[seen & ~failing] - 6 * epsilon / length) / c,
        "weight": _largest(p[failing]) - 0.5 - epsilon / c,
        "cases": int(seen.sum()),
        "of_triples": least / theory.triple_mass(case.task, case.sets),
        "of_sets": least / float(probabilities.min()),
    }


def _largest(values: Float[Tensor, " value"]) -> float:
    """The largest value, NaN if there is none."""
    return float(values.max()) if len(values) else np.nan


def _uniform(*shape: int, generator: torch.Generator) -> Tensor:
    """Draw from [0, 1) in double precision."""
    return torch.rand(shape, generator=generator, dtype=torch.float64)


def random_case(generator: torch.Generator, radius: bool = False, rare: bool = False) -> Case:
    """Draw a small task with sets, scores and a read-out.

    Args:
        generator: of all random numbers.
        radius: draw V near cP instead of V = cP.
        rare: drop most sets and draw unequal probabilities of the others.

    """
    words = int(torch.randint(5, 8, (), generator=generator))
    length = int(torch.randint(2, LONGEST + 1, (), generator=generator))
    task = theory.random_lists(words, min(LONGEST, words - 1), generator)
    sets = theory.uniform_sets(words, length)
    if rare:
        weights = _uniform(len(sets.sequences), generator=generator) ** 4
        possible = torch.rand(len(weights), generator=generator) < 0.4
        possible[int(torch.randint(len(possible), (), generator=generator))] = True
        sets = Sets(sets.sequences[possible], (weights / (weights * possible).sum())[possible])
    c = float(10 ** (0.3 + 1.7 * _uniform(generator=generator)))
    spread = 10 ** (1.5 * _uniform(generator=generator) - 0.5)
    scores = spread * torch.randn(words, words, generator=generator, dtype=torch.float64)
    epsilon = 0.2 * c * float(_uniform(generator=generator)) if radius else 0.0
    noise = 2 * _uniform(words, words, generator=generator) - 1
    return Case(task, sets, scores, task.read_out(c) + epsilon * noise, c, epsilon)


def nearly_ordered_case(generator: torch.Generator) -> Case:
    """Draw a case whose scores nearly follow the lists, with ε = c/5 and unequal probabilities of sets.

    Here two scores in the wrong order misclassify some of their sets and not others.
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
    """⟨∂L, v⟩ on one sequence, a counter-example to the sketch's "always ≤ 0 otherwise" (l. 1720).

    The list is (b, k, a) and the sequence (b, k, a, t), so b decides; v marks b and k although k is not the
    first token that fails.

    Args:
        p: attention on b, k, a, t.
        readout: c.
        absent: number of labels of absent tokens.

    """
    weights = torch.tensor(p, dtype=torch.float64)
    outputs = (readout * weights).exp()
    outputs = outputs / (outputs.sum() + absent)
    residual = readout * (outputs - torch.tensor([1.0, 0, 0, 0], dtype=torch.float64))
    gradient = weights * (residual - (weights * residual).sum()) / len(p)
    return float(gradient[:2].sum())


# Theorem 4.4, by the gradient flow of both matrices on the exact loss.


class Trained(NamedTuple):
    """Both matrices after training, at the least read-out that Theorem 4.4 allows."""

    readout: float  # c
    wrong: float  # fraction of misclassified tokens
    move: float  # largest of an entry of V


def train_both(
    task: DecisionLists, sets: Sets, radius: float, time: float, generator: torch.Generator
) -> Trained:
    """Follow the flow from W = 0 and a random V within ε/2 of cP.

    Args:
        task: lists.
        sets: all sequences that can occur.
        radius: ε.
        time: of the flow; the theorem allows ε/2.
        generator: of V.

    Raises:
        NotConverged: where the solver gives up.

    """
    noise = radius / 2 * (2 * _uniform(task.words, task.words, generator=generator) - 1)
    c, labels = theory.readout_of_44(radius, task, sets, noise), task.labels(sets.sequences)
    start, unit = task.read_out(c) + noise, sets.sequences.shape[1] / c  # of W in the solver

    def at(state: Float[np.ndarray, " entry"]) -> tuple[theory.Forward, Matrix]:
        scores, moved = torch.from_numpy(state).view(2, task.words, task.words)
        return forward(scores * unit, start + moved, sets.sequences, labels), moved

    def force(state: Float[np.ndarray, " entry"]) -> Float[np.ndarray, " entry"]:
        computed, moved = at(state)
        by_scores, by_read_out = theory.gradients(computed, start + moved, *sets)
        return -torch.stack([by_scores / unit, by_read_out]).flatten().numpy()

    nothing = np.zeros(2 * task.words**2)
    computed, moved = at(theory.integrate(force, (0.0, time), nothing, rtol=1e-6, atol=1e-9)(time))
    wrong = ~correct(computed.logits, labels)
    return Trained(c, float(wrong.double().mean()), float(moved.abs().max()))
