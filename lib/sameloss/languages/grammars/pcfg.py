"""Probabilistic context-free grammars as languages with exact conditionals (Section 2.2, App. A.2)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from math import log
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sameloss.errors import LanguageError
from sameloss.languages.grammars.grammar import Derivations, Grammar, Sampler
from sameloss.languages.language import Sentences, check_possible, check_tokens

# The inside and outside algorithms for grammars in Chomsky normal form (Lari & Young 1990), in batches.
#
# Symbols stand in groups such that most groups never meet in a rule: the levels of a layered grammar,
# and the recursive parts of any other. A cell of the chart exists only where its group can cover its
# span inside some derivation of the whole sentence, so a layered grammar's chart is nearly empty.
#
# Scores are probabilities, not logarithms, with axes (symbol, start, sentence): the sentence axis
# comes last because it is the long one, and every operation runs along it.


class Block(NamedTuple):
    """The rules from one group's symbols into pairs of symbols of two groups."""

    left: int
    right: int
    weights: Float[Tensor, "_symbol _left _right"]  # Pr(symbol -> left right)


class Cell(NamedTuple):
    """A group over all spans of `span` tokens that start at `first`, `first` + 1, ..."""

    group: int
    span: int
    first: int


class Split(NamedTuple):
    """One way to fill a cell: where its left and right parts stand."""

    block: int
    left: Cell
    left_starts: slice
    right: Cell
    right_starts: slice


class Step(NamedTuple):
    """A cell to fill, how many starts it has, and its splits (none: one token)."""

    cell: Cell
    starts: int
    splits: tuple[Split, ...]


Chart = dict[Cell, Tensor]
"""Inside scores, axes (symbol, start, sentence)."""

Branching = Sequence[Sequence[Block]]
"""The blocks of every group."""


def possible_spans(branching: Branching, emits: Sequence[bool], longest: int) -> list[set[int]]:
    """Return, for every group, the numbers of tokens up to `longest` that it can cover."""
    spans = [{1} if emit else set() for emit in emits]
    for span in range(2, longest + 1):
        for group, blocks in enumerate(branching):
            if any(span - part in spans[b.right] for b in blocks for part in spans[b.left]):
                spans[group].add(span)
    return spans


def plan(
    branching: Branching, spans: Sequence[set[int]], length: int, roots: Sequence[int]
) -> tuple[Step, ...]:
    """List the cells that derivations of `length` tokens from some root groups can use, short first."""
    starts = _reachable(branching, spans, length, roots)
    cells = {
        (group, span): [Cell(group, span, run.start) for run in _runs(where)]
        for (group, span), where in starts.items()
    }
    steps = []
    for group, span in sorted(starts, key=lambda item: item[1]):
        for run in _runs(starts[group, span]):
            splits = [
                Split(
                    number,
                    *_within(cells[block.left, part], run.start, run.stop),
                    *_within(cells[block.right, span - part], run.start + part, run.stop + part),
                )
                for number, block, part in _parts(branching[group], spans, span)
            ]
            steps.append(Step(Cell(group, span, run.start), len(run), tuple(splits)))
    return tuple(steps)


def _parts(blocks: Sequence[Block], spans: Sequence[set[int]], span: int) -> Iterator[tuple[int, Block, int]]:
    """Yield (number, block, tokens of the left part) for every way to divide a span."""
    for number, block in enumerate(blocks):
        for part in sorted(spans[block.left]):
            if span - part in spans[block.right]:
                yield number, block, part


def _reachable(
    branching: Branching, spans: Sequence[set[int]], length: int, roots: Sequence[int]
) -> dict[tuple[int, int], set[int]]:
    """Return the starts of every (group, span) below the roots."""
    starts = defaultdict(set, {(root, length): {0} for root in roots if length in spans[root]})
    for span in range(length, 1, -1):
        for group in [group for group, s in list(starts) if s == span]:
            for _, block, part in _parts(branching[group], spans, span):
                starts[block.left, part] |= starts[group, span]
                starts[block.right, span - part] |= {start + part for start in starts[group, span]}
    return starts


def _runs(starts: set[int]) -> list[range]:
    """Cut a set of integers into ranges, so that a chart is read by slices alone."""
    edges = sorted(start for start in starts if start - 1 not in starts)
    ends = sorted(start + 1 for start in starts if start + 1 not in starts)
    return [range(a, b) for a, b in zip(edges, ends, strict=True)]


def _within(cells: Sequence[Cell], start: int, stop: int) -> tuple[Cell, slice]:
    """Return the cell that holds starts `start` up to `stop`, and where."""
    cell = max((c for c in cells if c.first <= start), key=lambda c: c.first)
    return cell, slice(start - cell.first, stop - cell.first)


