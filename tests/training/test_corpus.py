"""Corpora: shards hold what was sampled, and a batch is a pure function of (seed, step)."""

import itertools
import json
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from sameloss.errors import CorpusError
from sameloss.languages import Language, Sentences
from sameloss.languages.masking import padded
from sameloss.seeds import stream_seed
from sameloss.training import corpus as corpus_module
from sameloss.training.corpus import Corpus, EndlessCorpus, write_corpus


class Uniform(Language):
    """Sentences of 1 to 6 independent words, with garbage after the end."""

    words, max_length, tasks = 5, 6, ()

    def sample(self, count, generator):
        tokens = torch.randint(1, self.words + 1, (count, self.max_length), generator=generator)
        lengths = torch.randint(1, self.max_length + 1, (count,), generator=generator)
        return Sentences(tokens, lengths)


class Full(Uniform):
    """Sentences of 6 words."""

    def sample(self, count, generator):
        return Sentences(super().sample(count, generator).tokens, torch.full((count,), self.max_length))


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(corpus_module, "SHARD", 40)


@pytest.fixture
def corpus(tmp_path):
    write_corpus(Uniform(), 100, 5, tmp_path)
    return Corpus(tmp_path)


def written(folder, language, *arguments, **options):
    """Write a corpus into a new folder and return its files' bytes."""
    folder.mkdir()
    write_corpus(language, *arguments, folder, **options)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_files_do_not_depend_on_the_workers(tmp_path):
    one, two, three = (written(tmp_path / str(n), Uniform(), 250, 5, workers=n) for n in (1, 2, 3))
    assert len(one) == 2 * 7 + 1
    assert one == two == three
    assert one == written(tmp_path / "default", Uniform(), 250, 5)


def test_a_longer_corpus_begins_with_the_same_shards(tmp_path):
    short = written(tmp_path / "short", Uniform(), 100, 5)
    long = written(tmp_path / "long", Uniform(), 120, 5)
    for shard in (0, 1):
        for name in (f"tokens-{shard:05}.npy", f"lengths-{shard:05}.npy"):
            assert short[name] == long[name]
    assert long["tokens-00000.npy"] != long["tokens-00001.npy"]
    assert long["tokens-00000.npy"] != written(tmp_path / "other", Uniform(), 120, 6)["tokens-00000.npy"]


def test_shards_hold_what_was_sampled(corpus):
    tokens, lengths = corpus.rows(np.arange(100))
    for shard, count in enumerate([40, 40, 20]):
        generator = torch.Generator().manual_seed(stream_seed("corpus", 5, shard))
        sampled = padded(Uniform().sample(count, generator), 6)
        assert torch.equal(tokens[40 * shard : 40 * shard + count], sampled.tokens)
        assert torch.equal(lengths[40 * shard : 40 * shard + count], sampled.lengths)


def test_rows_come_in_the_order_of_the_index(corpus):
    corpus_rows = corpus.rows(np.arange(100))
    index = np.array([99, 0, 41, 40, 0, 80])
    assert torch.equal(corpus.rows(index).tokens, corpus_rows.tokens[index])
    assert torch.equal(corpus.rows(index).lengths, corpus_rows.lengths[index])


def test_the_manifest(corpus, tmp_path):
    manifest = json.loads((tmp_path / "corpus.json").read_text())
    shards = manifest.pop("shards")
    assert manifest == {"sentences": 100, "words": 5, "seq": 6, "shard": 40}
    assert shards[2] == {"tokens": "tokens-00002.npy", "lengths": "lengths-00002.npy", "sentences": 20}
    assert (corpus.sentences, corpus.words, corpus.seq) == (100, 5, 6)


def test_a_corpus_keeps_its_own_shard_size(corpus, tmp_path, monkeypatch):
    everything = corpus.rows(np.arange(100)).tokens
    monkeypatch.setattr(corpus_module, "SHARD", 7)
    assert torch.equal(Corpus(tmp_path).rows(np.arange(100)).tokens, everything)


