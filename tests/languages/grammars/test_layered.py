"""Random layered grammars: dimensions, continuity, and what they refuse."""

from dataclasses import replace

import pytest
import torch

from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import PCFGSpec


def test_dimensions_are_as_asked():
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
        ({"rules": 5}, "at most symbols² = 4"),
        ({"smoothing": 1.5}, "smoothing must lie in"),
        ({"early_stop": (0.2, 1.0)}, "early_stop is a range in"),
        ({"early_stop": (0.4, 0.2)}, "early_stop is a range in"),
        ({"levels": 0}, "levels must be a whole number, at least 1; got 0"),
        ({"words": 0}, "words must be a whole number"),
        ({"rule_concentration": 0.0}, "rule_concentration must be positive"),
        ({"emission_concentration": -1.0}, "emission_concentration must be positive"),
    ],
)
def test_bad_dimensions_say_what_is_wrong(tiny_spec, changes, message):
    with pytest.raises((LanguageError, ParameterError), match=message):
        replace(tiny_spec, **changes)
