"""Decision lists, the exact population loss of one attention layer, and its flow (Theorems 4.1 to 4.4)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations, pairwise, product
from math import comb, log, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.integrate import OdeSolution, solve_ivp
from scipy.optimize import brentq
from torch import Generator, Tensor
from torch.nn import functional as F

from sameloss.checks import check_count
from sameloss.errors import NotConverged, ParameterError

Matrix = Float[Tensor, "words words"]
Sequences = Int[Tensor, "batch seq"]
ByKey = Float[Tensor, "batch query key"]
Entries = Float[np.ndarray, " entry"]  # of a column of W: one for each token of the list, one for all others
Patterns = Float[np.ndarray, " pattern"]
ByPattern = Float[np.ndarray, "pattern entry"]

# The task: a list of tokens for every token, a permutation, and sequences (Section 4.2 of the thesis).


@dataclass(frozen=True)
class DecisionLists:
    """A list L_a for every token a, and the permutation π from tokens to labels.

    The label of a in a sequence is π of the first token of L_a that occurs in the sequence, the
    label-determining token. L_a ends with a itself. Tokens count from 0.
    """

    permutation: tuple[int, ...]
    lists: tuple[tuple[int, ...], ...]

    @property
    def words(self) -> int:
        """Vocabulary size L."""
        return len(self.permutation)

    @cached_property
    def image(self) -> Int[Tensor, " words"]:
        """π as a tensor."""
        return torch.tensor(self.permutation)

    @cached_property
    def ranks(self) -> Int[Tensor, "words words"]:
        """Index of token b in the list of a at [a, b]; L where it is not listed."""
        ranks = torch.full((self.words, self.words), self.words)
        for token, listed in enumerate(self.lists):
            ranks[token, list(listed)] = torch.arange(len(listed))
        return ranks

    def determining(self, sequences: Sequences) -> Sequences:
        """Label-determining token of every token."""
        first = self.ranks.to(sequences.device)[sequences[:, :, None], sequences[:, None, :]].argmin(-1)
        return sequences.gather(1, first)

    def labels(self, sequences: Sequences) -> Sequences:
        return self.image.to(sequences.device)[self.determining(sequences)]

    def read_out(self, strength: float) -> Matrix:
        """The read-out cP (float64), which maps attended tokens to labels."""
        matrix = torch.zeros(self.words, self.words, dtype=torch.float64)
        matrix[self.image, torch.arange(self.words)] = strength
        return matrix


def cyclic_lists(words: int, length: int) -> DecisionLists:
    """Lists of `length` m as in Figure 4.1, for any vocabulary, with the map repaired.

    Token i has the list (i + d, i + 2d, ..., i) and π(i) = i + 2d, modulo L; at L = 200 and m = 4 the step d
    is 10, as printed. The thesis takes numbers from 1 modulo L + 1, which does not map the vocabulary onto
    itself: one token is sent to 0, and one label is never reached.
    """
    step = max(1, words // 20)
    moved = torch.arange(words)[:, None] + step * torch.arange(max(length, 3))  # i, i + d, i + 2d, ...
    rows = (moved % words).tolist()
    return DecisionLists(tuple(row[2] for row in rows), tuple((*row[1:length], row[0]) for row in rows))


def random_lists(words: int, length: int, generator: Generator) -> DecisionLists:
    """Draw a permutation, and lists of at most `length` tokens."""
    permutation = torch.randperm(words, generator=generator).tolist()
    lists = []
    for token in range(words):
        others = torch.randperm(words - 1, generator=generator)
        others = others + (others >= token)
        count = int(torch.randint(length, (), generator=generator))
        lists.append((*others[:count].tolist(), token))
    return DecisionLists(tuple(permutation), tuple(lists))


class Sets(NamedTuple):
    """Sequences and their probabilities; by Assumption 4.1 sequences are sets, in any order."""

    sequences: Sequences
    probabilities: Float[Tensor, " batch"]


def uniform_sets(words: int, length: int) -> Sets:
    """All sets of `length` out of `words` tokens, equally likely."""
    sequences = torch.tensor(list(combinations(range(words), length)))
    return Sets(sequences, torch.full((len(sequences),), 1 / len(sequences), dtype=torch.float64))


def draw_sequences(words: int, length: int, count: int, generator: Generator) -> Sequences:
    """Draw sequences of distinct tokens, all sets equally likely."""
    noise = torch.rand(count, words, generator=generator, device=generator.device)
    return noise.topk(length).indices


def triple_mass(task: DecisionLists, sets: Sets) -> float:
    """Largest δ of Assumption 4.3.

    The least positive probability that a, b and c occur, where b determines the label of a, and c comes after
    b in the list of a or is not in it.
    """
    a, c = sets.sequences[:, :, None], sets.sequences[:, None, :]
    b = task.determining(sets.sequences)[:, :, None]
    behind = task.ranks[a, c] > task.ranks[a, b]
    triples = ((a * task.words + b) * task.words + c)[behind]
    masses = sets.probabilities.new_zeros(task.words**3)
    masses.index_add_(0, triples, sets.probabilities[:, None, None].expand(behind.shape)[behind])
    return float(masses[masses > 0].min())


# The exact population loss of one column of W, by a reduction to m + 1 numbers.
#
# With V = cP the columns of W do not interact. Where tokens outside a list are exchangeable, as in uniformly
# drawn sets, the column of a has only m + 1 distinct entries: one for each token of its list, and one shared
# by all others. The loss depends only on which tokens of the list occur, so the mean over all sequences is a
# sum over 2^(m-1) patterns with hypergeometric weights, for any vocabulary and length.


@dataclass(frozen=True)
class Column:
    """One column of W under uniformly drawn sets; entries are (list tokens, all others).

    Loss and gradient are this token's contribution to the mean over a sequence's n tokens.
    """

    words: int  # L
    length: int  # n
    rules: int  # m, the length of the list
    readout: float  # c

    def __post_init__(self) -> None:
        """Require 2 ≤ n ≤ L and m < L."""
        check_count("length", self.length, least=2)
        if self.length > self.words:
            raise ParameterError(f"length must be at most {self.words}, the vocabulary; got {self.length}.")
        if self.rules >= self.words:
            raise ParameterError(f"Lists must have fewer than {self.words} tokens; got {self.rules}.")

    @cached_property
    def counts(self) -> Int[np.ndarray, "pattern entry"]:
        """Number of tokens of each entry in every possible pattern."""
        present = product((0, 1), repeat=self.rules - 1)
        patterns = [(*heads, 1, self.length - 1 - sum(heads)) for heads in present]
        return np.array([p for p in patterns if 0 <= p[-1] <= self.words - self.rules])

    @cached_property
    def masses(self) -> Patterns:
        """Probabilities of the patterns; they sum to n/L, the probability that the token occurs."""
        total, outside = comb(self.words, self.length), self.words - self.rules
        return np.array([comb(outside, int(others)) / total for others in self.counts[:, -1]])

    @cached_property
    def deciding(self) -> Int[np.ndarray, " pattern"]:
        """Entry of the label-determining token."""
        return self.counts[:, :-1].argmax(1)

    @cached_property
    def rivals(self) -> Int[np.ndarray, "pattern entry"]:
        """Counts without the label-determining token."""
        return self.counts - np.eye(self.rules + 1, dtype=int)[self.deciding]

    @cached_property
    def multiplicities(self) -> Entries:
        """Number of tokens of the vocabulary that share each entry."""
        return np.array([1.0] * self.rules + [float(self.words - self.rules)])

    def attention(self, w: Entries) -> ByPattern:
        """Attention on one token of each entry; 0 where a pattern has none."""
        weights = np.where(self.counts > 0, np.exp(w - w.max()), 0.0)
        return weights / (self.counts * weights).sum(1, keepdims=True)

    def cross_entropy(self, logits: ByPattern) -> tuple[Patterns, ByPattern]:
        """Losses (nats), and outputs minus targets for one token of each entry.

        Neither is computed as a small difference of large numbers. Logits are those of the labels of each
        entry's tokens; labels of absent tokens have logits of 0.
        """
        present, of_label = self.counts > 0, (np.arange(len(self.counts)), self.deciding)
        top = np.where(present, logits, 0.0).max(1)
        weights = np.where(present, np.exp(np.minimum(logits - top[:, None], 0.0)), 0.0)
        label, rivals = weights[of_label], (self.rivals * weights).sum(1)
        rivals += (self.words - self.length) * np.exp(-top)
        residual = weights / (label + rivals)[:, None]
        residual[of_label] = -rivals / (label + rivals)
        with np.errstate(divide="ignore"):
            return np.logaddexp(0.0, np.log(rivals) + (top - logits[of_label])), residual

    def loss(self, w: Entries) -> float:
        """Contribution of the token to the population loss, nats."""
        losses, _ = self.cross_entropy(self.readout * self.attention(w))
        return float(self.masses @ losses) / self.length

    def gradient(self, w: Entries) -> Entries:
        """∂ℒ/∂W for one token of each entry; over all tokens of the column they sum to 0."""
        p = self.attention(w)
        _, residual = self.cross_entropy(self.readout * p)
        differences = residual[:, :, None] - residual[:, None, :]  # so 1 − p is never taken
        pulled = p * np.einsum("sj,sij->si", self.counts * p, differences)
        mean = self.masses @ (self.counts * pulled) * self.readout / self.length
        return mean / self.multiplicities

    def accuracy(self, w: Entries) -> float:
        """Probability that an occurrence of the token is classified correctly; ties are errors."""
        right = w[self.deciding] > np.where(self.rivals > 0, w, -np.inf).max(1)
        return 1.0 if right.all() else float(self.masses @ right / self.masses.sum())

    def weight_on_determining(self, w: Entries) -> float:
        """Mean attention on the label-determining token."""
        weights = self.attention(w)[np.arange(len(self.counts)), self.deciding]
        return float(self.masses @ weights / self.masses.sum())

    def chance(self, absent: int, present: int) -> float:
        """Probability that `absent` given tokens are absent and `present` others are present."""
        if present > self.length:
            return 0.0
        return comb(self.words - absent - present, self.length - present) / comb(self.words, self.length)

    @property
    def plateau(self) -> float:
        """Accuracy of a token that attends to itself alone: how often it determines its own label."""
        return comb(self.words - self.rules, self.length - 1) / comb(self.words - 1, self.length - 1)

    @property
    def triple_mass(self) -> float:
        """δ of Assumption 4.3: the least probability of a label-determining token and another one behind it.

        The tokens before it in the list are absent, and the token itself occurs. The one behind it, in the
        list or outside, may be the token itself.
        """
        last = self.rules - 1
        masses = [self.chance(place, tokens) for place in range(last) for tokens in (2, 3)]
        return min(mass for mass in [*masses, self.chance(last, 2)] if mass > 0)

    @property
    def critical_readout(self) -> float:
        """c*, the read-out below which the plateau has no way out (ours); NaN where there is none.

        On the plateau the token attends to itself alone. The force on its score changes sign where the
        outputs of its own label and of another differ by D = q − (1 − q)/(n − 1), q the plateau's accuracy;
        that needs −1/(L − 1) < D < 1.
        """
        q = self.plateau
        difference = q - (1 - q) / (self.length - 1)
        odds = 1 + difference * (self.words - 1)
        return log(odds / (1 - difference)) if odds > 0 and difference < 1 else nan

    @property
    def promised_time(self) -> float:
        """ηT = 32 M / log L, the time within which Theorem 4.3 promises perfect classification.

        T itself is lost in the source's text; the algebra of its proof gives T = 32 λ M / log L.
        """
        return 32 * self.rules / log(self.words)

    @property
    def time_scale(self) -> float:
        """Scaled over unscaled time of the flow, (c/n)²."""
        return (self.readout / self.length) ** 2

    @property
    def gradient_bound(self) -> float:
        """log²L / 16M, the bound on ‖∂ℒ‖² in the proof of 4.3 as long as a token is misclassified."""
        return log(self.words) ** 2 / (16 * self.rules)

    @property
    def curvature_bound(self) -> float:
        """Bound on λ at every W: Pr[a occurs] (c²/8 + c)/n (ours).

        Theorem 4.3 takes the largest eigenvalue "of the Hessian" without saying where; steps of 1/λ need a
        bound that holds along the whole path.
        """
        return self.length / self.words * (self.readout**2 / 8 + self.readout) / self.length

    def curvature_at_start(self) -> float:
        """Largest eigenvalue of the Hessian at W = 0, on the space of the column's entries."""
        step = 1e-4 * self.length / self.readout
        root = self.multiplicities**0.5
        moves = step * np.eye(self.rules + 1) / root
        hessian = np.array([(self.gradient(e) - self.gradient(-e)) / (2 * step) for e in moves]) * root
        return float(np.linalg.eigvalsh((hessian + hessian.T) / 2).max())


