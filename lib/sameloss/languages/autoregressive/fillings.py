"""Sums over masked words, one by one: all that a language without a dynamic programme can do."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sameloss.errors import LanguageError
from sameloss.languages.language import MASK, Sentences

FILLINGS = 10_000
"""Ways of filling the masks of one sentence, at most."""


def fillings(sentences: Sentences, words: int) -> tuple[Sentences, Int[Tensor, " filling"]]:
    """Fill every masked place of a sentence with every word.

    Args:
        sentences: tokens in 0..words, of which MASK is to be filled.
        words: vocabulary size c.

    Returns:
        The fillings, and for each the number of its sentence. A sentence without masks is its own filling.

    Raises:
        LanguageError: where a sentence has more than FILLINGS of them.

    """
    tokens, owners = sentences.tokens.long(), torch.arange(len(sentences.lengths))
    masks = (tokens == MASK) & sentences.inside
    _check_masks(int(masks.sum(1).max()) if len(masks) else 0, words)
    for position in masks.any(0).nonzero().flatten().tolist():
        masked = masks[owners, position]
        every = tokens[masked].repeat_interleave(words, 0)
        every[:, position] = torch.arange(1, words + 1).repeat(int(masked.sum()))
        tokens = torch.cat([tokens[~masked], every])
        owners = torch.cat([owners[~masked], owners[masked].repeat_interleave(words)])
    return Sentences(tokens, sentences.lengths[owners]), owners


def _check_masks(masks: int, words: int) -> None:
    if words**masks > FILLINGS:
        raise LanguageError(
            f"{masks} masks of {words} words have {words**masks:,} fillings; at most {FILLINGS:,} are summed "
            "one by one, which is the only way for an autoregressive language."
        )


def sum_of_fillings(
    logs: Float[Tensor, "filling _column"], owners: Int[Tensor, " filling"], sentences: int
) -> Float[Tensor, "_sentence _column"]:
    """Compute the logarithm of the sum of the exponentials over the fillings of each sentence."""
    index = owners[:, None].expand_as(logs)
    most = logs.new_full((sentences, logs.shape[1]), -torch.inf).scatter_reduce(0, index, logs, "amax")
    total = torch.zeros_like(most).index_add(0, owners, (logs - most[owners]).exp())
    return most + total.log()