def inside(
    steps: Sequence[Step], branching: Branching, leaves: Sequence[Float[Tensor, "_symbol seq batch"]]
) -> Chart:
    r"""Fill the chart: $I_s(i, j) = \sum_{s\to lr} \Pr(s\to lr) \sum_k I_l(i, k)\, I_r(k, j)$.

    Args:
        steps: from `plan`.
        branching: the rules.
        leaves: for every group, Pr(s -> token t), up to a factor for each token.

    """
    chart: Chart = {}
    for cell, starts, splits in steps:
        if splits:
            chart[cell] = _combined(chart, branching[cell.group], splits)
        else:
            chart[cell] = leaves[cell.group][:, cell.first : cell.first + starts]
    return chart


def _combined(chart: Chart, blocks: Sequence[Block], splits: Sequence[Split]) -> Tensor:
    pairs: dict[int, Tensor] = {}
    for split in splits:
        left = chart[split.left][:, split.left_starts][:, None]
        right = chart[split.right][:, split.right_starts][None]
        held = pairs.get(split.block)
        pairs[split.block] = left * right if held is None else held.addcmul_(left, right)
    scores = (torch.einsum("slr,lrib->sib", blocks[number].weights, pair) for number, pair in pairs.items())
    return reduce(torch.add, scores)


def outside(
    steps: Sequence[Step], branching: Branching, chart: Chart, roots: dict[Cell, Float[Tensor, " _symbol"]]
) -> Chart:
    r"""Return the gradient of Pr(x) = sum of `roots` times the inside scores of whole sentences.

    $$O_l(i, k) = \sum_{s\to lr} \Pr(s\to lr) \sum_j O_s(i, j)\, I_r(k, j), \text{ and the same for } r.$$

    Args:
        steps: from `plan`.
        branching: the rules.
        chart: the inside scores.
        roots: Pr(a derivation starts from the symbol), for cells that cover the whole sentence.

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


# The languages.

CHUNK_BYTES = {"cpu": 1 << 23, "cuda": 1 << 30}
"""Largest intermediate of the inside pass: it decides how many sentences are handled at once."""

LARGEST_TABLE = 1 << 27
"""Most entries of a table of binary rules (1 GB)."""

LONGEST = 512
"""Tokens of the longest sentence that a table of all spans is made for."""

LEAST_ACCEPTANCE = 1e-3
"""Least probability of a sentence within the `length_limit`."""

LEAST = 1e-290
"""Least score of a sentence: above it no digit is lost to underflow."""


class Task(NamedTuple):
    """A downstream task: which of these symbols stands above the first tokens (App. A.1)."""

    symbols: tuple[int, ...]
    span: int  # tokens that the likelihood reads


class Tables(NamedTuple):
    """What the inside pass reads, on one device; lists run over the grammar's groups."""

    branching: list[list[Block]]  # weights times 2 ** `octaves` of the language
    leaves: list[Tensor]  # (symbol, word + 1); column 0, of [MASK], is the sum of the others
    roots: list[Tensor]

    def to(self, device: torch.device) -> "Tables":
        """Copy the tables to a device."""
        branching = [[b._replace(weights=b.weights.to(device)) for b in blocks] for blocks in self.branching]
        return Tables(branching, *([t.to(device) for t in tables] for tables in self[1:]))


