"""How far a model is from the best possible loss: entropy, KL to the truth, loss (App. A.4).

The loss is H + KL: the entropy of the true conditional plus the divergence of the model from it.
Both are computed from the exact conditionals, so no label is sampled.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sameloss.errors import LanguageError
from sameloss.estimate import Estimate
from sameloss.languages import Language, Sentences, mask_one
from sameloss.languages.statistics import entropies

MOST_STRINGS = 100_000
"""Largest number of strings that `enumerate_sentences` tries."""

CHUNK = 2048


class Saturation(NamedTuple):
    """Nats a masked token."""

    entropy: Estimate
    kl: Estimate
    loss: Estimate


@torch.no_grad()
def divergences(
    model: nn.Module, sentences: Sentences, conditionals: Float[Tensor, "batch seq word"]
) -> Float[Tensor, " batch"]:
    r"""Return each sentence's mean over positions of KL(Pr(. | x_-t) || f(x_-t)), in nats, on the CPU."""
    sentences, conditionals = sentences.to("cpu"), conditionals.cpu()
    total = torch.zeros(len(sentences.lengths), dtype=torch.float64)
    for rows in torch.arange(len(total)).split(CHUNK):
        part = sentences.rows(rows)
        for position in range(int(part.lengths.max())):
            there = (part.lengths > position).nonzero().squeeze(1)
            truth = conditionals[rows[there], position]
            predicted = log_predictions(model, part.rows(there), position)
            # xlogy: a word of probability zero adds nothing.
            kl = (torch.xlogy(truth, truth) - truth * predicted).sum(-1)
            total[rows[there]] += kl / part.lengths[there]
    return total


def log_predictions(model: nn.Module, sentences: Sentences, position: int) -> Float[Tensor, "batch word"]:
    """Return log f(x_-t) in float64 with the same position t masked in every sentence."""
    device = next(model.parameters()).device
    tokens = sentences.tokens.long().to(device)
    positions = torch.full((len(tokens),), position, device=device)
    ragged = bool((sentences.lengths < tokens.shape[1]).any())
    lengths = sentences.lengths.to(device) if ragged else None
    logits = model(mask_one(tokens, positions), positions, lengths)
    return logits.double().log_softmax(-1).cpu()


def saturation(
    model: nn.Module, sentences: Sentences, conditionals: Float[Tensor, "batch seq word"]
) -> Saturation:
    """Estimate entropy, KL and loss on sampled sentences, the sentence being the unit of error."""
    entropy = entropies(conditionals, sentences).cpu()
    kl = divergences(model, sentences, conditionals)
    return Saturation(*(Estimate.of(values) for values in (entropy, kl, entropy + kl)))


def exact_saturation(model: nn.Module, language: Language) -> Saturation:
    """Compute the population's entropy, KL and loss by enumerating every sentence."""
    parts = []
    for sentences in enumerate_sentences(language):
        conditionals = language.conditionals(sentences)
        entropy = entropies(conditionals, sentences)
        kl = divergences(model, sentences, conditionals)
        parts.append(torch.stack([language.log_prob(sentences).exp(), entropy, kl]))
    weights, entropy, kl = torch.cat(parts, dim=1)
    return Saturation(*(Estimate.weighted(values, weights) for values in (entropy, kl, entropy + kl)))


def strings(language: Language) -> int:
    """Return the number of strings up to the language's longest sentence."""
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
