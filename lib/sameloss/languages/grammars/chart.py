"""The inside and outside algorithms for grammars in Chomsky normal form (Lari & Young 1990), in batches.

Symbols stand in groups such that most groups never meet in a rule: the levels of a layered grammar,
and the recursive parts of any other. A cell of the chart exists only where its group can cover its
span inside some derivation of the whole sentence, so a layered grammar's chart is nearly empty.

Scores are probabilities, not logarithms, with axes (symbol, start, sentence): the sentence axis
comes last because it is the long one, and every operation runs along it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


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
