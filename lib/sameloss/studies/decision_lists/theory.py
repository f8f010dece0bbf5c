"""Decision lists, one attention layer on all of their sequences, and the flows of Theorems 4.1 to 4.4."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise, product
from math import comb, exp, log, nan, sqrt
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.integrate import OdeSolution, solve_ivp
from scipy.optimize import brentq
from torch import Tensor

from sameloss.checks import check_count
from sameloss.errors import NotConverged, ParameterError

Matrix = Float[Tensor, "words words"]
Sequences = Int[Tensor, "batch seq"]
ByKey = Float[Tensor, "batch query key"]
Entries = Float[np.ndarray, " entry"]  # of a column: one for each token of its list, one for all others
ByPattern = Float[np.ndarray, "pattern entry"]

# The task: a list of tokens for every token, a permutation, and sequences (Section 4.2 of the thesis).


@dataclass(frozen=True)
class DecisionLists:
    """A list L_a for every token a, and the permutation π that turns tokens into labels.

    The label of a in a sequence is π of the first token of L_a that stands in the sequence: the
    label-determining token. L_a ends with a itself. Tokens count from 0.
    """

    permutation: tuple[int, ...]
    lists: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        """Refuse what is no permutation.

        Raises:
            ParameterError: naming a token whose image is wrong, and labels that no token has.

        """
        images = enumerate(self.permutation)
        if missing := sorted(set(range(self.words)) - set(self.permutation)):
            outside = [f"π({a}) = {label}; " for a, label in images if not 0 <= label < self.words]
            raise ParameterError(
                f"π must map the tokens 0 to {self.words - 1} onto themselves; {''.join(outside[:1])}"
                f"nothing is mapped to {', '.join(map(str, missing[:5]))}."
            )

    @property
    def words(self) -> int:
        """Return L, the size of the vocabulary."""
        return len(self.permutation)

    @cached_property
    def image(self) -> Int[Tensor, " words"]:
        """Return π as a tensor."""
        return torch.tensor(self.permutation)

    @cached_property
    def ranks(self) -> Int[Tensor, "words words"]:
        """Return the place of token b in the list of a at [a, b], counted from 0; L where it is not there."""
        ranks = torch.full((self.words, self.words), self.words)
        for token, listed in enumerate(self.lists):
            ranks[token, list(listed)] = torch.arange(len(listed))
        return ranks

    def determining(self, sequences: Sequences) -> Sequences:
        """Return the label-determining token of every token."""
        first = self.ranks.to(sequences.device)[sequences[:, :, None], sequences[:, None, :]].argmin(-1)
        return sequences.gather(1, first)

    def labels(self, sequences: Sequences) -> Sequences:
        """Return the label of every token."""
        return self.image.to(sequences.device)[self.determining(sequences)]

    def read_out(self, strength: float) -> Matrix:
        """Return cP, the read-out that turns attention into labels, in double precision."""
        matrix = torch.zeros(self.words, self.words, dtype=torch.float64)
        matrix[self.image, torch.arange(self.words)] = strength
        return matrix


def cyclic_lists(words: int, length: int, modulus: int | None = None) -> DecisionLists:
    """Return the lists of Figure 4.1 for any vocabulary, with the map repaired.

    Token i has the list (i + d, i + 2d, ..., i) and the label i + 2d of its own, modulo L; at L = 200 and
    m = 4 the step d is 10, as printed. The thesis takes numbers from 1 modulo L + 1, which is no map of the
    vocabulary onto itself: one token is sent to 0, and one label is never reached.

    Args:
        words: L.
        length: m of every list.
        modulus: what indices are taken modulo, counted from 1 if it is not L: L + 1 is as printed.

    Raises:
        ParameterError: for lists longer than the vocabulary, and for the printed map.

    """
    step = max(1, words // 20)
    if (length - 1) * step >= words:
        raise ParameterError(f"Lists of {length} different tokens need more than {words} tokens.")
    first = 0 if modulus in (None, words) else 1
    moved = lambda token, by: (token + first + by) % (modulus or words) - first  # noqa: E731
    lists = [(*(moved(token, place * step) for place in range(1, length)), token) for token in range(words)]
    return DecisionLists(tuple(moved(token, 2 * step) for token in range(words)), tuple(lists))


def random_lists(words: int, length: int, generator: torch.Generator) -> DecisionLists:
    """Draw a permutation, and lists of up to `length` tokens."""
    permutation = torch.randperm(words, generator=generator).tolist()
    lists = []
    for token in range(words):
        others = torch.randperm(words - 1, generator=generator)
        others = others + (others >= token)
        kept = int(torch.randint(length, (), generator=generator))
        lists.append((*others[:kept].tolist(), token))
    return DecisionLists(tuple(permutation), tuple(lists))


class Sets(NamedTuple):
    """Sequences and their probabilities: by Assumption 4.1 sets of different tokens, in any order."""

    sequences: Sequences
    probabilities: Float[Tensor, " batch"]


def uniform_sets(words: int, length: int, repeats: bool = False) -> Sets:
    """Return all sets of `length` of `words` tokens, equally likely; with repeats, all sequences."""
    rows = product(range(words), repeat=length) if repeats else combinations(range(words), length)
    sequences = torch.tensor(list(rows))
    return Sets(sequences, torch.full((len(sequences),), 1 / len(sequences), dtype=torch.float64))


def draw_sequences(words: int, length: int, count: int, generator: torch.Generator) -> Sequences:
    """Draw sequences of different tokens, all sets equally likely."""
    noise = torch.rand(count, words, generator=generator, device=generator.device)
    return noise.topk(length).indices


def triple_mass(task: DecisionLists, sets: Sets) -> float:
    """Return the largest δ of Assumption 4.3.

    The least positive probability that a, b and c occur with b the label-determining token of a, c behind
    b in the list of a or not in it.
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
# With V = cP the columns of W do not interact. Where tokens outside a list are exchangeable, as in sets
# drawn uniformly, the column of a stays in the space of m + 1 different entries: one for each token of its
# list, and one for all others. What a sequence holds of the list decides everything, so the mean over all
# sequences is a sum over 2^(m-1) patterns with hypergeometric weights, for any vocabulary and length.


