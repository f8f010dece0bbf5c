"""Sampling from a grammar: all derivations of a batch grow together, one generation at a time.

The sentences of a batch stand end to end in one array of symbols and words. In each generation
every symbol draws a rule from its alias table (Walker 1977; Vose 1991), which takes one random
number whatever the number of rules, and makes room for two where it becomes two. A word becomes
itself, so nothing needs to tell the two apart.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from sameloss.languages.alias import alias_tables
from sameloss.languages.grammar import Grammar
from sameloss.languages.language import Sentences

if TYPE_CHECKING:
    from nltk import Tree

CHUNK = 1 << 13
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
        self.first_word = len(grammar.symbols)
        owner, self.left, self.right, weights = _outcomes(grammar)
        self.grows = (self.right != self.left) | (self.left < self.first_word)
        self.tables = alias_tables(owner, weights)

    def sample(self, count: int, generator: torch.Generator) -> Sentences:
        """Draw sentences."""
        none = torch.zeros(0, self.max_length + 1, dtype=torch.long)
        parts = [Sentences(none[:, 1:], none[:, 0])]
        while (missing := count - sum(len(part.lengths) for part in parts)) > 0:
            *_, last = self._grow(self._attempts(missing), generator)
            parts.append(self._sentences(last).rows(slice(missing)))
        return Sentences.joined(parts)

    def derive(self, count: int, generator: torch.Generator) -> Derivations:
        """Draw sentences with their trees."""
        trees: list = []
        parts: list[Sentences] = []
        while (missing := count - len(trees)) > 0:
            generations = list(self._grow(self._attempts(missing), generator))
            kept = (generations[-1].lengths <= self.max_length).tolist()
            found = [tree for tree, keep in zip(self._trees(generations), kept, strict=True) if keep]
            trees += found[:missing]
            parts.append(self._sentences(generations[-1]).rows(slice(missing)))
        return Derivations(Sentences.joined(parts), trees)

    def _attempts(self, missing: int) -> int:
        return min(CHUNK, math.ceil(missing / self.acceptance))

    def _grow(self, count: int, generator: torch.Generator) -> Iterator[Generation]:
        """Yield the generations of a batch, from the start symbols to words alone."""
        nodes = torch.multinomial(self.grammar.roots, count, True, generator=generator)
        ends = torch.arange(1, count + 1)
        while bool((nodes < self.first_word).any()):
            outcomes = self.tables.draw(nodes, generator)
            yield Generation(nodes, outcomes, ends)
            nodes, ends = self._offspring(outcomes, ends)
            if self.acceptance < 1:
                nodes = self._give_up_long(nodes, ends)
        yield Generation(nodes, nodes, ends)

    def _offspring(self, outcomes: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
        grows = self.grows[outcomes]
        if not grows.any():
            return self.left[outcomes], ends
        after = (grows.long() + 1).cumsum(0)
        nodes = torch.empty(int(after[-1]), dtype=torch.long)
        nodes[after - 1] = self.right[outcomes]
        nodes[after - 1 - grows.long()] = self.left[outcomes]
        return nodes, after[ends - 1]

    def _give_up_long(self, nodes: Tensor, ends: Tensor) -> Tensor:
        """Stop the growth of derivations that are too long already, by making them words."""
        lengths = ends.diff(prepend=ends.new_zeros(1))
        long = (lengths > self.max_length).repeat_interleave(lengths)
        return nodes.masked_fill(long, self.first_word)

    def _sentences(self, last: Generation) -> Sentences:
        lengths = last.lengths
        kept = lengths <= self.max_length
        nodes = last.nodes[kept.repeat_interleave(lengths)] if self.acceptance < 1 else last.nodes
        inside = torch.arange(self.max_length) < lengths[kept][:, None]
        tokens = torch.zeros(inside.shape, dtype=torch.long)
        return Sentences(tokens.masked_scatter_(inside, nodes - self.first_word + 1), lengths[kept])

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
