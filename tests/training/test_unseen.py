"""What is unseen is decided exactly, whatever the hash does."""

import numpy as np
import pytest
import torch

from sameloss.errors import CorpusError
from sameloss.languages import Language, Sentences
from sameloss.training import corpus as corpus_module
from sameloss.training import corpus as deduplication
from sameloss.training.corpus import Corpus, distinct, held_out_unseen, unseen, write_corpus


class Uniform(Language):
    """Sentences of 1 to 4 words out of 3, so 120 of them; garbage after the end."""

    words, max_length, tasks = 3, 4, ()

    def sample(self, count, generator):
        lengths = torch.randint(1, self.max_length + 1, (count,), generator=generator)
        tokens = torch.randint(1, self.words + 1, (count, self.max_length), generator=generator)
        return Sentences(tokens, lengths)


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "SHARD", 40)
    monkeypatch.setattr(deduplication, "CHUNK", 16)
    write_corpus(Uniform(), 100, 5, tmp_path)
    return Corpus(tmp_path)


def draw(count, seed=1):
    return Uniform().sample(count, torch.Generator().manual_seed(seed))


def plain(sentences):
    rows = zip(sentences.tokens.tolist(), sentences.lengths.tolist(), strict=True)
    return [tuple(tokens[:length]) for tokens, length in rows]


def everything(corpus):
    return set(plain(corpus.rows(np.arange(corpus.sentences))))


@pytest.fixture(params=["hash", "constant", "parity"])
def any_hash(request, monkeypatch):
    """The hash as it is, and two under which different sentences collide."""
    if request.param != "hash":
        modulus = 1 if request.param == "constant" else 2
        poor = lambda keys: keys.sum(1).astype(np.uint64) % np.uint64(modulus)  # noqa: E731
        monkeypatch.setattr(deduplication, "_hashes", poor)


@pytest.mark.usefixtures("any_hash")
def test_unseen_against_a_set_of_all_sentences(corpus):
    sentences, seen = draw(400), everything(corpus)
    expected = [sentence not in seen for sentence in plain(sentences)]
    assert 40 < sum(expected) < 360
    assert unseen(corpus, sentences).tolist() == expected


@pytest.mark.usefixtures("any_hash")
def test_the_corpus_itself_is_seen(corpus):
    assert not unseen(corpus, corpus.rows(np.arange(100))).any()


def test_what_follows_a_sentence_does_not_count(corpus):
    tokens, lengths = draw(200)
    outside = torch.arange(4) >= lengths[:, None]
    expected = unseen(corpus, Sentences(tokens, lengths))
    for garbage in (0, -1, 1 << 40):
        assert torch.equal(unseen(corpus, Sentences(tokens.where(~outside, garbage), lengths)), expected)


def test_wider_and_narrower_arrays(corpus):
    tokens, lengths = draw(200)
    expected = unseen(corpus, Sentences(tokens, lengths))
    wide = torch.cat([tokens, torch.full((200, 3), 2)], dim=1)
    assert torch.equal(unseen(corpus, Sentences(wide, lengths)), expected)
    short = lengths <= 2
    assert torch.equal(unseen(corpus, Sentences(tokens[short, :2], lengths[short])), expected[short])
    longer = Sentences(wide, torch.full((200,), 7))
    assert unseen(corpus, longer).all()


def test_lengths_count_and_words_do_not_wrap(corpus):
    seen = Sentences(torch.tensor([[1, 0], [2, 0], [3, 0]]), torch.tensor([1, 1, 1]))
    assert not unseen(corpus, seen).any()
    assert unseen(corpus, Sentences(seen.tokens, seen.lengths + 1)).all()  # a mask is no end
    assert unseen(corpus, Sentences(seen.tokens + (1 << 16), seen.lengths)).all()
    assert unseen(corpus, Sentences(seen.tokens - (1 << 16), seen.lengths)).all()


def test_no_sentences_give_no_answers(corpus):
    answers = unseen(corpus, draw(0))
    assert answers.shape == (0,)
    assert answers.dtype == torch.bool