def test_files_of_an_interrupted_longer_sampling_are_not_read(corpus, tmp_path):
    np.save(tmp_path / "tokens-00003.npy", np.zeros(1))
    np.save(tmp_path / "lengths-00000b.npy", np.zeros(1))
    assert torch.equal(Corpus(tmp_path).rows(np.arange(100)).tokens, corpus.rows(np.arange(100)).tokens)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_worker_has_one_shard_in_memory(tmp_path, monkeypatch, workers):
    """The barrier lets nobody pass before all workers sample at once."""
    barrier, lock = threading.Barrier(workers), threading.Lock()
    alive = most = 0

    def gone():
        nonlocal alive
        alive -= 1

    class Counting(Uniform):
        def sample(self, count, generator):
            barrier.wait(timeout=600)
            return super().sample(count, generator)

    def counted(sentences, seq):
        nonlocal alive, most
        result = padded(sentences, seq)
        with lock:
            alive += 1
            most = max(most, alive)
        weakref.finalize(result.tokens, gone)
        return result

    monkeypatch.setattr(corpus_module, "padded", counted)
    write_corpus(Counting(), 12 * 40, 0, tmp_path, workers=workers)
    assert 1 <= most <= workers
    assert alive == 0


def test_progress_is_reported_in_order_by_the_calling_thread(tmp_path):
    reports = []
    write_corpus(
        Uniform(), 390, 0, tmp_path, lambda done: reports.append((done, threading.get_ident())), workers=3
    )
    done, threads = zip(*reports, strict=True)
    assert list(done) == sorted(set(done))
    assert len(done) == 10
    assert done[-1] == 390
    assert set(threads) == {threading.get_ident()}


def test_after_an_error_no_other_shard_is_begun(tmp_path, monkeypatch):
    """But for the one that each of the two workers may have taken before the error was noticed."""
    numbers, noticed = itertools.count(1), threading.Event()

    class Noticing(ThreadPoolExecutor):
        def shutdown(self, *given, **named):
            noticed.set()
            super().shutdown(*given, **named)

    class Failing(Uniform):
        def sample(self, count, generator):
            number = next(numbers)
            if number == 3:
                raise RuntimeError("out of words")
            assert number < 3 or noticed.wait(600)
            return super().sample(count, generator)

    monkeypatch.setattr(corpus_module, "ThreadPoolExecutor", Noticing)
    with pytest.raises(RuntimeError, match="out of words"):
        write_corpus(Failing(), 40 * 40, 0, tmp_path, workers=2)
    assert next(numbers) - 1 <= 3 + 2
    assert not (tmp_path / "corpus.json").exists()


def test_sampling_keeps_no_gradients(tmp_path):
    """Threads do not inherit the gradient mode."""

    class Differentiable(Uniform):
        def sample(self, count, generator):
            assert not torch.is_grad_enabled()
            return super().sample(count, generator)

    write_corpus(Differentiable(), 80, 0, tmp_path)


def test_the_largest_vocabulary_is_stored_and_a_larger_one_refused(tmp_path):
    class Large(Full):
        words = 65_535

        def sample(self, count, generator):
            sentences = super().sample(count, generator)
            return Sentences(sentences.tokens.clamp(min=self.words), sentences.lengths)

    class TooLarge(Large):
        words = 65_536

    write_corpus(Large(), 3, 0, tmp_path)
    assert (Corpus(tmp_path).rows(np.arange(3)).tokens == 65_535).all()
    with pytest.raises(CorpusError, match="uint16; 65536 words are too many"):
        write_corpus(TooLarge(), 3, 0, tmp_path)


def test_short_arrays_are_padded(tmp_path):
    """A language may return no more columns than its longest sentence has."""

    class Short(Uniform):
        def sample(self, count, generator):
            tokens, lengths = super().sample(count, generator)
            return Sentences(tokens[:, :2], lengths.clamp(max=2))

    write_corpus(Short(), 50, 0, tmp_path)
    tokens, lengths = Corpus(tmp_path).rows(np.arange(50))
    assert tokens.shape == (50, 6)
    assert torch.equal((tokens > 0).sum(1), lengths)


