"""Hidden Markov models with exact conditionals (Section 2.2, App. A.1-A.2).

A hidden state starts from `initial` and moves by `transition`; every state emits one word. Sums over
hidden paths come from the forward-backward algorithm (Rabiner 1989). The paper says "Viterbi", which
finds the single best path; a probability needs the sum over all of them.

Forward and backward messages are scaled at every step, so long sentences do not underflow. Evidence
whose past and future agree on no state by more than a share of 1e-292 counts as impossible.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.linalg import block_diag
from torch import Tensor

from sameloss.checks import check_count, check_counts, check_positive, check_shares
from sameloss.errors import LanguageError
from sameloss.languages.draws import AliasTables, dirichlet, tables_of_rows
from sameloss.languages.language import Sentences, check_possible, check_tokens

CHUNK = 1024
"""Sentences a pass handles at once: bounds its memory, and its messages stay in the cache."""

ROWS_AT_ONCE = 16384
"""Sentences drawn at once."""

TINY = torch.finfo(torch.float64).tiny
"""Least divisor of a message: a message of zeros stays zero."""

LEAST = TINY / torch.finfo(torch.float64).eps
"""Least share of the evidence: above it no digit is lost to underflow."""


@dataclass(frozen=True)
class HMMSpec:
    """The dimensions from which a random block-diagonal model is drawn; part of a run's key.

    States and words fall into `blocks` aligned blocks of equal size: a state moves within its block
    and emits words of its block (App. A.1). A row is a Dirichlet draw of the given concentration.
    `smoothing` is the weight of the uniform distribution over all words mixed into every emission,
    so that no conditional is zero.
    """

    states: int
    words: int
    length: int
    blocks: int
    transition_concentration: float
    emission_concentration: float
    smoothing: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse dimensions that no model can have."""
        check_counts(self, "states", "words", "length", "blocks")
        check_positive(self, "transition_concentration", "emission_concentration")
        check_shares(self, "smoothing")
        if self.states % self.blocks or self.words % self.blocks:
            raise LanguageError(
                f"blocks = {self.blocks} must divide states = {self.states} and words = {self.words}."
            )

    @property
    def max_length(self) -> int:
        """The number of tokens of every sentence."""
        return self.length

    def build(self) -> "HMM":
        """Draw the model; its probabilities are continuous in the concentrations.

        >>> HMMSpec(4, 6, 5, 2, 1.0, 1.0).build().transition[0, 2:]
        tensor([0., 0.], dtype=torch.float64)
        """
        rng = np.random.default_rng(self.seed)
        transition = self._blocks(rng, self.states, self.transition_concentration)
        emission = self._blocks(rng, self.words, self.emission_concentration)
        emission = (1 - self.smoothing) * emission + self.smoothing / self.words
        initial = np.full(self.states, 1 / self.states)
        return HMM(
            torch.as_tensor(initial), torch.as_tensor(transition), torch.as_tensor(emission), self.length
        )

    def _blocks(self, rng: np.random.Generator, columns: int, concentration: float) -> np.ndarray:
        rows = dirichlet(rng, (self.states, columns // self.blocks), concentration)
        return block_diag(*np.split(rows, self.blocks))


class _Tables(NamedTuple):
    """A model's probabilities on one device; row 0 of `leaf` is [MASK], then one row for each word."""

    initial: Tensor
    transition: Tensor
    emission: Tensor
    leaf: Tensor


class HMM:
    """A hidden Markov model given by its probabilities; every sentence has `length` tokens.

    Tasks `state1`, `state2`, ... ask for the hidden state at that position, counted from 1; the paper
    uses `state6` and `state10` (App. A.1). Results are float64, on the device of the tokens.
    """

    def __init__(
        self,
        initial: Float[Tensor, " _state"],
        transition: Float[Tensor, "_state _next"],
        emission: Float[Tensor, "_state _word"],
        length: int,
    ) -> None:
        """Take the probabilities, float64, of the first state, the moves and the words.

        Args:
            initial: Pr(z_1 = s).
            transition: Pr(z_{t+1} = column | z_t = row).
            emission: Pr(x_t = column + 1 | z_t = row).
            length: tokens in a sentence.

        Raises:
            LanguageError: where shapes differ, a probability is negative or a row does not sum to one.

        """
        states = len(initial)
        if transition.shape != (states, states) or len(emission) != states:
            raise LanguageError(
                f"{states} states need a transition of shape ({states}, {states}) and an emission of "
                f"{states} rows; got {tuple(transition.shape)} and {len(emission)}."
            )
        if length < 1:
            raise LanguageError(f"A sentence has at least 1 token; got length = {length}.")
        self.initial = _distributions("initial", initial[None])[0]
        self.transition = _distributions("transition", transition)
        self.emission = _distributions("emission", emission)
        self.length = length
        self._by_device: dict[torch.device, _Tables] = {}

    @property
    def states(self) -> int:
        """The number of hidden states."""
        return len(self.initial)

    @property
    def words(self) -> int:
        """The number of words c of the vocabulary; [MASK] is not counted."""
        return self.emission.shape[1]

    @property
    def max_length(self) -> int:
        """The number of tokens of every sentence."""
        return self.length

    @property
    def tasks(self) -> tuple[str, ...]:
        """Name the tasks by the position of their hidden state, from 1: `state1`, `state2`, ..."""
        return tuple(f"state{position}" for position in range(1, self.length + 1))

    def classes(self, task: str) -> int:
        """Return the number of classes of a task, which are the hidden states."""
        self._place(task)
        return self.states

    def _place(self, task: str) -> int:
        if task not in self.tasks:
            raise LanguageError(f"Unknown task {task!r}; choose one of {', '.join(self.tasks)}.")
        return self.tasks.index(task)

    def sample(self, count: int, generator: torch.Generator) -> Sentences:
        """Draw independent sentences, on the generator's device."""
        return self.sample_states(count, generator)[0]

    def sample_states(
        self, count: int, generator: torch.Generator
    ) -> tuple[Sentences, Int[Tensor, "batch seq"]]:
        """Draw the sentences that `sample` draws, with their hidden states 0..states - 1."""
        check_count("count", count, least=0)
        device = generator.device
        tokens = torch.empty(count, self.length, dtype=torch.long, device=device)
        states = torch.empty_like(tokens)
        moves, words = (table.to(device) for table in self._alias_tables)
        for rows in _slices(count, ROWS_AT_ONCE):
            shape = (2, self.length, rows.stop - rows.start)
            uniform = torch.rand(shape, generator=generator, dtype=torch.float64, device=device)
            path = torch.empty(shape[1:], dtype=torch.long, device=device)
            state = torch.full_like(path[0], self.states)  # the row of the initial distribution
            for position in range(self.length):
                path[position] = state = moves.draw(state, uniform[0, position]) % self.states
            drawn = words.draw(path.flatten(), uniform[1].flatten()) % self.words + 1
            tokens[rows], states[rows] = drawn.view_as(path).T, path.T
        return Sentences(tokens, torch.full_like(tokens[:, 0], self.length)), states

    @cached_property
    def _alias_tables(self) -> tuple[AliasTables, AliasTables]:
        moves = torch.cat([self.transition, self.initial[None]])
        return tables_of_rows(moves), tables_of_rows(self.emission)

    def log_prob(self, sentences: Sentences) -> Float[Tensor, " batch"]:
        """Compute log Pr(x) in nats; a masked token is summed out, an impossible sentence has -inf."""
        possible = sentences.lengths == self.length
        result = torch.full(possible.shape, -torch.inf, dtype=torch.float64, device=possible.device)
        scales = [
            self._forward(tables, leaf)[1] for _, tables, leaf in self._leaves(sentences.rows(possible))
        ]
        if scales:
            result[possible] = torch.cat(scales).log().sum(1)
        return result

    def conditionals(self, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
        r"""Compute Pr(x_t | x_-t) for all positions by one forward and one backward pass (App. A.2).

        With O_t(s) = Pr(z_t = s, x_-t), the product of the messages that reach t from both sides,

        $$\Pr(x_t = w \mid x_{-t}) \propto \sum_s O_t(s) \Pr(w \mid s).$$

        A masked token is summed out: with k masks, each masked position has its exact marginal given
        the unmasked tokens.

        Returns:
            float64 probabilities; rows sum to one up to the length, then are zero.

        Raises:
            LanguageError: where a sentence has another length, or x_-t itself cannot occur.

        """
        self._check_lengths(sentences)
        shape, device = (*sentences.tokens.shape, self.words), sentences.tokens.device
        result = torch.empty(shape, dtype=torch.float64, device=device)
        result[:, self.length :] = 0
        for rows, tables, leaf in self._leaves(sentences):
            outside = self._outside(tables, leaf)
            total = outside.sum(2, keepdim=True)
            check_possible(total[..., 0] >= LEAST, torch.arange(rows.start, rows.stop, device=leaf.device))
            outside /= total
            for place in range(self.length):  # straight into the result, which is large
                torch.mm(outside[:, place], tables.emission, out=result[rows, place])
        return result

    def state_posteriors(self, sentences: Sentences) -> Float[Tensor, "batch place state"]:
        """Compute Pr(z_t = s | x) for the position of every token; [MASK] is summed out.

        Raises:
            LanguageError: where a sentence has another length or cannot occur.

        """
        joint = self._joint(sentences)
        total = joint.sum(2, keepdim=True)
        if not (occurs := (total >= LEAST).flatten(1).all(1)).all():
            row = int((~occurs).nonzero()[0])
            raise LanguageError(
                f"Sentence {row} cannot occur in this language, so its states have no posterior."
            )
        return joint / total

    def posterior(self, sentences: Sentences, task: str) -> Float[Tensor, "batch state"]:
        """Compute Pr(z_k = s | x), where k is the task's position; see `state_posteriors`."""
        place = self._place(task)
        return self.state_posteriors(sentences)[:, place]

    def likelihood(self, sentences: Sentences, task: str) -> Float[Tensor, "batch state"]:
        """Compute Pr(x | z_k = s), where k is the task's position, scaled so that a row sums to one.

        A state that cannot be at k scores zero; so does every state of a sentence that cannot occur.

        Raises:
            LanguageError: where a sentence has another length.

        """
        place = self._place(task)
        joint = self._joint(sentences)[:, place]
        occurs = joint.sum(1, keepdim=True) >= LEAST
        prior = (self.initial @ torch.linalg.matrix_power(self.transition, place)).to(joint.device)
        scores = (joint / prior.clamp(min=TINY)).where((prior > 0) & occurs, 0.0)
        return scores / scores.sum(1, keepdim=True).clamp(min=TINY)

    def _joint(self, sentences: Sentences) -> Float[Tensor, "batch place state"]:
        """Return Pr(z_t = s, x) up to a factor for each sentence and position."""
        self._check_lengths(sentences)
        shape = (len(sentences.lengths), self.length, self.states)
        result = torch.empty(shape, dtype=torch.float64, device=sentences.tokens.device)
        for rows, tables, leaf in self._leaves(sentences):
            torch.mul(self._outside(tables, leaf), leaf, out=result[rows])
        return result

    def _check_lengths(self, sentences: Sentences) -> None:
        wrong = (sentences.lengths != self.length).nonzero()
        if len(wrong):
            row = int(wrong[0])
            raise LanguageError(
                f"Sentence {row} has {int(sentences.lengths[row])} tokens; "
                f"every sentence of this language has {self.length}."
            )

    def _tables(self, device: torch.device) -> _Tables:
        if device not in self._by_device:
            leaf = torch.cat([torch.ones_like(self.initial)[None], self.emission.T])
            tables = (self.initial, self.transition, self.emission, leaf)
            self._by_device[device] = _Tables(*(table.to(device) for table in tables))
        return self._by_device[device]

    def _leaves(self, sentences: Sentences) -> Iterator[tuple[slice, _Tables, Tensor]]:
        """Yield (rows, tables, Pr(x_t | z_t = s)), each of at most `CHUNK` sentences.

        [MASK] scores the sum over words, which is one.
        """
        tables = self._tables(sentences.tokens.device)
        for rows in _slices(len(sentences.lengths), CHUNK):
            tokens = sentences.tokens[rows, : self.length].long()
            check_tokens(tokens, self.words)
            yield rows, tables, tables.leaf[tokens]

    def _forward(self, tables: _Tables, leaf: Tensor) -> tuple[Tensor, Tensor]:
        """Return Pr(z_t | x_1..x_{t-1}) and Pr(x_t | x_1..x_{t-1}), zeros after an impossible token."""
        before, scales = torch.empty_like(leaf), torch.empty_like(leaf[..., 0])
        before[:, 0] = tables.initial
        for place in range(self.length):
            seen = before[:, place] * leaf[:, place]
            scale = torch.sum(seen, 1, out=scales[:, place])
            if place + 1 < self.length:
                seen /= scale.clamp(min=TINY)[:, None]
                torch.mm(seen, tables.transition, out=before[:, place + 1])
        return before, scales

    def _outside(self, tables: _Tables, leaf: Tensor) -> Tensor:
        """Return Pr(z_t = s, x_-t) up to a factor for each sentence and position.

        The backward message has a scale of its own: the forward one (Rabiner's) is zero after an
        impossible token, yet the conditional at that very token is defined.
        """
        outside, _ = self._forward(tables, leaf)
        after = torch.ones_like(leaf[:, 0])
        for place in reversed(range(self.length - 1)):
            seen = after * leaf[:, place + 1]
            seen /= seen.sum(1, keepdim=True).clamp(min=TINY)
            after = seen @ tables.transition.T
            outside[:, place] *= after
        return outside


def _slices(count: int, most: int) -> Iterator[slice]:
    return (slice(start, min(start + most, count)) for start in range(0, count, most))


def _distributions(name: str, rows: Float[Tensor, "row column"]) -> Float[Tensor, "row column"]:
    """Return the rows, divided by their sums; refuse rows that are not distributions."""
    rows = rows.double()
    totals = rows.sum(1)
    wrong = (~((totals - 1).abs() <= 1e-9)).nonzero()  # NaN is wrong too
    if len(wrong):
        row = int(wrong[0])
        raise LanguageError(f"Row {row} of the {name} sums to {totals[row]:.9g}; it must sum to 1.")
    if (rows < 0).any():
        row, column = (rows < 0).nonzero()[0].tolist()
        raise LanguageError(
            f"Row {row} of the {name} holds {rows[row, column]:.9g}; a probability is not negative."
        )
    return rows / totals[:, None]