@dataclass(frozen=True)
class Column:
    """One column of W under uniformly drawn sets; all its arrays are (list tokens, the others).

    Loss and gradient are those of the mean over a sequence's n tokens, of this token alone.
    """

    words: int  # L
    length: int  # n
    rules: int  # m, the length of its list
    readout: float  # c
    rarity: float = 1.0  # κ: by it the probability of sets is multiplied in which the head of the list occurs

    def __post_init__(self) -> None:
        """Refuse sequences and lists that there cannot be."""
        check_count("length", self.length, least=2)
        if self.length > self.words:
            raise ParameterError(
                f"A sequence of {self.length} different tokens needs a vocabulary of as many; "
                f"it has {self.words}."
            )
        if self.rules >= self.words:
            raise ParameterError(
                f"A list of {self.rules} tokens leaves none of the {self.words} outside; take a shorter one."
            )

    @cached_property
    def counts(self) -> Int[np.ndarray, "pattern entry"]:
        """Return how many tokens of each entry a pattern has, of all that occur."""
        present = product((0, 1), repeat=self.rules - 1)
        patterns = [(*heads, 1, self.length - 1 - sum(heads)) for heads in present]
        return np.array([p for p in patterns if 0 <= p[-1] <= self.words - self.rules])

    @cached_property
    def masses(self) -> Float[np.ndarray, " pattern"]:
        """Return the probability of each pattern; together n/L, that of the token itself."""
        total, outside = comb(self.words, self.length), self.words - self.rules
        masses = np.array([comb(outside, int(others)) / total for others in self.counts[:, -1]])
        return masses * self.rarity ** self.counts[:, 0] if self.rules > 1 else masses

    @cached_property
    def deciding(self) -> Int[np.ndarray, " pattern"]:
        """Return the place in the list of the token that determines the label."""
        return self.counts[:, :-1].argmax(1)

    @cached_property
    def rivals(self) -> Int[np.ndarray, "pattern entry"]:
        """Return how many tokens of each entry a pattern has beside the one that determines the label."""
        return self.counts - np.eye(self.rules + 1, dtype=int)[self.deciding]

    @cached_property
    def multiplicities(self) -> Entries:
        """Return how many tokens of the vocabulary share each entry."""
        return np.array([1.0] * self.rules + [float(self.words - self.rules)])

    def attention(self, w: Entries) -> ByPattern:
        """Return what a token of each entry gets of the attention; 0 where a pattern has none."""
        weights = np.where(self.counts > 0, np.exp(w - w.max()), 0.0)
        return weights / (self.counts * weights).sum(1, keepdims=True)

    def cross_entropy(
        self, logits: ByPattern, absent: int
    ) -> tuple[Float[np.ndarray, " pattern"], ByPattern]:
        """Return losses in nats, and outputs less the label for one token of each entry.

        None of them is a small difference of large numbers.

        Args:
            logits: of the labels of each entry's tokens.
            absent: how many other labels there are; their logits are 0.

        """
        present, of_label = self.counts > 0, (np.arange(len(self.counts)), self.deciding)
        top = np.where(present, logits, 0.0).max(1)
        weights = np.where(present, np.exp(np.minimum(logits - top[:, None], 0.0)), 0.0)
        label, rivals = weights[of_label], (self.rivals * weights).sum(1) + absent * np.exp(-top)
        residual = weights / (label + rivals)[:, None]
        residual[of_label] = -rivals / (label + rivals)
        with np.errstate(divide="ignore", over="ignore"):
            near, far = np.log1p(rivals / label), top - logits[of_label] + np.log(label + rivals)
        return np.where(label > rivals, near, far), residual

    def loss(self, w: Entries) -> float:
        """Return what the token adds to the population loss, nats."""
        losses, _ = self.cross_entropy(self.readout * self.attention(w), self.words - self.length)
        return float(self.masses @ losses) / self.length

    def gradient(self, w: Entries) -> Entries:
        """Return ∂L/∂W of one token of each entry; over all tokens of the column they sum to 0."""
        p = self.attention(w)
        _, residual = self.cross_entropy(self.readout * p, self.words - self.length)
        differences = residual[:, :, None] - residual[:, None, :]  # so 1 − p is never taken
        pulled = p * np.einsum("sj,sij->si", self.counts * p, differences)
        mean = self.masses @ (self.counts * pulled) * self.readout / self.length
        return mean / self.multiplicities

    def luce_gradient(self, u: Entries) -> Entries:
        """Return the gradient by u = c w / n in the limit c → ∞: of Luce's model of choice, convex in u.

        Labels that are not in the sequence vanish, and logits differ as u does; the read-out does not occur.
        """
        _, residual = self.cross_entropy(np.broadcast_to(u - u.min(), self.counts.shape), absent=0)
        return self.masses @ (self.counts * residual) / self.length / self.multiplicities

    def accuracy(self, w: Entries) -> float:
        """Return the probability that the token is classified where it occurs; a tie is an error."""
        right = w[self.deciding] > np.where(self.rivals > 0, w, -np.inf).max(1)
        return 1.0 if right.all() else float(self.masses @ right / self.masses.sum())

    def weight_on_determining(self, w: Entries) -> float:
        """Return the mean attention paid to the token that determines the label."""
        chosen = np.take_along_axis(self.attention(w), self.deciding[:, None], 1)[:, 0]
        return float(self.masses @ chosen / self.masses.sum())

    def chance(self, absent: int, present: int) -> float:
        """Return the probability that some tokens are absent and some others present."""
        if present > self.length:
            return 0.0
        return comb(self.words - absent - present, self.length - present) / comb(self.words, self.length)

    @property
    def plateau(self) -> float:
        """Return the accuracy of a token that looks at itself alone: its label is its own so often."""
        m, n = self.rules, self.length
        return comb(self.words - m, n - 1) / comb(self.words - 1, n - 1)

    @property
    def triple_mass(self) -> float:
        """Return δ of Assumption 4.3: the least probability of a decider and another token behind it.

        The decider is at some place of the list, so the tokens before it are absent. The token itself occurs,
        and a third one behind the decider or outside the list, which may be the token itself.
        """
        last = self.rules - 1
        masses = [self.chance(place, tokens) for place in range(last) for tokens in (2, 3)]
        return min(mass for mass in [*masses, self.chance(last, 2)] if mass > 0)

    def first_step(self) -> Entries:
        """Return −∂L/∂W at W = 0 in closed form.

        (c/n²) (Pr[a and k occur, k decides] − Pr[a and k occur]/n).
        """
        m, n, size = self.rules, self.length, self.words
        decides = np.array([self.chance(place, 1 if place == m - 1 else 2) for place in range(m)] + [0.0])
        both = n * (n - 1) / (size * (size - 1))
        occurs = np.array([both] * (m - 1) + [n / size, both])
        return self.readout / n**2 * (decides - occurs / n)

    @property
    def critical_readout(self) -> float:
        """Return c*, the read-out below which the plateau has no way out (ours).

        On it the token attends to itself alone. The force on its score changes sign where the outputs of its
        own label and of another differ by D = q − (1 − q)/(n − 1), q the plateau's accuracy. NaN where
        there is none: D is not between −1/(L − 1) and 1.
        """
        q = self.plateau
        difference = q - (1 - q) / (self.length - 1)
        odds = 1 + difference * (self.words - 1)
        return log(odds / (1 - difference)) if odds > 0 and difference < 1 else nan

    def curvature_at_start(self) -> float:
        """Return the largest eigenvalue of the Hessian at W = 0, on the space of the column's entries."""
        step = 1e-4 * self.length / self.readout
        root = self.multiplicities**0.5
        moves = step * np.eye(self.rules + 1) / root
        hessian = np.array([(self.gradient(e) - self.gradient(-e)) / (2 * step) for e in moves]) * root
        return float(np.linalg.eigvalsh((hessian + hessian.T) / 2).max())


