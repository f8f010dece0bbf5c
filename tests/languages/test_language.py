"""Sets of sentences, checks of tokens, and conditionals by their definition."""

import math

import pytest
import torch
from enumeration import as_sentences, enumerated
from toy_runs import TINY

from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import HMMSpec, Sentences, TeacherSpec, substituted_conditionals
from sameloss.languages.language import check_possible, check_tokens

RAGGED = Sentences(torch.tensor([[1, 2, 3], [3, 9, 9], [2, 1, 9], [1, 9, 9]]), torch.tensor([3, 1, 2, 1]))


def test_substitution_is_the_definition(tiny_language):
    words = (1, 2, 3, 1)
    probabilities = enumerated(tiny_language.grammar, 4)
    found = substituted_conditionals(tiny_language, as_sentences([words], 4))
    joint = torch.tensor([probabilities[(1, 2, w, 1)] for w in (1, 2, 3)], dtype=torch.float64)
    torch.testing.assert_close(found[0, 2], joint / joint.sum(), rtol=1e-12, atol=0)
    assert not math.isnan(float(found.sum()))


def test_masks_are_summed_out_where_the_language_can(tiny_language):
    probabilities = enumerated(tiny_language.grammar, 4)
    found = substituted_conditionals(tiny_language, as_sentences([(0, 2, 3, 1)], 4))
    joint = torch.tensor(
        [sum(probabilities[first, 2, 3, w] for first in (1, 2, 3)) for w in (1, 2, 3)], dtype=torch.float64
    )
    torch.testing.assert_close(found[0, 3], joint / joint.sum(), rtol=1e-12, atol=0)


def test_places_before_the_end():
    assert RAGGED.inside.sum(1).tolist() == RAGGED.lengths.tolist()
    assert RAGGED.inside[1].tolist() == [True, False, False]


def test_chunks_are_of_one_length_and_cover_all():
    found = {len(tokens.T): (rows.tolist(), tokens.tolist()) for rows, tokens in RAGGED.chunks(9)}
    assert found == {1: ([1, 3], [[3], [1]]), 2: ([2], [[2, 1]]), 3: ([0], [[1, 2, 3]])}
    assert [rows.tolist() for rows, _ in RAGGED.chunks(1)] == [[1], [3], [2], [0]]
    assert [tokens.dtype for _, tokens in RAGGED.chunks(2)] == [torch.int64] * 3


def test_some_sentences_joined_are_the_sentences():
    parts = [RAGGED.rows(slice(0, 1)), RAGGED.rows(torch.tensor([1, 2, 3]))]
    joined = Sentences.joined(parts)
    assert torch.equal(joined.tokens, RAGGED.tokens)
    assert torch.equal(joined.lengths, RAGGED.lengths)
    assert torch.equal(RAGGED.to("cpu").tokens, RAGGED.tokens)


@pytest.mark.parametrize(("token", "words"), [(-1, 3), (4, 3)])
def test_tokens_out_of_range_are_refused(token, words):
    check_tokens(torch.tensor([[0, words]]), words)
    check_tokens(torch.zeros(0, 3).long(), words)
    with pytest.raises(LanguageError, match=rf"Token ids lie in 0..{words}; got {token}\."):
        check_tokens(torch.tensor([[1, token]]), words)


def test_a_sentence_that_cannot_occur_is_named():
    rows = torch.tensor([4, 7])
    check_possible(torch.ones(2, 3).bool(), rows)
    with pytest.raises(LanguageError, match=r"Sentence 7 cannot occur .* whatever its token 2 is"):
        check_possible(torch.tensor([[True] * 3, [True, True, False]]), rows)


def test_a_sentence_longer_than_its_columns_is_refused(tiny_language):
    tokens = torch.ones(2, 4, dtype=torch.long)
    with pytest.raises(LanguageError, match=r"^A sentence of 9 tokens does not stand in 4 columns\.$"):
        tiny_language.conditionals(Sentences(tokens, torch.tensor([4, 9])))


@pytest.mark.parametrize("spec", [TINY, HMMSpec(2, 3, 3, 1, 1.0, 1.0), TeacherSpec(words=3, max_length=2)])
def test_less_than_no_sentences_is_refused(spec):
    with pytest.raises(ParameterError, match=r"^count must be a whole number, at least 0; got -1"):
        spec.build().sample(-1, torch.Generator())
