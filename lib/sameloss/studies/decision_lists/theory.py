"""Decision lists, one attention layer on all of their sequences, and the flows of Theorems 4.1 to 4.4."""

from collections.abc import Callable, Iterator, Sequence
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

from sameloss.checks import check_count, check_positive
from sameloss.errors import NotConverged, ParameterError

# The task: a list of tokens for every token, a permutation, and sequences (Section 4.2 of the thesis).

MOST_SETS = 200_000
"""No more sets of tokens are enumerated."""

PRINTED_SHARE = 20
"""The lists of Figure 4.1 step through the vocabulary by this part of it: 10 of 200 tokens."""


@dataclass(frozen=True)
class DecisionLists:
    """A list L_a for every token a, and the permutation π that turns tokens into labels.

    The label of a in a sequence is π of the first token of L_a that stands in the sequence: the
    label-determining token. L_a ends with a itself. Tokens count from 0.
    """

    permutation: tuple[int, ...]
    lists: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        """Refuse what is no permutation, and lists that leave a token without a label.

        Raises:
            ParameterError: naming the first token whose list or image is wrong.

        """
        words = len(self.permutation)
        if set(self.permutation) != set(range(words)):
            raise ParameterError(_no_permutation(self.permutation))
        if len(self.lists) != words:
            raise ParameterError(f"Each of the {words} tokens needs a list; got {len(self.lists)} lists.")
        for token, own in enumerate(self.lists):
            if not own or own[-1] != token or len(set(own)) < len(own) or not set(own) <= set(range(words)):
                raise ParameterError(
                    f"The list of token {token} must hold different tokens from 0 to {words - 1} and end "
                    f"with {token}; got {list(own)}."
                )

    @property
    def words(self) -> int:
        """Return L, the size of the vocabulary."""
        return len(self.permutation)

    @property
    def longest(self) -> int:
        """Return M, the length of the longest list."""
        return max(map(len, self.lists))

    @cached_property
    def image(self) -> Int[Tensor, " words"]:
        """Return π as a tensor."""
        return torch.tensor(self.permutation)

    @cached_property
    def ranks(self) -> Int[Tensor, "words words"]:
        """Return the place of token b in the list of a at [a, b], counted from 0; L where it is not there."""
        ranks = torch.full((self.words, self.words), self.words)
        for token, own in enumerate(self.lists):
            ranks[token, list(own)] = torch.arange(len(own))
        return ranks

    def determining(self, sequences: Int[Tensor, "batch seq"]) -> Int[Tensor, "batch seq"]:
        """Return the label-determining token of every token."""
        first = self.ranks.to(sequences.device)[sequences[:, :, None], sequences[:, None, :]].argmin(-1)
        return sequences.gather(1, first)

    def labels(self, sequences: Int[Tensor, "batch seq"]) -> Int[Tensor, "batch seq"]:
        """Return the label of every token."""
        return self.image.to(sequences.device)[self.determining(sequences)]

    def read_out(self, strength: float) -> Float[Tensor, "words words"]:
        """Return cP, the read-out that turns attention into labels, in double precision."""
        matrix = torch.zeros(self.words, self.words, dtype=torch.float64)
        matrix[self.image, torch.arange(self.words)] = strength
        return matrix