# What Theorems 4.3 and 4.4 ask for and promise: read-outs, rates, numbers of steps.


def readout_of_43(words: int, length: int, mass: float) -> float:
    """Return c = 4n² log L / δ (Theorem 4.3)."""
    return 4 * length**2 * log(words) / mass


def first_loss(words: int, length: int, readout: float) -> float:
    """Return the loss at W = 0 and V = cP, nats: log(n + (L − n) e^(−c/n))."""
    return log(length + (words - length) * exp(-readout / length))


def horizon_of_43(words: int, longest: int) -> float:
    """Return ηT = 32 M / log L, the time within which Theorem 4.3 promises perfect classification.

    T itself is lost in the source's text; the algebra of its proof gives T = 32 λ M / log L.
    """
    return 32 * longest / log(words)


def curvature_bound(occurrence: float, readout: float, length: int) -> float:
    """Return λ that no W exceeds: max_a Pr[a occurs] (c²/8 + c)/n (ours).

    Theorem 4.3 takes the largest eigenvalue "of the Hessian", without saying where; steps of 1/λ need one
    that holds all along the path.
    """
    return occurrence * (readout**2 / 8 + readout) / length


def gradient_bound(words: int, longest: int) -> float:
    """Return log²L / 16M: what the proof of 4.3 gives for ‖∂L‖² as long as a token is misclassified."""
    return log(words) ** 2 / (16 * longest)


