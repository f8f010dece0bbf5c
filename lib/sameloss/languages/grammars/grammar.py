"""Grammars in Chomsky normal form: validated tables of rule probabilities, and a sampler of derivations."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
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
"""Largest deviation from one of the sum of a symbol's probabilities."""


@dataclass(frozen=True, eq=False)
class Grammar:
    """A grammar whose symbols become two symbols or one word; derivations start from the symbols of `roots`.

    Unary rules of a start symbol are represented by `roots`. Duplicate rules are summed.

    Raises:
        LanguageError: if probabilities are negative or do not sum to one, or a symbol never terminates.

    """

    roots: Float[Tensor, " symbol"]  # Pr(a derivation starts from the symbol)
    rules: Int[Tensor, "rule 3"]  # rows (parent, left, right)
    weights: Float[Tensor, " rule"]  # Pr(parent -> left right)
    emission: Float[Tensor, "symbol word"]  # Pr(symbol -> word + 1)
    symbols: tuple[str, ...]
    vocabulary: tuple[str, ...]

    def __post_init__(self) -> None:
        self._check_probabilities()
        self._merge()
        self._check_termination()

    def _check_probabilities(self) -> None:
        probabilities = torch.cat([self.roots, self.weights, self.emission.flatten()])
        totals = self.emission.sum(1).index_add(0, self.rules[:, 0], self.weights)
        totals = torch.cat([self.roots.sum()[None], totals])
        if not ((probabilities >= 0).all() and ((totals - 1).abs() <= TOLERANCE).all()):
            raise LanguageError("Probabilities of the start and of each symbol must be ≥ 0 and sum to 1.")

    def _merge(self) -> None:
        """Sum duplicate rules, and drop those of probability zero."""
        used = self.weights > 0
        rules, place = self.rules[used].unique(dim=0, return_inverse=True)
        weights = torch.zeros(len(rules), dtype=self.weights.dtype).index_add(0, place, self.weights[used])
        object.__setattr__(self, "rules", rules)
        object.__setattr__(self, "weights", weights)

    def _check_termination(self) -> None:
        parent, left, right = self.rules.T
        ends = self.emission.sum(1) > 0
        for _ in self.symbols:  # reaches the fixed point: every step before it adds a symbol
            ends[parent[ends[left] & ends[right]]] = True
        if not ends.all():
            never = self.symbols[int((~ends).nonzero()[0])]
            raise LanguageError(f"Symbol {never} never terminates: no derivation turns it into words.")

    @cached_property
    def _graph(self) -> nx.DiGraph:
        """Edges from every symbol to its possible children."""
        graph = nx.DiGraph(self.rules[:, [0, 1]].tolist() + self.rules[:, [0, 2]].tolist())
        graph.add_nodes_from(range(len(self.symbols)))
        return graph

    @cached_property
    def groups(self) -> list[Int[Tensor, " member"]]:
        """The symbols by height, the longest path down to a symbol that only emits.

        The levels of a layered grammar are its groups, the last level first; mutually recursive symbols are
        in one group.
        """
        condensed = nx.condensation(self._graph.reverse())
        members = condensed.nodes(data="members")
        layers = nx.topological_generations(condensed)
        return [torch.tensor(sorted(s for part in layer for s in members[part])) for layer in layers]

    @cached_property
    def place(self) -> Int[Tensor, "symbol 2"]:
        """The group of each symbol, and its index in that group."""
        place = torch.empty(len(self.symbols), 2, dtype=torch.long)
        for number, group in enumerate(self.groups):
            place[group, 0], place[group, 1] = number, torch.arange(len(group))
        return place

    @cached_property
    def recursive(self) -> bool:
        """Whether a symbol can be its own descendant in some derivation, so that lengths are unbounded."""
        roots = set(self.roots.nonzero().flatten().tolist())
        reached = roots.union(*(nx.descendants(self._graph, root) for root in roots))
        return not nx.is_directed_acyclic_graph(self._graph.subgraph(reached))

    @cached_property
    def layered(self) -> bool:
        """Whether both children of every rule are one group below their parent."""
        height = self.place[self.rules, 0]
        return bool((height[:, 1:] == height[:, :1] - 1).all())

    @property
    def longest(self) -> int | None:
        """Tokens of the longest sentence; None if the grammar is recursive."""
        if self.recursive:
            return None
        longest = [1] * len(self.symbols)
        by_height = self.place[self.rules[:, 0], 0].argsort()
        for parent, left, right in self.rules[by_height].tolist():
            longest[parent] = max(longest[parent], longest[left] + longest[right])
        return max(longest[root] for root in self.roots.nonzero().flatten().tolist())

    @property
    def mean_length(self) -> float:
        """The exact mean number of tokens of a derivation; infinite if it diverges.

        The means m of the symbols solve m = Pr(word) + sum of Pr(rule) (m_left + m_right).
        """
        parent, left, right = self.rules.T
        below = torch.zeros(len(self.symbols), len(self.symbols), dtype=torch.float64)
        for child in (left, right):
            below.index_put_((parent, child), self.weights, accumulate=True)
        if torch.linalg.eigvals(below).abs().max() >= 1:
            return float("inf")
        means = torch.linalg.solve(torch.eye(len(below)).double() - below, self.emission.sum(1))
        return float(self.roots @ means)


# Sampling: all derivations of a batch grow together, one generation at a time.
#
# The sentences of a batch are concatenated into one array of symbols and words. In each generation every
# symbol draws a rule from its alias table (Walker 1977; Vose 1991), at one random number whatever the number
# of rules, and is replaced by its children. A word becomes itself, so that both are treated alike.

CHUNK = 1 << 14
"""Derivations that grow together, few enough for a processor's cache."""


