"""Calibration reaches its targets or says that it cannot; the paper's languages are calibrated."""

import pytest
import torch

from sameloss.errors import LanguageError
from sameloss.languages import PCFGSpec
from sameloss.languages.entropy import length_distribution, masked_entropy
from sameloss.languages.hmm import HMMSpec
from sameloss.languages.paper import (
    PAPER_HMM,
    PAPER_HMM_SHAPE,
    PAPER_LANGUAGE,
    PAPER_SHAPE,
    calibrate,
    hmm_family,
    pcfg_family,
    with_mean_length,
)

SHAPE = PCFGSpec(3, 2, 3, 2, 4, 10, 5, 1.0, 1.0, smoothing=0.01, seed=4)


def entropy_of(spec, sentences, seed):
    language, generator = spec.build(), torch.Generator().manual_seed(seed)
    return masked_entropy(language, language.sample(sentences, generator), generator)


def test_a_grammar_is_brought_to_entropy_and_length():
    tried = calibrate(pcfg_family(SHAPE, 5.5), 1.5, (0.05, 5.0), sentences=500, tolerance=0.01)
    spec = tried[-1].spec
    found = tried[-1].entropy
    assert abs(found.mean - 1.5) < max(0.01, found.standard_error)
    assert found.standard_error < 0.03
    assert spec.rule_concentration == spec.emission_concentration == tried[-1].concentration
    assert spec.grammar().mean_length == pytest.approx(5.5, abs=1e-4)
    assert len(tried) < 15


def test_an_hmm_is_brought_to_an_entropy():
    family = hmm_family(HMMSpec(8, 16, 6, 2, 1.0, 1.0))
    tried = calibrate(family, 1.6, (0.05, 5.0), sentences=500, tolerance=0.01)
    again = entropy_of(tried[-1].spec, 500, 0)
    assert again == tried[-1].entropy
    assert abs(again.mean - 1.6) < max(0.01, again.standard_error)


def test_what_cannot_be_reached_is_said():
    with pytest.raises(LanguageError, match=r"An entropy of 9.0 nats is not between those of the concentr"):
        calibrate(pcfg_family(SHAPE, 6.0), 9.0, (0.1, 1.0), sentences=50)
    with pytest.raises(ValueError, match="different signs"):
        with_mean_length(SHAPE, 9.0)


def test_the_papers_languages_have_the_published_entropy_and_length():
    """The published 3.196 and 3.758 nats, and 17 tokens (Section 2.3, App. A.1)."""
    for spec, published in ((PAPER_LANGUAGE, 3.196), (PAPER_HMM, 3.758)):
        found = entropy_of(spec, 10_000, 1)
        assert found.standard_error < 0.011
        assert abs(found.mean - published) < 0.03
    assert PAPER_LANGUAGE.grammar().mean_length == pytest.approx(17, abs=0.01)
    language = PAPER_LANGUAGE.build()
    lengths = length_distribution(language)
    assert float(lengths.sum()) == pytest.approx(1, abs=1e-12)
    assert float(lengths @ torch.arange(1, 33).double()) == pytest.approx(17, abs=0.01)
    assert (language.words, language.max_length, len(language.grammar.symbols)) == (200, 32, 49)
    assert bool((language.grammar.emission.sum(0) > 0).all())
    assert (PAPER_HMM.words, PAPER_HMM.states, PAPER_HMM.max_length, PAPER_HMM.blocks) == (200, 100, 16, 4)


@pytest.mark.book
def test_the_papers_languages_are_what_their_calibration_gives():
    options = {"sentences": 20_000}
    pcfg = calibrate(pcfg_family(PAPER_SHAPE, 17.0), 3.196, (0.1, 0.25), **options)[-1]
    assert pcfg_family(PAPER_SHAPE, 17.0)(float(f"{pcfg.concentration:.4g}")) == PAPER_LANGUAGE
    hmm = calibrate(hmm_family(PAPER_HMM_SHAPE), 3.758, (0.1, 1.0), tolerance=0.001, **options)[-1]
    assert hmm_family(PAPER_HMM_SHAPE)(float(f"{hmm.concentration:.4g}")) == PAPER_HMM
