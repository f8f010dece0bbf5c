"""The example of every measure: its Hessian by hand."""

import pytest
import torch

from sameloss.measures.flatness.hessian import dense_hessian
from sameloss.measures.flatness.trace import Unigram, one_word_sentences


def test_its_hessian_is_known_by_hand():
    model, masked = Unigram([0.5, 0.25, 0.25]), one_word_sentences([0, 0, 1, 2])
    assert model(masked.masked, masked.positions).exp()[3].tolist() == pytest.approx([0.5, 0.25, 0.25])
    eigenvalues = torch.linalg.eigvalsh(dense_hessian(model, masked))
    assert eigenvalues.tolist() == pytest.approx([0, 1 / 4, 3 / 8], abs=1e-12)


def test_sentences_are_one_mask_before_a_word():
    masked = one_word_sentences([2, 0])
    assert masked.masked.tolist() == [[0], [0]]
    assert (masked.positions.tolist(), masked.targets.tolist(), masked.lengths) == ([0, 0], [2, 0], None)
