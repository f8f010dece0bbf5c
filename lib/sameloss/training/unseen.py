"""Which sentences a corpus does not hold: test sets without a sentence seen in training."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt64
from torch import Tensor

from sameloss.errors import CorpusError
from sameloss.languages import Language, Sentences
from sameloss.languages.masking import padded
from sameloss.training.corpus import Corpus

CHUNK = 1 << 14
"""Sentences of a corpus compared at once; bounds memory."""

DRAWS = 100
"""Draws for each wanted sentence after which a language is taken to have too few."""


def unseen(corpus: Corpus, sentences: Sentences) -> Bool[Tensor, " batch"]:
    """Tell which sentences do not occur in the corpus, exactly.

    The corpus streams by; a 64-bit hash picks the few sentences whose tokens are compared.
    """
    seq = max(corpus.seq, sentences.tokens.shape[1])
    keys = _keys(sentences, seq)
    names, hashes = _names(keys), np.unique(_hashes(keys))
    sought, seen = set(names), set()
    for part in _chunks(corpus):
        stored = _keys(part, seq)
        alike = np.isin(_hashes(stored), hashes)
        seen |= sought.intersection(_names(stored[alike]))
    return torch.tensor([name not in seen for name in names], dtype=torch.bool)


def _chunks(corpus: Corpus) -> Iterator[Sentences]:
    for start in range(0, corpus.sentences, CHUNK):
        yield corpus.rows(np.arange(start, min(start + CHUNK, corpus.sentences)))


def distinct(sentences: Sentences) -> Sentences:
    """Return each sentence once, in the order of first occurrence.

    >>> distinct(Sentences(torch.tensor([[2, 1], [2, 7], [2, 8]]), torch.tensor([2, 1, 1]))).lengths
    tensor([2, 1])
    """
    names = _names(_keys(sentences, sentences.tokens.shape[1]))
    first = {name: row for row, name in reversed(list(enumerate(names)))}
    return sentences.rows(torch.tensor(sorted(first.values()), dtype=torch.long))


def held_out_unseen(
    language: Language,
    corpus: Corpus,
    count: int,
    generator: torch.Generator,
    wanted: Callable[[Sentences], Tensor] | None = None,
) -> Sentences:
    """Draw until there are `count` distinct, `wanted` sentences that the corpus does not hold.

    They are for downstream tests. Frequent sentences are missing from them, so they are no longer
    distributed as the language: no population quantity (loss, entropy, KL, Fisher trace) may be
    estimated on them.

    Raises:
        CorpusError: where 100 `count` draws do not give as many.

    """
    if count < 1:
        raise CorpusError(f"A held-out set needs at least one sentence; got {count}.")
    found, drawn = _draw_unseen(language, corpus, count, generator, wanted), count
    while len(found.lengths) < count:
        # Each pass doubles the draws, so that the corpus is read a few times, not a hundred.
        more = min(drawn, DRAWS * count - drawn)
        if not more:
            raise CorpusError(
                f"{drawn} draws gave {len(found.lengths)} different sentences that the corpus does not hold, "
                f"fewer than {count}; choose a smaller test set, a smaller corpus or a richer language."
            )
        parts = [found, _draw_unseen(language, corpus, more, generator, wanted)]
        found, drawn = distinct(Sentences.joined(parts)), drawn + more
    return found.rows(slice(count))


def _draw_unseen(
    language: Language,
    corpus: Corpus,
    count: int,
    generator: torch.Generator,
    wanted: Callable[[Sentences], Tensor] | None,
) -> Sentences:
    """Draw `count` sentences; return the different and wanted ones that the corpus does not hold."""
    sentences = distinct(padded(language.sample(count, generator), language.max_length))
    sentences = sentences.rows(unseen(corpus, sentences))
    return sentences.rows(wanted(sentences)) if wanted else sentences


def _keys(sentences: Sentences, seq: int) -> Int[np.ndarray, "batch key"]:
    """Return what makes sentences the same: the length, then the tokens before it."""
    tokens, lengths = padded(sentences, seq)
    return torch.cat([lengths.long()[:, None], tokens], dim=1).numpy()


def _hashes(keys: Int[np.ndarray, "batch key"]) -> UInt64[np.ndarray, " batch"]:
    """Return random linear combinations modulo 2⁶⁴; two sentences share one in 2⁴⁹ at most.

    For the difference of two uint16 words has at most fifteen factors of two, and a random factor
    makes each of the other 2⁴⁹ multiples equally likely.
    """
    factors = np.random.default_rng(0).integers(0, 1 << 64, keys.shape[1], dtype=np.uint64)
    return keys.view(np.uint64) @ factors


def _names(keys: Int[np.ndarray, "batch key"]) -> list[bytes]:
    """Return the keys as values that a set can hold."""
    return [key.tobytes() for key in keys]
