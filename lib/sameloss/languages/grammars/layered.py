"""Grammars in layers, and random hierarchies."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from sameloss.errors import LanguageError
from sameloss.languages.draws import dirichlet
from sameloss.languages.grammars.grammar import Grammar
from sameloss.languages.grammars.pcfg import PCFG

# Random layered grammars, the shape of the paper's PCFG (App. A.1).
#
# Level 0 holds the start symbols. A symbol of level l < levels either branches into two symbols of
# level l + 1 or, where early stop is allowed, emits one word; a symbol of the last level emits one
# word. So a sentence has at most 2 ** levels tokens.


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
        """Refuse dimensions that no grammar can have."""
        counts = ("levels", "start_symbols", "symbols", "start_rules", "rules", "words", "words_per_symbol")
        for name in counts:
            if getattr(self, name) < 1:
                raise LanguageError(f"{name} must be at least 1; got {getattr(self, name)}.")
        for name in ("rule_concentration", "emission_concentration"):
            if not getattr(self, name) > 0:
                raise LanguageError(f"{name} must be positive; got {getattr(self, name)}.")
        if self.words_per_symbol > self.words:
            raise LanguageError(f"words_per_symbol = {self.words_per_symbol} is above words = {self.words}.")
        if max(self.rules, self.start_rules) > self.symbols**2:
            raise LanguageError(
                f"A symbol has at most symbols² = {self.symbols**2} different rules; "
                f"rules = {self.rules}, start_rules = {self.start_rules}."
            )
        low, high = self.early_stop
        if not 0 <= self.smoothing <= 1 or not 0 <= low <= high < 1:
            raise LanguageError("smoothing lies in [0, 1], and early_stop is a range in [0, 1).")

    @property
    def max_length(self) -> int:
        """The number of tokens of the longest sentence."""
        return 2**self.levels

    def build(self) -> PCFG:
        """Draw the grammar; its tasks are `root`, `span16`, `span8`, ... by the span of their level."""
        return PCFG(self.grammar())

    def _level(self, level: int) -> tuple[int, ...]:
        """Return the symbols of a level."""
        if level == 0:
            return tuple(range(self.start_symbols))
        first = self.start_symbols + (level - 1) * self.symbols
        return tuple(range(first, first + self.symbols))

    def grammar(self) -> Grammar:
        """Draw the rules, level by level."""
        rng = np.random.default_rng(self.seed)
        symbols = self.start_symbols + self.symbols * self.levels
        stops = iter(np.tile(rng.permutation(self.words), 1 + self.symbols * self.levels // self.words))
        emission = np.zeros((symbols, self.words))
        rules, weights = [], []
        for level in range(self.levels):
            parents, children = self._level(level), self._level(level + 1)
            for parent in parents if level else ():
                emission[parent, next(stops)] = rng.uniform(*self.early_stop)
            for parent in parents:
                chosen = self._branching(rng, self.rules if level else self.start_rules)
                for pair, weight in zip(*chosen, strict=True):
                    left, right = divmod(int(pair), self.symbols)
                    rules.append((parent, children[left], children[right]))
                    weights.append(weight * (1 - emission[parent].sum()))
        for parent in self._level(self.levels):
            emission[parent] = self._emission(rng)
        roots = np.zeros(symbols)
        roots[: self.start_symbols] = dirichlet(rng, (self.start_symbols,), 1.0)
        return Grammar(
            roots=torch.as_tensor(roots),
            rules=torch.as_tensor(rules),
            weights=torch.as_tensor(weights),
            emission=torch.as_tensor(emission),
            symbols=self._names(),
            vocabulary=tuple(f"w{word}" for word in range(1, self.words + 1)),
        )

    def _names(self) -> tuple[str, ...]:
        starts = [f"S{k}" for k in range(1, self.start_symbols + 1)]
        levels = [chr(64 + level) for level in range(1, self.levels + 1)]
        return (*starts, *(f"{level}{k}" for level in levels for k in range(1, self.symbols + 1)))

    def _branching(self, rng: np.random.Generator, rules: int) -> tuple[np.ndarray, np.ndarray]:
        pairs = rng.choice(self.symbols**2, rules, replace=False)
        return pairs, dirichlet(rng, (rules,), self.rule_concentration)

    def _emission(self, rng: np.random.Generator) -> np.ndarray:
        emission = np.zeros(self.words)
        words = rng.choice(self.words, self.words_per_symbol, replace=False)
        emission[words] = dirichlet(rng, (len(words),), self.emission_concentration)
        return (1 - self.smoothing) * emission + self.smoothing / self.words


# Random hierarchies: layered grammars in which no two symbols share a right side.
#
# So a sentence has (but for the smoothing) one derivation, and what stands above its tokens is a function of
# them. Yet single tokens hardly tell it, for synonymous right sides have nothing in common. The family is
# that of Cagnetta et al. (2024).


@dataclass(frozen=True)
class HierarchySpec:
    """The dimensions from which a random hierarchy is drawn; part of a run's key.

    Every level has the same number of symbols, start symbols and words among them. The right sides of a level
    are drawn without replacement and have equal probabilities. A symbol of the last level emits its own word;
    `smoothing` is the weight of the uniform distribution mixed into that, so that no conditional is zero.
    """

    levels: int
    symbols: int
    rules: int  # of each symbol
    smoothing: float
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse dimensions that no hierarchy can have."""
        for name in ("levels", "symbols", "rules"):
            if getattr(self, name) < 1:
                raise LanguageError(f"{name} must be at least 1; got {getattr(self, name)}.")
        if self.rules > self.symbols:
            raise LanguageError(
                f"{self.symbols} symbols have {self.symbols**2} pairs, too few for {self.rules} right sides "
                f"each that no other symbol shares; choose rules of at most {self.symbols}."
            )
        if not 0 <= self.smoothing <= 1:
            raise LanguageError(f"smoothing lies in [0, 1]; got {self.smoothing}.")

    @property
    def words(self) -> int:
        """Vocabulary size."""
        return self.symbols

    @property
    def max_length(self) -> int:
        """The number of tokens of every sentence."""
        return 2**self.levels

    def build(self) -> PCFG:
        """Draw the grammar; its tasks are `root`, and `span4`, `span2`, ... by the span of their level."""
        return PCFG(self.grammar())

    def grammar(self) -> Grammar:
        """Draw the rules, level by level."""
        rng = np.random.default_rng(self.seed)
        ids = np.arange((self.levels + 1) * self.symbols).reshape(self.levels + 1, self.symbols)
        rules = [
            (parent, children[pair // self.symbols], children[pair % self.symbols])
            for parents, children in pairwise(ids)
            for parent, pairs in zip(parents, self._right_sides(rng), strict=True)
            for pair in pairs
        ]
        emission = np.zeros((ids.size, self.words))
        emission[ids[-1]] = (1 - self.smoothing) * np.eye(self.words) + self.smoothing / self.words
        roots = np.zeros(ids.size)
        roots[ids[0]] = 1 / self.symbols
        return Grammar(
            roots=torch.as_tensor(roots),
            rules=torch.as_tensor(np.array(rules)),
            weights=torch.full((len(rules),), 1 / self.rules, dtype=torch.float64),
            emission=torch.as_tensor(emission),
            symbols=self._names(),
            vocabulary=tuple(f"w{word}" for word in range(1, self.words + 1)),
        )

    def _right_sides(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the pairs of each symbol of one level, no pair twice."""
        return rng.permutation(self.symbols**2)[: self.symbols * self.rules].reshape(self.symbols, self.rules)

    def _names(self) -> tuple[str, ...]:
        levels = ["S", *(chr(65 + level) for level in range(self.levels))]
        return tuple(f"{level}{k}" for level in levels for k in range(1, self.symbols + 1))