def readout_of_44(radius: float, task: DecisionLists, sets: Sets, noise: Matrix) -> float:
    """Return the least c that satisfies (4 max{1, L₀} √(M/ε) + 6ε/n) 10n²/δ + 4ε ≤ c (Theorem 4.4).

    Args:
        radius: ε, within half of which V starts around cP.
        task: its lists, the longest of M tokens.
        sets: of n tokens, the least likely of probability δ.
        noise: V − cP at the start; L₀ is the loss there, at W = 0, which depends on c.

    """
    longest, length, mass = (
        max(map(len, task.lists)),
        sets.sequences.shape[1],
        float(sets.probabilities.min()),
    )
    readout = 1.0
    for _ in range(12):
        loss = population_loss(torch.zeros_like(noise), task.read_out(readout) + noise, task, sets)
        slope = 4 * max(1.0, float(loss)) * sqrt(longest / radius) + 6 * radius / length
        before, readout = readout, slope * 10 * length**2 / mass + 4 * radius
    return max(before, readout)


# The thesis' simplified transformer, equation (4.1): attention without positions, gradients by hand.
#
# Column a of W holds the scores that the query a gives to every token; V turns attended tokens into logits.


class Forward(NamedTuple):
    """What the model computes of sequences, with what their gradients need."""

    attention: ByKey  # σ(XᵀWX)
    logits: Float[Tensor, "batch query words"]
    residual: Float[Tensor, "batch query words"]  # softmax of the logits, less the label
    losses: Float[Tensor, "batch query"]  # cross-entropies, nats


