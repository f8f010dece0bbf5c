"""Labels and ceilings against hand calculations."""

import pytest
from enumeration import as_sentences

from sameloss.errors import LanguageError
from sameloss.languages import PCFG, PCFGSpec
from sameloss.languages.grammars.formats import read_grammar
from sameloss.languages.language import NO_LABEL, ceilings, labels


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


def test_an_unknown_kind_is_refused(two_roots):
    with pytest.raises(LanguageError, match="Unknown label kind 'map'; choose likelihood or posterior"):
        labels.__wrapped__(two_roots, as_sentences([(1,)], 1), "root", "map")
