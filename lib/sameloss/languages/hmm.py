"""Hidden Markov models with exact conditionals (Section 2.2, App. A.1-A.2).

Sums over hidden paths come from the forward-backward algorithm (Rabiner 1989). The paper says "Viterbi",
which finds the single best path; a probability needs the sum over all of them. Forward and backward messages
are scaled at every step, so long sentences do not underflow. A sentence is impossible if its forward and
backward messages overlap by less than 1e-292.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.linalg import block_diag
from torch import Tensor

from sameloss.checks import check_count, check_counts, check_positive, check_unit_interval
from sameloss.errors import LanguageError
from sameloss.languages.draws import AliasTables, alias_tables, dirichlet
from sameloss.languages.language import LanguageSpec, Sentences, check_possible, check_task, check_tokens

CHUNK = 1024
"""Sentences per forward-backward pass, whose messages then fit into the cache."""

ROWS_AT_ONCE = 16384
"""Sentences sampled at once."""

TINY = torch.finfo(torch.float64).tiny
"""Smallest divisor of a message, so that a zero message stays zero."""

LEAST = TINY / torch.finfo(torch.float64).eps
"""Smallest probability of the evidence that has lost no digit to underflow."""


@dataclass(frozen=True)
class HMMSpec(LanguageSpec):
    """The dimensions of a random block-diagonal HMM; part of a run's key.

    States and words fall into `blocks` blocks of equal size: a state moves within its block and emits
    the words of its block (App. A.1), with probabilities drawn from a Dirichlet distribution. `smoothing` is
    the weight of a uniform distribution over all words in every emission, so that no conditional is zero.
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
        check_counts(self, "states", "words", "length", "blocks")
        check_positive(self, "transition_concentration", "emission_concentration")
        check_unit_interval(self, "smoothing")
        if self.states % self.blocks or self.words % self.blocks:
            raise LanguageError(
                f"blocks = {self.blocks} must divide states = {self.states} and words = {self.words}."
            )

    @property
    def max_length(self) -> int:
        """Tokens of every sentence."""
        return self.length

    def build(self) -> "HMM":
        """Draw the model from `seed`; its probabilities are continuous in the concentrations.

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


class HMM:
    """A hidden Markov model over sentences of `length` tokens.

    The tasks `state1`, `state2`, ... are the hidden states at these positions, counted from 1; the paper
    uses `state6` and `state10` (App. A.1). Results are float64, on the device of the tokens.
    """

    def __init__(
        self,
        initial: Float[Tensor, " _state"],
        transition: Float[Tensor, "_state _next"],
        emission: Float[Tensor, "_state _word"],
        length: int,
    ) -> None:
        """Check and normalise the probabilities.

        Args:
            initial: Pr(z_1 = s).
            transition: Pr(z_{t+1} = column | z_t = row).
            emission: Pr(x_t = column + 1 | z_t = row).
            length: tokens of every sentence.

        Raises:
            LanguageError: if shapes disagree, or a row is not a probability distribution.

        """
        states = len(initial)
        if transition.shape != (states, states) or len(emission) != states:
            raise LanguageError(f"transition must be {states} × {states}, and emission {states} × words.")
        self.initial = _normalised("initial", initial[None])[0]
        self.transition = _normalised("transition", transition)
        self.emission = _normalised("emission", emission)
        self.states, self.words = self.emission.shape
        self.length = self.max_length = length
        self.tasks = tuple(f"state{position}" for position in range(1, length + 1))

    def classes(self, task: str) -> int:
        """Number of hidden states, which are the classes of every task."""
        check_task(self, task)
        return self.states

    def sample(self, count: int, generator: torch.Generator) -> Sentences:
        """Draw independent sentences."""
        return self.sample_states(count, generator)[0]

    def sample_states(
        self, count: int, generator: torch.Generator
    ) -> tuple[Sentences, Int[Tensor, "batch seq"]]:
        """Draw the same sentences as `sample`, together with their hidden states 0..states - 1."""
        check_count("count", count, least=0)
        tokens = torch.empty(count, self.length, dtype=torch.long)
        states = torch.empty_like(tokens)
        transition, emission = self._alias_tables
        for rows in _slices(count, ROWS_AT_ONCE):
            shape = (2, self.length, rows.stop - rows.start)
            uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
            path = torch.empty(shape[1:], dtype=torch.long)
            state = torch.full_like(path[0], self.states)  # the row of the initial distribution
            for t in range(self.length):
                path[t] = state = transition.draw(state, uniform[0, t]) % self.states
            words = emission.draw(path.flatten(), uniform[1].flatten()) % self.words + 1
            tokens[rows], states[rows] = words.view_as(path).T, path.T
        return Sentences(tokens, torch.full_like(tokens[:, 0], self.length)), states

    @cached_property
    def _alias_tables(self) -> tuple[AliasTables, AliasTables]:
        transition = torch.cat([self.transition, self.initial[None]])
        return alias_tables(transition.unbind()), alias_tables(self.emission.unbind())

    def log_prob(self, sentences: Sentences) -> Float[Tensor, " batch"]:
        """Compute log Pr(x) in nats; masked tokens are summed out, impossible sentences have -inf."""
        result = torch.full_like(sentences.lengths, -torch.inf, dtype=torch.float64)
        possible = (sentences.lengths == self.length).nonzero().squeeze(1)
        for rows, leaf in self._leaves(sentences.rows(possible)):
            result[possible[rows]] = self._forward(leaf)[1].log().sum(1)
        return result

    def conditionals(self, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
        r"""Compute Pr(x_t | x_-t) at all positions by one forward and one backward pass (App. A.2).

        With O_t(s) = Pr(z_t = s, x_-t), the product of the messages into t from both sides,

        $$\Pr(x_t = w \mid x_{-t}) \propto \sum_s O_t(s) \Pr(w \mid s).$$

        Masked tokens are summed out, so each masked position gets its marginal given the visible tokens.

        Returns:
            Probabilities; rows of padding are zero.

        Raises:
            LanguageError: if a sentence has another length, or Pr(x_-t) is zero.

        """
        self._check_lengths(sentences)
        shape, device = (*sentences.tokens.shape, self.words), sentences.tokens.device
        result = torch.empty(shape, dtype=torch.float64, device=device)
        result[:, self.length :] = 0
        emission = self.emission.to(device)
        for rows, leaf in self._leaves(sentences):
            outside = self._outside(leaf)
            total = outside.sum(2, keepdim=True)
            check_possible(total[..., 0] >= LEAST, torch.arange(rows.start, rows.stop, device=leaf.device))
            outside /= total
            for t in range(self.length):  # written in place, because the result is large
                torch.mm(outside[:, t], emission, out=result[rows, t])
        return result

    def state_posteriors(self, sentences: Sentences) -> Float[Tensor, "batch position state"]:
        """Compute Pr(z_t = s | x) at every position; masked tokens are summed out.

        Raises:
            LanguageError: if a sentence has another length or is impossible.

        """
        joint = self._joint(sentences)
        total = joint.sum(2, keepdim=True)
        if not (total >= LEAST).all():
            raise LanguageError("A sentence cannot occur in this language, so its states have no posterior.")
        return joint / total

    def posterior(self, sentences: Sentences, task: str) -> Float[Tensor, "batch state"]:
        """Compute Pr(z_k = s | x) at the task's position k; see `state_posteriors`."""
        check_task(self, task)
        return self.state_posteriors(sentences)[:, self.tasks.index(task)]

    def likelihood(self, sentences: Sentences, task: str) -> Float[Tensor, "batch state"]:
        """Compute Pr(x | z_k = s) at the task's position k, normalised over s.

        Rows of impossible sentences are zero.

        Raises:
            LanguageError: if a sentence has another length.

        """
        check_task(self, task)
        position = self.tasks.index(task)
        joint = self._joint(sentences)[:, position]
        possible = joint.sum(1, keepdim=True) >= LEAST
        prior = (self.initial @ torch.linalg.matrix_power(self.transition, position)).to(joint.device)
        scores = (joint / prior.clamp(min=TINY)).where((prior > 0) & possible, 0.0)
        return scores / scores.sum(1, keepdim=True).clamp(min=TINY)

    def _joint(self, sentences: Sentences) -> Float[Tensor, "batch position state"]:
        """Compute Pr(z_t = s, x), up to a factor per sentence and position."""
        self._check_lengths(sentences)
        shape = (len(sentences.lengths), self.length, self.states)
        result = torch.empty(shape, dtype=torch.float64, device=sentences.tokens.device)
        for rows, leaf in self._leaves(sentences):
            torch.mul(self._outside(leaf), leaf, out=result[rows])
        return result

    def _check_lengths(self, sentences: Sentences) -> None:
        if (sentences.lengths != self.length).any():
            raise LanguageError(f"Every sentence of this language has {self.length} tokens.")

    def _leaves(self, sentences: Sentences) -> Iterator[tuple[slice, Tensor]]:
        """Yield (rows, Pr(x_t | z_t = s)) of at most `CHUNK` sentences at a time; [MASK] scores one."""
        table = torch.cat([torch.ones_like(self.initial)[None], self.emission.T])
        table = table.to(sentences.tokens.device)
        for rows in _slices(len(sentences.lengths), CHUNK):
            tokens = sentences.tokens[rows, : self.length].long()
            check_tokens(tokens, self.words)
            yield rows, table[tokens]

    def _forward(self, leaf: Tensor) -> tuple[Tensor, Tensor]:
        """Compute Pr(z_t | x_1..x_{t-1}) and Pr(x_t | x_1..x_{t-1}), zero after an impossible token."""
        transition = self.transition.to(leaf.device)
        before, scales = torch.empty_like(leaf), torch.empty_like(leaf[..., 0])
        before[:, 0] = self.initial.to(leaf.device)
        for t in range(self.length):
            message = before[:, t] * leaf[:, t]
            scale = torch.sum(message, 1, out=scales[:, t])
            if t + 1 < self.length:
                message /= scale.clamp(min=TINY)[:, None]
                torch.mm(message, transition, out=before[:, t + 1])
        return before, scales

    def _outside(self, leaf: Tensor) -> Tensor:
        """Compute Pr(z_t = s, x_-t), up to a factor per sentence and position.

        The backward message is scaled independently: the forward scale (Rabiner's) is zero after an
        impossible token, yet the conditional at that very token is defined.
        """
        outside, _ = self._forward(leaf)
        transition = self.transition.to(leaf.device)
        after = torch.ones_like(leaf[:, 0])
        for t in reversed(range(self.length - 1)):
            message = after * leaf[:, t + 1]
            message /= message.sum(1, keepdim=True).clamp(min=TINY)
            after = message @ transition.T
            outside[:, t] *= after
        return outside


def _slices(count: int, most: int) -> Iterator[slice]:
    return (slice(start, min(start + most, count)) for start in range(0, count, most))


def _normalised(name: str, rows: Float[Tensor, "row column"]) -> Float[Tensor, "row column"]:
    rows = rows.double()
    totals = rows.sum(1, keepdim=True)
    if not ((rows >= 0).all() and ((totals - 1).abs() <= 1e-9).all()):  # neither is true of NaN
        raise LanguageError(f"Every row of `{name}` must be a probability distribution.")
    return rows / totals
