"""Exact quantities of grammars against the enumeration of all derivations; charts and their gradients."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from enumeration import as_sentences, completed, enumerated, tiny_grammar
from enumeration import inside as inside_by_trees
from hypothesis import given, settings
from hypothesis import strategies as st

from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import PCFG, Language, PCFGSpec, Sentences
from sameloss.languages.grammars import pcfg
from sameloss.languages.grammars.formats import read_grammar, to_lines
from sameloss.languages.grammars.pcfg import Block, Cell, inside, outside, plan, possible_spans

EARLY_STOPPING = PCFGSpec(2, 2, 2, 1, 2, 3, 2, 1.0, 1.0, early_stop=(0.2, 0.5), seed=5)

layered = st.builds(
    dict,  # specs are made in the test: what checks them in tests draws random numbers
    levels=st.integers(1, 2),
    start_symbols=st.integers(1, 2),
    symbols=st.integers(1, 2),
    start_rules=st.just(1),
    rules=st.just(1),
    words=st.integers(2, 3),
    words_per_symbol=st.integers(1, 2),
    rule_concentration=st.just(1.0),
    emission_concentration=st.floats(0.5, 2),
    early_stop=st.sampled_from([(0.0, 0.0), (0.2, 0.6)]),
    smoothing=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 1000),
)

recursive = st.fixed_dictionaries(
    {
        "numbers": st.lists(st.floats(0, 0.999), min_size=60, max_size=60),
        "symbols": st.integers(1, 3),
        "words": st.integers(1, 3),
        "rules": st.integers(0, 2),
        "lexical": st.integers(1, 2),
    }
)


@settings(max_examples=40)
@given(st.one_of(layered, recursive), st.data())
def test_log_prob_and_conditionals_match_enumeration_of_trees(recipe, data):
    grammar = PCFGSpec(**recipe).grammar() if "levels" in recipe else tiny_grammar(**recipe)
    language = PCFG(grammar, length_limit=4)
    probabilities = enumerated(grammar, 4)
    strings = list(probabilities)
    sentences = as_sentences(strings, language.max_length)
    expected = torch.tensor([probabilities[words] for words in strings], dtype=torch.float64)
    torch.testing.assert_close(language.log_prob(sentences).exp(), expected, rtol=1e-12, atol=0)
    assert language.possible_lengths == sorted({len(words) for words in strings})
    chosen = data.draw(st.lists(st.sampled_from(strings), min_size=1, max_size=8))
    masks = data.draw(st.lists(st.tuples(*[st.booleans()] * 4), min_size=len(chosen), max_size=len(chosen)))
    masked = [
        tuple(0 if m else w for w, m in zip(words, mask, strict=False))
        for words, mask in zip(chosen, masks, strict=True)
    ]
    conditionals = language.conditionals(as_sentences(masked, language.max_length))
    for row, words in enumerate(masked):
        for position in range(len(words)):
            exact = completed(probabilities, words, position, language.words)
            torch.testing.assert_close(conditionals[row, position], exact, rtol=1e-12, atol=1e-15)
        assert not conditionals[row, len(words) :].any()


@settings(max_examples=15)
@given(recursive)
def test_masked_sentences_sum_over_what_is_masked(recipe):
    grammar = tiny_grammar(**recipe)
    language = PCFG(grammar, length_limit=3)
    probabilities = enumerated(grammar, 3)
    for masked in product(range(language.words + 1), repeat=language.max_length):
        alike = [
            p
            for words, p in probabilities.items()
            if len(words) == len(masked) and all(m in (0, w) for w, m in zip(words, masked, strict=True))
        ]
        found = language.log_prob(as_sentences([masked], language.max_length)).exp().item()
        assert found == pytest.approx(sum(alike), rel=1e-12, abs=1e-300)


def test_conditionals_do_not_read_the_token_they_predict(tiny_language):
    sentences = as_sentences([(1, 2, 3, 1), (1, 2, 3, 3)], 4)
    conditionals = tiny_language.conditionals(sentences)
    torch.testing.assert_close(conditionals[0, 3], conditionals[1, 3])
    assert not torch.allclose(conditionals[0, 0], conditionals[1, 0])


def test_results_do_not_depend_on_the_chunk(tiny_language, monkeypatch):
    sentences = tiny_language.sample(70, torch.Generator().manual_seed(0))
    whole = tiny_language.conditionals(sentences), tiny_language.posterior(sentences, "span2")
    monkeypatch.setitem(pcfg.CHUNK_BYTES, "cpu", 1000)
    torch.testing.assert_close(tiny_language.conditionals(sentences), whole[0], rtol=1e-13, atol=0)
    torch.testing.assert_close(tiny_language.posterior(sentences, "span2"), whole[1], rtol=1e-13, atol=0)


def test_impossible_sentences(tiny_spec):
    language = replace(tiny_spec, smoothing=0.0, words_per_symbol=1).build()
    strings = list(product((1, 2, 3), repeat=4))
    possible = enumerated(language.grammar, 4)
    log_prob = language.log_prob(as_sentences(strings, 4))
    assert [words for words, lp in zip(strings, log_prob, strict=True) if lp > -torch.inf] == [
        words for words in strings if words in possible
    ]
    far = next(
        w for w in strings if not any(sum(a != b for a, b in zip(w, v, strict=True)) <= 1 for v in possible)
    )
    with pytest.raises(LanguageError, match="token 0 is"):
        language.conditionals(as_sentences([far], 4))
    with pytest.raises(LanguageError, match="no posterior"):
        language.posterior(as_sentences([far], 4), "root")


@pytest.mark.parametrize("spec", [EARLY_STOPPING, None])
@pytest.mark.parametrize("task", ["root", "span2"])
def test_scores_of_hidden_symbols_match_enumeration(tiny_spec, spec, task):
    language = (spec or tiny_spec).build()
    grammar = language.grammar
    probabilities = enumerated(grammar, 4)
    strings = list(probabilities)[::3]
    sentences = as_sentences(strings, 4)
    likelihood, posterior = language.likelihood(sentences, task), language.posterior(sentences, task)
    symbols, span = {"root": ((0, 1), 4), "span2": ((2, 3), 2)}[task]
    for row, words in enumerate(strings):
        exact = torch.tensor(
            [inside_by_trees(grammar, s, words[:span]) for s in symbols], dtype=torch.float64
        )
        scaled = likelihood[row] / likelihood[row].sum().clamp(min=1e-300)
        torch.testing.assert_close(scaled, exact / exact.sum().clamp(min=1e-300), rtol=1e-12, atol=1e-15)
        joint = torch.tensor([first_symbol(grammar, s, words) for s in symbols], dtype=torch.float64)
        torch.testing.assert_close(posterior[row], joint / probabilities[words], rtol=1e-12, atol=1e-15)


def first_symbol(grammar, symbol, words):
    """Return Pr(words, a derivation whose root or whose root's left child is the symbol)."""
    total = grammar.roots[symbol].item() * inside_by_trees(grammar, symbol, words)
    for (parent, left, right), weight in zip(grammar.rules.tolist(), grammar.weights.tolist(), strict=True):
        if left == symbol and grammar.roots[parent]:
            total += sum(
                grammar.roots[parent].item()
                * weight
                * inside_by_trees(grammar, left, words[:part])
                * inside_by_trees(grammar, right, words[part:])
                for part in range(1, len(words))
            )
    return total


def test_the_root_of_a_recursive_grammar_is_the_whole_sentence_s(tiny_spec):
    grammar = read_grammar("R S 0.5\nR T 0.5\nS S S 0.3\nS a 0.5\nS b 0.2\nT S T 0.6\nT b 0.4")
    language = PCFG(grammar, length_limit=3)
    words = (1, 1, 2)
    sentences = as_sentences([words], 3)
    joint = torch.tensor([0.5 * inside_by_trees(grammar, s, words) for s in (0, 1)], dtype=torch.float64)
    posterior = language.posterior(sentences, "root")
    torch.testing.assert_close(posterior[0], joint / joint.sum(), rtol=1e-12, atol=0)
    assert language.tasks == ("root",)
    assert language.classes("root") == 2


def test_a_recursive_language_is_conditioned_on_its_longest_sentence():
    grammar = read_grammar("S S S 0.4\nS a 0.6")
    language = PCFG(grammar, length_limit=3)
    masses = [0.6, 0.4 * 0.6**2, 2 * 0.4**2 * 0.6**3]
    strings = [(1,), (1, 1), (1, 1, 1)]
    expected = torch.tensor(masses, dtype=torch.float64) / sum(masses)
    torch.testing.assert_close(
        language.log_prob(as_sentences(strings, 3)).exp(), expected, rtol=1e-12, atol=0
    )
    lengths = language.sample(20_000, torch.Generator().manual_seed(0)).lengths
    shares = lengths.bincount(minlength=4)[1:] / 20_000
    assert (shares - expected).abs().max() < 4 * (0.25 / 20_000) ** 0.5


def test_long_sentences_neither_underflow_nor_overflow():
    spec = PCFGSpec(6, 2, 3, 2, 4, 500, 250, 0.1, 0.05, smoothing=1e-6, seed=1)
    language = spec.build()
    sentences = language.sample(20, torch.Generator().manual_seed(0))
    assert sentences.tokens.shape == (20, 64)
    assert language.log_prob(sentences).isfinite().all()
    assert torch.allclose(language.conditionals(sentences).sum(-1), torch.ones(20, 64).double(), atol=1e-12)


def test_several_hundred_tokens_are_within_range():
    """Each token but the last is a or b, Pr(a) ∝ 0.07 · 0.9 + 0.03 · 0.2, whatever the others are."""
    grammar = read_grammar("S A S 0.07\nS B S 0.03\nS e 0.9\nA a 0.9\nA b 0.1\nB a 0.2\nB b 0.8")
    language = PCFG(grammar, length_limit=301)
    tokens = torch.ones(1, 301, dtype=torch.long)
    tokens[0, -1] = 3
    sentence = Sentences(tokens, torch.tensor([301]))
    expected = torch.tensor([0.69, 0.31, 0.0], dtype=torch.float64).expand(300, 3)
    torch.testing.assert_close(language.conditionals(sentence)[0, :300], expected, rtol=1e-12, atol=1e-15)
    log_prob = 300 * math.log(0.069) + math.log(0.9) - math.log(1 - 0.1**301)
    assert language.log_prob(sentence).item() == pytest.approx(log_prob, rel=1e-12)


def test_it_is_a_language(tiny_language):
    assert isinstance(tiny_language, Language)
    assert tiny_language.tasks == ("root", "span2")
    assert tiny_language.classes("root") == 2


def test_bad_input_says_what_is_wrong(tiny_language):
    with pytest.raises(LanguageError, match=r"ids lie in 0\.\.3; got 9"):
        tiny_language.log_prob(as_sentences([(1, 2, 3, 9)], 4))
    with pytest.raises(LanguageError, match=r"ids lie in 0\.\.3; got -1"):
        tiny_language.conditionals(as_sentences([(1, 2, 3, -1)], 4))
    assert tiny_language.log_prob(as_sentences([(1, 2, 3)], 3)).item() == -torch.inf
    for length in (3, 5):
        with pytest.raises(
            LanguageError, match=rf"No sentence has {length} tokens; possible lengths are \[4\]"
        ):
            tiny_language.conditionals(as_sentences([(1,) * length], length))
    with pytest.raises(LanguageError, match="choose one of root, span2"):
        tiny_language.likelihood(as_sentences([(1, 2, 3, 1)], 4), "leaf")
    recursive = read_grammar("S S S 0.5\nS A A 0.5\nA a 1")
    with pytest.raises(LanguageError, match="recursive, so no sentence is the longest; give length_limit"):
        PCFG(recursive)
    for wrong in (0, -3):
        with pytest.raises(ParameterError, match=r"^length_limit must be a whole number, at least 1; got"):
            PCFG(recursive, length_limit=wrong)
    with pytest.raises(LanguageError, match=r"^Sentences have up to 2,000 tokens, .* of at most 512\.$"):
        PCFG(recursive, length_limit=2000)
    with pytest.raises(LanguageError, match="No sentence has at most 1 tokens; raise length_limit"):
        PCFG(recursive, length_limit=1)
    rarely_short = read_grammar("S S S 0.9999\nS a 0.0001")
    with pytest.raises(LanguageError, match=r"Only 0\.0001 of the derivations have at most 4 tokens"):
        PCFG(rarely_short, length_limit=4)


def test_a_table_beyond_memory_is_refused(monkeypatch, tiny_spec):
    monkeypatch.setattr(pcfg, "LARGEST_TABLE", 7)
    with pytest.raises(LanguageError, match="2 × 2 × 2 symbols need a table of more than 7 entries"):
        PCFG(tiny_spec.grammar())


def test_layered_grammars_have_span_tasks_however_they_are_written(tiny_language):
    again = PCFG(read_grammar(to_lines(tiny_language.grammar)))
    assert again.tasks == tiny_language.tasks == ("root", "span2")
    sentences = tiny_language.sample(30, torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        again.posterior(sentences, "span2"), tiny_language.posterior(sentences, "span2")
    )
    unlayered = PCFG(read_grammar("S A B 1\nA B B 0.5\nA x 0.5\nB y 1"))
    assert unlayered.tasks == ("root",)


def test_tables_follow_the_tokens_to_their_device(tiny_language):
    """The only other device everywhere is `meta`, which computes shapes; a value cannot be compared."""
    tables = tiny_language._tables.to(torch.device("meta"))
    weights = [block.weights for blocks in tables.branching for block in blocks]
    assert {table.device.type for table in (*weights, *tables.leaves, *tables.roots)} == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_the_same(tiny_language):
    sentences = tiny_language.sample(100, torch.Generator().manual_seed(0))
    moved = Sentences(*(field.cuda() for field in sentences))
    found = tiny_language.conditionals(moved)
    assert found.is_cuda
    torch.testing.assert_close(found.cpu(), tiny_language.conditionals(sentences), rtol=1e-12, atol=1e-15)
    posterior = tiny_language.posterior(moved, "span2").cpu()
    torch.testing.assert_close(posterior, tiny_language.posterior(sentences, "span2"), rtol=1e-12, atol=1e-15)


# Charts

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


TINY_GRAMMAR = tiny_grammar(torch.rand(60, generator=torch.Generator().manual_seed(0)).tolist(), 2, 3, 2, 2)
WORDS = (1, 3, 2, 1)


def score(chart, span, start):
    """Return the inside scores of a span, whichever cell holds it."""
    cell = next(c for c in chart if c.span == span and c.first <= start < c.first + chart[c].shape[1])
    return chart[cell][:, start - cell.first, 0]


def test_inside_scores_are_sums_over_trees():
    _, _, chart, _ = charted(TINY_GRAMMAR, WORDS)
    for start, span in [(0, 4), (0, 2), (2, 2), (1, 3), (3, 1)]:
        expected = [inside_by_trees(TINY_GRAMMAR, symbol, WORDS[start : start + span]) for symbol in (0, 1)]
        found = score(chart, span, start).detach()
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)


def test_outside_scores_are_the_gradient_by_the_leaves():
    steps, branching, chart, leaves = charted(TINY_GRAMMAR, WORDS)
    whole = Cell(0, 4, 0)
    (gradient,) = torch.autograd.grad(TINY_GRAMMAR.roots @ chart[whole][:, 0, 0], leaves, retain_graph=True)
    with torch.no_grad():
        found = outside(steps, branching, chart, {whole: TINY_GRAMMAR.roots})
    for start in range(4):
        torch.testing.assert_close(score(found, 1, start), gradient[:, start, 0], rtol=1e-12, atol=0)
