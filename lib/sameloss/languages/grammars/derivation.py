"""Sampling from a grammar: all derivations of a batch grow together, one generation at a time.

The sentences of a batch stand end to end in one array of symbols and words. In each generation
every symbol draws a rule from its alias table (Walker 1977; Vose 1991), which takes one random
number whatever the number of rules, and makes room for two where it becomes two. A word becomes
itself, so nothing needs to tell the two apart.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from sameloss.checks import check_count
from sameloss.languages.draws import alias_tables
from sameloss.languages.grammars.grammar import Grammar
from sameloss.languages.language import Sentences

if TYPE_CHECKING:
    from nltk import Tree

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
        check_count("count", count, least=0)
        result = Sentences(torch.zeros(count, self.max_length, dtype=torch.long), torch.zeros(count).long())
        rng, done = _fast(generator), 0
        while done < count:
            *_, last = self._grow(self._attempts(count - done), rng)
            done += self._write(last, result.rows(slice(done, None)))
        return result

    def derive(self, count: int, generator: torch.Generator) -> Derivations:
        """Draw sentences with their trees."""
        check_count("count", count, least=0)
        result = Sentences(torch.zeros(count, self.max_length, dtype=torch.long), torch.zeros(count).long())
        rng = _fast(generator)
        trees: list[Tree] = []
        while len(trees) < count:
            generations = list(self._grow(self._attempts(count - len(trees)), rng))
            written = self._write(generations[-1], result.rows(slice(len(trees), None)))
            kept = (generations[-1].lengths <= self.max_length).tolist()
            trees += list(itertools.compress(self._trees(generations), kept))[:written]
        return Derivations(result, trees)

    def _attempts(self, missing: int) -> int:
        return min(CHUNK, math.ceil(missing / self.acceptance))

    def _grow(self, count: int, rng: np.random.Generator) -> Iterator[Generation]:
        """Yield the generations of a batch, from the start symbols to words alone."""
        nodes = torch.from_numpy(rng.choice(len(self.roots), count, p=self.roots))
        ends = torch.arange(1, count + 1)
        while int(nodes.min()) < self.first_word:
            outcomes = self.tables.draw(nodes, torch.from_numpy(rng.random(len(nodes))))
            yield Generation(nodes, outcomes, ends)
            nodes, ends = self._offspring(outcomes, ends)
            if self.acceptance < 1:
                nodes = self._give_up_long(nodes, ends)
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

    def _give_up_long(self, nodes: Tensor, ends: Tensor) -> Tensor:
        """Stop the growth of derivations that are too long already, by making them words."""
        lengths = ends.diff(prepend=ends.new_zeros(1))
        long = (lengths > self.max_length).repeat_interleave(lengths)
        return nodes.masked_fill(long, self.first_word)

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


def _fast(generator: torch.Generator) -> np.random.Generator:
    """Start numpy's fastest generator from torch's, which takes twice as long for a number."""
    seed = torch.randint(1 << 62, (1,), generator=generator)
    return np.random.Generator(np.random.SFC64(int(seed)))


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
