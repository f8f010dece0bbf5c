"""The task: a list of tokens for every token, a permutation, and sequences (Section 4.2 of the thesis)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sameloss.checks import check_count
from sameloss.errors import ParameterError

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
