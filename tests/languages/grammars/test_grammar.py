"""Grammars: validation, groups and lengths; derivations: their distribution, and trees that derive them."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from enumeration import derivations, enumerated

from sameloss.errors import LanguageError
from sameloss.languages import PCFG, PCFGSpec
from sameloss.languages.entropy import length_distribution
from sameloss.languages.grammars import grammar as module
from sameloss.languages.grammars.formats import read_grammar
from sameloss.languages.grammars.grammar import Grammar


def grammar(**changes):
    """S -> A A, A -> x | y, with some parts replaced."""
    parts = {
        "roots": torch.tensor([1.0, 0.0]).double(),
        "rules": torch.tensor([[0, 1, 1]]),
        "weights": torch.tensor([1.0]).double(),
        "emission": torch.tensor([[0.0, 0.0], [0.5, 0.5]]).double(),
        "symbols": ("S", "A"),
        "vocabulary": ("x", "y"),
    }
    return Grammar(**{**parts, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": torch.tensor([0.9]).double()},
        {"roots": torch.tensor([0.5, 0.0]).double()},
        {"emission": torch.tensor([[0.0, 0.0], [1.5, -0.5]]).double()},
        {"emission": torch.tensor([[0.0, 0.0], [float("nan"), 1.0]]).double()},
    ],
)
def test_tables_that_are_no_distributions_are_refused(changes):
    with pytest.raises(LanguageError, match="must be ≥ 0 and sum to 1"):
        grammar(**changes)


def test_a_symbol_that_never_terminates_is_named():
    rules = torch.tensor([[0, 1, 1], [1, 1, 1]])
    with pytest.raises(LanguageError, match=r"Symbol [SA] never terminates"):
        grammar(rules=rules, weights=torch.ones(2).double(), emission=torch.zeros(2, 2).double())


def test_a_rule_of_probability_zero_is_no_way_out_and_no_recursion():
    rules = torch.tensor([[0, 1, 1], [1, 1, 1]])
    weights = torch.tensor([1.0, 0.0]).double()
    assert not grammar(rules=rules, weights=weights).recursive


def test_rules_that_occur_twice_are_summed():
    rules = torch.tensor([[0, 1, 1], [0, 1, 1]])
    merged = grammar(rules=rules, weights=torch.tensor([0.25, 0.75]).double())
    assert merged.rules.tolist() == [[0, 1, 1]]
    assert merged.weights.tolist() == [1.0]


def test_the_levels_of_a_layered_grammar_are_its_groups(tiny_spec):
    found = tiny_spec.grammar()
    assert [group.tolist() for group in found.groups] == [[4, 5], [2, 3], [0, 1]]
    assert not found.recursive
    assert found.longest == 4


@pytest.mark.parametrize(
    ("text", "groups", "longest"),
    [
        ("S A B 1\nA x 1\nB A A 0.5\nB y 0.5", [["A"], ["B"], ["S"]], 3),
        ("S S A 0.5\nS x 0.5\nA y 1", [["A"], ["S"]], None),
        ("S A A 1\nA B B 0.5\nA x 0.5\nB A C 0.5\nB y 0.5\nC z 1", [["C"], ["A", "B"], ["S"]], None),
    ],
)
def test_recursive_symbols_share_a_group(text, groups, longest):
    found = read_grammar(text)
    assert [[found.symbols[s] for s in group] for group in found.groups] == groups
    assert found.longest == longest
    assert found.recursive == (longest is None)


def test_the_mean_length_is_that_of_the_length_distribution(tiny_spec):
    spec = replace(tiny_spec, levels=3, early_stop=(0.2, 0.6))
    lengths = length_distribution(spec.build())
    expected = float(lengths @ torch.arange(1, len(lengths) + 1).double())
    assert spec.grammar().mean_length == pytest.approx(expected, rel=1e-12)
    assert read_grammar("S S S 0.25\nS x 0.75").mean_length == pytest.approx(1.5)  # m = 0.75 + 0.5 m
    assert read_grammar("S S S 0.5\nS x 0.5").mean_length == float("inf")


# Derivations

GRAMMARS = {
    "layered": PCFGSpec(2, 2, 2, 2, 3, 3, 2, 1.0, 1.0, smoothing=0.1, seed=3).grammar(),
    "early stop": PCFGSpec(2, 2, 2, 1, 2, 3, 2, 1.0, 1.0, early_stop=(0.2, 0.5), seed=5).grammar(),
    "recursive": read_grammar("R S 0.6\nR T 0.4\nS S T 0.5\nS a 0.3\nS b 0.2\nT b 0.7\nT S S 0.3"),
}


@pytest.fixture(params=GRAMMARS)
def language(request):
    return PCFG(GRAMMARS[request.param], length_limit=4)


def seed(number):
    return torch.Generator().manual_seed(number)


def test_sampling_follows_the_language(language):
    count = 40_000
    expected = {words: count * p for words, p in enumerated(language.grammar, 4).items()}
    sentences = language.sample(count, seed(0))
    seen = Counter(
        tuple(row[:length])
        for row, length in zip(sentences.tokens.tolist(), sentences.lengths.tolist(), strict=True)
    )
    assert set(seen) <= set(expected)
    common = {words: mean for words, mean in expected.items() if mean > 10}
    chi2 = sum((seen.get(words, 0) - mean) ** 2 / mean for words, mean in common.items())
    assert len(common) > 10
    assert abs(chi2 - len(common)) < 4 * (2 * len(common)) ** 0.5


def test_trees_derive_the_sentences_that_sample_draws(language, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 17)
    grammar = language.grammar
    derived = language.derive(60, seed(1))
    plain = language.sample(60, seed(1))
    assert torch.equal(derived.sentences.tokens, plain.tokens)
    assert torch.equal(derived.sentences.lengths, plain.lengths)
    rules = {
        (grammar.symbols[p], grammar.symbols[a], grammar.symbols[b]) for p, a, b in grammar.rules.tolist()
    }
    for tree, words, length in zip(derived.trees, plain.tokens.tolist(), plain.lengths.tolist(), strict=True):
        assert tree.leaves() == [grammar.vocabulary[w - 1] for w in words[:length]]
        assert grammar.roots[grammar.symbols.index(tree.label())] > 0
        for production in tree.productions():
            parent, children = str(production.lhs()), tuple(map(str, production.rhs()))
            if len(children) == 2:
                assert (parent, *children) in rules
            else:
                symbol, word = grammar.symbols.index(parent), grammar.vocabulary.index(children[0])
                assert grammar.emission[symbol, word] > 0


def test_trees_have_their_posterior_distribution():
    """Of the derivations of one sentence each is as frequent as its share of the probability."""
    language = PCFG(read_grammar("S S S 0.5\nS a 0.5"), length_limit=3)
    trees = Counter(str(t) for t in language.derive(8000, seed(2)).trees if len(t.leaves()) == 3)
    left, right = trees.values()
    assert len(list(derivations(language.grammar, 0, 3))) == 2
    assert abs(left - right) < 4 * (left + right) ** 0.5


def test_hidden_symbols_of_trees_agree_with_the_posterior(tiny_language):
    """Among sentences with Pr(root = first | x) near p, the tree's root is the first with frequency p."""
    derived = tiny_language.derive(4000, seed(3))
    posterior = tiny_language.posterior(derived.sentences, "span2")[:, 0]
    truth = torch.tensor([tree[0].label() == "A1" for tree in derived.trees]).double()
    error = (truth - posterior).mean() / (posterior * (1 - posterior)).mean().sqrt() * len(truth) ** 0.5
    assert abs(error) < 4
    weighted = ((truth - posterior) * (posterior - 0.5)).mean()
    assert (
        abs(weighted)
        < 4 * ((posterior * (1 - posterior) * (posterior - 0.5) ** 2).mean() / len(truth)) ** 0.5
    )
    assert posterior.std() > 0.15


def test_sampling_is_reproducible_and_changes_nothing(language):
    before = torch.random.get_rng_state()
    draws = [language.sample(50, seed(7)) for _ in range(2)]
    assert torch.equal(draws[0].tokens, draws[1].tokens)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not torch.equal(draws[0].tokens, language.sample(50, seed(8)).tokens)
    assert language.sample(0, seed(0)).tokens.shape == (0, 4)
