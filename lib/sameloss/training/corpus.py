"""Corpora to train on."""

import io
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int

from sameloss.device import usable_cores
from sameloss.errors import CorpusError
from sameloss.languages import Language, Sentences
from sameloss.languages.masking import Batch, mask_batch, mask_share, padded
from sameloss.seeds import generator_for, stream_seed

# Where a training's sentences come from: shards on disk, or an endless stream.
#
# A corpus is kept as memory-mapped uint16 shards. A batch is a pure function of (seed, step) either way.

SHARD = 1 << 18
"""Sentences a shard holds."""

MANIFEST = "corpus.json"


class Manifest(NamedTuple):
    """The content of `corpus.json`."""

    sentences: int
    words: int
    seq: int  # columns of every token file
    shard: int  # sentences of every shard but the last
    shards: list[dict[str, Any]]  # names of `tokens` and `lengths`, number of `sentences`


def write_corpus(
    language: Language,
    sentences: int,
    seed: int,
    folder: Path,
    report: Callable[[int], None] = lambda done: None,
    workers: int | None = None,
) -> None:
    """Sample a corpus straight into shards; shard k depends on (seed, k) alone.

    Args:
        language: what to sample from; its word ids must fit uint16. All workers share it, so
            sampling must not change it.
        sentences: how many.
        seed: of the corpus.
        folder: an existing folder for `tokens-*.npy`, `lengths-*.npy` and, last, `corpus.json`.
        report: told the number of sentences written so far, in the calling thread.
        workers: threads, each with one shard in memory; one a usable core where None. The files
            do not depend on it.

    Raises:
        CorpusError: for a corpus without sentences or a vocabulary beyond uint16.

    """
    if sentences < 1:
        raise CorpusError(f"A corpus needs at least one sentence; got {sentences}.")
    if language.words >= 1 << 16:
        raise CorpusError(f"Word ids are stored as uint16; {language.words} words are too many.")
    counts = [min(SHARD, sentences - start) for start in range(0, sentences, SHARD)]
    shards = _write_shards(language, counts, seed, folder, report, workers or usable_cores())
    manifest = Manifest(sentences, language.words, language.max_length, SHARD, shards)
    (folder / MANIFEST).write_text(json.dumps(manifest._asdict()))


def _write_shards(
    language: Language, counts: list[int], seed: int, folder: Path, report: Callable, workers: int
) -> list[dict[str, Any]]:
    """Write on threads (torch releases the interpreter's lock); after an error begin no other shard."""
    done = 0
    with ThreadPoolExecutor(workers) as pool:
        try:
            started = [pool.submit(_write_shard, language, *k, seed, folder) for k in enumerate(counts)]
            for shard in as_completed(started):
                done += shard.result()["sentences"]
                report(done)
        finally:
            pool.shutdown(cancel_futures=True)
    return [shard.result() for shard in started]


