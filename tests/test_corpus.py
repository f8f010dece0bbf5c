"""Shards hold what was sampled; a batch is a pure function of (seed, step)."""

import numpy as np
import pytest
import torch

from sameloss import corpus as corpus_module
from sameloss.corpus import Corpus, mask_batch, stream_seed, write_corpus
from sameloss.errors import CorpusError
from sameloss.languages import PCFGSpec, Sentences


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(corpus_module, "SHARD", 40)


@pytest.fixture
def corpus(tiny_language, tmp_path, small_shards):
    write_corpus(tiny_language, 100, 5, tmp_path)
    return Corpus(tmp_path)


def test_shards_do_not_depend_on_each_other(corpus, tiny_language, tmp_path):
    everything = corpus.rows(np.arange(100)).tokens
    again = tmp_path / "again"
    again.mkdir()
    write_corpus(tiny_language, 120, 5, again)
    assert torch.equal(Corpus(again).rows(np.arange(80)).tokens, everything[:80])
    assert len(list(tmp_path.glob("tokens-*.npy"))) == 3
    assert everything.min() >= 1
    assert everything.max() <= 3


def test_batches_are_a_function_of_seed_and_step(corpus):
    first, other = corpus.batch(1, 10, 16), corpus.batch(1, 11, 16)
    again = corpus.batch(1, 10, 16)
    assert torch.equal(first.masked, again.masked)
    assert torch.equal(first.positions, again.positions)
    assert not torch.equal(first.masked, other.masked)
    assert not torch.equal(first.masked, corpus.batch(2, 10, 16).masked)


def test_exactly_one_token_is_masked_and_kept_as_target(corpus):
    batch = corpus.batch(0, 0, 64)
    assert ((batch.masked == 0).sum(1) == 1).all()
    assert (batch.masked.gather(1, batch.positions[:, None]) == 0).all()
    assert set(batch.positions.tolist()) == {0, 1, 2, 3}
    assert batch.lengths is None


def test_masks_fall_inside_ragged_sentences():
    language = PCFGSpec(2, 2, 2, 1, 2, 3, 2, 1.0, 1.0, early_stop=(0.3, 0.6), seed=5).build()
    sentences = language.sample(500, torch.Generator().manual_seed(0))
    place = torch.rand(500, generator=torch.Generator().manual_seed(1))
    batch = mask_batch(sentences, (place * sentences.lengths).long())
    assert (batch.positions < sentences.lengths).all()
    assert batch.targets.min() >= 0
    assert batch.lengths is not None


def test_target_is_the_word_behind_the_mask():
    batch = mask_batch(Sentences(torch.tensor([[3, 1, 2]]), torch.tensor([3])), torch.tensor([2]))
    assert batch.masked.tolist() == [[3, 1, 0]]
    assert batch.targets.tolist() == [1]


def test_an_empty_corpus_is_refused(tiny_language, tmp_path):
    with pytest.raises(CorpusError, match="at least one sentence; got 0"):
        write_corpus(tiny_language, 0, 0, tmp_path)


def test_no_two_uses_share_a_seed():
    uses = ("corpus", "initial weights", "batches", "saturation", "trace", "probe")
    seeds = {stream_seed(use, *path) for use in uses for path in [(0,), (1,), (0, 0), (0, 1), (1, 0)]}
    assert len(seeds) == 5 * len(uses)
    assert min(seeds) >= 0
    assert max(seeds) < 2**63
