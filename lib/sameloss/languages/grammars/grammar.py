"""Grammars in Chomsky normal form: tables of probabilities, checked when they are made, and their sampler."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import networkx as nx
import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sameloss.checks import check_count
from sameloss.errors import LanguageError
from sameloss.languages.draws import alias_tables
from sameloss.languages.language import Sentences

if TYPE_CHECKING:
    from nltk import Tree


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


# Sampling from a grammar: all derivations of a batch grow together, one generation at a time.
#
# The sentences of a batch stand end to end in one array of symbols and words. In each generation
# every symbol draws a rule from its alias table (Walker 1977; Vose 1991), which takes one random
# number whatever the number of rules, and makes room for two where it becomes two. A word becomes
# itself, so nothing needs to tell the two apart.

CHUNK = 1 << 14
"""Derivations that grow together: few enough for a processor's cache."""


class Generation(NamedTuple):
    """What stands in every derivation of a batch, and what became of it."""

    nodes: Int[Tensor, " node"]  # symbols, then words: number of symbols + word - 1
    outcomes: Int[Tensor, " node"]  # rows of the sampler's tables; unused in the last generation
    ends: Int[Tensor, " batch"]  # of the sentences, in `nodes`

    @property
    def lengths(self) -> Int[Tensor, " batch"]:
        """Return how many nodes each derivation has."""
        return self.ends.diff(prepend=self.ends.new_zeros(1))


class Derivations(NamedTuple):
    """Sentences and the tree of each; nltk draws, prints and transforms them."""

    sentences: Sentences
    trees: list["Tree"]


class Sampler:
    """Draws derivations; read-only once made, so that threads can share it."""

    def __init__(self, grammar: Grammar, max_length: int, acceptance: float) -> None:
        """Make the alias tables.

        Args:
            grammar: what to draw from.
            max_length: longer derivations are given up.
            acceptance: the probability that one is not.

        """
        self.grammar, self.max_length, self.acceptance = grammar, max_length, acceptance
        self.first_word, self.roots = len(grammar.symbols), (grammar.roots / grammar.roots.sum()).numpy()
        owner, self.left, self.right, weights = _outcomes(grammar)
        self.grows = (self.left < self.first_word).byte()  # a symbol on the left has one on its right
        self.tables = alias_tables(owner, weights)

    def sample(self, count: int, generator: torch.Generator) -> Sentences:
        """Draw sentences."""
        return self._draw(count, generator, None)

    def derive(self, count: int, generator: torch.Generator) -> Derivations:
        """Draw the same sentences with their trees."""
        trees: list[Tree] = []
        return Derivations(self._draw(count, generator, trees), trees)

    def _draw(self, count: int, generator: torch.Generator, trees: list["Tree"] | None) -> Sentences:
        check_count("count", count, least=0)
        result = Sentences(torch.zeros(count, self.max_length, dtype=torch.long), torch.zeros(count).long())
        # numpy's fastest generator: torch's takes twice as long for a number
        rng = np.random.Generator(np.random.SFC64(int(torch.randint(1 << 62, (1,), generator=generator))))
        done = 0
        while done < count:
            attempts = min(CHUNK, math.ceil((count - done) / self.acceptance))
            generations = list(self._grow(attempts, rng))
            written = self._write(generations[-1], result.rows(slice(done, None)))
            if trees is not None:
                kept = (generations[-1].lengths <= self.max_length).tolist()
                trees += list(itertools.compress(self._trees(generations), kept))[:written]
            done += written
        return result

    def _grow(self, count: int, rng: np.random.Generator) -> Iterator[Generation]:
        """Yield the generations of a batch, from the start symbols to words alone."""
        nodes = torch.from_numpy(rng.choice(len(self.roots), count, p=self.roots))
        ends = torch.arange(1, count + 1)
        while int(nodes.min()) < self.first_word:
            outcomes = self.tables.draw(nodes, torch.from_numpy(rng.random(len(nodes))))
            yield Generation(nodes, outcomes, ends)
            nodes, ends = self._offspring(outcomes, ends)
            if self.acceptance < 1:  # what is too long already grows no more: it becomes words
                lengths = ends.diff(prepend=ends.new_zeros(1))
                long = (lengths > self.max_length).repeat_interleave(lengths)
                nodes = nodes.masked_fill(long, self.first_word)
        yield Generation(nodes, nodes, ends)

    def _offspring(self, outcomes: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        left, grows = self.left.index_select(0, outcomes), self.grows.index_select(0, outcomes)
        if int(left.min()) >= self.first_word:
            return left, ends
        last = grows.cumsum(0).add_(torch.arange(len(outcomes)))  # where the right child goes
        nodes = torch.empty(int(last[-1]) + 1, dtype=torch.long)
        nodes.scatter_(0, last, self.right.index_select(0, outcomes))
        nodes.scatter_(0, last - grows, left)
        return nodes, last[ends - 1] + 1

    def _write(self, last: Generation, room: Sentences) -> int:
        """Write the sentences that are not too long into rows of zeros; return how many there were."""
        kept = last.lengths <= self.max_length
        nodes = last.nodes if self.acceptance == 1 else last.nodes[kept.repeat_interleave(last.lengths)]
        lengths = last.lengths[kept][: len(room.lengths)]
        inside = torch.arange(self.max_length) < lengths[:, None]
        room.tokens[: len(lengths)].masked_scatter_(inside, nodes - (self.first_word - 1))
        room.lengths[: len(lengths)] = lengths
        return len(lengths)

    def _trees(self, generations: Sequence[Generation]) -> list["Tree"]:
        """Put the generations together from the last: parents take their children in order."""
        from nltk import Tree  # takes seconds

        names = (*self.grammar.symbols, *self.grammar.vocabulary)
        standing = [names[node] for node in generations[-1].nodes.tolist()]
        for nodes, outcomes, _ in reversed(generations[:-1]):
            below = iter(standing)
            two = self.grows[outcomes].tolist()
            standing = [
                next(below) if node >= self.first_word
                else Tree(names[node], [next(below) for _ in range(1 + grows)])
                for node, grows in zip(nodes.tolist(), two, strict=True)
            ]  # fmt: skip
        return standing


def _outcomes(grammar: Grammar) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """List what every node can become: owner, left child, right child, probability.

    A single child stands on both sides.
    """
    first_word = len(grammar.symbols)
    symbol, word = grammar.emission.nonzero().T
    words = torch.arange(first_word, first_word + len(grammar.vocabulary))
    owner = torch.cat([grammar.rules[:, 0], symbol, words])
    left = torch.cat([grammar.rules[:, 1], first_word + word, words])
    right = torch.cat([grammar.rules[:, 2], first_word + word, words])
    weights = torch.cat([grammar.weights, grammar.emission[symbol, word], torch.ones(len(words)).double()])
    order = owner.argsort(stable=True)
    return owner[order], left[order], right[order], weights[order]