@torch.no_grad()  # the mode of the calling thread does not reach the workers
def _write_shard(language: Language, shard: int, count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Sample and save one shard; return its entry in the manifest."""
    generator = generator_for("corpus", seed, shard)
    part = padded(language.sample(count, generator), language.max_length)
    files = {name: f"{name}-{shard:05}.npy" for name in part._fields}
    for name, values in part._asdict().items():
        buffer = io.BytesIO()  # numpy's own writing to a file hides what went wrong
        np.save(buffer, values.numpy().astype(np.uint16))
        (folder / files[name]).write_bytes(buffer.getvalue())
    return {**files, "sentences": count}


class Corpus:
    """A corpus on disk, of which only the rows a batch needs are read; or on a device, all of it."""

    def __init__(self, folder: Path) -> None:
        """Open the shards that `write_corpus` made.

        Raises:
            CorpusError: where the manifest or a shard is missing, truncated or of another shape.

        """
        try:
            manifest = Manifest(**json.loads((folder / MANIFEST).read_text()))
            self.sentences, self.words, self.seq, self._shard, shards = manifest
            counts = [shard["sentences"] for shard in shards]
            self._tokens = [np.load(folder / shard["tokens"], mmap_mode="r") for shard in shards]
            self._lengths = [np.load(folder / shard["lengths"], mmap_mode="r") for shard in shards]
            sound = sum(counts) == self.sentences and counts[:-1] == [self._shard] * (len(counts) - 1)
            for count, tokens, lengths in zip(counts, self._tokens, self._lengths, strict=True):
                sound &= tokens.dtype == lengths.dtype == np.uint16
                sound &= (tokens.shape, lengths.shape) == ((count, self.seq), (count,))
        except PermissionError:  # which says nothing of what is in it
            raise
        except (OSError, ValueError, TypeError, KeyError, AttributeError, EOFError):
            sound = False
        if not sound:
            raise CorpusError(
                f"The corpus in {folder} is damaged; delete the folder, and it will be sampled again."
            )
        self._resident: Sentences | None = None

    def on(self, device: torch.device | str) -> "Corpus":
        """Return the corpus in the memory of a device, which then makes the same batches there."""
        signed = np.int16 if self.words < 1 << 15 else np.int32  # torch does little with uint16
        there = copy(self)
        there._resident = Sentences(
            *(
                torch.cat([torch.from_numpy(part.astype(signed)).to(device) for part in parts])
                for parts in (self._tokens, self._lengths)
            )
        )
        return there

    def rows(self, index: Int[np.ndarray, " batch"]) -> Sentences:
        """Return the sentences with these numbers, in this order."""
        if self._resident is not None:
            places = torch.from_numpy(index).to(self._resident.tokens.device)
            return Sentences(*(field[places].long() for field in self._resident))
        tokens = np.empty((len(index), self.seq), np.int64)
        lengths = np.empty(len(index), np.int64)
        for shard in np.unique(index // self._shard):
            here = index // self._shard == shard
            tokens[here] = self._tokens[shard][index[here] % self._shard]
            lengths[here] = self._lengths[shard][index[here] % self._shard]
        return Sentences(torch.from_numpy(tokens), torch.from_numpy(lengths))

    def batch(self, seed: int, step: int, size: int, rate: float | None = None) -> Batch:
        """Return batch `step` of stream `seed`, drawn with replacement: a function of its arguments.

        Exactly one token of each sentence is masked, or the share `rate` as in `mask_share`.
        """
        rng = _stream(seed, step)
        return _mask_anywhere(self.rows(rng.integers(0, self.sentences, size)), rng, rate)


class EndlessCorpus:
    """Sentences sampled afresh for every batch: the limit of infinite data, nothing on disk."""

    def __init__(self, language: Language, seed: int) -> None:
        """Take the language to sample from, and the seed of this stream of sentences."""
        self.language, self.seed = language, seed

    def on(self, device: torch.device | str) -> "EndlessCorpus":
        """Return this corpus, whose sentences are sampled on the CPU whatever the device."""
        return self

    def batch(self, seed: int, step: int, size: int, rate: float | None = None) -> Batch:
        """Return batch `step` of stream `seed`: new sentences."""
        first = stream_seed("endless corpus", self.seed, seed)
        # Of a seed, torch's generator takes 32 bits. Hashes of the steps would soon coincide there
        # (of 30,000 steps, two with probability 0.1); consecutive seeds do not.
        generator = torch.Generator().manual_seed((first + step) % (1 << 32))
        return _mask_anywhere(self.language.sample(size, generator), _stream(seed, step), rate)


def _stream(seed: int, step: int) -> np.random.Generator:
    """Return the random numbers of one step: Philox counts, so it needs no earlier step."""
    return np.random.Generator(np.random.Philox(key=[seed, step]))


def _mask_anywhere(sentences: Sentences, rng: np.random.Generator, rate: float | None) -> Batch:
    """Mask one position of each sentence, all of its positions equally likely (Section 2.1), or a share."""
    if rate is not None:
        return mask_share(sentences, rate, rng)
    place = torch.from_numpy(rng.random(len(sentences.lengths))).to(sentences.lengths.device)
    return mask_batch(sentences, (place * sentences.lengths).long())