def readout_of_44(radius: float, task: DecisionLists, sets: Sets, noise: Matrix) -> float:
    """Least c that satisfies (4 max{1, L₀} √(M/ε) + 6ε/n) 10n²/δ + 4ε ≤ c (Theorem 4.4).

    Args:
        radius: ε; V starts within ε/2 of cP.
        task: lists of at most M tokens.
        sets: of n tokens; δ is the probability of the least likely one.
        noise: V − cP at the start; L₀ is the loss there, at W = 0, which depends on c.

    """
    longest, length = max(map(len, task.lists)), sets.sequences.shape[1]
    mass, readout = float(sets.probabilities.min()), 1.0
    for _ in range(12):
        loss = population_loss(torch.zeros_like(noise), task.read_out(readout) + noise, task, sets)
        slope = 4 * max(1.0, float(loss)) * sqrt(longest / radius) + 6 * radius / length
        previous, readout = readout, slope * 10 * length**2 / mass + 4 * radius
    return max(previous, readout)


# The thesis' simplified transformer, equation (4.1): attention without positions, gradients by hand.
#
# Column a of W holds the scores that query a gives to every token; V maps attended tokens to logits.


class Forward(NamedTuple):
    """A forward pass, with what the gradients need."""

    attention: ByKey  # σ(XᵀWX)
    logits: Float[Tensor, "batch query words"]
    residual: Float[Tensor, "batch query words"]  # o − e_y: softmax of the logits minus the one-hot label
    losses: Float[Tensor, "batch query"]  # cross-entropies, nats


