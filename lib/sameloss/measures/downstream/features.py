"""What a probe reads: representations of sentences, computed once (Section 2.1, App. A.4)."""

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.languages import Language, Sentences
from sameloss.models.masked_model import MaskedLanguageModel

CHUNK = 4096
"""Sentences that go through the model at once."""


@torch.no_grad()
def contextual_features(
    model: MaskedLanguageModel, sentences: Sentences
) -> Float[Tensor, "sentence seq_d_model"]:
    """Concatenate the final representations of all tokens of a sentence (App. A.4).

    Nothing is masked. Places beyond the end of a sentence hold zeros, and so does what is no number: a model
    that diverged tells a probe nothing, instead of ending it.

    Returns:
        One row a sentence, float32, on the CPU.

    """
    device = next(model.parameters()).device
    parts = []
    for start in range(0, len(sentences.lengths), CHUNK):
        tokens, lengths = (x.to(device) for x in sentences.rows(slice(start, start + CHUNK)))
        ragged = bool((lengths < tokens.shape[1]).any())
        features = model.features(tokens.long(), lengths if ragged else None)
        inside = torch.arange(tokens.shape[1], device=device) < lengths[:, None]
        told = (features * inside[..., None]).flatten(1).float().cpu()
        parts.append(told.nan_to_num(0.0, 0.0, 0.0))
    return torch.cat(parts)


def lookup_features(language: Language, sentences: Sentences) -> Float[Tensor, "sentence seq_word"]:
    """Represent each token by its true conditional: the lookup table of Section 2.3 and App. A.4."""
    return language.conditionals(sentences).float().flatten(1)


def one_hot_features(language: Language, sentences: Sentences) -> Float[Tensor, "sentence seq_word"]:
    """Represent each token by itself: what a probe does with no pre-training at all."""
    rows = torch.eye(language.words + 1, device=sentences.tokens.device)[:, 1:]
    return rows[sentences.tokens.long() * sentences.inside].flatten(1)
