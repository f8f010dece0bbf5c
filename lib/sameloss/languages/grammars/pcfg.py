"""Probabilistic context-free grammars as languages with exact conditionals (Section 2.2, App. A.2)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import chain
from math import log, prod
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sameloss.checks import check_count
from sameloss.device import ACCELERATOR
from sameloss.errors import LanguageError
from sameloss.languages.grammars.grammar import Derivations, Grammar, Sampler
from sameloss.languages.language import Sentences, check_possible, check_task, check_tokens

# The inside and outside algorithms for grammars in Chomsky normal form (Lari & Young 1990), batched.
#
# Symbols are grouped by height (see `Grammar.groups`), so that most groups never meet in a rule. The chart
# has a cell only if its group can cover its span in some derivation of the whole sentence, so the chart of a
# layered grammar is nearly empty.
#
# Scores are probabilities, not logarithms, with axes (symbol, start, sentence). The sentence axis comes last
# because it is the long one, along which every operation is vectorised.


class Block(NamedTuple):
    """The rules from the symbols of one group to pairs of symbols of two groups."""

    left: int
    right: int
    weights: Float[Tensor, "_symbol _left _right"]  # Pr(symbol -> left right)


class Cell(NamedTuple):
    """A group over spans of `span` tokens that start at `first`, `first` + 1, ..."""

    group: int
    span: int
    first: int


class Split(NamedTuple):
    """One way to fill a cell: the cells of its left and right parts, and their starts in them."""

    block: int
    left: Cell
    left_starts: slice
    right: Cell
    right_starts: slice


class Step(NamedTuple):
    """A cell to fill, its number of starts, and its splits (none for single tokens)."""

    cell: Cell
    starts: int
    splits: tuple[Split, ...]


Chart = dict[Cell, Tensor]
"""Inside scores, axes (symbol, start, sentence)."""

Branching = Sequence[Sequence[Block]]
"""The blocks of every group."""


def possible_spans(branching: Branching, emits: Sequence[bool], longest: int) -> list[set[int]]:
    """Find the numbers of tokens up to `longest` that each group can cover."""
    spans = [{1} if emit else set() for emit in emits]
    for span in range(2, longest + 1):
        for group, blocks in enumerate(branching):
            if any(_parts(blocks, spans, span)):
                spans[group].add(span)
    return spans


def plan(
    branching: Branching, spans: Sequence[set[int]], length: int, roots: Sequence[int]
) -> tuple[Step, ...]:
    """List the cells that derivations of `length` tokens from the root groups can use, short spans first."""
    runs = {key: _runs(starts) for key, starts in _reachable(branching, spans, length, roots).items()}

    def within(group: int, span: int, start: int, count: int) -> tuple[Cell, slice]:
        """Find the cell that contains a range of starts, and the range relative to it."""
        first = max(run.start for run in runs[group, span] if run.start <= start)
        return Cell(group, span, first), slice(start - first, start - first + count)

    steps = []
    for group, span in sorted(runs, key=lambda key: key[1]):
        for run in runs[group, span]:
            splits = tuple(
                Split(
                    number,
                    *within(block.left, part, run.start, len(run)),
                    *within(block.right, span - part, run.start + part, len(run)),
                )
                for number, block, part in _parts(branching[group], spans, span)
            )
            steps.append(Step(Cell(group, span, run.start), len(run), splits))
    return tuple(steps)


def _parts(blocks: Sequence[Block], spans: Sequence[set[int]], span: int) -> Iterator[tuple[int, Block, int]]:
    """Yield (index of a block, block, tokens of the left part) for every way to split a span."""
    for number, block in enumerate(blocks):
        for part in sorted(spans[block.left]):
            if span - part in spans[block.right]:
                yield number, block, part


def _reachable(
    branching: Branching, spans: Sequence[set[int]], length: int, roots: Sequence[int]
) -> dict[tuple[int, int], set[int]]:
    """Find the starts of every (group, span) below the roots."""
    starts = defaultdict(set, {(root, length): {0} for root in roots if length in spans[root]})
    for span in range(length, 1, -1):
        for group in [group for group, s in list(starts) if s == span]:
            for _, block, part in _parts(branching[group], spans, span):
                starts[block.left, part] |= starts[group, span]
                starts[block.right, span - part] |= {start + part for start in starts[group, span]}
    return starts


def _runs(starts: set[int]) -> list[range]:
    """Partition a set of integers into ranges, so that charts are read by slices only."""
    edges = sorted(start for start in starts if start - 1 not in starts)
    ends = sorted(start + 1 for start in starts if start + 1 not in starts)
    return [range(a, b) for a, b in zip(edges, ends, strict=True)]


def inside(
    steps: Sequence[Step], branching: Branching, leaves: Sequence[Float[Tensor, "_symbol seq batch"]]
) -> Chart:
    r"""Fill the chart: $I_s(i, j) = \sum_{s\to lr} \Pr(s\to lr) \sum_k I_l(i, k)\, I_r(k, j)$.

    Args:
        steps: from `plan`.
        branching: the rules.
        leaves: for every group, Pr(s -> token t), up to a factor per token.

    """
    chart: Chart = {}
    for cell, starts, splits in steps:
        if splits:
            chart[cell] = _combined(chart, branching[cell.group], splits)
        else:
            chart[cell] = leaves[cell.group][:, cell.first : cell.first + starts]
    return chart


def _combined(chart: Chart, blocks: Sequence[Block], splits: Sequence[Split]) -> Tensor:
    """Inside scores of a cell, summed over its splits."""
    pairs: dict[int, Tensor] = {}
    for split in splits:
        left = chart[split.left][:, split.left_starts][:, None]
        right = chart[split.right][:, split.right_starts][None]
        total = pairs.get(split.block)
        pairs[split.block] = left * right if total is None else total.addcmul_(left, right)
    scores = (torch.einsum("slr,lrib->sib", blocks[number].weights, pair) for number, pair in pairs.items())
    return reduce(torch.add, scores)


def outside(
    steps: Sequence[Step], branching: Branching, chart: Chart, roots: dict[Cell, Float[Tensor, " _symbol"]]
) -> Chart:
    r"""Compute the gradient of Pr(x), the sum of `roots` times the inside scores of whole sentences.

    $$O_l(i, k) = \sum_{s\to lr} \Pr(s\to lr) \sum_j O_s(i, j)\, I_r(k, j), \text{ and the same for } r.$$

    Args:
        steps: from `plan`.
        branching: the rules.
        chart: the inside scores.
        roots: Pr(a derivation starts from the symbol), for the cells that cover whole sentences.

    """
    result = {cell: torch.zeros_like(scores) for cell, scores in chart.items()}
    for cell, weights in roots.items():
        result[cell] += weights[:, None, None]
    for cell, _, splits in reversed(steps):
        blocks = branching[cell.group] if splits else ()
        pairs = [torch.einsum("slr,sib->lrib", block.weights, result[cell]) for block in blocks]
        for split in splits:
            left = chart[split.left][:, split.left_starts]
            right = chart[split.right][:, split.right_starts]
            result[split.left][:, split.left_starts] += (pairs[split.block] * right).sum(1)
            result[split.right][:, split.right_starts] += (pairs[split.block] * left[:, None]).sum(0)
    return result


# The language of a grammar.

CHUNK_BYTES = {"cpu": 1 << 23, ACCELERATOR: 1 << 30}
"""Largest intermediate of the inside pass; determines the number of sentences per chunk."""

LARGEST_TABLE = 1 << 27
"""Largest number of entries in a table of binary rules (1 GB)."""

LONGEST = 512
"""Longest sentences, in tokens, for which charts are planned."""

LEAST_ACCEPTANCE = 1e-3
"""Smallest probability of a sentence within the `length_limit`."""

LEAST = 1e-290
"""Smallest score of a sentence that has lost no digit to underflow."""


class Task(NamedTuple):
    """A downstream task: which of these symbols is above the first tokens (App. A.1)."""

    symbols: tuple[int, ...]
    span: int  # number of tokens that the likelihood reads


class Tables(NamedTuple):
    """The tables of the inside pass on one device, as lists over the grammar's groups."""

    branching: list[list[Block]]  # weights times 2 ** `octaves` of the language
    leaves: list[Tensor]  # (symbol, word + 1); column 0, for [MASK], is the sum of the others
    roots: list[Tensor]

    def to(self, device: torch.device) -> "Tables":
        branching = [[b._replace(weights=b.weights.to(device)) for b in blocks] for blocks in self.branching]
        return Tables(branching, *([t.to(device) for t in tables] for tables in self[1:]))