def forward(scores: Matrix, read_out: Matrix, sequences: Sequences, labels: Sequences) -> Forward:
    """Attention, logits and losses of every token; `scores` is W, `read_out` is V."""
    attention = scores.T[sequences[:, :, None], sequences[:, None, :]].softmax(-1)
    logits = attention @ read_out.T[sequences]
    losses = -logits.log_softmax(-1).gather(2, labels[..., None])[..., 0]
    return Forward(attention, logits, logits.softmax(-1) - F.one_hot(labels, len(read_out)), losses)


def population_loss(scores: Matrix, read_out: Matrix, task: DecisionLists, sets: Sets) -> Float[Tensor, ""]:
    """The loss (4.2), as the mean over a sequence's tokens, nats."""
    losses = forward(scores, read_out, sets.sequences, task.labels(sets.sequences)).losses
    return losses.mean(1) @ sets.probabilities


def gradients(
    computed: Forward, read_out: Matrix, sequences: Sequences, weights: Float[Tensor, " batch"]
) -> tuple[Matrix, Matrix]:
    """Gradients by W and by V of the loss (4.2), as the mean over a sequence's tokens.

    ∂/∂w_k = (p_k / n) [h_k − Σ_i p_i h_i] with h = Vᵀ(o − e_y), and ∂/∂V = (1/n) Σ_j (o − e_y) pᵀ.

    Args:
        computed: the forward pass of these parameters and sequences.
        read_out: V.
        sequences: tokens.
        weights: of the sequences: their probabilities, or 1 over their number.

    """
    weights = weights[:, None, None] / sequences.shape[1]
    by_scores = _summed(weights * score_gradients(computed, read_out, sequences), sequences, len(read_out))
    by_key = computed.attention.mT @ (weights * computed.residual)
    by_read_out = torch.zeros_like(read_out).index_add_(0, sequences.flatten(), by_key.flatten(0, 1))
    return by_scores, by_read_out.T


