"""Grammars in Chomsky normal form as tables of probabilities, checked when they are made."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sameloss.errors import LanguageError

TOLERANCE = 1e-9
"""How far from one the probabilities of a symbol may sum."""

LONGEST = 1 << 40
"""Tokens from which on sentences are no longer told apart by their lengths."""


@dataclass(frozen=True, eq=False)
class Grammar:
    """A symbol becomes two symbols or one word; a derivation starts from a symbol of `roots`.

    Unary rules of a start symbol are what `roots` holds. Rules that occur twice are summed.

    Raises:
        LanguageError: where a probability is negative, those of a symbol do not sum to one, an
            index is out of range, or a symbol never terminates.

    """

    roots: Float[Tensor, " symbol"]  # Pr(a derivation starts from the symbol)
    rules: Int[Tensor, "rule 3"]  # rows (parent, left, right)
    weights: Float[Tensor, " rule"]  # Pr(parent -> left right)
    emission: Float[Tensor, "symbol word"]  # Pr(symbol -> word + 1)
    symbols: tuple[str, ...]
    vocabulary: tuple[str, ...]

    def __post_init__(self) -> None:
        """Check everything, and merge rules that occur twice."""
        self._check_indices()
        self._check_probabilities()
        self._merge()
        self._check_termination()

    def _check_indices(self) -> None:
        symbols = len(self.symbols)
        if self.emission.shape != (symbols, len(self.vocabulary)) or len(self.roots) != symbols:
            raise LanguageError(
                f"{symbols} symbols and {len(self.vocabulary)} words do not go with emissions of shape "
                f"{tuple(self.emission.shape)} and {len(self.roots)} start probabilities."
            )
        wrong = (self.rules < 0) | (self.rules >= symbols)
        if wrong.any():
            raise LanguageError(f"Rules name symbols 0..{symbols - 1}; got {int(self.rules[wrong][0])}.")

    def _check_probabilities(self) -> None:
        everything = torch.cat([self.roots, self.weights, self.emission.flatten()])
        if not (everything >= 0).all():
            raise LanguageError("Probabilities must be numbers that are not negative.")
        totals = self.emission.sum(1).index_add(0, self.rules[:, 0], self.weights)
        sums = [float(self.roots.sum()), *totals.tolist()]
        for name, total in zip(("the start", *self.symbols), sums, strict=True):
            if abs(total - 1) > TOLERANCE:
                raise LanguageError(f"Probabilities of {name} sum to {total:.9g}; they must sum to 1.")

    def _merge(self) -> None:
        used = self.weights > 0
        rules, place = self.rules[used].unique(dim=0, return_inverse=True)
        weights = torch.zeros(len(rules), dtype=self.weights.dtype).index_add(0, place, self.weights[used])
        object.__setattr__(self, "rules", rules)
        object.__setattr__(self, "weights", weights)

    def _check_termination(self) -> None:
        """Grow the set of symbols with a finite derivation until it stays as it is."""
        ends, before = self.emission.sum(1) > 0, None
        while before is None or not torch.equal(ends, before):
            before, (parent, left, right) = ends, self.rules.T
            ends = ends.index_put((parent[ends[left] & ends[right]],), torch.tensor(True))
        if not ends.all():
            never = self.symbols[int((~ends).nonzero()[0])]
            raise LanguageError(f"Symbol {never} never terminates: no derivation turns it into words.")

    @cached_property
    def _graph(self) -> nx.DiGraph:
        """Return an edge from every symbol to each symbol that can stand right below it."""
        graph = nx.DiGraph()
        graph.add_nodes_from(range(len(self.symbols)))
        for child in (1, 2):
            graph.add_edges_from(self.rules[:, (0, child)].tolist())
        return graph

    def nested(self, symbols: Sequence[int]) -> bool:
        """Tell whether one of some symbols can stand below another, or below itself."""
        below = {child for symbol in symbols for child in self._graph[symbol]}
        below |= {further for child in below for further in nx.descendants(self._graph, child)}
        return not below.isdisjoint(symbols)

    @cached_property
    def place(self) -> dict[int, tuple[int, int]]:
        """Return the group of each symbol, and its place there."""
        return {int(s): (g, k) for g, group in enumerate(self.groups) for k, s in enumerate(group)}

    @cached_property
    def _ranked(self) -> tuple[nx.DiGraph, list[list[int]]]:
        """Return the graph of sets of mutually recursive symbols, and these by height."""
        condensed = nx.condensation(self._graph.reverse())
        return condensed, [list(layer) for layer in nx.topological_generations(condensed)]

    @cached_property
    def groups(self) -> list[Int[Tensor, " member"]]:
        """The symbols by height, which is the longest way down to a symbol that only emits.

        The levels of a layered grammar are its groups, the last level first; symbols that are
        recursive through each other share a group.
        """
        condensed, layers = self._ranked
        members = condensed.nodes(data="members")
        return [torch.tensor(sorted(s for part in layer for s in members[part])) for layer in layers]

    @cached_property
    def recursive(self) -> bool:
        """Whether a symbol of some derivation can stand below itself, so that sentences have no longest."""
        roots = set(self.roots.nonzero().flatten().tolist())
        reached = roots.union(*(nx.descendants(self._graph, root) for root in roots))
        return not nx.is_directed_acyclic_graph(self._graph.subgraph(reached))

    @cached_property
    def layered(self) -> bool:
        """Whether both children of every rule stand one group below their parent."""
        height = torch.tensor([self.place[s][0] for s in range(len(self.symbols))])[self.rules]
        return bool((height[:, 1:] == height[:, :1] - 1).all())

    @property
    def longest(self) -> int | None:
        """The number of tokens of the longest sentence, at most `LONGEST`; None where there is no longest."""
        if self.recursive:
            return None
        most = np.ones(len(self.symbols), dtype=int)
        parent, left, right = self.rules.T.numpy()
        for _ in self.groups:
            np.maximum.at(most, parent, np.minimum(most[left] + most[right], LONGEST))
        return int(most[self.roots.numpy() > 0].max())

    @property
    def mean_length(self) -> float:
        """The exact expectation of the number of tokens of a derivation; infinite where it diverges.

        The expectation m of each symbol solves m = Pr(word) + sum of Pr(rule) (m_left + m_right).
        """
        parent, left, right = self.rules.T
        below = torch.zeros(len(self.symbols), len(self.symbols), dtype=torch.float64)
        for child in (left, right):
            below.index_put_((parent, child), self.weights, accumulate=True)
        if torch.linalg.eigvals(below).abs().max() >= 1:
            return float("inf")
        means = torch.linalg.solve(torch.eye(len(below)).double() - below, self.emission.sum(1))
        return float(self.roots @ means)
