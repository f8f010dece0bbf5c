"""Tables of rules: what they refuse, and how symbols fall into groups."""

import pytest
import torch

from sameloss.errors import LanguageError
from sameloss.languages import Grammar
from sameloss.languages.entropy import length_distribution
from sameloss.languages.grammars.formats import read_grammar


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
    ("changes", "message"),
    [
        (
            {"weights": torch.tensor([0.9], dtype=torch.float64)},
            "Probabilities of S sum to 0.9; they must sum to 1",
        ),
        ({"roots": torch.tensor([0.5, 0.0]).double()}, "Probabilities of the start sum to 0.5"),
        (
            {"emission": torch.tensor([[0.0, 0.0], [1.5, -0.5]]).double()},
            "must be numbers that are not negative",
        ),
        (
            {"emission": torch.tensor([[0.0, 0.0], [float("nan"), 1.0]]).double()},
            "must be numbers that are not negative",
        ),
        ({"rules": torch.tensor([[0, 1, 2]])}, r"Rules name symbols 0\.\.1; got 2"),
        ({"rules": torch.tensor([[0, -1, 1]])}, r"Rules name symbols 0\.\.1; got -1"),
        ({"vocabulary": ("x",)}, r"2 symbols and 1 words do not go with emissions of shape \(2, 2\)"),
    ],
)
def test_bad_tables_say_what_is_wrong(changes, message):
    with pytest.raises(LanguageError, match=message):
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
    from dataclasses import replace

    spec = replace(tiny_spec, levels=3, early_stop=(0.2, 0.6))
    lengths = length_distribution(spec.build())
    expected = float(lengths @ torch.arange(1, len(lengths) + 1).double())
    assert spec.grammar().mean_length == pytest.approx(expected, rel=1e-12)
    assert read_grammar("S S S 0.25\nS x 0.75").mean_length == pytest.approx(1.5)  # m = 0.75 + 0.5 m
    assert read_grammar("S S S 0.5\nS x 0.5").mean_length == float("inf")
