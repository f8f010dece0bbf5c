"""All sentences of a language that is small enough."""

from collections.abc import Iterator
from itertools import product

import torch

from sameloss.errors import LanguageError
from sameloss.languages import Language, Sentences

MOST_STRINGS = 20_000
"""Largest number of strings that `enumerate_sentences` tries."""


def strings(language: Language) -> int:
    """Count the strings of at most as many words as the longest sentence has."""
    return sum(language.words**length for length in range(1, language.max_length + 1))


def enumerable(language: Language) -> bool:
    """Tell whether the language is small enough to enumerate."""
    return strings(language) <= MOST_STRINGS


def enumerate_sentences(language: Language) -> Iterator[Sentences]:
    """Yield every sentence of positive probability, in chunks.

    Raises:
        LanguageError: where there would be more than `MOST_STRINGS` strings.

    """
    if not enumerable(language):
        raise LanguageError(
            f"{strings(language):.2g} strings of up to {language.max_length} tokens are too many to "
            f"enumerate (at most {MOST_STRINGS:,}); sample instead."
        )
    for length in range(1, language.max_length + 1):
        everything = torch.tensor(list(product(range(1, language.words + 1), repeat=length)))
        for tokens in everything.split(1 << 16):
            lengths = torch.full((len(tokens),), length)
            possible = language.log_prob(Sentences(tokens, lengths)).isfinite()
            if possible.any():
                yield Sentences(tokens[possible], lengths[possible])