def score_gradients(computed: Forward, read_out: Matrix, sequences: Sequences) -> ByKey:
    """Gradient of each token's own loss by its scores for the tokens of the sequence."""
    pulled = computed.residual @ read_out.T[sequences].mT
    return computed.attention * (pulled - (computed.attention * pulled).sum(-1, keepdim=True))


def _summed(by_key: ByKey, sequences: Sequences, words: int) -> Matrix:
    """Sum over sequences for every pair of a key (row) and a query (column)."""
    places = sequences[:, :, None] * words + sequences[:, None, :]
    total = by_key.new_zeros(words * words)
    return total.index_add_(0, places.flatten(), by_key.flatten()).view(words, words).T


def fixed_gradient(scores: Matrix, readout: float, task: DecisionLists, sequences: Sequences) -> Matrix:
    """Gradient by W of the mean loss of sequences of distinct tokens, at V = cP.

    Fast: labels of absent tokens all have the logit 0, so only their number matters.
    """
    words, (batch, length) = len(scores), sequences.shape
    attention = scores.T[sequences[:, :, None], sequences[:, None, :]].softmax(-1)
    logits = readout * attention
    top = logits.amax(-1, keepdim=True)
    weights = (logits - top).exp()
    residual = weights / (weights.sum(-1, keepdim=True) + (words - length) * (-top).exp())
    pulled = readout * (residual - decides(task, sequences).to(residual))
    by_key = attention * (pulled - (attention * pulled).sum(-1, keepdim=True)) / (batch * length)
    return _summed(by_key, sequences, words)


def decides(task: DecisionLists, sequences: Sequences) -> Bool[Tensor, "batch query key"]:
    """Whether the key determines the label of the query."""
    return sequences[:, None, :] == task.determining(sequences)[:, :, None]


