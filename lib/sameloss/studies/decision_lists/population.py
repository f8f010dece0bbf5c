"""The exact population loss of one column of W, by a reduction to m + 1 numbers.

With V = cP the columns of W do not interact. Where tokens outside a list are exchangeable, as in sets
drawn uniformly, the column of a stays in the space of m + 1 different entries: one for each token of its
list, and one for all others. What a sequence holds of the list decides everything, so the mean over all
sequences is a sum over 2^(m-1) patterns with hypergeometric weights, for any vocabulary and length.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb, log, nan
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from sameloss.checks import check_count, check_positive
from sameloss.errors import ParameterError
from sameloss.studies.decision_lists.task import check_sequences

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
