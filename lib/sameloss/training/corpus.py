"""Pre-training corpora: shards on disk, or an endless stream of sentences.

Shards are memory-mapped uint16 arrays. In either case a batch is a pure function of (seed, step).
"""

import io
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from sameloss.device import usable_cores
from sameloss.errors import CorpusError
from sameloss.languages import Language, Sentences
from sameloss.languages.masking import Batch, mask_batch, mask_share, padded
from sameloss.seeds import generator_for, stream_seed

SHARD = 1 << 18
"""Sentences per shard."""

MANIFEST = "corpus.json"
"""Holds the number of `sentences` and of `words`, the columns of token files (`seq`), the sentences per
`shard`, and for each of the `shards` its file names and number of sentences."""


def write_corpus(
    language: Language,
    sentences: int,
    seed: int,
    folder: Path,
    report: Callable[[int], None] = lambda done: None,
    workers: int | None = None,
) -> None:
    """Sample a corpus into shards, of which shard k depends only on (seed, k).

    Args:
        language: the language to sample; shared by all threads, so that sampling must not change it.
        sentences: number of sentences.
        seed: seed of the corpus.
        folder: existing folder, for `tokens-*.npy`, `lengths-*.npy` and finally `corpus.json`.
        report: called in this thread with the number of sentences written so far.
        workers: number of threads, each with one shard in memory; None: one per usable core.

    Raises:
        CorpusError: for word ids beyond uint16.

    """
    if language.words >= 1 << 16:
        raise CorpusError(f"Word ids are stored as uint16; {language.words} words are too many.")
    counts = [min(SHARD, sentences - start) for start in range(0, sentences, SHARD)]
    shards: list[dict[str, Any]] = []
    with ThreadPoolExecutor(workers or usable_cores()) as pool:  # torch releases the GIL
        for shard in pool.map(partial(_write_shard, language, seed, folder), range(len(counts)), counts):
            shards.append(shard)
            report(sum(counts[: len(shards)]))
    manifest = {
        "sentences": sentences,
        "words": language.words,
        "seq": language.max_length,
        "shard": SHARD,
        "shards": shards,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest))


@torch.no_grad()  # which a thread does not inherit
def _write_shard(language: Language, seed: int, folder: Path, shard: int, count: int) -> dict[str, Any]:
    """Sample and save one shard; return its entry in the manifest."""
    generator = generator_for("corpus", seed, shard)
    part = padded(language.sample(count, generator), language.max_length)
    files = {name: f"{name}-{shard:05}.npy" for name in part._fields}
    for name, values in part._asdict().items():
        buffer = io.BytesIO()  # np.save to a file would hide the system's error
        np.save(buffer, values.numpy().astype(np.uint16))
        (folder / files[name]).write_bytes(buffer.getvalue())
    return {**files, "sentences": count}


class Corpus:
    """A corpus: memory-mapped from disk, or copied to a device."""

    def __init__(self, folder: Path) -> None:
        """Open what `write_corpus` wrote; the store has checked its files."""
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        self.sentences, self.words, self.seq = (manifest[name] for name in ("sentences", "words", "seq"))
        self._shard = manifest["shard"]
        self._tokens, self._lengths = (
            [np.load(folder / shard[name], mmap_mode="r") for shard in manifest["shards"]]
            for name in Sentences._fields
        )
        self._resident: Sentences | None = None

    def on(self, device: torch.device | str) -> "Corpus":
        """Copy the corpus to the memory of a device, where it makes the same batches."""
        signed = np.int16 if self.words < 1 << 15 else np.int32  # torch hardly supports uint16

        def joined(shards: list[np.ndarray]) -> Int[torch.Tensor, "sentence *seq"]:
            return torch.cat([torch.from_numpy(shard.astype(signed)).to(device) for shard in shards])

        resident = copy(self)
        resident._resident = Sentences(joined(self._tokens), joined(self._lengths))
        return resident

    def rows(self, index: Int[np.ndarray, " batch"]) -> Sentences:
        """Select sentences by their numbers."""
        if self._resident is not None:
            chosen = torch.from_numpy(index).to(self._resident.tokens.device)
            return Sentences(*(field[chosen].long() for field in self._resident))
        tokens = np.empty((len(index), self.seq), np.int64)
        lengths = np.empty(len(index), np.int64)
        shards, rows = np.divmod(index, self._shard)
        for shard in np.unique(shards):
            here = shards == shard
            tokens[here] = self._tokens[shard][rows[here]]
            lengths[here] = self._lengths[shard][rows[here]]
        return Sentences(torch.from_numpy(tokens), torch.from_numpy(lengths))

    def batch(self, seed: int, step: int, size: int, rate: float | None = None) -> Batch:
        """Draw batch `step` of stream `seed` with replacement, a pure function of the arguments.

        One token of each sentence is masked, or the fraction `rate` as in `mask_share`.
        """
        rng = _stream(seed, step)
        return _mask_anywhere(self.rows(rng.integers(0, self.sentences, size)), rng, rate)


class EndlessCorpus:
    """The limit of infinite data: new sentences for every batch, nothing on disk."""

    def __init__(self, language: Language, seed: int) -> None:
        self.language, self.seed = language, seed

    def on(self, device: torch.device | str) -> "EndlessCorpus":
        """Do nothing: sentences are always sampled on the CPU."""
        return self

    def batch(self, seed: int, step: int, size: int, rate: float | None = None) -> Batch:
        """Sample batch `step` of stream `seed`."""
        first = stream_seed("endless corpus", self.seed, seed)
        # torch's generator uses 32 bits of a seed. Hashes of the steps would soon collide (with probability
        # 0.1 among 30,000 steps); consecutive seeds do not.
        generator = torch.Generator().manual_seed((first + step) % (1 << 32))
        return _mask_anywhere(self.language.sample(size, generator), _stream(seed, step), rate)


def _stream(seed: int, step: int) -> np.random.Generator:
    """Random numbers of one step: counter-based, so that no earlier step is needed."""
    return np.random.Generator(np.random.Philox(key=[seed, step]))


def _mask_anywhere(sentences: Sentences, rng: np.random.Generator, rate: float | None) -> Batch:
    """Mask one uniformly distributed position of each sentence (Section 2.1), or a fraction of all tokens."""
    if rate is not None:
        return mask_share(sentences, rate, rng)
    uniform = torch.from_numpy(rng.random(len(sentences.lengths))).to(sentences.lengths.device)
    return mask_batch(sentences, (uniform * sentences.lengths).long())
