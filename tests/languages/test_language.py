"""Batches of sentences, validation, conditionals by their definition, labels and their ceilings."""

import math

import pytest
import torch
from enumeration import as_sentences, enumerated
from toy_runs import TINY

from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import PCFG, HMMSpec, PCFGSpec, Sentences, TeacherSpec, substituted_conditionals
from sameloss.languages.grammars.formats import read_grammar
from sameloss.languages.language import NO_LABEL, ceilings, check_possible, check_task, check_tokens, labels

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
    with pytest.raises(LanguageError, match=r"^A sentence of 9 tokens does not fit in 4 columns\.$"):
        tiny_language.conditionals(Sentences(tokens, torch.tensor([4, 9])))


@pytest.mark.parametrize("spec", [TINY, HMMSpec(2, 3, 3, 1, 1.0, 1.0), TeacherSpec(words=3, max_length=2)])
def test_less_than_no_sentences_is_refused(spec):
    with pytest.raises(ParameterError, match=r"^count must be a whole number, at least 0; got -1"):
        spec.build().sample(-1, torch.Generator())


def test_an_unknown_task_is_refused(tiny_language):
    check_task(tiny_language, "span2")
    with pytest.raises(LanguageError, match=r"^Unknown task 'leaf'; choose one of root, span2\.$"):
        check_task(tiny_language, "leaf")
    without = TeacherSpec(words=3, max_length=2, topics=1).build()
    with pytest.raises(LanguageError, match=r"^Unknown task 'topic'; choose one of next\.$"):
        without.classes("topic")


# Labels


@pytest.fixture
def two_roots():
    """A comes first with probability 0.9, but B is the likelier to give x."""
    return PCFG(read_grammar("S A 0.9\nS B 0.1\nA x 0.2\nA y 0.8\nB x 0.9\nB z 0.1"))


def test_likelihood_and_posterior_labels_differ_by_the_prior(two_roots):
    sentences = as_sentences([(1,), (2,), (3,)], 1)
    assert labels(two_roots, sentences, "root", "likelihood").tolist() == [1, 0, 1]
    assert labels(two_roots, sentences, "root", "posterior").tolist() == [0, 0, 1]


def test_ceilings_by_hand(two_roots):
    """Pr(x) = 0.27, 0.72, 0.01; the sentences are given in these proportions."""
    sentences = as_sentences([(1,)] * 27 + [(2,)] * 72 + [(3,)], 1)
    found = ceilings(two_roots, sentences, "root")
    assert found.classes == 2
    assert found.likelihood_defined == 1
    assert found.likelihood_majority == pytest.approx(0.72)
    assert found.posterior_majority == pytest.approx(0.99)
    assert found.hidden_majority == pytest.approx(0.9)
    assert found.agreement == pytest.approx(0.73)
    assert found.bayes == pytest.approx(0.18 + 0.72 + 0.01)
    assert found.likelihood_accuracy == pytest.approx(0.09 + 0.72 + 0.01)


def test_a_sentence_that_no_symbol_gives_has_no_label():
    """A1 gives two words or its own; a first part of one word has no symbol of two words above it."""
    language = PCFGSpec(2, 1, 1, 1, 1, 3, 1, 1.0, 1.0, early_stop=(0.5, 0.5), seed=0).build()
    grammar = language.grammar
    stop, leaf = (int(grammar.emission[s].argmax()) + 1 for s in (1, 2))
    assert stop != leaf
    sentences = as_sentences([(stop, stop), (leaf, leaf, stop)], 4)
    assert labels(language, sentences, "span2", "likelihood").tolist() == [NO_LABEL, 0]
    found = ceilings(language, sentences, "span2")
    assert found.likelihood_defined == 0.5
    assert found.bayes == pytest.approx(1.0)
    assert found.agreement == 1.0
