"""The bracket language against binomials, brute force and hand-made sentences."""

from itertools import product
from math import comb

import pytest
import torch

from sameloss.errors import LanguageError
from sameloss.studies.dyck.theory import (
    check_length,
    downstream_inputs,
    in_words,
    missing_sign_probability,
    pretraining_inputs,
    zero_probability,
)


@pytest.mark.parametrize("length", [4, 6, 8])
def test_every_masked_sentence_is_there_once(length):
    inputs = pretraining_inputs(length)
    assert len(inputs.target) == 2 * length * comb(length, length // 2)
    assert len(inputs.tokens.sum(1).unique(dim=0)) == len(inputs.target)
    assert inputs.target.unique(return_counts=True)[1].tolist() == [len(inputs.target) // 2] * 2
    torch.testing.assert_close(
        inputs.tokens.abs().sum((1, 2)), torch.full((len(inputs.target),), 1.0 * length).double()
    )
    assert (inputs.tokens @ inputs.tokens.mT).diagonal(dim1=1, dim2=2).eq(1).all()


def test_both_signs_of_each_mask():
    masks = pretraining_inputs(6).tokens[:, :, 6:].sum(1)
    values, counts = masks.unique(dim=0, return_counts=True)
    assert len(values) == 12
    assert counts.eq(comb(6, 3)).all()


def test_the_target_names_the_masked_bracket():
    """⟨ hidden: one ⟩ too many is seen and g* = 1 (after Eq. 2); recount in the text itself."""
    inputs = pretraining_inputs(4)
    for tokens, target in zip(inputs.tokens, inputs.target, strict=True):
        text = in_words(tokens)
        assert text.count("⟩") - text.count("⟨") == target
        hidden = "⟨" if target == 1 else "⟩"
        filled = text.replace("[M]", hidden)
        assert filled.count("⟩") == filled.count("⟨")


def test_the_target_is_linear_in_the_encoding():
    for inputs in (pretraining_inputs(6), downstream_inputs(6)):
        torch.testing.assert_close(inputs.target, -inputs.tokens.sum(1)[:, :6].sum(1))


def test_downstream_strings_are_binomial_and_unmasked():
    inputs = downstream_inputs(6)
    values, counts = inputs.target.unique(return_counts=True)
    assert values.tolist() == [-6, -4, -2, 0, 2, 4, 6]
    assert counts.tolist() == [comb(6, k) for k in range(7)]
    assert not inputs.tokens[:, :, 6:].any()
    assert zero_probability(6) == counts[3] / 64


@pytest.mark.parametrize(("length", "samples"), [(2, 1), (2, 4), (4, 3), (6, 2)])
def test_missing_signs_by_brute_force(length, samples):
    target = downstream_inputs(length).target.tolist()
    tuples = list(product(target, repeat=samples))
    missing = sum(not (min(drawn) < 0 < max(drawn)) for drawn in tuples)
    assert missing_sign_probability(length, samples) == pytest.approx(missing / len(tuples), abs=1e-12)


@pytest.mark.parametrize(("length", "words"), [(7, "even"), (4, "at least 6"), (12, "at most 10")])
def test_lengths_of_no_theorem_are_refused(length, words):
    with pytest.raises(LanguageError, match=rf"sentence_length.*{words}|{words}.*; got {length}"):
        check_length(length)


def test_odd_lengths_have_no_sentences():
    with pytest.raises(LanguageError, match="must be even"):
        pretraining_inputs(5)
