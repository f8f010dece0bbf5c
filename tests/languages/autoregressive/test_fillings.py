"""Every word in every masked place, and sums over them."""

from itertools import product

import pytest
import torch
from enumeration import as_sentences

from sameloss.errors import LanguageError
from sameloss.languages.autoregressive import fillings, sum_of_fillings


def test_every_word_stands_in_every_masked_place():
    filled, owners = fillings(as_sentences([(0, 2, 0), (1, 3, 2), (3, 0)], 3), words=3)
    found = [set(), set(), set()]
    for row, length, owner in zip(*map(torch.Tensor.tolist, (*filled, owners)), strict=True):
        found[owner].add(tuple(row[:length]))
    assert found[0] == {(a, 2, b) for a, b in product((1, 2, 3), repeat=2)}
    assert found[1] == {(1, 3, 2)}
    assert found[2] == {(3, 1), (3, 2), (3, 3)}
    assert len(owners) == 9 + 1 + 3


def test_a_mask_beyond_the_end_is_padding():
    sentences = as_sentences([(1, 2)], 4)
    filled, owners = fillings(sentences, words=5)
    assert torch.equal(filled.tokens, sentences.tokens)
    assert owners.tolist() == [0]


def test_too_many_fillings_are_refused():
    with pytest.raises(LanguageError, match="9 masks of 3 words have 19,683 fillings; at most 10,000"):
        fillings(as_sentences([(0,) * 9, (1,)], 9), words=3)
    assert len(fillings(as_sentences([(0,) * 8], 9), words=3)[1]) == 3**8


def test_sums_are_by_owner_and_do_not_underflow():
    logs = torch.tensor([[-1000.0, 0.0], [-1000.0, 1.0], [2.0, 3.0]], dtype=torch.float64)
    found = sum_of_fillings(logs, torch.tensor([1, 1, 0]), 2)
    torch.testing.assert_close(found[0], logs[2])
    torch.testing.assert_close(found[1], logs[:2].logsumexp(0))