def test_the_corpus_is_read_once_and_in_pieces(corpus, monkeypatch):
    read, rows = [], corpus.rows
    monkeypatch.setattr(corpus, "rows", lambda index: read.append(index) or rows(index))
    unseen(corpus, draw(10))
    assert max(map(len, read)) == 16
    assert np.concatenate(read).tolist() == list(range(100))


def test_the_hash_leaves_few_sentences_to_compare(corpus, monkeypatch):
    compared, names = [], deduplication._names
    monkeypatch.setattr(deduplication, "_names", lambda keys: compared.append(len(keys)) or names(keys))
    sentences = draw(5)
    unseen(corpus, sentences)
    held = set(plain(sentences))
    assert sum(compared) == 5 + sum(s in held for s in plain(corpus.rows(np.arange(100))))


def test_different_sentences_have_different_hashes():
    sentences = distinct(draw(20_000))
    assert len(sentences.lengths) == 3 + 9 + 27 + 81
    assert len(np.unique(deduplication._hashes(deduplication._keys(sentences, 4)))) == 120


def test_the_hash_of_the_largest_words():
    """Words that differ in their highest bit alone are the hardest to tell apart."""
    tokens = torch.randint(0, 2, (20_000, 32), generator=torch.Generator().manual_seed(0)) << 15
    keys = deduplication._keys(Sentences(tokens, torch.full((20_000,), 32)), 32)
    assert len(np.unique(deduplication._hashes(keys))) == 20_000


def test_distinct_keeps_first_occurrences():
    sentences = draw(300)
    kept = distinct(sentences)
    assert plain(kept) == list(dict.fromkeys(plain(sentences)))
    first = [plain(sentences).index(sentence) for sentence in plain(kept)]
    assert torch.equal(kept.tokens, sentences.tokens[first])
    assert plain(distinct(kept)) == plain(kept)
    assert plain(distinct(draw(0))) == []


def test_held_out_sentences_are_distinct_and_unseen(corpus):
    held_out = held_out_unseen(Uniform(), corpus, 20, torch.Generator().manual_seed(2))
    assert len(set(plain(held_out))) == len(held_out.lengths) == 20
    assert not set(plain(held_out)) & everything(corpus)
    again = held_out_unseen(Uniform(), corpus, 20, torch.Generator().manual_seed(2))
    assert torch.equal(held_out.tokens, again.tokens)
    other = held_out_unseen(Uniform(), corpus, 20, torch.Generator().manual_seed(3))
    assert not torch.equal(held_out.tokens, other.tokens)


def test_held_out_sentences_come_in_the_order_drawn(corpus):
    drawn, seen = draw(4000, seed=2), everything(corpus)
    order = [s for s in dict.fromkeys(plain(drawn)) if s not in seen]
    generator = torch.Generator().manual_seed(2)
    assert plain(held_out_unseen(Replayed(drawn), corpus, 20, generator)) == order[:20]


class Replayed(Uniform):
    """A language that gives sentences drawn before."""

    def __init__(self, sentences):
        self.sentences, self.given = sentences, 0

    def sample(self, count, generator):
        self.given += count
        return self.sentences.rows(slice(self.given - count, self.given))


def test_all_that_is_left_is_found_and_no_more(corpus):
    left = 120 - len(everything(corpus))
    generator = torch.Generator().manual_seed(0)
    assert len(held_out_unseen(Uniform(), corpus, left, generator).lengths) == left
    sentence = (
        rf"^{100 * (left + 1)} draws gave {left} different sentences that the corpus does not hold, "
        rf"fewer than {left + 1}; choose a smaller test set, a smaller corpus or a richer language\.$"
    )
    with pytest.raises(CorpusError, match=sentence):
        held_out_unseen(Uniform(), corpus, left + 1, generator)


def test_an_empty_held_out_set_is_refused(corpus):
    with pytest.raises(CorpusError, match="at least one sentence; got 0"):
        held_out_unseen(Uniform(), corpus, 0, torch.Generator())