def _no_permutation(image: Sequence[int]) -> str:
    """Say what keeps a map from being a permutation."""
    words = len(image)
    outside = [(token, label) for token, label in enumerate(image) if not 0 <= label < words]
    missing = sorted(set(range(words)) - set(image))
    where = f"π({outside[0][0]}) = {outside[0][1]}; " if outside else ""
    return (
        f"π must map the tokens 0 to {words - 1} onto themselves; {where}nothing is mapped to "
        f"{', '.join(map(str, missing[:5]))}."
    )


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
    check_count("words", words, least=2)
    check_count("length", length)
    step = max(1, words // PRINTED_SHARE)
    if (length - 1) * step >= words:
        raise ParameterError(f"Lists of {length} different tokens need more than {words} tokens.")
    first = 0 if modulus in (None, words) else 1
    moved = lambda token, by: (token + first + by) % (modulus or words) - first  # noqa: E731
    lists = tuple(
        (*(moved(token, place * step) for place in range(1, length)), token) for token in range(words)
    )
    return DecisionLists(tuple(moved(token, 2 * step) for token in range(words)), lists)


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


@dataclass(frozen=True, eq=False)
class Sets:
    """A distribution over sets of n different tokens, each written as a sequence (Assumption 4.1)."""

    sequences: Int[Tensor, "sets seq"]
    probabilities: Float[Tensor, " sets"]

    def __post_init__(self) -> None:
        """Refuse repeated tokens, and probabilities that are none."""
        ordered = self.sequences.sort(1).values
        if (ordered[:, 1:] == ordered[:, :-1]).any():
            raise ParameterError("A sequence has no token twice (Assumption 4.1).")
        total = float(self.probabilities.sum())
        if (self.probabilities < 0).any() or not abs(total - 1) < 1e-9:
            raise ParameterError(f"Probabilities are not negative and sum to 1; these sum to {total:.6g}.")

    @property
    def possible(self) -> "Sets":
        """Return the sets that occur."""
        kept = self.probabilities > 0
        return Sets(self.sequences[kept], self.probabilities[kept])


def uniform_sets(words: int, length: int) -> Sets:
    """Return all sets of `length` of `words` tokens, equally likely.

    Raises:
        ParameterError: where there are no such sets, or more than `MOST_SETS`.

    """
    check_sequences(words, length)
    if (count := comb(words, length)) > MOST_SETS:
        raise ParameterError(
            f"There are {count:.3g} sets of {length} of {words} tokens, and at most {MOST_SETS:,} are "
            "enumerated; take the exact reduction to a column's own entries, or draw sequences."
        )
    rows = torch.tensor(list(combinations(range(words), length)))
    return Sets(rows, torch.full((count,), 1 / count, dtype=torch.float64))


def check_sequences(words: int, length: int) -> None:
    """Refuse sequences of different tokens that are longer than the vocabulary, or of one token."""
    check_count("length", length, least=2)
    if length > words:
        raise ParameterError(
            f"A sequence of {length} different tokens needs a vocabulary of as many; it has {words}."
        )


def draw_sequences(
    words: int, length: int, count: int, generator: torch.Generator
) -> Int[Tensor, "count seq"]:
    """Draw sequences of different tokens, all sets equally likely."""
    check_sequences(words, length)
    noise = torch.rand(count, words, generator=generator, device=generator.device)
    return noise.topk(length).indices


def listed(task: DecisionLists, sequences: Int[Tensor, "batch seq"]) -> Bool[Tensor, "batch seq"]:
    """Return which tokens have a label that another token determines."""
    return task.determining(sequences) != sequences


def triple_mass(task: DecisionLists, sets: Sets) -> float:
    """Return the largest δ of Assumption 4.3.

    The least positive probability that a, b and c occur with b the label-determining token of a, c behind
    b in the list of a or not in it.
    """
    deciding = task.determining(sets.sequences)
    masses: dict[tuple[int, ...], float] = {}
    for row, decided, mass in zip(
        sets.sequences.tolist(), deciding.tolist(), sets.probabilities.tolist(), strict=True
    ):
        for token, decider in zip(row, decided, strict=True):
            for other in row:
                if task.ranks[token, other] > task.ranks[token, decider]:
                    masses[token, decider, other] = masses.get((token, decider, other), 0.0) + mass
    return min(mass for mass in masses.values() if mass > 0)


# The exact population loss of one column of W, by a reduction to m + 1 numbers.
#
# With V = cP the columns of W do not interact. Where tokens outside a list are exchangeable, as in sets
# drawn uniformly, the column of a stays in the space of m + 1 different entries: one for each token of its
# list, and one for all others. What a sequence holds of the list decides everything, so the mean over all
# sequences is a sum over 2^(m-1) patterns with hypergeometric weights, for any vocabulary and length.

LONGEST_LIST = 12
"""Of 2^(m-1) patterns; so many are computed at once."""


class _Weighed(NamedTuple):
    """Exponentials of logits, less the largest in each pattern."""

    top: Float[np.ndarray, " pattern"]  # the largest
    weights: Float[np.ndarray, "pattern entry"]
    own: Float[np.ndarray, " pattern"]  # of the label
    rivals: Float[np.ndarray, " pattern"]  # of all others


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
        check_sequences(self.words, self.length)
        check_count("rules", self.rules)
        if self.rules >= self.words:
            raise ParameterError(
                f"A list of {self.rules} tokens leaves none of the {self.words} outside; take a shorter one."
            )
        if self.rules > LONGEST_LIST:
            raise ParameterError(f"Lists have at most {LONGEST_LIST} tokens; got {self.rules}.")
        check_positive(self, "readout", "rarity")

    @cached_property
    def _patterns(self) -> tuple[Int[np.ndarray, "pattern entry"], Float[np.ndarray, " pattern"]]:
        """Return how many tokens of each entry a pattern has, and its probability; those that occur."""
        counts, masses, total = [], [], comb(self.words, self.length)
        for present in product((0, 1), repeat=self.rules - 1):
            others = self.length - 1 - sum(present)
            mass = comb(self.words - self.rules, others) / total if others >= 0 else 0.0
            mass *= self.rarity if sum(present[:1]) else 1.0
            if mass > 0:
                counts.append((*present, 1, others))
                masses.append(mass)
        return np.array(counts), np.array(masses)

    @property
    def counts(self) -> Int[np.ndarray, "pattern entry"]:
        """Return how many tokens of each entry a pattern has."""
        return self._patterns[0]

    @property
    def masses(self) -> Float[np.ndarray, " pattern"]:
        """Return the probability of each pattern; together n/L, that of the token itself."""
        return self._patterns[1]

    @cached_property
    def deciding(self) -> Int[np.ndarray, " pattern"]:
        """Return the place in the list of the token that determines the label."""
        return self.counts[:, :-1].argmax(1)

    @cached_property
    def _present(self) -> Bool[np.ndarray, "pattern entry"]:
        return self.counts > 0

    def attention(self, w: Float[np.ndarray, " entry"]) -> Float[np.ndarray, "pattern entry"]:
        """Return what a token of each entry gets of the attention; 0 where a pattern has none."""
        weights = np.where(self._present, np.exp(w - w.max()), 0.0)
        return weights / (self.counts * weights).sum(1, keepdims=True)

    @cached_property
    def rivals(self) -> Int[np.ndarray, "pattern entry"]:
        """Return how many tokens of each entry a pattern has beside the one that determines the label."""
        return self.counts - np.eye(self.rules + 1, dtype=int)[self.deciding]

    @cached_property
    def _label(self) -> tuple[Int[np.ndarray, " pattern"], Int[np.ndarray, " pattern"]]:
        return np.arange(len(self.counts)), self.deciding

    def _weighed(self, logits: Float[np.ndarray, "pattern entry"], absent: int) -> _Weighed:
        """Weigh labels by the exponentials of their logits: see `residual`."""
        top = np.where(self._present, logits, 0.0).max(1)
        weights = np.where(self._present, np.exp(np.minimum(logits - top[:, None], 0.0)), 0.0)
        rivals = (self.rivals * weights).sum(1) + absent * np.exp(-top)
        return _Weighed(top, weights, weights[self._label], rivals)

    def losses(
        self, logits: Float[np.ndarray, "pattern entry"], absent: int
    ) -> Float[np.ndarray, " pattern"]:
        """Return the cross-entropies, nats; a small one is no difference of large numbers.

        Args:
            logits: of the labels of each entry's tokens.
            absent: how many other labels there are; their logits are 0.

        """
        top, _, own, rivals = self._weighed(logits, absent)
        with np.errstate(divide="ignore", over="ignore"):
            near, far = np.log1p(rivals / own), top - logits[self._label] + np.log(own + rivals)
        return np.where(own > rivals, near, far)

    def residual(
        self, logits: Float[np.ndarray, "pattern entry"], absent: int
    ) -> Float[np.ndarray, "pattern entry"]:
        """Return the outputs less the label, for one token of each entry; 1 − o_y is no difference.

        Args:
            logits: of the labels of each entry's tokens.
            absent: how many other labels there are; their logits are 0.

        """
        _, weights, own, rivals = self._weighed(logits, absent)
        found = weights / (own + rivals)[:, None]
        found[self._label] = -rivals / (own + rivals)
        return found

    def loss(self, w: Float[np.ndarray, " entry"]) -> float:
        """Return what the token adds to the population loss, nats."""
        losses = self.losses(self.readout * self.attention(w), self.words - self.length)
        return float(self.masses @ losses) / self.length

    def gradient(self, w: Float[np.ndarray, " entry"]) -> Float[np.ndarray, " entry"]:
        """Return ∂L/∂W of one token of each entry; over all tokens of the column they sum to 0."""
        p = self.attention(w)
        residual = self.residual(self.readout * p, self.words - self.length)
        differences = residual[:, :, None] - residual[:, None, :]  # so 1 − p is never taken
        pulled = p * np.einsum("sj,sij->si", self.counts * p, differences)
        mean = self.masses @ (self.counts * pulled) * self.readout / self.length
        return mean / self.multiplicities

    @cached_property
    def multiplicities(self) -> Float[np.ndarray, " entry"]:
        """Return how many tokens of the vocabulary share each entry."""
        return np.array([1.0] * self.rules + [float(self.words - self.rules)])

    def right(self, w: Float[np.ndarray, " entry"]) -> Bool[np.ndarray, " pattern"]:
        """Return the patterns in which the token is classified; a tie is an error."""
        return w[self.deciding] > np.where(self.rivals > 0, w, -np.inf).max(1)

    def accuracy(self, w: Float[np.ndarray, " entry"]) -> float:
        """Return the probability that the token is classified where it occurs."""
        right = self.right(w)
        return 1.0 if right.all() else float(self.masses @ right / self.masses.sum())

    def weight_on_determining(self, w: Float[np.ndarray, " entry"]) -> float:
        """Return the mean attention paid to the token that determines the label."""
        chosen = np.take_along_axis(self.attention(w), self.deciding[:, None], 1)[:, 0]
        return float(self.masses @ chosen / self.masses.sum())

    @property
    def plateau(self) -> float:
        """Return the accuracy of a token that looks at itself alone: its label is its own so often."""
        m, n = self.rules, self.length
        return comb(self.words - m, n - 1) / comb(self.words - 1, n - 1)

    @property
    def triple_mass(self) -> float:
        """Return δ of Assumption 4.3: the least probability of a decider and another token behind it.

        The decider is at place b of the list, so the tokens before it are absent, and the token itself and a
        third one occur: one behind b, or outside the list.
        """
        found = []
        for place in range(self.rules):
            own = place == self.rules - 1  # the decider is the token itself
            given = 2 if own else 3
            rivals = [given] if own or self.length >= 3 else []
            rivals += [] if own else [2]  # the third is the token itself, which stands behind its decider
            found += [self._mass(place, tokens) for tokens in rivals]
        return min(mass for mass in found if mass > 0)

    def _mass(self, absent: int, present: int) -> float:
        """Return the probability that some tokens are absent and some others present."""
        if present > self.length:
            return 0.0
        return comb(self.words - absent - present, self.length - present) / comb(self.words, self.length)

    @property
    def set_mass(self) -> float:
        """Return δ of Assumption 4.4, the probability of a set."""
        return 1 / comb(self.words, self.length)

    def first_step(self) -> Float[np.ndarray, " entry"]:
        """Return −∂L/∂W at W = 0 in closed form.

        (c/n²) (Pr[a and k occur, k decides] − Pr[a and k occur]/n).
        """
        m, n, size = self.rules, self.length, self.words
        decides = np.array([self._mass(place, 1 if place == m - 1 else 2) for place in range(m)] + [0.0])
        together = n * (n - 1) / (size * (size - 1))
        occurs = np.array([together] * (m - 1) + [n / size, together])
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


def luce_loss(column: Column, u: Float[np.ndarray, " entry"]) -> float:
    """Return the loss in the limit c → ∞ with u = c w / n fixed: Luce's model of choice, convex in u.

    Labels that are not in the sequence vanish, and logits differ as u does; the read-out does not occur.
    """
    losses = column.losses(_in_all_patterns(column, u), 0)
    return float(column.masses @ losses) / column.length


def luce_gradient(column: Column, u: Float[np.ndarray, " entry"]) -> Float[np.ndarray, " entry"]:
    """Return its gradient by u, of one token of each entry."""
    residual = column.residual(_in_all_patterns(column, u), 0)
    return column.masses @ (column.counts * residual) / column.length / column.multiplicities


def _in_all_patterns(column: Column, u: Float[np.ndarray, " entry"]) -> Float[np.ndarray, "pattern entry"]:
    """Return u above its least, once for every pattern."""
    return np.broadcast_to(u - u.min(), column.counts.shape)


# What Theorems 4.3 and 4.4 ask for and promise: read-outs, rates, numbers of steps.

ROUNDS = 10
"""Of a condition on c in which the loss at the start stands, which depends on c."""


def readout_of_43(words: int, length: int, mass: float) -> float:
    """Return c = 4n² log L / δ (Theorem 4.3).

    Raises:
        ParameterError: for δ = 0, with which no read-out is large enough.

    """
    _check_mass(mass)
    return 4 * length**2 * log(words) / mass


def _check_mass(mass: float) -> None:
    if not 0 < mass <= 1:
        raise ParameterError(f"δ is the probability of something that occurs, in (0, 1]; got {mass}.")


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


def readout_of_44(
    radius: float, longest: int, length: int, mass: float, loss: Callable[[float], float]
) -> float:
    """Return the least c that satisfies (4 max{1, L₀} √(M/ε) + 6ε/n) 10n²/δ + 4ε ≤ c (Theorem 4.4).

    Args:
        radius: ε, within twice of which V starts around cP.
        longest: M.
        length: n.
        mass: δ.
        loss: L₀ as a function of c.

    Raises:
        ParameterError: for ε that is not in (0, 16M], and for δ that is no probability of anything.

    """
    _check_mass(mass)
    if not 0 < radius <= 16 * longest:
        raise ParameterError(f"ε must lie in (0, 16M] = (0, {16 * longest}]; got {radius}.")

    def asked(readout: float) -> float:
        slope = 4 * max(1.0, loss(readout)) * sqrt(longest / radius) + 6 * radius / length
        return slope * 10 * length**2 / mass + 4 * radius

    readout = asked(1.0)
    for _ in range(ROUNDS):
        readout = asked(readout)
    return max(readout, asked(readout))


# The thesis' simplified transformer, equation (4.1): attention without positions, gradients by hand.
#
# Column a of W holds the scores that the query a gives to every token; V turns attended tokens into logits.


class Forward(NamedTuple):
    """What the model computes of sequences, with what their gradients need."""

    attention: Float[Tensor, "batch query key"]  # σ(XᵀWX)
    logits: Float[Tensor, "batch query words"]
    residual: Float[Tensor, "batch query words"]  # softmax of the logits, less the label
    losses: Float[Tensor, "batch query"]  # cross-entropies, nats


class Gradients(NamedTuple):
    """Gradients of the mean loss by the two matrices."""

    scores: Float[Tensor, "words words"]
    read_out: Float[Tensor, "words words"]


def forward(
    scores: Float[Tensor, "words words"],
    read_out: Float[Tensor, "words words"],
    sequences: Int[Tensor, "batch seq"],
    labels: Int[Tensor, "batch seq"],
) -> Forward:
    """Return attention, logits and losses of every token; `scores` is W, `read_out` is V."""
    attention = scores.T[sequences[:, :, None], sequences[:, None, :]].softmax(-1)
    logits = attention @ read_out.T[sequences]
    log_outputs = logits.log_softmax(-1)
    losses = -log_outputs.gather(2, labels[..., None])[..., 0]
    residual = log_outputs.exp()
    residual = residual.scatter_add(2, labels[..., None], -torch.ones_like(losses)[..., None])
    return Forward(attention, logits, residual, losses)


def gradients(
    found: Forward,
    read_out: Float[Tensor, "words words"],
    sequences: Int[Tensor, "batch seq"],
    weights: Float[Tensor, " batch"],
) -> Gradients:
    """Return the gradients of the loss (4.2), which is the mean over a sequence's tokens.

    ∂/∂w_k = (p_k / n) [h_k − Σ_i p_i h_i] with h = Vᵀ(o − e_y), and ∂/∂V = (1/n) Σ_j (o − e_y) pᵀ.

    Args:
        found: of these parameters and sequences.
        read_out: V.
        sequences: tokens.
        weights: of the sequences: their probabilities, or 1 over their number.

    """
    words = len(read_out)
    share = weights[:, None, None] / sequences.shape[1]
    by_scores = _summed(share * by_query_and_key(found, read_out, sequences), sequences, words)
    by_key = found.attention.transpose(1, 2) @ (share * found.residual)
    by_read_out = torch.zeros_like(read_out).index_add_(0, sequences.flatten(), by_key.flatten(0, 1))
    return Gradients(by_scores, by_read_out.T)


def by_query_and_key(
    found: Forward, read_out: Float[Tensor, "words words"], sequences: Int[Tensor, "batch seq"]
) -> Float[Tensor, "batch query key"]:
    """Return the gradient of every token's own loss by the score that it gives to every token."""
    pulled = found.residual @ read_out.T[sequences].transpose(1, 2)
    return found.attention * (pulled - (found.attention * pulled).sum(-1, keepdim=True))


def _summed(
    by_query: Float[Tensor, "batch query key"], sequences: Int[Tensor, "batch seq"], words: int
) -> Float[Tensor, "words words"]:
    """Return the sum over sequences for every pair of a key and a query."""
    places = sequences[:, :, None] * words + sequences[:, None, :]
    total = by_query.new_zeros(words * words)
    return total.index_add_(0, places.flatten(), by_query.flatten()).view(words, words).T


def fixed_read_out_gradient(
    scores: Float[Tensor, "words words"],
    readout: float,
    task: DecisionLists,
    sequences: Int[Tensor, "batch seq"],
) -> Float[Tensor, "words words"]:
    """Return the gradient by W of the mean loss of sequences without repeats, at V = cP.

    Fast: of labels that are not those of a sequence's tokens only the number counts, as their logits are 0.
    """
    words, (batch, length) = len(scores), sequences.shape
    attention = scores.T[sequences[:, :, None], sequences[:, None, :]].softmax(-1)
    logits = readout * attention
    top = logits.amax(-1, keepdim=True)
    weights = (logits - top).exp()
    residual = weights / (weights.sum(-1, keepdim=True) + (words - length) * (-top).exp())
    decides = (sequences[:, None, :] == task.determining(sequences)[:, :, None]).to(residual)
    pulled = readout * (residual - decides)
    found = attention * (pulled - (attention * pulled).sum(-1, keepdim=True)) / (batch * length)
    return _summed(found, sequences, words)


def correct(
    logits: Float[Tensor, "batch query words"], labels: Int[Tensor, "batch query"]
) -> Bool[Tensor, "batch query"]:
    """Return which tokens are classified: the label's logit above all others. A tie is an error.

    At W = 0 all tokens of a sequence are tied, and the proofs count that as misclassified.
    """
    of_label = logits.gather(2, labels[..., None])
    others = logits.scatter(2, labels[..., None], -torch.inf)
    return of_label[..., 0] > others.amax(-1)


def weight_on_determining(
    task: DecisionLists,
    attention: Float[Tensor, "batch query key"],
    sequences: Int[Tensor, "batch seq"],
) -> Float[Tensor, "batch query"]:
    """Return how much attention every token pays to the token that determines its label."""
    decides = sequences[:, None, :] == task.determining(sequences)[:, :, None]
    return (attention * decides).sum(-1)


def uniform_attention_bound(
    task: DecisionLists, sequences: Int[Tensor, "batch seq"]
) -> Float[Tensor, " batch"]:
    """Return the largest accuracy on each sequence that uniform attention allows, whatever V is.

    All queries have the same output then, so no more than the tokens with the commonest label can be right.
    """
    labels = task.labels(sequences)
    counts = (labels[:, :, None] == labels[:, None, :]).sum(-1)
    return counts.amax(-1) / sequences.shape[1]


# One step of gradient descent on V from nothing (Figure 4.1): exactly, and on drawn sequences.

INITIAL_SCALE = 1e-4
"""Standard deviation of the entries of V before the step: 10⁻⁸ is their variance."""

CHUNK = 2_500_000
"""Logits that are computed at once."""


def exact_step(task: DecisionLists, length: int, rate: float) -> Float[Tensor, "words words"]:
    """Return V after a step from W = 0, V = 0 on the population loss of uniform sets.

    V[π(k), i] = η n⁻² (E[1_i N_k] − (n/L)²): N_k counts a sequence's tokens whose label is determined by k.
    """
    words = task.words
    mass = lambda absent, present: (  # noqa: E731
        comb(words - absent - present, length - present) / comb(words, length) if present <= length else 0.0
    )
    together = torch.full((words, words), 0.0, dtype=torch.float64)  # E[1_i N_k] at [k, i]
    for token, own in enumerate(task.lists):
        for place, decider in enumerate(own):
            needed = len({token, decider})
            row = torch.full((words,), mass(place, needed + 1), dtype=torch.float64)
            row[[token, decider]] = mass(place, needed)
            row[list(own[:place])] = 0.0
            together[decider] += row
    step = torch.empty_like(together)
    step[task.image] = rate / length**2 * (together - (length / words) ** 2)
    return step


def sampled_step(
    task: DecisionLists, length: int, rate: float, count: int, generator: torch.Generator
) -> Float[Tensor, "words words"]:
    """Return V after a step on so many drawn sequences, from W = 0 and V of tiny random entries."""
    words = task.words
    read_out = INITIAL_SCALE * torch.randn(words, words, generator=generator)
    scores, total = torch.zeros(words, words), torch.zeros(words, words)
    together = max(1, CHUNK // (length * words))
    for first in range(0, count, together):
        sequences = draw_sequences(words, length, min(together, count - first), generator)
        weights = torch.full((len(sequences),), 1 / count)
        found = forward(scores, read_out, sequences, task.labels(sequences))
        total += gradients(found, read_out, sequences, weights).read_out
    return read_out - rate * total


def recall(task: DecisionLists, read_out: Float[Tensor, "words words"]) -> float:
    """Return the share of tokens whose column of V is largest at their image under π."""
    return float((read_out.argmax(0).cpu() == task.image).double().mean())


# Gradient flow and gradient descent on a column's exact loss, and the moments at which its order changes.
#
# Time is scaled: s = (c/n)² t in u = c w / n, so that flows at any read-out c are alike, and have a limit.

FIRST = 1e-6
"""A flow starts so late, with the step that leads there: at time 0 all scores are tied."""

LATEST = 1e15
"""In scaled time; beyond it, forces are sums of numbers that cancel to all their digits."""

ACCURACY = {"rtol": 1e-9, "atol": 1e-12}


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

    def at(self, time: float) -> Float[np.ndarray, " entry"]:
        """Return u at a scaled time; before the first there is one straight step."""
        first = self.solution(FIRST)
        return first * time / FIRST if time < FIRST else self.solution(time)

    def scores(self, time: float) -> Float[np.ndarray, " entry"]:
        """Return w at a scaled time."""
        return self.at(time) * self.column.length / self.column.readout

    @cached_property
    def events(self) -> list[Event]:
        """Return the order at first and whenever it changes."""
        times = [FIRST, *sorted(self._crossings())]
        middles = [(a * b) ** 0.5 for a, b in pairwise([*times, self.horizon])]
        found = [
            Event(t, order_of(self.at(at)), self._accuracy(at)) for t, at in zip(times, middles, strict=True)
        ]
        return found[:1] + [b for a, b in pairwise(found) if a.order != b.order]

    def _accuracy(self, time: float) -> float:
        return self.column.accuracy(self.at(time))

    def _crossings(self) -> Iterator[float]:
        """Yield the times at which two entries have the same score."""
        knots = self.solution.ts
        values = np.array([self.solution(knot) for knot in knots])
        for i in range(values.shape[1]):
            for j in range(i):
                gaps = values[:, i] - values[:, j]
                for at in np.flatnonzero(gaps[1:] * gaps[:-1] < 0):
                    yield float(brentq(self._gap, knots[at], knots[at + 1], args=(i, j), rtol=1e-12))

    def _gap(self, time: float, i: int, j: int) -> float:
        found = self.solution(time)
        return float(found[i] - found[j])

    @property
    def perfect(self) -> float:
        """Return the scaled time from which every sequence is classified; NaN: not within the horizon."""
        return next((event.time for event in self.events if event.accuracy == 1), np.nan)

    def natural(self, time: float) -> float:
        """Return the flow's own time t of a scaled one."""
        return time * (self.column.length / self.column.readout) ** 2


def order_of(scores: Float[np.ndarray, " entry"]) -> str:
    """Return entries from the highest score to the lowest: places in the list from 1, o for all other tokens.

    >>> order_of(np.array([0.1, 0.0, 0.3, -0.2]))
    '312o'
    """
    names = [*(str(place) for place in range(1, len(scores))), "o"]
    return "".join(names[at] for at in np.argsort(-scores, kind="stable"))


def flow(column: Column, horizon: float, start: Float[np.ndarray, " entry"] | None = None) -> Flow:
    """Follow the gradient flow of a column up to a scaled time, from W = 0 or from other scores u.

    Raises:
        ParameterError: for a horizon beyond `LATEST`, or none, and for scores that are no numbers.
        NotConverged: where the solver gives up.

    """
    scale = column.length / column.readout
    return _solved(column, horizon, lambda u: -column.gradient(u * scale) * scale, start)


def luce_flow(column: Column, horizon: float) -> Flow:
    """Follow the flow in the limit c → ∞."""
    return _solved(column, horizon, lambda u: -luce_gradient(column, u), None)


def _solved(
    column: Column,
    horizon: float,
    force: Callable[[Float[np.ndarray, " entry"]], Float[np.ndarray, " entry"]],
    start: Float[np.ndarray, " entry"] | None,
) -> Flow:
    if not FIRST < horizon <= LATEST:
        raise ParameterError(
            f"A flow is followed up to a scaled time from {FIRST:g} to {LATEST:g}; got {horizon:g}."
        )
    begin = np.zeros(column.rules + 1) if start is None else start
    if not np.isfinite(begin).all():
        raise ParameterError(f"A flow starts from finite scores; got {begin.tolist()}.")
    begin = begin + FIRST * force(begin)
    moved = lambda time, u: force(u)  # noqa: E731
    found = solve_ivp(moved, (FIRST, horizon), begin, method="LSODA", dense_output=True, **ACCURACY)
    if not found.success:
        raise NotConverged(f"The flow to {horizon:g} stopped at {found.t[-1]:g}: {found.message}")
    return Flow(column, found.sol, horizon)


class Descent(NamedTuple):
    """Gradient descent on a column's exact loss."""

    perfect: int  # the first step after which every sequence is classified; 0: none
    losses: Float[np.ndarray, " step"]
    scores: Float[np.ndarray, " entry"]  # at the end


def descend(column: Column, rate: float, steps: int, to_the_end: bool = False) -> Descent:
    """Take steps from W = 0 until all is classified, or to the end.

    Raises:
        ParameterError: for a rate that moves nothing.

    """
    if not 0 < rate < np.inf:
        raise ParameterError(f"The learning rate must be positive and finite; got {rate}.")
    scores, losses, perfect = np.zeros(column.rules + 1), [], 0
    for step in range(1, steps + 1):
        losses.append(column.loss(scores))
        scores = scores - rate * column.gradient(scores)
        if not perfect and column.accuracy(scores) == 1:
            perfect = step
            if not to_the_end:
                break
    return Descent(perfect, np.array([*losses, column.loss(scores)]), scores)