class Generation(NamedTuple):
    """The nodes of one generation of a batch of derivations."""

    nodes: Int[Tensor, " node"]  # symbols, then words: number of symbols + word - 1
    outcomes: Int[Tensor, " node"]  # rows of the sampler's tables; unused in the last generation
    ends: Int[Tensor, " batch"]  # of the derivations, in `nodes`

    @property
    def lengths(self) -> Int[Tensor, " batch"]:
        """Number of nodes of each derivation."""
        return self.ends.diff(prepend=self.ends.new_zeros(1))


class Derivations(NamedTuple):
    """Sentences and their derivation trees."""

    sentences: Sentences
    trees: list["Tree"]


class Sampler:
    """Draws derivations of at most `max_length` tokens by rejection; immutable, so threads can share it."""

    def __init__(self, grammar: Grammar, max_length: int, acceptance: float) -> None:
        """Build the alias tables; `acceptance` is the probability that a derivation is not too long."""
        self.grammar, self.max_length, self.acceptance = grammar, max_length, acceptance
        self.first_word, self.roots = len(grammar.symbols), (grammar.roots / grammar.roots.sum()).numpy()
        symbol, word = grammar.emission.nonzero().T
        words = torch.arange(self.first_word, self.first_word + len(grammar.vocabulary))
        leaves = torch.cat([self.first_word + word, words])  # of one child, which is both left and right
        owner = torch.cat([grammar.rules[:, 0], symbol, words])
        weights = torch.cat(
            [grammar.weights, grammar.emission[symbol, word], torch.ones(len(words)).double()]
        )
        order = owner.argsort(stable=True)
        self.left, self.right = (torch.cat([grammar.rules[:, side], leaves])[order] for side in (1, 2))
        self.grows = (self.left < self.first_word).byte()  # number of children, minus one
        self.tables = alias_tables(weights[order].split(owner.bincount().tolist()))

    def derive(self, count: int, generator: torch.Generator) -> Derivations:
        """Draw the same sentences as `sample`, with their trees."""
        trees: list[Tree] = []
        return Derivations(self.sample(count, generator, trees), trees)

    def sample(self, count: int, generator: torch.Generator, trees: list["Tree"] | None = None) -> Sentences:
        """Draw sentences; append their derivations to `trees`."""
        check_count("count", count, least=0)
        result = Sentences(torch.zeros(count, self.max_length, dtype=torch.long), torch.zeros(count).long())
        # NumPy's fastest generator: PyTorch's takes twice as long per number
        rng = np.random.Generator(np.random.SFC64(int(torch.randint(1 << 62, (1,), generator=generator))))
        done = 0
        while done < count:
            attempts = min(CHUNK, math.ceil((count - done) / self.acceptance))
            generations = list(self._grow(attempts, rng))
            written = self._write(generations[-1], result.rows(slice(done, None)))
            if trees is not None:
                accepted = (generations[-1].lengths <= self.max_length).tolist()
                trees += list(compress(self._trees(generations), accepted))[:written]
            done += written
        return result

    def _grow(self, count: int, rng: np.random.Generator) -> Iterator[Generation]:
        """Yield the generations of a batch, from start symbols to words only."""
        nodes = torch.from_numpy(rng.choice(len(self.roots), count, p=self.roots))
        ends = torch.arange(1, count + 1)
        while int(nodes.min()) < self.first_word:
            outcomes = self.tables.draw(nodes, torch.from_numpy(rng.random(len(nodes))))
            yield Generation(nodes, outcomes, ends)
            nodes, ends = self._offspring(outcomes, ends)
            if self.acceptance < 1:  # derivations that are already too long stop: all nodes become words
                lengths = ends.diff(prepend=ends.new_zeros(1))
                long = (lengths > self.max_length).repeat_interleave(lengths)
                nodes = nodes.masked_fill(long, self.first_word)
        yield Generation(nodes, nodes, ends)

    def _offspring(self, outcomes: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        """Replace every node by its children."""
        left, grows = self.left.index_select(0, outcomes), self.grows.index_select(0, outcomes)
        if int(left.min()) >= self.first_word:
            return left, ends
        last = grows.cumsum(0).add_(torch.arange(len(outcomes)))  # indices of the right children
        nodes = torch.empty(int(last[-1]) + 1, dtype=torch.long)
        nodes.scatter_(0, last, self.right.index_select(0, outcomes))
        nodes.scatter_(0, last - grows, left)
        return nodes, last[ends - 1] + 1

    def _write(self, last: Generation, room: Sentences) -> int:
        """Copy the sentences that are not too long into rows of zeros; return their number."""
        accepted = last.lengths <= self.max_length
        nodes = last.nodes if self.acceptance == 1 else last.nodes[accepted.repeat_interleave(last.lengths)]
        lengths = last.lengths[accepted][: len(room.lengths)]
        inside = torch.arange(self.max_length) < lengths[:, None]
        room.tokens[: len(lengths)].masked_scatter_(inside, nodes - (self.first_word - 1))
        room.lengths[: len(lengths)] = lengths
        return len(lengths)

    def _trees(self, generations: Sequence[Generation]) -> list["Tree"]:
        """Assemble trees from the last generation upwards: parents take their children in order."""
        from nltk import Tree  # takes seconds

        names = (*self.grammar.symbols, *self.grammar.vocabulary)
        trees = [names[node] for node in generations[-1].nodes.tolist()]
        for nodes, outcomes, _ in reversed(generations[:-1]):
            children = iter(trees)
            trees = [
                next(children) if node >= self.first_word
                else Tree(names[node], [next(children) for _ in range(1 + grows)])
                for node, grows in zip(nodes.tolist(), self.grows[outcomes].tolist(), strict=True)
            ]  # fmt: skip
        return trees
