"""Random hierarchies: layered grammars in which no two symbols share a right side.

So a sentence has (but for the smoothing) one derivation, and what stands above its tokens is a function of
them. Yet single tokens hardly tell it, for synonymous right sides have nothing in common. The family is
that of Cagnetta et al. (2024).
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from sameloss.errors import LanguageError
from sameloss.languages.grammars.grammar import Grammar
from sameloss.languages.grammars.pcfg import PCFG


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
