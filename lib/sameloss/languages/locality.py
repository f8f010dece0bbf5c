"""How much of what a sentence tells about a word is told by its neighbours: what depth could be good for."""

from collections.abc import Iterable

import torch

from sameloss.languages.entropy import entropies
from sameloss.languages.language import MASK, Language, Sentences
from sameloss.statistics.bootstrap import Estimate


def beyond_windows(language: Language, sentences: Sentences, windows: Iterable[int]) -> dict[int, Estimate]:
    """Return the information about a masked word beyond the words at most so many places away.

    It is H(x_t | window) - H(x_t | x_-t), in nats, averaged over the positions of each sentence. Both
    entropies are exact; what lies beyond a window is summed out.

    Args:
        language: whose conditionals take masked words.
        sentences: sampled; the sentence is the unit of error.
        windows: distances, 0 for no neighbour at all.

    """
    full = entropies(language.conditionals(sentences), sentences)
    return {window: Estimate.of(_windowed(language, sentences, window) - full) for window in windows}


def _windowed(language: Language, sentences: Sentences, window: int) -> torch.Tensor:
    """Return the entropy of a word given its window, mean over the positions of each sentence."""
    tokens, lengths = sentences
    places = torch.arange(tokens.shape[1])
    total = torch.zeros(len(tokens), dtype=torch.float64)
    for position in range(int(lengths.max())):
        hidden = tokens.where((places - position).abs() <= window, MASK)
        given = language.conditionals(Sentences(hidden, lengths))[:, position]
        here = -torch.xlogy(given, given).sum(-1)
        total += here.where(position < lengths, 0.0)
    return total / lengths
