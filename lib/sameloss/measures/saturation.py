"""How far a model is from the best possible loss: entropy, KL to the truth, loss (App. A.4).

The loss is H + KL: the entropy of the true conditional plus the divergence of the model from it.
Both are computed from the exact conditionals, so no label is sampled.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sameloss.languages import Language, Sentences, mask_one
from sameloss.languages.entropy import entropies
from sameloss.languages.enumeration import enumerate_sentences
from sameloss.statistics.estimate import Estimate

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
