"""All sentences of a small language, and the refusal of a large one."""

import pytest
from enumeration import enumerated

from sameloss.errors import LanguageError
from sameloss.languages import HierarchySpec, PCFGSpec
from sameloss.languages.entropy import enumerate_sentences

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