class PCFG:
    """The language of a grammar; of a recursive one, conditioned on at most `length_limit` tokens."""

    def __init__(self, grammar: Grammar, length_limit: int | None = None) -> None:
        """Prepare the inside pass and the sampler.

        Its task `root` asks for the symbol that a derivation starts from; in a layered grammar `span16`,
        `span8`, ... ask for the symbols of the inner levels.

        Args:
            grammar: the rules.
            length_limit: of a sentence, in tokens; may be None where the grammar is not recursive.

        Raises:
            LanguageError: where a recursive grammar has no `length_limit`, where (almost) no sentence
                is that short, or where a table of rules would be too large.

        """
        self.grammar = grammar
        self._octaves = _octaves(grammar)
        tables = _make_tables(grammar, 2.0**self._octaves)
        self._tables = {torch.device("cpu"): tables}
        self._plans: dict[tuple[int, tuple[int, ...]], tuple[Step, ...]] = {}
        self._spans = possible_spans(
            tables.branching, [bool(leaf.any()) for leaf in tables.leaves], _limit(grammar, length_limit)
        )
        self._top = tuple(group for group, roots in enumerate(tables.roots) if roots.any())
        self.possible_lengths = sorted(set().union(*(self._spans[group] for group in self._top)))
        if not self.possible_lengths:
            raise LanguageError(f"No sentence has at most {length_limit} tokens; raise length_limit.")
        self._acceptance = self._probability_of_lengths() if grammar.longest != self.max_length else 1.0
        if self._acceptance < LEAST_ACCEPTANCE:
            raise LanguageError(
                f"Only {self._acceptance:.1g} of the derivations have at most {self.max_length} tokens; "
                "raise length_limit."
            )
        roots = tuple(grammar.roots.nonzero().flatten().tolist())
        self._tasks = {"root": Task(roots, self.max_length), **_span_tasks(grammar)}
        self._sampler = Sampler(grammar, self.max_length, self._acceptance)

    @property
    def words(self) -> int:
        """Vocabulary size c."""
        return len(self.grammar.vocabulary)

    @property
    def max_length(self) -> int:
        """The number of tokens of the longest sentence."""
        return self.possible_lengths[-1]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks."""
        return tuple(self._tasks)

    def classes(self, task: str) -> int:
        """Return the number of symbols to choose from."""
        return len(self._task(task).symbols)

    def _task(self, task: str) -> Task:
        if task not in self._tasks:
            raise LanguageError(f"Unknown task {task!r}; choose one of {', '.join(self.tasks)}.")
        return self._tasks[task]

    def sample(self, count: int, generator: torch.Generator) -> Sentences:
        """Draw independent sentences."""
        return self._sampler.sample(count, generator)

    def derive(self, count: int, generator: torch.Generator) -> Derivations:
        """Draw sentences with their derivation trees: those that `sample` draws."""
        return self._sampler.derive(count, generator)

    def log_prob(self, sentences: Sentences) -> Float[Tensor, " batch"]:
        """Compute log Pr(x) in nats, float64; a sentence that cannot occur has -inf."""
        return self._derivation_log_prob(sentences) - log(self._acceptance)

    def _derivation_log_prob(self, sentences: Sentences) -> Float[Tensor, " batch"]:
        tokens = sentences.tokens
        result = torch.full(tokens.shape[:1], -torch.inf, dtype=torch.float64, device=tokens.device)
        for rows, part in self._chunks(sentences):
            if part.shape[1] in self.possible_lengths:
                leaves, scale = self._leaves(part)
                score = self._score(self._chart(part, leaves, self._top), part)
                rules = (part.shape[1] - 1) * self._octaves * log(2)
                result[rows] = score.log() - rules + scale.log().sum(0)
        return result

    def _probability_of_lengths(self) -> float:
        """Return Pr(a derivation has at most `max_length` tokens): all tokens masked."""
        lengths = torch.tensor(self.possible_lengths)
        masks = torch.zeros(len(lengths), self.max_length, dtype=torch.long)
        return float(self._derivation_log_prob(Sentences(masks, lengths)).exp().sum())

    def conditionals(self, sentences: Sentences) -> Float[Tensor, "batch seq word"]:
        r"""Compute Pr(x_t | x_-t) for all positions by one inside and one outside pass (App. A.2).

        Pr(x) is linear in the leaf scores at t; its gradient O_t(s) is the outside score, and

        $$\Pr(x_t = w \mid x_{-t}) \propto \sum_s O_t(s) \Pr(s \to w).$$

        Tokens that are [MASK] are summed out, any number of them.

        Returns:
            float64 probabilities; rows sum to one up to each sentence's length, then are zero.

        Raises:
            LanguageError: where x_-t itself cannot occur: its conditional is undefined.

        """
        tokens = sentences.tokens
        result = torch.zeros(*tokens.shape, self.words, dtype=torch.float64, device=tokens.device)
        for rows, part in self._chunks(sentences):
            self._check_length(part)
            scores, leaf = self._outside(part)
            masked = torch.einsum("stb,s->bt", scores, leaf[:, 0])  # Pr(x_-t): token t summed out
            check_possible(masked >= LEAST, rows)
            result[rows, : part.shape[1]] = torch.einsum("stb,sw->btw", scores / masked.T, leaf[:, 1:])
        return result

    def _outside(
        self, tokens: Int[Tensor, "batch seq"]
    ) -> tuple[Float[Tensor, "symbol seq batch"], Float[Tensor, "symbol _column"]]:
        """Return the outside scores of all leaves and, in the same order, the leaf tables."""
        tables = self._on(tokens.device)
        chart = self._chart(tokens, self._leaves(tokens)[0], self._top)
        scores = [table.new_zeros(len(table), *tokens.T.shape) for table in tables.leaves]
        for cell, score in self._outside_chart(chart, tokens).items():
            if cell.span == 1:
                scores[cell.group][:, cell.first : cell.first + score.shape[1]] = score
        emitting = [group for group, table in enumerate(tables.leaves) if table.any()]
        return torch.cat([scores[g] for g in emitting]), torch.cat([tables.leaves[g] for g in emitting])

    def _outside_chart(self, chart: Chart, tokens: Tensor) -> Chart:
        tables, length = self._on(tokens.device), tokens.shape[1]
        roots = {cell: tables.roots[g] for g in self._top if (cell := Cell(g, length, 0)) in chart}
        return outside(self._plans[length, self._top], tables.branching, chart, roots)

    def likelihood(self, sentences: Sentences, task: str) -> Float[Tensor, "batch class"]:
        """Return Pr(x_1..x_L | symbol) up to a factor a sentence; L is the task's span, or all of x.

        This is what the released code labels by. A row is zero where no symbol of the task derives
        exactly these tokens, which early stop can bring about.
        """
        return self._by_symbol(sentences, task, self._likelihood)

    def _likelihood(self, tokens: Tensor, task: Task) -> Tensor:
        tokens = tokens[:, : task.span]
        chart = self._chart(tokens, self._leaves(tokens)[0], tuple(self._columns(task)))
        whole = {cell.group: scores[:, 0] for cell, scores in chart.items() if cell.span == tokens.shape[1]}
        return self._gather(task, whole.get, tokens)

    def posterior(self, sentences: Sentences, task: str) -> Float[Tensor, "batch class"]:
        """Return Pr(the task's symbol that covers the first token is s | x).

        A row sums to one, less the probability that early stop ends the first branch above the
        task's symbols.
        """
        return self._by_symbol(sentences, task, self._posterior)

    def _posterior(self, tokens: Tensor, task: Task) -> Tensor:
        self._check_length(tokens)
        chart = self._chart(tokens, self._leaves(tokens)[0], self._top)
        score, whole = self._score(chart, tokens), task is self._tasks["root"]
        if not (score >= LEAST).all():
            raise LanguageError("A sentence cannot occur in this language, so it has no posterior.")
        mass: dict[int, Tensor] = {}
        for cell, outer in self._outside_chart(chart, tokens).items():
            if cell.first == 0 and (not whole or cell.span == tokens.shape[1]):
                joint = chart[cell][:, 0] * outer[:, 0]
                mass[cell.group] = mass[cell.group] + joint if cell.group in mass else joint
        return self._gather(task, mass.get, tokens) / score[:, None]

    def _by_symbol(
        self, sentences: Sentences, task: str, score: Callable[[Tensor, Task], Tensor]
    ) -> Float[Tensor, "batch class"]:
        chosen = self._task(task)
        shape, device = (len(sentences.lengths), len(chosen.symbols)), sentences.tokens.device
        result = torch.zeros(shape, dtype=torch.float64, device=device)
        for rows, tokens in self._chunks(sentences):
            result[rows] = score(tokens, chosen)
        return result

    def _columns(self, task: Task) -> dict[int, list[tuple[int, int]]]:
        """Return, by group, (class, place in the group) of the task's symbols."""
        columns: dict[int, list[tuple[int, int]]] = {}
        for number, symbol in enumerate(task.symbols):
            group, at = self.grammar.place[symbol]
            columns.setdefault(group, []).append((number, at))
        return columns

    def _gather(
        self, task: Task, scores: Callable[[int], Tensor | None], tokens: Tensor
    ) -> Float[Tensor, "batch class"]:
        """Collect the scores (member, batch) of the task's symbols from their groups; zero where none."""
        result = torch.zeros(len(tokens), len(task.symbols), dtype=torch.float64, device=tokens.device)
        for group, places in self._columns(task).items():
            found = scores(group)
            if found is not None:
                classes, at = map(list, zip(*places, strict=True))
                result[:, classes] = found[at].T
        return result

    def _check_length(self, tokens: Tensor) -> None:
        if tokens.shape[1] not in self.possible_lengths:
            raise LanguageError(
                f"No sentence has {tokens.shape[1]} tokens; possible lengths are {self.possible_lengths}."
            )

    def _leaves(self, tokens: Int[Tensor, "batch seq"]) -> tuple[list[Tensor], Float[Tensor, "seq batch"]]:
        """Return every group's score of each token, and the scale they were divided by.

        [MASK] scores the sum over words: a masked leaf is summed out. A token's scale, its largest
        score, keeps products in range and cancels in every conditional.
        """
        check_tokens(tokens, self.words)
        leaves = [table[:, tokens.T] for table in self._on(tokens.device).leaves]
        scale = torch.stack([leaf.amax(0) for leaf in leaves]).amax(0).clamp(min=1e-300)
        return [leaf / scale for leaf in leaves], scale

    def _chart(self, tokens: Tensor, leaves: list[Tensor], groups: tuple[int, ...]) -> Chart:
        """Run the inside pass for derivations that start from these groups."""
        branching, length = self._on(tokens.device).branching, tokens.shape[1]
        if (length, groups) not in self._plans:
            self._plans[length, groups] = plan(branching, self._spans, length, groups)
        return inside(self._plans[length, groups], branching, leaves)

    def _score(self, chart: Chart, tokens: Tensor) -> Float[Tensor, " batch"]:
        """Return Pr(x), up to the scale of its tokens."""
        roots, length = self._on(tokens.device).roots, tokens.shape[1]
        tops = [(roots[group], chart.get(Cell(group, length, 0))) for group in self._top]
        return reduce(torch.add, (weights @ scores[:, 0] for weights, scores in tops if scores is not None))

    def _on(self, device: torch.device) -> Tables:
        if device not in self._tables:
            self._tables[device] = self._tables[torch.device("cpu")].to(device)
        return self._tables[device]

    def _chunks(self, sentences: Sentences) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield sentences of one length, as many as keep the largest intermediate in bounds."""
        tables = self._tables[torch.device("cpu")]
        pairs = max((b.weights[0].numel() for blocks in tables.branching for b in blocks), default=1)
        floats = CHUNK_BYTES["cuda" if sentences.tokens.is_cuda else "cpu"] // 8
        yield from sentences.chunks(max(1, floats // (pairs * sentences.tokens.shape[1])))


def _limit(grammar: Grammar, length_limit: int | None) -> int:
    if length_limit is not None and not (isinstance(length_limit, int) and length_limit >= 1):
        raise LanguageError(f"length_limit is a whole number of tokens, from 1 on; got {length_limit!r}.")
    limits = [x for x in (grammar.longest, length_limit) if x is not None]
    if not limits:
        raise LanguageError("The grammar is recursive, so no sentence is the longest; give length_limit.")
    if min(limits) > LONGEST:
        raise LanguageError(
            f"Sentences have up to {min(limits):,} tokens, and exact conditionals take minutes from "
            f"{LONGEST} on; give a length_limit of at most {LONGEST}."
        )
    return min(limits)


def _span_tasks(grammar: Grammar) -> dict[str, Task]:
    """Ask for the symbol above the first tokens on each level between the roots and the last."""
    inner = range(len(grammar.groups) - 2, 0, -1) if grammar.layered else ()
    return {f"span{2**height}": Task(tuple(grammar.groups[height].tolist()), 2**height) for height in inner}


def _octaves(grammar: Grammar) -> int:
    """Return the power of two that brings a typical rule's weight near one.

    A derivation of n tokens has n - 1 binary rules, so a factor common to all of them cancels; with
    it, long sentences stay within range.
    """
    weights = grammar.weights
    return round(float(torch.special.entr(weights).sum() / weights.sum() / log(2))) if len(weights) else 0


def _make_tables(grammar: Grammar, factor: float) -> Tables:
    entries: dict[tuple[int, int, int], list[tuple[int, int, int, float]]] = {}
    for rule, weight in zip(grammar.rules.tolist(), grammar.weights.tolist(), strict=True):
        groups, at = zip(*(grammar.place[symbol] for symbol in rule), strict=True)
        entries.setdefault(groups, []).append((*at, weight))
    branching: list[list[Block]] = [[] for _ in grammar.groups]
    for (parent, left, right), found in entries.items():
        shape = [len(grammar.groups[group]) for group in (parent, left, right)]
        branching[parent].append(Block(left, right, factor * _dense(shape, found)))
    emission = [grammar.emission[group] for group in grammar.groups]
    leaves = [torch.cat([e.sum(1, keepdim=True), e], dim=1) for e in emission]
    return Tables(branching, leaves, [grammar.roots[group] for group in grammar.groups])


def _dense(
    shape: list[int], entries: list[tuple[int, int, int, float]]
) -> Float[Tensor, "_symbol _left _right"]:
    if torch.Size(shape).numel() > LARGEST_TABLE:
        raise LanguageError(
            f"Rules between {' × '.join(map(str, shape))} symbols need a table of more than "
            f"{LARGEST_TABLE:,} entries; a grammar with fewer mutually recursive symbols is needed."
        )
    table = torch.zeros(shape, dtype=torch.float64)
    *at, weights = zip(*entries, strict=True)
    table[tuple(map(torch.tensor, at))] = torch.tensor(weights, dtype=torch.float64)
    return table
