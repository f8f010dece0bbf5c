"""Layered probabilistic context-free grammars with exact conditionals (Section 2.2, App. A.1-A.2).

Level 0 holds the start symbols. A symbol of level l < levels either branches into two symbols of
level l + 1 or, where early stop is allowed, emits one word; a symbol of the last level emits one
word. So a sentence has at most 2 ** levels tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sameloss.errors import LanguageError
from sameloss.languages.language import LabelKind, Sentences

CHUNK = 4096
"""Sentences a dynamic programme handles at once; bounds its memory."""

Chart = list[dict[int, Tensor]]
"""Inside scores: chart[level][span] has axes (batch, start, symbol)."""


@dataclass(frozen=True)
class PCFGSpec:
    """The dimensions from which a random layered grammar is drawn; part of a run's key.

    `early_stop` is the range of the probability with which a symbol of an inner level ends its
    branch in a word of its own; `smoothing` is the weight of the uniform distribution mixed into
    every last-level emission, so that no conditional is zero.
    """

    levels: int
    start_symbols: int
    symbols: int
    start_rules: int
    rules: int
    words: int
    words_per_symbol: int
    rule_concentration: float
    emission_concentration: float
    early_stop: tuple[float, float] = (0.0, 0.0)
    smoothing: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse dimensions that no grammar has."""
        if self.words_per_symbol > self.words:
            raise LanguageError(f"words_per_symbol = {self.words_per_symbol} is above words = {self.words}.")
        if max(self.rules, self.start_rules) > self.symbols**2:
            raise LanguageError(
                f"A symbol has at most symbols² = {self.symbols**2} different rules; "
                f"rules = {self.rules}, start_rules = {self.start_rules}."
            )
        if not 0 <= self.smoothing <= 1 or not 0 <= min(self.early_stop) <= max(self.early_stop) < 1:
            raise LanguageError("smoothing lies in [0, 1] and early_stop in [0, 1).")

    @property
    def max_length(self) -> int:
        """Length of the longest sentence, in tokens."""
        return 2**self.levels

    def build(self) -> "LayeredPCFG":
        """Draw the grammar."""
        rng = np.random.default_rng(self.seed)
        sizes = [self.start_symbols] + [self.symbols] * self.levels
        stops = iter(np.tile(rng.permutation(self.words), 1 + self.symbols * self.levels // self.words))
        binary, emission = [], []
        for level in range(self.levels):
            stop = self._early_stop(rng, sizes[level], stops) if level else self._no_words(sizes[0])
            rules = self.rules if level else self.start_rules
            branch = self._branching(rng, sizes[level], rules)
            binary.append(branch * (1 - stop.sum(1))[:, None, None])
            emission.append(stop)
        emission.append(self._emission(rng, sizes[-1]))
        prior = rng.dirichlet(np.ones(self.start_symbols))
        return LayeredPCFG(torch.as_tensor(prior), _tensors(binary), _tensors(emission))

    def _no_words(self, symbols: int) -> np.ndarray:
        return np.zeros((symbols, self.words))

    def _early_stop(self, rng: np.random.Generator, symbols: int, own_words) -> np.ndarray:
        stop = self._no_words(symbols)
        for row in stop:
            row[next(own_words)] = rng.uniform(*self.early_stop)
        return stop

    def _branching(self, rng: np.random.Generator, symbols: int, rules: int) -> np.ndarray:
        branch = np.zeros((symbols, self.symbols**2))
        for row in branch:
            pairs = rng.choice(self.symbols**2, rules, replace=False)
            row[pairs] = rng.dirichlet(np.full(rules, self.rule_concentration))
        return branch.reshape(symbols, self.symbols, self.symbols)

    def _emission(self, rng: np.random.Generator, symbols: int) -> np.ndarray:
        emission = self._no_words(symbols)
        for row in emission:
            words = rng.choice(self.words, self.words_per_symbol, replace=False)
            row[words] = rng.dirichlet(np.full(len(words), self.emission_concentration))
        return (1 - self.smoothing) * emission + self.smoothing / self.words


def _tensors(arrays: Sequence[np.ndarray]) -> list[Tensor]:
    return [torch.as_tensor(array, dtype=torch.float64) for array in arrays]


class LayeredPCFG:
    """A layered grammar given by its probabilities, all float64."""

    def __init__(
        self,
        prior: Float[Tensor, " start"],
        binary: Sequence[Float[Tensor, "_parent _left _right"]],
        emission: Sequence[Float[Tensor, "_symbol word"]],
    ) -> None:
        """Take the prior over start symbols and, level by level, branching and emission.

        Args:
            prior: Pr(start symbol).
            binary: `levels` arrays; binary[l][p, j, k] = Pr(p -> j k).
            emission: `levels` + 1 arrays; emission[l][s, w] = Pr(s -> word w + 1).

        Raises:
            LanguageError: where the probabilities of a symbol do not sum to one.

        """
        self.prior, self.binary, self.emission = prior, list(binary), list(emission)
        self._check()
        self.spans = self._possible_spans()
        self._leaf_tables = [torch.cat([e.sum(1)[None], e.T]) for e in self.emission]

    def _check(self) -> None:
        totals = [e.sum(1) for e in self.emission]
        for level, branch in enumerate(self.binary):
            totals[level] = totals[level] + branch.sum((1, 2))
        for name, total in [("the prior", self.prior.sum()[None])] + [
            (f"level {level}", total) for level, total in enumerate(totals)
        ]:
            if not torch.allclose(total, torch.ones_like(total), rtol=0, atol=1e-9):
                worst = int((total - 1).abs().argmax())
                raise LanguageError(
                    f"Probabilities of {name}, symbol {worst}, sum to {total[worst]:.9g}; they must sum to 1."
                )

    def _possible_spans(self) -> list[list[int]]:
        spans = [{1}]
        for emission in reversed(self.emission[:-1]):
            branching = {m + n for m in spans[0] for n in spans[0]}
            spans.insert(0, branching | ({1} if emission.any() else set()))
        return [sorted(level) for level in spans]

    @property
    def levels(self) -> int:
        """Number of branching levels."""
        return len(self.binary)

    @property
    def words(self) -> int:
        """Vocabulary size c."""
        return self.emission[0].shape[1]

    @property
    def max_length(self) -> int:
        """Length of the longest sentence, in tokens."""
        return self.spans[0][-1]

    @property
    def tasks(self) -> tuple[str, ...]:
        """Name the tasks by the span their symbol covers: `root`, then `span8`, `span4`, ..."""
        return ("root", *(f"span{2 ** (self.levels - k)}" for k in range(1, self.levels)))

    def classes(self, task: str) -> int:
        """Return the number of symbols of the task's level."""
        return len(self.emission[self._level(task)])

    def _level(self, task: str) -> int:
        if task not in self.tasks:
            raise LanguageError(f"Unknown task {task!r}; choose one of {', '.join(self.tasks)}.")
        return self.tasks.index(task)

    def sample(self, count: int, generator: torch.Generator) -> Sentences:
        """Draw sentences level by level, all at once.

        A word emitted early keeps the leftmost of the leaf places below it, so sorting the empty
        places to the right leaves the words in sentence order.
        """
        symbols = torch.multinomial(self.prior, count, True, generator=generator)[:, None]
        leaves = torch.zeros(count, 2**self.levels, dtype=torch.long)
        for level in range(self.levels + 1):
            outcome = self._draw_rules(level, symbols, generator)
            words = (outcome + 1).where((symbols >= 0) & (outcome < self.words), 0)
            leaves[:, :: 2 ** (self.levels - level)] += words
            if level < self.levels:
                symbols = self._children(level, symbols, outcome - self.words)
        order = (leaves == 0).long().sort(dim=1, stable=True).indices
        return Sentences(leaves.gather(1, order)[:, : self.max_length], (leaves > 0).sum(1))

    def _draw_rules(self, level: int, symbols: Tensor, generator: torch.Generator) -> Tensor:
        """Draw a rule for every symbol: an index into (words, then pairs of children)."""
        rules = self.emission[level]
        if level < self.levels:
            rules = torch.cat([rules, self.binary[level].flatten(1)], dim=1)
        # The distribution functions of all symbols, end to end, make one sorted array.
        steps = rules.cumsum(1) / rules.sum(1, keepdim=True)
        steps += torch.arange(len(rules))[:, None]
        uniform = torch.rand(symbols.shape, generator=generator, dtype=torch.float64)
        place = torch.searchsorted(steps.flatten(), symbols.clamp(min=0) + uniform, right=True)
        return place - symbols.clamp(min=0) * rules.shape[1]

    def _children(self, level: int, symbols: Tensor, pair: Tensor) -> Tensor:
        width = self.binary[level].shape[2]
        children = torch.stack([pair // width, pair % width], dim=2)
        return children.where(((symbols >= 0) & (pair >= 0))[..., None], -1).flatten(1)

    def _leaves(self, tokens: Int[Tensor, "batch seq"]) -> list[Tensor]:
        """Return the emission score of each leaf at each level, scaled token by token.

        [MASK] (row 0 of the tables) scores the sum over words: a masked leaf is summed out.
        The common scale of a token cancels in every conditional and keeps products in range.
        """
        if int(tokens.max()) > self.words or int(tokens.min()) < 0:
            raise LanguageError(f"Token ids lie in 0..{self.words}; got {int(tokens.max())}.")
        leaves = [table[tokens] for table in self._leaf_tables]
        scale = torch.stack([leaf.amax(-1, keepdim=True) for leaf in leaves]).amax(0)
        return [leaf / scale.clamp(min=1e-300) for leaf in leaves] + [scale]

    def _inside(self, leaves: list[Tensor]) -> Chart:
        """Fill the inside chart from the last level up (Lari & Young 1990)."""
        length = leaves[0].shape[1]
        chart: Chart = [{1: leaves[-1]}]
        for level in reversed(range(self.levels)):
            below, cells = chart[0], {}
            for span in (s for s in self.spans[level] if s <= length):
                cells[span] = self._cell(level, span, below, leaves[level])
            chart.insert(0, cells)
        return chart

    def _cell(self, level: int, span: int, below: dict[int, Tensor], leaf: Tensor) -> Tensor:
        if span == 1:
            return leaf
        starts = leaf.shape[1] - span + 1
        pairs = torch.zeros(())
        for left_span in (s for s in below if span - s in below):
            left = below[left_span][:, :starts]
            right = below[span - left_span][:, left_span : left_span + starts]
            pairs = pairs + (left[..., :, None] * right[..., None, :]).flatten(-2)
        return pairs @ self.binary[level].flatten(1).T

    def _scores(self, chart: Chart, tokens: Tensor) -> Tensor:
        """Return Pr(x) up to the scale of its tokens."""
        length = tokens.shape[1]
        if length not in chart[0]:
            raise LanguageError(f"No sentence has {length} tokens; possible lengths are {self.spans[0]}.")
        return chart[0][length][:, 0] @ self.prior

    def log_prob(self, sentences: Sentences) -> Float[Tensor, " batch"]:
        """Return log Pr(x) in nats, float64; -inf for a sentence that cannot occur."""
        result = torch.empty(len(sentences.lengths), dtype=torch.float64)
        for rows, tokens in _chunks(sentences):
            if tokens.shape[1] not in self.spans[0]:
                result[rows] = -torch.inf
                continue
            *leaves, scale = self._leaves(tokens)
            scores = self._scores(self._inside(leaves), tokens)
            result[rows] = scores.log() + scale.squeeze(-1).log().sum(1)
        return result

    def conditionals(self, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
        r"""Return Pr(x_t | x_-t) for all positions by one inside pass and one gradient (App. A.2).

        Pr(x) is linear in the leaf scores at t, so its gradient O_t(s) is the outside score and

        $$\Pr(x_t = w \mid x_{-t}) \propto \sum_s O_t(s) \Pr(s \to w).$$

        Returns:
            float64 probabilities; rows sum to one up to each sentence's length, then are zero.

        Raises:
            LanguageError: where x_-t itself cannot occur: its conditional is undefined.

        """
        shape = (*sentences.tokens.shape, self.words)
        result = torch.zeros(shape, dtype=torch.float64)
        for rows, tokens in _chunks(sentences):
            joint = self._joint(tokens)
            total = joint.sum(-1, keepdim=True)
            if not (total > 0).all():
                row, position, _ = (total <= 0).nonzero()[0].tolist()
                raise LanguageError(
                    f"Sentence {int(rows[row])} cannot occur in this language whatever its token "
                    f"{position} is, so that token's conditional is undefined."
                )
            result[rows, : tokens.shape[1]] = joint / total
        return result

    def _joint(self, tokens: Int[Tensor, "batch seq"]) -> Float[Tensor, "batch seq word"]:
        """Return Pr(x_t = w, x_-t) up to a factor for each (sentence, t)."""
        with torch.enable_grad():
            leaves = [leaf.requires_grad_() for leaf in self._leaves(tokens)[:-1]]
            score = self._scores(self._inside(leaves), tokens).sum()
            outside = torch.autograd.grad(score, leaves, allow_unused=True)
        return sum(o @ emission for o, emission in zip(outside, self.emission, strict=True) if o is not None)

    def labels(self, sentences: Sentences, task: str, kind: LabelKind) -> Int[Tensor, " batch"]:
        """Label a sentence by the symbol above its first tokens (App. A.1).

        `likelihood`: argmax_s Pr(x_1..x_L | s), L the task's span (or the whole shorter sentence).
        `posterior`: argmax_s Pr(leftmost symbol of the task's level is s | x).
        A sentence that gives every symbol probability zero (early stop can end its first branch
        above the task's level) gets class 0.
        """
        if kind not in ("likelihood", "posterior"):
            raise LanguageError(f"Unknown label kind {kind!r}; choose likelihood or posterior.")
        score = self._likelihood if kind == "likelihood" else self._posterior
        result = torch.empty(len(sentences.lengths), dtype=torch.long)
        for rows, tokens in _chunks(sentences):
            result[rows] = score(tokens, self._level(task)).argmax(1)
        return result

    def _likelihood(self, tokens: Int[Tensor, "batch seq"], level: int) -> Tensor:
        span = min(self.spans[level][-1], tokens.shape[1])
        return self._inside(self._leaves(tokens[:, :span])[:-1])[level][span][:, 0]

    def _posterior(self, tokens: Int[Tensor, "batch seq"], level: int) -> Tensor:
        with torch.enable_grad():
            leaves = [leaf.requires_grad_() for leaf in self._leaves(tokens)[:-1]]
            chart = self._inside(leaves)
            cells = list(chart[level].values())
            score = self._scores(chart, tokens).sum()
            outside = torch.autograd.grad(score, cells, allow_unused=True)
        pairs = zip(cells, outside, strict=True)
        return sum((cell * o)[:, 0].detach() for cell, o in pairs if o is not None)


def _chunks(sentences: Sentences):
    for rows, tokens in sentences.buckets():
        yield from zip(rows.split(CHUNK), tokens.long().split(CHUNK), strict=True)
