"""Grammars in layers, and random hierarchies."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from sameloss.checks import check_counts, check_positive, check_shares
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
        check_counts(self, *counts)
        check_positive(self, "rule_concentration", "emission_concentration")
        check_shares(self, "smoothing")
        if self.words_per_symbol > self.words:
            raise LanguageError(f"words_per_symbol = {self.words_per_symbol} is above words = {self.words}.")
        if max(self.rules, self.start_rules) > self.symbols**2:
            raise LanguageError(
                f"A symbol has at most symbols² = {self.symbols**2} different rules; "
                f"rules = {self.rules}, start_rules = {self.start_rules}."
            )
        low, high = self.early_stop
        if not 0 <= low <= high < 1:
            raise LanguageError(f"early_stop is a range in [0, 1); got {self.early_stop}.")

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
                count = self.rules if level else self.start_rules
                pairs = rng.choice(self.symbols**2, count, replace=False)
                shares = dirichlet(rng, (count,), self.rule_concentration)
                for pair, weight in zip(pairs, shares, strict=True):
                    left, right = divmod(int(pair), self.symbols)
                    rules.append((parent, children[left], children[right]))
                    weights.append(weight * (1 - emission[parent].sum()))
        for parent in self._level(self.levels):
            words = rng.choice(self.words, self.words_per_symbol, replace=False)
            emission[parent, words] = dirichlet(rng, (len(words),), self.emission_concentration)
            emission[parent] = (1 - self.smoothing) * emission[parent] + self.smoothing / self.words
        roots = np.zeros(symbols)
        roots[: self.start_symbols] = dirichlet(rng, (self.start_symbols,), 1.0)
        return Grammar(
            roots=torch.as_tensor(roots),
            rules=torch.as_tensor(rules),
            weights=torch.as_tensor(weights),
            emission=torch.as_tensor(emission),
            symbols=_names(self.levels, self.start_symbols, self.symbols),
            vocabulary=tuple(f"w{word}" for word in range(1, self.words + 1)),
        )


def _names(levels: int, starts: int, symbols: int) -> tuple[str, ...]:
    """Return S1, S2, ... for the start symbols, and A1, A2, ..., B1, ... for those of the levels."""
    counts = {"S": starts, **{chr(65 + level): symbols for level in range(levels)}}
    return tuple(f"{level}{k}" for level, count in counts.items() for k in range(1, count + 1))


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
        check_counts(self, "levels", "symbols", "rules")
        check_shares(self, "smoothing")
        if self.rules > self.symbols:
            raise LanguageError(
                f"{self.symbols} symbols have {self.symbols**2} pairs, too few for {self.rules} right sides "
                f"each that no other symbol shares; choose rules of at most {self.symbols}."
            )

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
        rules = []
        for parents, children in pairwise(ids):
            pairs = rng.permutation(self.symbols**2)[: self.symbols * self.rules]  # no pair twice
            left, right = np.divmod(pairs, self.symbols)
            rules.append(np.stack([parents.repeat(self.rules), children[left], children[right]], 1))
        emission = np.zeros((ids.size, self.words))
        emission[ids[-1]] = (1 - self.smoothing) * np.eye(self.words) + self.smoothing / self.words
        roots = np.zeros(ids.size)
        roots[ids[0]] = 1 / self.symbols
        return Grammar(
            roots=torch.as_tensor(roots),
            rules=torch.as_tensor(np.concatenate(rules)),
            weights=torch.full((sum(map(len, rules)),), 1 / self.rules, dtype=torch.float64),
            emission=torch.as_tensor(emission),
            symbols=_names(self.levels, self.symbols, self.symbols),
            vocabulary=tuple(f"w{word}" for word in range(1, self.words + 1)),
        )
