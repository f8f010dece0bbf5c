"""Statistics of languages against enumeration and hand calculation."""

from collections import Counter
from math import log

import pytest
import torch
from enumeration import enumerated

from sameloss.errors import LanguageError
from sameloss.languages import HierarchySpec, HMMSpec, PCFGSpec, Sentences, TeacherSpec
from sameloss.languages.entropy import (
    _mean_marginal_entropy,
    blind_entropy,
    context_information,
    entropies,
    enumerate_sentences,
    length_distribution,
    masked_entropy,
    word_shares,
)


def seed(number):
    return torch.Generator().manual_seed(number)


def test_masked_entropy_is_that_of_the_population(tiny_language):
    (sentences,) = enumerate_sentences(tiny_language)
    known = entropies(tiny_language.conditionals(sentences), sentences)
    exact = float(tiny_language.log_prob(sentences).exp() @ known)
    found = masked_entropy(tiny_language, tiny_language.sample(4000, seed(0)), seed(1))
    assert found.standard_error < 0.01
    assert abs(found.mean - exact) < 4 * found.standard_error


def test_one_position_a_sentence_estimates_the_same():
    language = TeacherSpec(words=4, max_length=3, topics=2, d_model=4).build()
    sentences = language.sample(1500, seed(0))
    some = masked_entropy(language, sentences, seed(1))
    every = torch.special.entr(language.conditionals(sentences)).sum((1, 2)) / sentences.lengths
    assert some.count == 1500
    assert some.standard_error < 0.02
    assert abs(some.mean - every.mean()) < 4 * some.standard_error


def test_blind_entropy_is_that_of_words_by_position(tiny_language):
    probabilities = enumerated(tiny_language.grammar, 4)
    expected = 0.0
    for position in range(4):
        shares = torch.zeros(3, dtype=torch.float64)
        for words, probability in probabilities.items():
            shares[words[position] - 1] += probability
        expected += float(torch.special.entr(shares).sum()) / 4
    assert blind_entropy(tiny_language) == pytest.approx(expected, rel=1e-12)


def informed(language, count):
    """Estimate the context information on some sentences."""
    sentences = language.sample(count, seed(0))
    return context_information(language, sentences, language.conditionals(sentences))


def test_context_information_is_that_of_the_population(tiny_language):
    """I(x_t; x_-t) by its definition, from the joint distribution of a token and the others."""
    probabilities, expected = enumerated(tiny_language.grammar, 4), 0.0
    for position in range(4):
        token, others = Counter(), Counter()
        for words, probability in probabilities.items():
            token[words[position]] += probability
            others[words[:position] + words[position + 1 :]] += probability
        expected += sum(
            probability * log(probability / token[words[at]] / others[words[:at] + words[at + 1 :]])
            for at, (words, probability) in ((position, item) for item in probabilities.items())
        )
    found = informed(tiny_language, 4000)
    assert found.standard_error < 0.05 * expected / 4
    assert abs(found.mean - expected / 4) < 4 * found.standard_error


def test_independent_words_tell_nothing_of_each_other():
    found = informed(HMMSpec(1, 5, 4, 1, 1.0, 1.0).build(), 50)
    assert found.mean == pytest.approx(0, abs=1e-12)
    assert found.standard_error == pytest.approx(0, abs=1e-12)


def test_marginals_that_cannot_be_summed_are_the_means_of_conditionals(tiny_spec):
    """Of a language that has both ways they agree; lengths do not mix."""
    early = PCFGSpec(2, 2, 2, 1, 2, 3, 2, 1.0, 1.0, early_stop=(0.2, 0.5), seed=5)
    for spec in (tiny_spec, early):
        language = spec.build()
        sentences = language.sample(20_000, seed(0))
        found = _mean_marginal_entropy(sentences, language.conditionals(sentences))
        assert found == pytest.approx(blind_entropy(language), abs=0.01)


def test_and_are_so_of_an_autoregressive_language():
    language = TeacherSpec(words=4, max_length=8, topics=2, d_model=4).build()
    sentences = language.sample(200, seed(0))
    conditionals = language.conditionals(sentences)
    found = context_information(language, sentences, conditionals)
    known = torch.special.entr(conditionals).sum((1, 2)) / sentences.lengths
    assert found.mean == pytest.approx(_mean_marginal_entropy(sentences, conditionals) - float(known.mean()))
    assert found.mean > 0


def test_word_shares_count_tokens_before_the_end(tiny_language):
    sentences = Sentences(torch.tensor([[1, 1, 3, 9], [2, 3, 3, 3]]), torch.tensor([3, 1]))
    assert word_shares(tiny_language, sentences).tolist() == [0.5, 0.25, 0.25]


def test_an_autoregressive_language_has_no_length_distribution():
    language = TeacherSpec().build()
    with pytest.raises(LanguageError, match="8 masks of 16 words have"):
        length_distribution(language)


def test_lengths_are_exact(tiny_spec):
    language = PCFGSpec(2, 1, 1, 1, 1, 3, 1, 1.0, 1.0, early_stop=(0.5, 0.5), seed=0).build()
    torch.testing.assert_close(length_distribution(language), torch.tensor([0, 0.25, 0.5, 0.25]).double())
    fixed = length_distribution(tiny_spec.build())
    torch.testing.assert_close(fixed, torch.tensor([0, 0, 0, 1.0]).double())


# Enumeration

LARGE = HierarchySpec(levels=3, symbols=4, rules=2, smoothing=0.03)
"""Eight tokens of four words."""


def test_enumeration_covers_the_language(tiny_language):
    parts = list(enumerate_sentences(tiny_language))
    assert sum(len(part.lengths) for part in parts) == 81
    total = sum(tiny_language.log_prob(part).exp().sum() for part in parts)
    assert total.item() == pytest.approx(1, rel=1e-12)


def test_too_many_sentences_are_refused():
    with pytest.raises(LanguageError, match=r"8.7e\+04 strings of up to 8 tokens are too many to enumerate"):
        next(enumerate_sentences(LARGE.build()))


def test_sentences_are_those_that_derivations_give():
    language = PCFGSpec(2, 2, 2, 1, 2, 3, 2, 1.0, 1.0, early_stop=(0.2, 0.5), seed=5).build()
    found = {
        tuple(words[:length])
        for part in enumerate_sentences(language)
        for words, length in zip(part.tokens.tolist(), part.lengths.tolist(), strict=True)
    }
    assert found == {words for words, p in enumerated(language.grammar, 4).items() if p > 0}
    assert len(found) < 3 + 9 + 27 + 81
