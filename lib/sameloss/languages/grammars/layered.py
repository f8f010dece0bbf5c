"""Random layered grammars: those of the paper's shape (App. A.1), and hierarchies without ambiguity.

Level 0 holds the start symbols. A symbol of level l < levels branches into two symbols of level l + 1 or,
where early stopping is allowed, emits one word; a symbol of the last level emits one word. So a sentence has
at most 2 ** levels tokens.
"""

from dataclasses import dataclass
from itertools import cycle, pairwise

import numpy as np
import torch

from sameloss.checks import check_counts, check_positive, check_unit_interval
from sameloss.errors import LanguageError
from sameloss.languages.draws import dirichlet
from sameloss.languages.grammars.grammar import Grammar
from sameloss.languages.grammars.pcfg import PCFG
from sameloss.languages.language import LanguageSpec


@dataclass(frozen=True)
class PCFGSpec(LanguageSpec):
    """The dimensions of a random layered grammar; part of a run's key.

    `early_stop` is the range of the probabilities with which symbols of inner levels emit a word.
    `smoothing` is the weight of a uniform distribution in every emission of the last level, so that no
    conditional is zero.
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
        counts = ("levels", "start_symbols", "symbols", "start_rules", "rules", "words", "words_per_symbol")
        check_counts(self, *counts)
        check_positive(self, "rule_concentration", "emission_concentration")
        check_unit_interval(self, "smoothing")
        if self.words_per_symbol > self.words:
            raise LanguageError(f"words_per_symbol = {self.words_per_symbol} is above words = {self.words}.")
        if max(self.rules, self.start_rules) > self.symbols**2:
            raise LanguageError(f"rules and start_rules must be at most symbols² = {self.symbols**2}.")
        low, high = self.early_stop
        if not 0 <= low <= high < 1:
            raise LanguageError(f"early_stop is a range in [0, 1); got {self.early_stop}.")

    @property
    def max_length(self) -> int:
        """Tokens of the longest sentence."""
        return 2**self.levels

    def build(self) -> PCFG:
        """Draw the language; its tasks are `root`, `span16`, `span8`, ... by the span of their level."""
        return PCFG(self.grammar())

    def grammar(self) -> Grammar:
        """Draw the rules, level by level."""
        rng = np.random.default_rng(self.seed)
        symbols = np.arange(self.start_symbols + self.symbols * self.levels)
        levels = np.split(symbols, range(self.start_symbols, len(symbols), self.symbols))
        stops = cycle(rng.permutation(self.words))
        emission = np.zeros((len(symbols), self.words))
        rules, weights = [], []
        for level, (parents, children) in enumerate(pairwise(levels)):
            for parent in parents if level else ():
                emission[parent, next(stops)] = rng.uniform(*self.early_stop)
            for parent in parents:
                count = self.rules if level else self.start_rules
                pairs = rng.choice(self.symbols**2, count, replace=False)
                left, right = children[np.array(np.divmod(pairs, self.symbols))]
                rules.append(np.stack([np.full(count, parent), left, right], 1))
                branching = 1 - emission[parent].sum()
                weights.append(branching * dirichlet(rng, (count,), self.rule_concentration))
        for parent in levels[-1]:
            words = rng.choice(self.words, self.words_per_symbol, replace=False)
            emission[parent, words] = dirichlet(rng, (len(words),), self.emission_concentration)
            emission[parent] = (1 - self.smoothing) * emission[parent] + self.smoothing / self.words
        starts = dirichlet(rng, (self.start_symbols,), 1.0)
        return _grammar(starts, rules, weights, emission, self.symbols)


@dataclass(frozen=True)
class HierarchySpec(LanguageSpec):
    """The dimensions of a random hierarchy in the style of Cagnetta et al. (2024); part of a run's key.

    No two symbols share a right side, so (but for the smoothing) a sentence has one derivation and all hidden
    symbols are functions of it. Yet single tokens hardly reveal them, as right sides of the same symbol have
    nothing in common.

    Every level has the same number of symbols, including start symbols and words. The right sides of a level
    are drawn without replacement and are equally likely. A symbol of the last level emits its own word;
    `smoothing` is the weight of a uniform distribution in that emission, so that no conditional is zero.
    """

    levels: int
    symbols: int
    rules: int  # per symbol
    smoothing: float
    seed: int = 0

    def __post_init__(self) -> None:
        check_counts(self, "levels", "symbols", "rules")
        check_unit_interval(self, "smoothing")
        if self.rules > self.symbols:
            raise LanguageError(
                f"rules = {self.rules} is above symbols = {self.symbols}; right sides must be distinct."
            )

    @property
    def words(self) -> int:
        """Vocabulary size c, without [MASK]."""
        return self.symbols

    @property
    def max_length(self) -> int:
        """Tokens of every sentence."""
        return 2**self.levels

    def build(self) -> PCFG:
        """Draw the language; its tasks are `root`, ..., `span4`, `span2` by the span of their level."""
        return PCFG(self.grammar())

    def grammar(self) -> Grammar:
        """Draw the rules, level by level."""
        rng = np.random.default_rng(self.seed)
        ids = np.arange((self.levels + 1) * self.symbols).reshape(self.levels + 1, self.symbols)
        rules = []
        for parents, children in pairwise(ids):
            pairs = rng.permutation(self.symbols**2)[: self.symbols * self.rules]  # each pair at most once
            left, right = children[np.array(np.divmod(pairs, self.symbols))]
            rules.append(np.stack([parents.repeat(self.rules), left, right], 1))
        weights = [np.full(len(table), 1 / self.rules) for table in rules]
        emission = np.zeros((ids.size, self.words))
        emission[ids[-1]] = (1 - self.smoothing) * np.eye(self.words) + self.smoothing / self.words
        return _grammar(np.full(self.symbols, 1 / self.symbols), rules, weights, emission, self.symbols)


def _grammar(
    starts: np.ndarray, rules: list[np.ndarray], weights: list[np.ndarray], emission: np.ndarray, symbols: int
) -> Grammar:
    """Name start symbols S1, S2, ..., those of other levels A1, A2, ..., B1, ..., and words w1, w2, ..."""
    inner = len(emission) - len(starts)
    names = [f"S{k}" for k in range(1, len(starts) + 1)]
    names += [f"{chr(65 + k // symbols)}{1 + k % symbols}" for k in range(inner)]
    return Grammar(
        roots=torch.as_tensor(np.concatenate([starts, np.zeros(inner)])),
        rules=torch.as_tensor(np.concatenate(rules)),
        weights=torch.as_tensor(np.concatenate(weights)),
        emission=torch.as_tensor(emission),
        symbols=tuple(names),
        vocabulary=tuple(f"w{word}" for word in range(1, emission.shape[1] + 1)),
    )
