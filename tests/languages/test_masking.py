"""Masked sentences: what is hidden, what is kept as the target, and which columns are left out."""

import numpy as np
import pytest
import torch

from sameloss.errors import LanguageError
from sameloss.languages import Sentences
from sameloss.languages.masking import mask_batch, mask_one, mask_share, padded, prefix_batch


def test_target_is_the_word_behind_the_mask():
    batch = mask_batch(Sentences(torch.tensor([[3, 1, 2]]), torch.tensor([3])), torch.tensor([2]))
    assert batch.masked.tolist() == [[3, 1, 0]]
    assert batch.targets.tolist() == [1]


@pytest.mark.parametrize("position", [-1, 2, 3])
def test_a_position_outside_of_its_sentence_is_refused(position):
    sentences = Sentences(torch.tensor([[3, 1, 2], [2, 1, 0]]), torch.tensor([3, 2]))
    with pytest.raises(LanguageError, match=r"^Positions must lie in 0\.\.length - 1"):
        mask_batch(sentences, torch.tensor([2, position]))


@pytest.mark.parametrize("position", [-1, 1, 2])
def test_a_prefix_that_no_token_follows_is_refused(position):
    sentences = Sentences(torch.tensor([[3, 1, 2], [2, 1, 0]]), torch.tensor([3, 2]))
    assert prefix_batch(sentences, torch.tensor([1, 0])).targets.tolist() == [2, 1]
    with pytest.raises(LanguageError, match=r"^Positions must lie in 0\.\.length - 2 .* a token"):
        prefix_batch(sentences, torch.tensor([1, position]))


def test_a_batch_gives_rows_and_loses_empty_columns():
    tokens, lengths = torch.tensor([[1, 2, 3], [4, 5, 0], [6, 7, 0]]), torch.tensor([3, 2, 2])
    batch = mask_batch(Sentences(tokens, lengths), torch.tensor([2, 0, 1]))
    some = batch.rows(torch.tensor([2, 1]))
    assert some.targets.tolist() == [6, 3]
    narrow = some.narrowed()
    assert narrow.masked.tolist() == [[6, 0], [0, 5]]
    assert narrow.lengths is None
    assert batch.narrowed().lengths.tolist() == [3, 2, 2]
    assert batch.to("cpu").masked.tolist() == batch.masked.tolist()


def test_parts_of_a_batch_are_the_batch(tiny_language):
    batch = mask_batch(tiny_language.sample(10, torch.Generator().manual_seed(0)), torch.arange(10) % 4)
    parts = batch.parts(4)
    assert [len(part.targets) for part in parts] == [4, 4, 2]
    assert torch.equal(torch.cat([part.masked for part in parts]), batch.masked)
    assert [len(part.targets) for part in batch.parts(None)] == [10]


def test_a_share_of_the_tokens_is_masked_and_at_least_one():
    sentences = Sentences(torch.randint(1, 9, (4000, 8)), torch.randint(3, 9, (4000,)))
    batch = mask_share(sentences, 0.3, np.random.default_rng(0))
    hidden = ((batch.masked == 0) & (torch.arange(8) < batch.lengths[:, None])).sum(1)
    expected = (0.3 * sentences.lengths + 0.7**sentences.lengths).double().sum()
    assert len(batch.targets) == pytest.approx(float(expected), rel=0.02)
    assert int(hidden.min()) == 1
    rows = torch.arange(len(batch.targets))
    assert (batch.masked[rows, batch.positions] == 0).all()
    assert (batch.positions < batch.lengths).all()


def test_every_masked_word_is_a_target_once():
    sentences = Sentences(torch.tensor([[3, 1, 2, 4]]), torch.tensor([4]))
    batch = mask_share(sentences, 0.9, np.random.default_rng(1))
    assert sorted(batch.positions.tolist()) == batch.positions.tolist()
    restored = batch.masked[0].clone()
    restored[batch.positions] = batch.targets + 1
    assert restored.tolist() == [3, 1, 2, 4]


def test_padding_hides_what_lies_beyond_the_ends(tiny_language):
    sentences = Sentences(torch.tensor([[3, 1], [2, 9]]), torch.tensor([2, 1]))
    wide = padded(sentences, 4)
    assert wide.tokens.tolist() == [[3, 1, 0, 0], [2, 0, 0, 0]]
    assert wide.lengths is sentences.lengths
    full = tiny_language.sample(5, torch.Generator().manual_seed(0))
    assert torch.equal(padded(full, 4).tokens, full.tokens)


def test_one_token_is_hidden_and_the_sentences_stay():
    tokens = torch.tensor([[3, 1, 2], [1, 1, 1]])
    assert mask_one(tokens, torch.tensor([1, 0])).tolist() == [[3, 0, 2], [0, 1, 1]]
    assert tokens.tolist() == [[3, 1, 2], [1, 1, 1]]