@pytest.fixture(params=["corpus", "endless"])
def batches(request):
    if request.param == "endless":
        return EndlessCorpus(Uniform(), seed=5)
    return request.getfixturevalue("corpus")


def equal(one, other):
    pairs = zip(one, other, strict=True)
    return all(a is b is None or torch.equal(a, b) for a, b in pairs)


def test_batches_are_a_function_of_seed_and_step(batches):
    first = batches.batch(1, 10, 16)
    other_step, other_seed = batches.batch(1, 11, 16), batches.batch(2, 10, 16)
    assert equal(first, batches.batch(1, 10, 16))
    assert not torch.equal(first.masked, other_step.masked)
    assert not torch.equal(first.masked, other_seed.masked)
    assert not torch.equal(first.positions, other_step.positions)


@pytest.mark.parametrize("rate", [None, 0.3])
def test_a_corpus_on_a_device_makes_the_same_batches(corpus, rate):
    """Random numbers are drawn on the CPU, the same for every device."""
    there = corpus.on("cpu")
    for step in range(3):
        assert equal(corpus.batch(1, step, 16, rate), there.batch(1, step, 16, rate))


def test_exactly_one_token_is_masked_and_kept_as_target(batches):
    batch = batches.batch(0, 0, 200)
    inside = torch.arange(batch.masked.shape[1]) < batch.lengths[:, None]
    assert (((batch.masked == 0) & inside).sum(1) == 1).all()
    assert (batch.masked.gather(1, batch.positions[:, None]) == 0).all()
    assert (batch.positions < batch.lengths).all()
    assert set(batch.targets.tolist()) == {0, 1, 2, 3, 4}


def test_positions_are_masked_uniformly(batches):
    parts = [batches.batch(stream_seed("batches", 0), step, 3000) for step in range(20)]
    positions = torch.cat([part.positions for part in parts])
    lengths = torch.cat([part.lengths for part in parts])
    for length in range(2, 7):
        counts = positions[lengths == length].bincount(minlength=length)
        assert len(counts) == length
        assert counts.sum() > 5000  # so that a fraction of 1 in 6 is known to 3%
        assert chisquare(counts).pvalue > 1e-3


def test_lengths_are_omitted_if_all_sentences_are_full():
    assert EndlessCorpus(Full(), 0).batch(0, 0, 8).lengths is None


def unmasked(batch):
    return batch.masked.scatter(1, batch.positions[:, None], batch.targets[:, None] + 1)


def test_endless_sentences_never_repeat():
    """Of 10²⁴ sentences hardly any repeats by chance."""

    class Rich(Full):
        words, max_length = 1000, 8

    def sentences(seed, stream, steps):
        endless = EndlessCorpus(Rich(), seed)
        return {tuple(row) for s in steps for row in unmasked(endless.batch(stream, s, 50)).tolist()}

    many = sentences(0, 0, range(40))
    assert len(many) == 2000
    for other in (sentences(1, 0, range(40)), sentences(0, 1, range(40))):
        assert len(other) == 2000
        assert not many & other


def test_no_two_steps_share_the_32_bits_that_torch_uses_of_a_seed():
    """Hashes of 100,000 steps would collide."""
    seeds = []

    class Recording(Full):
        def sample(self, count, generator):
            seeds.append(generator.initial_seed())
            return super().sample(count, generator)

    endless = EndlessCorpus(Recording(), 3)
    steps = [0, 1, 2, 99_999, 1 << 31, (1 << 32) - 1]
    for step in steps:
        endless.batch(7, step, 1)
    assert [(seed - seeds[0]) % (1 << 32) for seed in seeds] == steps


def test_endless_batches_do_not_depend_on_other_uses(corpus):
    endless = EndlessCorpus(Uniform(), 5)
    first = endless.batch(5, 0, 40)
    torch.manual_seed(0)
    assert equal(first, endless.batch(5, 0, 40))
    sampled = corpus.rows(np.arange(40))
    assert not torch.equal(padded(Sentences(unmasked(first), first.lengths), 6).tokens, sampled.tokens)