class PCFG:
    """The language of a grammar; of a recursive one, conditioned on at most `length_limit` tokens.

    The task `root` asks for the symbol from which a derivation starts; in a layered grammar `span16`,
    `span8`, ... ask for the symbols of the inner levels.
    """

    def __init__(self, grammar: Grammar, length_limit: int | None = None) -> None:
        """Prepare the inside pass and the sampler.

        Args:
            grammar: the rules.
            length_limit: largest number of tokens of a sentence; optional unless the grammar is recursive.

        Raises:
            LanguageError: if a recursive grammar has no `length_limit`, if (almost) no sentence is within
                it, or if a table of rules would be too large.
            ParameterError: if `length_limit` is not a positive whole number.

        """
        self.grammar, self.words = grammar, len(grammar.vocabulary)
        self._octaves = _octaves(grammar)
        self._tables = tables = _grouped_tables(grammar, 2.0**self._octaves)
        self._plans: dict[tuple[int, tuple[int, ...]], tuple[Step, ...]] = {}
        emits = [bool(leaf.any()) for leaf in tables.leaves]
        self._spans = possible_spans(tables.branching, emits, _limit(grammar, length_limit))
        self._top = tuple(group for group, roots in enumerate(tables.roots) if roots.any())
        self.possible_lengths = sorted(set().union(*(self._spans[group] for group in self._top)))
        if not self.possible_lengths:
            raise LanguageError(f"No sentence has at most {length_limit} tokens; raise length_limit.")
        self.max_length, self._acceptance = self.possible_lengths[-1], 1.0
        if grammar.longest != self.max_length:
            lengths = torch.tensor(self.possible_lengths)
            masks = torch.zeros(len(lengths), self.max_length, dtype=torch.long)
            self._acceptance = float(self.log_prob(Sentences(masks, lengths)).exp().sum())
        if self._acceptance < LEAST_ACCEPTANCE:
            raise LanguageError(
                f"Only {self._acceptance:.1g} of the derivations have at most {self.max_length} tokens; "
                "raise length_limit."
            )
        self._sampler = Sampler(grammar, self.max_length, self._acceptance)
        self._tasks = {"root": Task(tuple(grammar.roots.nonzero().flatten().tolist()), self.max_length)}
        for height in range(len(grammar.groups) - 2, 0, -1) if grammar.layered else ():
            self._tasks[f"span{2**height}"] = Task(tuple(grammar.groups[height].tolist()), 2**height)
        self.tasks = tuple(self._tasks)

    def classes(self, task: str) -> int:
        """Number of symbols to choose from."""
        check_task(self, task)
        return len(self._tasks[task].symbols)

    def sample(self, count: int, generator: torch.Generator) -> Sentences:
        """Draw independent sentences."""
        return self._sampler.sample(count, generator)

    def derive(self, count: int, generator: torch.Generator) -> Derivations:
        """Draw the same sentences as `sample`, with their derivation trees."""
        return self._sampler.derive(count, generator)

    def log_prob(self, sentences: Sentences) -> Float[Tensor, " batch"]:
        """Compute log Pr(x) in nats; masked tokens are summed out, impossible sentences have -inf."""
        tokens = sentences.tokens
        result = torch.full(tokens.shape[:1], -torch.inf, dtype=torch.float64, device=tokens.device)
        for rows, part in self._chunks(sentences):
            if part.shape[1] in self.possible_lengths:
                chart, scale = self._inside(part, self._top)
                rules = (part.shape[1] - 1) * self._octaves * log(2)
                result[rows] = self._score(chart, part).log() - rules + scale.log().sum(0)
        return result - log(self._acceptance)

    def conditionals(self, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
        r"""Compute Pr(x_t | x_-t) at all positions by one inside and one outside pass (App. A.2).

        Pr(x) is linear in the leaf scores at t; its gradient O_t(s) is the outside score, and

        $$\Pr(x_t = w \mid x_{-t}) \propto \sum_s O_t(s) \Pr(s \to w).$$

        Any number of masked tokens is summed out.

        Returns:
            float64 probabilities; rows of padding are zero.

        Raises:
            LanguageError: if Pr(x_-t) is zero.

        """
        tokens = sentences.tokens
        result = torch.zeros(*tokens.shape, self.words, dtype=torch.float64, device=tokens.device)
        for rows, part in self._chunks(sentences):
            scores, leaf = self._outside(part)
            masked = torch.einsum("stb,s->bt", scores, leaf[:, 0])  # Pr(x_-t): token t summed out
            check_possible(masked >= LEAST, rows)
            result[rows, : part.shape[1]] = torch.einsum("stb,sw->btw", scores / masked.T, leaf[:, 1:])
        return result

    def _outside(
        self, tokens: Int[Tensor, "batch seq"]
    ) -> tuple[Float[Tensor, "symbol seq batch"], Float[Tensor, "symbol _column"]]:
        """Outside scores of the leaves of all emitting groups and, in the same order, their leaf tables."""
        tables = self._tables.to(tokens.device)
        scores = [table.new_zeros(len(table), *tokens.T.shape) for table in tables.leaves]
        for cell, score in self._inside_outside(tokens)[1].items():
            if cell.span == 1:
                scores[cell.group][:, cell.first : cell.first + score.shape[1]] = score
        emitting = [group for group, table in enumerate(tables.leaves) if table.any()]
        return torch.cat([scores[g] for g in emitting]), torch.cat([tables.leaves[g] for g in emitting])

    def _inside_outside(self, tokens: Int[Tensor, "batch seq"]) -> tuple[Chart, Chart]:
        """Inside and outside scores of sentences; a LanguageError if none has their length."""
        if (length := tokens.shape[1]) not in self.possible_lengths:
            raise LanguageError(
                f"No sentence has {length} tokens; possible lengths are {self.possible_lengths}."
            )
        chart, _ = self._inside(tokens, self._top)
        steps, branching = self._plans[length, self._top], self._tables.to(tokens.device).branching
        return chart, outside(steps, branching, chart, self._roots(chart, tokens))

    def likelihood(self, sentences: Sentences, task: str) -> Float[Tensor, "batch class"]:
        """Compute Pr(x_1..x_L | symbol) up to a factor per sentence, where L is the task's span.

        The released code labels by this. A row is zero if no symbol of the task derives exactly these tokens,
        which is possible with early stopping.
        """
        return self._by_symbol(sentences, task, self._likelihood)

    def _likelihood(self, tokens: Tensor, task: Task) -> dict[int, Tensor]:
        tokens = tokens[:, : task.span]
        groups = tuple(dict.fromkeys(self.grammar.place[list(task.symbols), 0].tolist()))
        chart, _ = self._inside(tokens, groups)
        return {cell.group: scores[:, 0] for cell, scores in chart.items() if cell.span == tokens.shape[1]}

    def posterior(self, sentences: Sentences, task: str) -> Float[Tensor, "batch class"]:
        """Compute Pr(the task's symbol above the first token is s | x).

        A row sums to one, minus the probability that early stopping ends the first branch above the task's
        symbols.
        """
        return self._by_symbol(sentences, task, self._posterior)

    def _posterior(self, tokens: Tensor, task: Task) -> dict[int, Tensor]:
        chart, outer = self._inside_outside(tokens)
        score = self._score(chart, tokens)
        if not (score >= LEAST).all():
            raise LanguageError("A sentence cannot occur in this language, so it has no posterior.")
        joint: dict[int, Tensor] = {}
        for cell in chart:
            if cell.first == 0 and (cell.span == tokens.shape[1] or task is not self._tasks["root"]):
                mass = chart[cell][:, 0] * outer[cell][:, 0]
                joint[cell.group] = joint.get(cell.group, 0) + mass
        return {group: mass / score for group, mass in joint.items()}

    def _by_symbol(
        self, sentences: Sentences, task: str, score: Callable[[Tensor, Task], dict[int, Tensor]]
    ) -> Float[Tensor, "batch class"]:
        """Collect the scores of a task's symbols from those of their groups (member, batch)."""
        check_task(self, task)
        places = self.grammar.place[list(self._tasks[task].symbols)].tolist()
        shape, device = (len(sentences.lengths), len(places)), sentences.tokens.device
        result = torch.zeros(shape, dtype=torch.float64, device=device)
        for rows, tokens in self._chunks(sentences):
            scores = score(tokens, self._tasks[task])
            for column, (group, member) in enumerate(places):
                if group in scores:
                    result[rows, column] = scores[group][member]
        return result

    def _inside(
        self, tokens: Int[Tensor, "batch seq"], groups: tuple[int, ...]
    ) -> tuple[Chart, Float[Tensor, "seq batch"]]:
        """Run the inside pass for derivations that start from `groups`; also return the scale of the leaves.

        [MASK] scores the sum over words, so it is summed out. The scale, a token's largest score, keeps
        products in range and cancels in every conditional.
        """
        check_tokens(tokens, self.words)
        tables, key = self._tables.to(tokens.device), (tokens.shape[1], groups)
        leaves = [table[:, tokens.T] for table in tables.leaves]
        scale = torch.stack([leaf.amax(0) for leaf in leaves]).amax(0).clamp(min=1e-300)
        if key not in self._plans:
            self._plans[key] = plan(tables.branching, self._spans, *key)
        return inside(self._plans[key], tables.branching, [leaf / scale for leaf in leaves]), scale

    def _roots(self, chart: Chart, tokens: Tensor) -> dict[Cell, Tensor]:
        """Start probabilities of the cells that cover whole sentences."""
        roots = self._tables.to(tokens.device).roots
        cells = [Cell(group, tokens.shape[1], 0) for group in self._top]
        return {cell: roots[cell.group] for cell in cells if cell in chart}

    def _score(self, chart: Chart, tokens: Tensor) -> Float[Tensor, " batch"]:
        """Compute Pr(x), up to the scale of its tokens."""
        roots = self._roots(chart, tokens)
        return reduce(torch.add, (weights @ chart[cell][:, 0] for cell, weights in roots.items()))

    def _chunks(self, sentences: Sentences) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield chunks of sentences of one length whose largest intermediate is within bounds."""
        blocks = chain(*self._tables.branching)
        pairs = max((block.weights[0].numel() for block in blocks), default=1)
        floats = CHUNK_BYTES[sentences.tokens.device.type] // 8
        yield from sentences.chunks(max(1, floats // (pairs * sentences.tokens.shape[1])))


def _limit(grammar: Grammar, length_limit: int | None) -> int:
    """The largest number of tokens under the grammar and the limit; a LanguageError if it is too large."""
    if length_limit is not None:
        check_count("length_limit", length_limit)
    limits = [x for x in (grammar.longest, length_limit) if x is not None]
    if not limits:
        raise LanguageError("The grammar is recursive, so no sentence is the longest; give length_limit.")
    if min(limits) > LONGEST:
        raise LanguageError(
            f"Sentences have up to {min(limits):,} tokens, and exact conditionals take minutes from "
            f"{LONGEST} on; give a length_limit of at most {LONGEST}."
        )
    return min(limits)


def _octaves(grammar: Grammar) -> int:
    """The power of two that scales a typical rule's weight to about one.

    A derivation of n tokens has n - 1 binary rules, so a factor common to all of them cancels; with it, the
    scores of long sentences stay in range.
    """
    weights = grammar.weights
    return round(float(torch.special.entr(weights).sum() / weights.sum() / log(2))) if len(weights) else 0


def _grouped_tables(grammar: Grammar, factor: float) -> Tables:
    """Arrange the grammar by groups, with rule weights times `factor`."""
    groups, members = grammar.place[grammar.rules].unbind(-1)
    branching: list[list[Block]] = [[] for _ in grammar.groups]
    for parent, left, right in dict.fromkeys(map(tuple, groups.tolist())):
        shape = [len(grammar.groups[group]) for group in (parent, left, right)]
        if prod(shape) > LARGEST_TABLE:
            raise LanguageError(
                f"Rules between {' × '.join(map(str, shape))} symbols need a table of more than "
                f"{LARGEST_TABLE:,} entries; a grammar with fewer mutually recursive symbols is needed."
            )
        rules = (groups == torch.tensor([parent, left, right])).all(1)
        weights = torch.zeros(shape, dtype=torch.float64)
        weights[tuple(members[rules].T)] = factor * grammar.weights[rules]
        branching[parent].append(Block(left, right, weights))
    emission = [grammar.emission[group] for group in grammar.groups]
    leaves = [torch.cat([e.sum(1, keepdim=True), e], dim=1) for e in emission]
    return Tables(branching, leaves, [grammar.roots[group] for group in grammar.groups])
