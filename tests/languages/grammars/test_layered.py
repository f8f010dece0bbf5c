"""Random layered grammars and hierarchies: dimensions, probabilities, and what they refuse."""

from dataclasses import replace

import pytest
import torch
from enumeration import enumerated

from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import HierarchySpec, PCFGSpec, Sentences
from sameloss.languages.entropy import enumerate_sentences


def test_dimensions_of_a_grammar():
    spec = PCFGSpec(4, 3, 5, 2, 7, 11, 6, 1.0, 1.0, early_stop=(0.1, 0.2), smoothing=0.0, seed=2)
    grammar = spec.grammar()
    assert len(grammar.symbols) == 3 + 4 * 5
    assert grammar.symbols[:4] == ("S1", "S2", "S3", "A1")
    assert (len(grammar.vocabulary), spec.max_length) == (11, 16)
    assert grammar.rules[:, 0].bincount().tolist() == [2] * 3 + [7] * 15
    stopping = grammar.emission[3:18]
    assert (stopping > 0).sum(1).eq(1).all()
    assert stopping.max() <= 0.2
    assert stopping.sum(1).min() >= 0.1
    assert (grammar.emission[18:] > 0).sum(1).tolist() == [6] * 5
    assert not grammar.emission[:3].any()
    language = spec.build()
    assert language.tasks == ("root", "span8", "span4", "span2")
    assert [language.classes(task) for task in language.tasks] == [3, 5, 5, 5]


def test_smoothing_leaves_no_zero(tiny_spec):
    language = replace(tiny_spec, smoothing=0.05, words_per_symbol=1).build()
    conditionals = language.conditionals(language.sample(50, torch.Generator().manual_seed(0)))
    assert conditionals.min() > 0


def test_seeds_give_other_grammars(tiny_spec):
    first, same, other = (replace(tiny_spec, seed=seed).grammar() for seed in (0, 0, 1))
    assert torch.equal(first.weights, same.weights)
    assert not torch.equal(first.emission, other.emission)


def test_probabilities_move_continuously_with_the_concentrations(tiny_spec):
    near = [
        replace(tiny_spec, rule_concentration=c, emission_concentration=c).grammar()
        for c in (0.3, 0.3 + 1e-7)
    ]
    assert torch.equal(near[0].rules, near[1].rules)
    for table in ("weights", "emission"):
        first, second = (getattr(grammar, table) for grammar in near)
        assert 0 < (first - second).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"words_per_symbol": 4}, "words_per_symbol = 4 is above words = 3"),
        ({"rules": 5}, "must be at most symbols² = 4"),
        ({"smoothing": 1.5}, "smoothing must lie in"),
        ({"early_stop": (0.2, 1.0)}, "early_stop is a range in"),
        ({"early_stop": (0.4, 0.2)}, "early_stop is a range in"),
        ({"levels": 0}, "levels must be a whole number, at least 1; got 0"),
        ({"words": 0}, "words must be a whole number"),
        ({"rule_concentration": 0.0}, "rule_concentration must be positive"),
        ({"emission_concentration": -1.0}, "emission_concentration must be positive"),
    ],
)
def test_bad_dimensions_of_a_grammar_are_refused(tiny_spec, changes, message):
    with pytest.raises((LanguageError, ParameterError), match=message):
        replace(tiny_spec, **changes)


# Hierarchies

HIERARCHY = HierarchySpec(levels=3, symbols=4, rules=3, smoothing=0.1, seed=2)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_dimensions_of_a_hierarchy():
    grammar, language = HIERARCHY.grammar(), HIERARCHY.build()
    assert grammar.symbols == tuple(f"{level}{k}" for level in "SABC" for k in (1, 2, 3, 4))
    assert grammar.vocabulary == ("w1", "w2", "w3", "w4")
    assert (HIERARCHY.words, HIERARCHY.max_length) == (language.words, language.max_length) == (4, 8)
    assert language.possible_lengths == [8]
    assert language.tasks == ("root", "span4", "span2")
    assert [language.classes(task) for task in language.tasks] == [4, 4, 4]