def forward(scores: Matrix, read_out: Matrix, sequences: Sequences, labels: Sequences) -> Forward:
    """Return attention, logits and losses of every token; `scores` is W, `read_out` is V."""
    attention = scores.T[sequences[:, :, None], sequences[:, None, :]].softmax(-1)
    logits = attention @ read_out.T[sequences]
    log_outputs = logits.log_softmax(-1)
    losses = -log_outputs.gather(2, labels[..., None])[..., 0]
    residual = log_outputs.exp()
    residual = residual.scatter_add(2, labels[..., None], -torch.ones_like(losses)[..., None])
    return Forward(attention, logits, residual, losses)


def population_loss(scores: Matrix, read_out: Matrix, task: DecisionLists, sets: Sets) -> Float[Tensor, ""]:
    """Return the loss (4.2), the mean over a sequence's tokens, nats."""
    losses = forward(scores, read_out, sets.sequences, task.labels(sets.sequences)).losses
    return losses.mean(1) @ sets.probabilities


def gradients(
    computed: Forward, read_out: Matrix, sequences: Sequences, weights: Float[Tensor, " batch"]
) -> tuple[Matrix, Matrix]:
    """Return the gradients by W and by V of the loss (4.2), which is the mean over a sequence's tokens.

    ∂/∂w_k = (p_k / n) [h_k − Σ_i p_i h_i] with h = Vᵀ(o − e_y), and ∂/∂V = (1/n) Σ_j (o − e_y) pᵀ.

    Args:
        computed: of these parameters and sequences.
        read_out: V.
        sequences: tokens.
        weights: of the sequences: their probabilities, or 1 over their number.

    """
    share = weights[:, None, None] / sequences.shape[1]
    by_scores = _summed(share * by_query_and_key(computed, read_out, sequences), sequences, len(read_out))
    by_key = computed.attention.transpose(1, 2) @ (share * computed.residual)
    by_read_out = torch.zeros_like(read_out).index_add_(0, sequences.flatten(), by_key.flatten(0, 1))
    return by_scores, by_read_out.T


def by_query_and_key(computed: Forward, read_out: Matrix, sequences: Sequences) -> ByKey:
    """Return the gradient of every token's own loss by the score that it gives to every token."""
    pulled = computed.residual @ read_out.T[sequences].transpose(1, 2)
    return computed.attention * (pulled - (computed.attention * pulled).sum(-1, keepdim=True))


def _summed(by_query: ByKey, sequences: Sequences, words: int) -> Matrix:
    """Return the sum over sequences for every pair of a key and a query."""
    places = sequences[:, :, None] * words + sequences[:, None, :]
    total = by_query.new_zeros(words * words)
    return total.index_add_(0, places.flatten(), by_query.flatten()).view(words, words).T


