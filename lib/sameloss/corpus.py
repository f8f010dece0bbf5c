"""Token storage and batches: memory-mapped uint16 shards, batches a pure function of (seed, step)."""

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from sameloss.errors import CorpusError
from sameloss.languages import Language, Sentences, mask_one

SHARD = 1 << 18
"""Sentences a shard holds."""


class Batch(NamedTuple):
    """Masked sentences, one [MASK] each (Section 2.1), and the words behind the masks."""

    masked: Int[Tensor, "batch seq"]
    positions: Int[Tensor, " batch"]
    targets: Int[Tensor, " batch"]  # word - 1: an index into the logits
    lengths: Int[Tensor, " batch"] | None  # None where all sentences fill `seq`


def write_corpus(
    language: Language,
    sentences: int,
    seed: int,
    folder: Path,
    report: Callable[[int], None] = lambda done: None,
) -> None:
    """Sample a corpus straight into shards; shard k depends on (seed, k) alone.

    Args:
        language: what to sample from; its word ids must fit uint16.
        sentences: how many.
        seed: of the corpus.
        folder: an existing folder for `tokens-*.npy`, `lengths-*.npy` and `corpus.json`.
        report: told the number of sentences written so far.

    """
    if sentences < 1:
        raise CorpusError(f"A corpus needs at least one sentence; got {sentences}.")
    if language.words >= 1 << 16:
        raise CorpusError(f"Word ids are stored as uint16; {language.words} words are too many.")
    for shard, start in enumerate(range(0, sentences, SHARD)):
        generator = torch.Generator().manual_seed(stream_seed("corpus", seed, shard))
        part = language.sample(min(SHARD, sentences - start), generator)
        for name, values in part._asdict().items():
            _save(folder / f"{name}-{shard:05}.npy", values)
        report(start + len(part.lengths))
    (folder / "corpus.json").write_text(json.dumps({"sentences": sentences}))


def _save(path: Path, values: Tensor) -> None:
    """Save as uint16; through a buffer, because numpy's own writing hides what went wrong."""
    buffer = io.BytesIO()
    np.save(buffer, values.numpy().astype(np.uint16))
    path.write_bytes(buffer.getvalue())


def stream_seed(use: str, *path: int) -> int:
    """Return an independent 63-bit seed for each use and path of integers.

    >>> stream_seed("corpus", 0, 1) != stream_seed("probe", 0, 1) != stream_seed("probe", 1, 0)
    True
    """
    digest = hashlib.sha256(repr((use, *path)).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


class Corpus:
    """A corpus on disk; only the rows a batch needs are read."""

    def __init__(self, folder: Path) -> None:
        """Open the shards that `write_corpus` made."""
        self.sentences = json.loads((folder / "corpus.json").read_text())["sentences"]
        self._tokens = [np.load(f, mmap_mode="r") for f in sorted(folder.glob("tokens-*.npy"))]
        self._lengths = [np.load(f, mmap_mode="r") for f in sorted(folder.glob("lengths-*.npy"))]

    def rows(self, index: np.ndarray) -> Sentences:
        """Return the sentences with these numbers, in this order."""
        tokens = np.empty((len(index), self._tokens[0].shape[1]), np.int64)
        lengths = np.empty(len(index), np.int64)
        for shard in np.unique(index // SHARD):
            here = index // SHARD == shard
            tokens[here] = self._tokens[shard][index[here] % SHARD]
            lengths[here] = self._lengths[shard][index[here] % SHARD]
        return Sentences(torch.from_numpy(tokens), torch.from_numpy(lengths))

    def batch(self, seed: int, step: int, size: int) -> Batch:
        """Return batch `step` of stream `seed`: sentences drawn with replacement, one mask each.

        The generator is counter-based (Philox), so any step can be made without those before it.
        """
        rng = np.random.Generator(np.random.Philox(key=[seed, step]))
        sentences = self.rows(rng.integers(0, self.sentences, size))
        place = torch.from_numpy(rng.random(size))
        return mask_batch(sentences, (place * sentences.lengths).long())


def mask_batch(sentences: Sentences, positions: Int[Tensor, " batch"]) -> Batch:
    """Mask one position of each sentence and keep the word behind it as the target."""
    tokens, lengths = sentences
    width = int(lengths.max())
    tokens = tokens[:, :width].long()
    targets = tokens.gather(1, positions[:, None]).squeeze(1) - 1
    ragged = bool((lengths < width).any())
    return Batch(mask_one(tokens, positions), positions, targets, lengths if ragged else None)