@pytest.mark.parametrize("spec", [HIERARCHY, replace(HIERARCHY, rules=4)])
def test_no_right_side_occurs_twice_in_a_level(spec):
    """Not even where all pairs are used; each symbol has as many, of the level below."""
    rules = spec.grammar().rules
    assert len(rules) == spec.levels * spec.symbols * spec.rules
    assert rules[:, 0].bincount().tolist() == spec.levels * spec.symbols * [spec.rules]
    levels = rules // spec.symbols
    assert torch.equal(levels[:, 1], levels[:, 0] + 1)
    assert torch.equal(levels[:, 2], levels[:, 0] + 1)
    assert len(rules[:, 1:].unique(dim=0)) == len(rules)


def test_probabilities_are_equal_and_the_rest_is_smoothing():
    grammar = HIERARCHY.grammar()
    assert grammar.roots.tolist() == [0.25] * 4 + [0.0] * 12
    assert grammar.weights.tolist() == [1 / 3] * len(grammar.rules)
    assert not grammar.emission[:12].any()
    own = grammar.emission[12:]
    torch.testing.assert_close(own, torch.full((4, 4), 0.025).double() + 0.9 * torch.eye(4).double())


@pytest.mark.parametrize("spec", [replace(HIERARCHY, levels=2), replace(HIERARCHY, levels=2, rules=2)])
def test_without_noise_all_above_the_tokens_is_a_function_of_them(spec):
    """Every sentence has one derivation, so all are equally likely and each posterior is one class."""
    language = replace(spec, smoothing=0.0).build()
    (sentences,) = enumerate_sentences(language)
    sentence_count = spec.symbols * spec.rules**3  # a choice at the root, and one for each of two symbols
    assert len(sentences.lengths) == sentence_count
    torch.testing.assert_close(
        language.log_prob(sentences).exp() * sentence_count, torch.ones(sentence_count).double()
    )
    for task in language.tasks:
        posterior = language.posterior(sentences, task)
        assert ((posterior - 1).abs().min(1).values < 1e-12).all()
        torch.testing.assert_close(posterior.sum(1), torch.ones(sentence_count).double())


def test_noise_leaves_no_zero_and_no_certainty():
    language = HIERARCHY.build()
    sentences = language.sample(50, seeded())
    assert language.conditionals(sentences).min() > 0
    assert language.posterior(sentences, "root").max() < 1


def test_probabilities_are_those_of_derivations():
    spec = HierarchySpec(levels=2, symbols=2, rules=2, smoothing=0.2, seed=1)
    probabilities = enumerated(spec.grammar(), 4)
    words = torch.tensor(list(probabilities))
    sentences = Sentences(words, torch.full((len(words),), 4))
    expected = torch.tensor(list(probabilities.values()), dtype=torch.float64)
    torch.testing.assert_close(spec.build().log_prob(sentences).exp(), expected)


def test_seeds_give_other_rules():
    first, same, other = (replace(HIERARCHY, seed=seed).grammar() for seed in (0, 0, 1))
    assert torch.equal(first.rules, same.rules)
    assert not torch.equal(first.rules, other.rules)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"levels": 0}, r"levels must be a whole number, at least 1; got 0\."),
        ({"symbols": 0}, r"symbols must be a whole number, at least 1; got 0\."),
        ({"rules": 0}, r"rules must be a whole number, at least 1; got 0\."),
        ({"rules": 5}, "rules = 5 is above symbols = 4"),
        ({"smoothing": -0.1}, r"smoothing must lie in \[0, 1\]; got -0.1\."),
        ({"smoothing": 1.1}, r"smoothing must lie in \[0, 1\]; got 1.1\."),
    ],
)
def test_bad_dimensions_of_a_hierarchy_are_refused(changes, message):
    with pytest.raises((LanguageError, ParameterError), match=message):
        replace(HIERARCHY, **changes)