def fixed_read_out_gradient(
    scores: Matrix, readout: float, task: DecisionLists, sequences: Sequences
) -> Matrix:
    """Return the gradient by W of the mean loss of sequences without repeats, at V = cP.

    Fast: of labels that are not those of a sequence's tokens only the number counts, as their logits are 0.
    """
    words, (batch, length) = len(scores), sequences.shape
    attention = scores.T[sequences[:, :, None], sequences[:, None, :]].softmax(-1)
    logits = readout * attention
    top = logits.amax(-1, keepdim=True)
    weights = (logits - top).exp()
    residual = weights / (weights.sum(-1, keepdim=True) + (words - length) * (-top).exp())
    pulled = readout * (residual - decides(task, sequences).to(residual))
    by_query = attention * (pulled - (attention * pulled).sum(-1, keepdim=True)) / (batch * length)
    return _summed(by_query, sequences, words)


def decides(task: DecisionLists, sequences: Sequences) -> Bool[Tensor, "batch query key"]:
    """Return which token of a sequence determines the label of every token."""
    return sequences[:, None, :] == task.determining(sequences)[:, :, None]


def correct(logits: Float[Tensor, "batch query words"], labels: Sequences) -> Bool[Tensor, "batch query"]:
    """Return which tokens are classified: the label's logit above all others. A tie is an error.

    At W = 0 all tokens of a sequence are tied, and the proofs count that as misclassified.
    """
    of_label = logits.gather(2, labels[..., None])
    others = logits.scatter(2, labels[..., None], -torch.inf)
    return of_label[..., 0] > others.amax(-1)


def uniform_attention_bound(task: DecisionLists, sequences: Sequences) -> Float[Tensor, " batch"]:
    """Return the largest accuracy on each sequence that uniform attention allows, whatever V is.

    All queries have the same output then, so no more than the tokens with the commonest label can be right.
    """
    labels = task.labels(sequences)
    return (labels[:, :, None] == labels[:, None, :]).sum(-1).amax(-1) / sequences.shape[1]


# One step of gradient descent on V from nothing (Figure 4.1): exactly, and on drawn sequences.

INITIAL_SCALE = 1e-4  # standard deviation of the entries of V before the step: 10⁻⁸ is their variance
CHUNK = 2_500_000  # logits that are computed at once


def exact_step(task: DecisionLists, length: int, rate: float) -> Matrix:
    """Return V after a step from W = 0, V = 0 on the population loss of uniform sets.

    V[π(k), i] = η n⁻² (E[1_i N_k] − (n/L)²): N_k counts a sequence's tokens whose label is determined by k.
    """
    words, chance = task.words, Column(task.words, length, 1, 1.0).chance
    expected = torch.full((words, words), 0.0, dtype=torch.float64)  # E[1_i N_k] at [k, i]
    for token, listed in enumerate(task.lists):
        for place, decider in enumerate(listed):
            needed = len({token, decider})
            row = torch.full((words,), chance(place, needed + 1), dtype=torch.float64)
            row[[token, decider]] = chance(place, needed)
            row[list(listed[:place])] = 0.0
            expected[decider] += row
    step = torch.empty_like(expected)
    step[task.image] = rate / length**2 * (expected - (length / words) ** 2)
    return step


