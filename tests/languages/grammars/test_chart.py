"""Plans and charts: spans that can be covered, inside scores and their gradient."""

import torch
from enumeration import inside as inside_by_trees
from enumeration import tiny_grammar

from sameloss.languages.grammars.pcfg import Block, Cell, inside, outside, plan, possible_spans

LAYERED = [[], [Block(0, 0, torch.ones(1, 1, 1))], [Block(1, 1, torch.ones(1, 1, 1))]]
"""Three levels, one symbol each; only the last emits."""


def test_a_layered_grammar_covers_powers_of_two():
    assert possible_spans(LAYERED, [True, False, False], 8) == [{1}, {2}, {4}]
    assert possible_spans(LAYERED, [True, True, False], 8) == [{1}, {1, 2}, {2, 3, 4}]


def test_a_plan_has_no_cell_that_no_derivation_uses():
    spans = possible_spans(LAYERED, [True, False, False], 4)
    steps = plan(LAYERED, spans, 4, [2])
    cells = [(step.cell, step.starts) for step in steps if step.splits]
    assert (Cell(2, 4, 0), 1) in cells
    assert {cell.first for cell, _ in cells if cell.group == 1} == {0, 2}
    assert [step.cell.span for step in steps] == sorted(step.cell.span for step in steps)
    assert plan(LAYERED, spans, 3, [2]) == ()


def charted(grammar, words):
    """Return the chart of one sentence: all symbols in one group, whole rules in one block."""
    size = len(grammar.symbols)
    weights = torch.zeros(size, size, size, dtype=torch.float64)
    weights.index_put_(tuple(grammar.rules.T), grammar.weights, accumulate=True)
    branching = [[Block(0, 0, weights)]]
    spans = possible_spans(branching, [True], len(words))
    steps = plan(branching, spans, len(words), [0])
    leaves = grammar.emission[:, torch.tensor(words) - 1][..., None].requires_grad_()
    return steps, branching, inside(steps, branching, [leaves]), leaves


GRAMMAR = tiny_grammar(torch.rand(60, generator=torch.Generator().manual_seed(0)).tolist(), 2, 3, 2, 2)
WORDS = (1, 3, 2, 1)


def score(chart, span, start):
    """Return the inside scores of a span, whichever cell holds it."""
    cell = next(c for c in chart if c.span == span and c.first <= start < c.first + chart[c].shape[1])
    return chart[cell][:, start - cell.first, 0]


def test_inside_scores_are_sums_over_trees():
    _, _, chart, _ = charted(GRAMMAR, WORDS)
    for start, span in [(0, 4), (0, 2), (2, 2), (1, 3), (3, 1)]:
        expected = [inside_by_trees(GRAMMAR, symbol, WORDS[start : start + span]) for symbol in (0, 1)]
        found = score(chart, span, start).detach()
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)


def test_outside_scores_are_the_gradient_by_the_leaves():
    steps, branching, chart, leaves = charted(GRAMMAR, WORDS)
    whole = Cell(0, 4, 0)
    (gradient,) = torch.autograd.grad(GRAMMAR.roots @ chart[whole][:, 0, 0], leaves, retain_graph=True)
    with torch.no_grad():
        found = outside(steps, branching, chart, {whole: GRAMMAR.roots})
    for start in range(4):
        torch.testing.assert_close(score(found, 1, start), gradient[:, start, 0], rtol=1e-12, atol=0)
