"""Sampling: the right distribution, the same sentences with and without trees, trees that derive them."""

from collections import Counter

import pytest
import torch
from enumeration import derivations, enumerated

from sameloss.languages import PCFG, PCFGSpec
from sameloss.languages.grammars import grammar as derivation
from sameloss.languages.grammars.formats import read_grammar

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
    monkeypatch.setattr(derivation, "CHUNK", 17)
    grammar = language.grammar
    found = language.derive(60, seed(1))
    plain = language.sample(60, seed(1))
    assert torch.equal(found.sentences.tokens, plain.tokens)
    assert torch.equal(found.sentences.lengths, plain.lengths)
    rules = {
        (grammar.symbols[p], grammar.symbols[a], grammar.symbols[b]) for p, a, b in grammar.rules.tolist()
    }
    for tree, words, length in zip(found.trees, plain.tokens.tolist(), plain.lengths.tolist(), strict=True):
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
    found = tiny_language.derive(4000, seed(3))
    posterior = tiny_language.posterior(found.sentences, "span2")[:, 0]
    truth = torch.tensor([tree[0].label() == "A1" for tree in found.trees]).double()
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