def correct(logits: Float[Tensor, "batch query words"], labels: Sequences) -> Bool[Tensor, "batch query"]:
    """Whether the label's logit is above all others; a tie is an error.

    At W = 0 all tokens of a sequence are tied, and the proofs count that as misclassified.
    """
    of_label = logits.gather(2, labels[..., None])
    others = logits.scatter(2, labels[..., None], -torch.inf)
    return of_label[..., 0] > others.amax(-1)


# Gradient flow and gradient descent on a column's exact loss, and the times at which its order changes.
#
# Time is scaled, s = (c/n)² t, and so are scores, u = c w / n: flows at all c are then alike, with a limit.

FIRST = 1e-6  # first scaled time, reached in one straight step: at time 0 all scores are tied
LATEST = 1e15  # last scaled time; beyond it, cancellation leaves no digit of the forces


class Event(NamedTuple):
    """A scaled time from which the scores have a new order, and the column's accuracy there."""

    time: float
    order: str
    accuracy: float


@dataclass(frozen=True)
class Flow:
    """The gradient flow of one column from W = 0."""

    column: Column
    solution: OdeSolution
    horizon: float

    def at(self, time: float) -> Entries:
        """Scaled scores u at a scaled time."""
        first = self.solution(FIRST)
        return first * time / FIRST if time < FIRST else self.solution(time)

    def scores(self, time: float) -> Entries:
        """Scores w at a scaled time."""
        return self.at(time) * self.column.length / self.column.readout

    @cached_property
    def events(self) -> list[Event]:
        """The first order, and every change of it, at which two scores cross."""
        knots, times = self.solution.ts, [FIRST]
        values = np.array([self.solution(knot) for knot in knots])
        for j, i in combinations(range(values.shape[1]), 2):
            gap = lambda time, i=i, j=j: float(np.subtract(*self.solution(time)[[i, j]]))  # noqa: E731
            signs = values[:, i] - values[:, j]
            changes = np.flatnonzero(signs[1:] * signs[:-1] < 0)
            times += [float(brentq(gap, knots[at], knots[at + 1], rtol=1e-12)) for at in changes]
        events = []
        for time, until in pairwise([*sorted(times), self.horizon]):
            between = self.at((time * until) ** 0.5)
            events.append(Event(time, order_of(between), self.column.accuracy(between)))
        return events[:1] + [b for a, b in pairwise(events) if a.order != b.order]

    @property
    def perfect(self) -> float:
        """Scaled time from which every sequence is classified; NaN: not within the horizon."""
        return next((event.time for event in self.events if event.accuracy == 1), np.nan)


def order_of(scores: Entries) -> str:
    """Entries from the highest score to the lowest: list tokens by number from 1, o for all others.

    >>> order_of(np.array([0.1, 0.0, 0.3, -0.2]))
    '312o'
    """
    names = [*map(str, range(1, len(scores))), "o"]
    return "".join(names[at] for at in np.argsort(-scores, kind="stable"))


def integrate(force: Callable, span: tuple[float, float], start: Entries, **options: Any) -> OdeSolution:
    """Solve an autonomous initial value problem; `options` are those of `scipy.integrate.solve_ivp`.

    Raises:
        NotConverged: where the solver gives up.

    """
    solved = solve_ivp(lambda _, state: force(state), span, start, dense_output=True, **options)
    if not solved.success:
        raise NotConverged(f"The flow to {span[1]:g} stopped at {solved.t[-1]:g}: {solved.message}")
    return solved.sol


@cache
def flow(column: Column, horizon: float) -> Flow:
    """Follow the gradient flow of a column from W = 0; kept, since a chapter asks whenever it is opened.

    Args:
        column: its read-out included.
        horizon: last scaled time, at most `LATEST`.

    Raises:
        NotConverged: where the solver gives up.

    """
    scale = column.length / column.readout

    def force(u: Entries) -> Entries:
        return -column.gradient(u * scale) * scale

    first = FIRST * force(np.zeros(column.rules + 1))
    solution = integrate(force, (FIRST, horizon), first, method="LSODA", rtol=1e-9, atol=1e-12)
    return Flow(column, solution, horizon)


def descend(column: Column, rate: float, steps: int, stop: bool = True) -> tuple[int, np.ndarray, Entries]:
    """Gradient descent from W = 0; unless `stop` is False, only until every sequence is classified.

    Returns:
        The first step after which every sequence is classified, 0 if there is none; losses; final scores.

    """
    scores, losses, perfect = np.zeros(column.rules + 1), [], 0
    for step in range(1, steps + 1):
        losses.append(column.loss(scores))
        scores = scores - rate * column.gradient(scores)
        if not perfect and column.accuracy(scores) == 1:
            perfect = step
            if stop:
                break
    return perfect, np.array([*losses, column.loss(scores)]), scores
