"""The bracket language of Section 5, enumerated: every input of pre-training and of the downstream task.

A sentence is T brackets, half of them ⟨ and half ⟩. One token in the position t is e_t where it is ⟨ and
-e_t where it is ⟩; a mask there is e_{t+T} or -e_{t+T}, each with probability one half. The target counts
mismatches, g*(x) = (number of ⟩) - (number of ⟨), and is linear: g*(x) = -⟨1, first T coordinates of Σ x_t⟩.
"""

from math import comb
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sameloss.errors import LanguageError

SHORTEST, LONGEST = 6, 10
"""Sentence lengths that the theorem covers and that are enumerated in seconds (LONGEST: 5,040 inputs)."""


class Inputs(NamedTuple):
    """All inputs of one distribution, each as likely as the others, or a batch of them for each model."""

    tokens: Float[Tensor, "*models inputs position feature"]  # encodings, 2T features
    target: Float[Tensor, "*models inputs"]  # g*

    @property
    def length(self) -> int:
        """Return T."""
        return self.tokens.shape[-2]

    def rows(self, which: Tensor) -> "Inputs":
        """Return some of the inputs."""
        return Inputs(self.tokens[which], self.target[which])


def check_length(length: int) -> int:
    """Return a sentence length of the theorem's, T even and at least 6.

    Raises:
        LanguageError: where it is not, or where too many sentences would be enumerated.

    """
    if length % 2:
        raise LanguageError(f"sentence_length must be even, so that brackets can be balanced; got {length}.")
    if length < SHORTEST:
        raise LanguageError(f"Theorem 5.1 needs a sentence_length of at least {SHORTEST}; got {length}.")
    if length > LONGEST:
        raise LanguageError(
            f"All sentences are enumerated: sentence_length can be at most {LONGEST}; got {length}."
        )
    return length


def bracket_strings(length: int) -> Int[Tensor, "sentences position"]:
    """Return all 2^T strings: 1 is ⟨, -1 is ⟩.

    >>> bracket_strings(2).tolist()
    [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    """
    bits = torch.arange(2**length)[:, None] >> torch.arange(length - 1, -1, -1)
    return 2 * (bits & 1) - 1


def pretraining_inputs(length: int) -> Inputs:
    """Return each balanced sentence with each token masked by each sign: 2T·C(T, T/2) inputs.

    Raises:
        LanguageError: where T is odd.

    """
    if length % 2:
        raise LanguageError(f"sentence_length must be even, so that brackets can be balanced; got {length}.")
    strings = bracket_strings(length)
    balanced = strings[strings.sum(1) == 0]
    sentence, place, sign = (
        axis.flatten()
        for axis in torch.meshgrid(
            torch.arange(len(balanced)), torch.arange(length), torch.tensor([1, -1]), indexing="ij"
        )
    )
    everywhere = torch.arange(len(sentence))
    brackets = balanced[sentence]
    brackets[everywhere, place] = 0
    return _encoded(brackets, torch.zeros_like(brackets).index_put((everywhere, place), sign))


def downstream_inputs(length: int) -> Inputs:
    """Return all 2^T strings, balanced or not, without a mask (P_ds of Section 5)."""
    strings = bracket_strings(length)
    return _encoded(strings, torch.zeros_like(strings))


def _encoded(brackets: Tensor, masks: Tensor) -> Inputs:
    """Put brackets into the first T features and masks into the others, one feature a position."""
    tokens = torch.cat([torch.diag_embed(brackets), torch.diag_embed(masks)], -1).double()
    return Inputs(tokens, -brackets.sum(1).double())


def in_words(tokens: Float[Tensor, "position feature"]) -> str:
    """Write an encoded input with its brackets and its mask.

    >>> in_words(pretraining_inputs(2).tokens[0])
    '[M]⟨'
    """
    brackets = tokens[:, : len(tokens)].sum(1).int().tolist()
    return "".join({1: "⟨", -1: "⟩", 0: "[M]"}[bracket] for bracket in brackets)


def zero_probability(length: int) -> float:
    """Return p₀ = C(T, T/2) / 2^T, the probability that a downstream string is balanced.

    >>> zero_probability(6)
    0.3125
    """
    return comb(length, length // 2) / 2**length


def missing_sign_probability(length: int, samples: int) -> float:
    """Return the probability that n strings do not have both signs of g*, exactly.

    2((1 + p₀)/2)ⁿ - p₀ⁿ: no positive one, or no negative one, less what is counted twice.

    >>> round(missing_sign_probability(6, 5), 3)
    0.24
    """
    balanced = zero_probability(length)
    return 2 * ((1 + balanced) / 2) ** samples - balanced**samples