def sampled_step(
    task: DecisionLists, length: int, rate: float, count: int, generator: torch.Generator
) -> Matrix:
    """Return V after a step on so many drawn sequences, from W = 0 and V of tiny random entries."""
    words = task.words
    read_out = INITIAL_SCALE * torch.randn(words, words, generator=generator)
    scores, total = torch.zeros(words, words), torch.zeros(words, words)
    most = max(1, CHUNK // (length * words))
    for first in range(0, count, most):
        sequences = draw_sequences(words, length, min(most, count - first), generator)
        computed = forward(scores, read_out, sequences, task.labels(sequences))
        total += gradients(computed, read_out, sequences, torch.full((len(sequences),), 1 / count))[1]
    return read_out - rate * total


def recall(task: DecisionLists, read_out: Matrix) -> float:
    """Return the share of tokens whose column of V is largest at their image under π."""
    return float((read_out.argmax(0).cpu() == task.image).double().mean())


# Gradient flow and gradient descent on a column's exact loss, and the moments at which its order changes.
#
# Time is scaled: s = (c/n)² t in u = c w / n, so that flows at any read-out c are alike, and have a limit.

FIRST = 1e-6  # a flow starts so late, with the step that leads there: at time 0 all scores are tied
LATEST = 1e15  # in scaled time; beyond it, forces are sums of numbers that cancel to all their digits


class Event(NamedTuple):
    """From a scaled time on, scores have an order, and the column an accuracy."""

    time: float
    order: str
    accuracy: float


@dataclass(frozen=True)
class Flow:
    """The flow of one column from W = 0."""

    column: Column
    solution: OdeSolution
    horizon: float

    def at(self, time: float) -> Entries:
        """Return u at a scaled time; before the first there is one straight step."""
        first = self.solution(FIRST)
        return first * time / FIRST if time < FIRST else self.solution(time)

    def scores(self, time: float) -> Entries:
        """Return w at a scaled time."""
        return self.at(time) * self.column.length / self.column.readout

    @cached_property
    def events(self) -> list[Event]:
        """Return the order at first and whenever it changes: where two entries have the same score."""
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
        """Return the scaled time from which every sequence is classified; NaN: not within the horizon."""
        return next((event.time for event in self.events if event.accuracy == 1), np.nan)

    def natural(self, time: float) -> float:
        """Return the flow's own time t of a scaled one."""
        return time * (self.column.length / self.column.readout) ** 2


def order_of(scores: Entries) -> str:
    """Return entries from the highest score to the lowest: places in the list from 1, o for all other tokens.

    >>> order_of(np.array([0.1, 0.0, 0.3, -0.2]))
    '312o'
    """
    names = [*(str(place) for place in range(1, len(scores))), "o"]
    return "".join(names[at] for at in np.argsort(-scores, kind="stable"))


def flow(column: Column, horizon: float, start: Entries | None = None, luce: bool = False) -> Flow:
    """Follow the gradient flow of a column up to a scaled time.

    Args:
        column: at its read-out.
        horizon: the scaled time, `LATEST` or less.
        start: scores u other than 0.
        luce: whether the flow is that in the limit c → ∞.

    Raises:
        NotConverged: where the solver gives up.

    """
    scale = column.length / column.readout
    force = (lambda u: -column.luce_gradient(u)) if luce else (lambda u: -column.gradient(u * scale) * scale)
    begin = np.zeros(column.rules + 1) if start is None else start
    begin = begin + FIRST * force(begin)
    moved = lambda time, u: force(u)  # noqa: E731
    solved = solve_ivp(
        moved, (FIRST, horizon), begin, method="LSODA", dense_output=True, rtol=1e-9, atol=1e-12
    )
    if not solved.success:
        raise NotConverged(f"The flow to {horizon:g} stopped at {solved.t[-1]:g}: {solved.message}")
    return Flow(column, solved.sol, horizon)


def descend(
    column: Column, rate: float, steps: int, to_the_end: bool = False
) -> tuple[int, Float[np.ndarray, " step"], Entries]:
    """Take steps of gradient descent from W = 0 until all is classified, or to the end.

    Returns:
        The first step after which every sequence is classified, 0 where none is; losses; scores at the end.

    """
    scores, losses, perfect = np.zeros(column.rules + 1), [], 0
    for step in range(1, steps + 1):
        losses.append(column.loss(scores))
        scores = scores - rate * column.gradient(scores)
        if not perfect and column.accuracy(scores) == 1:
            perfect = step
            if not to_the_end:
                break
    return perfect, np.array([*losses, column.loss(scores)]), scores
