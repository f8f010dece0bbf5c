"""Statistics of languages: entropies, lengths, word frequencies, enumeration (Section 2.3, App. A.1)."""

from collections.abc import Iterator
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.errors import LanguageError
from sameloss.languages.autoregressive import AutoregressiveLanguage
from sameloss.languages.language import Language, Sentences
from sameloss.statistics.intervals import Estimate

MAX_PROBABILITIES = 1 << 23
"""Conditional probabilities in memory at once (64 MB)."""


def entropies(conditionals: Float[Tensor, "batch seq word"], sentences: Sentences) -> Float[Tensor, " batch"]:
    """Compute the mean of H(Pr(. | x_-t)) over the positions t of each sentence, in nats per masked token."""
    return torch.special.entr(conditionals).sum((1, 2)) / sentences.lengths


def masked_entropy(language: Language, sentences: Sentences, generator: torch.Generator) -> Estimate:
    """Estimate H(x_t | x_-t), the lowest possible loss, from sampled sentences (nats per masked token).

    The average is over all positions of every sentence. If conditionals cost one forward pass per word, as
    in an autoregressive language, it is over one random position per sentence.
    """
    if isinstance(language, AutoregressiveLanguage):
        uniform = torch.rand(len(sentences.lengths), generator=generator)
        positions = (uniform * sentences.lengths).long()
        return Estimate.of(torch.special.entr(language.conditionals_at(sentences, positions)).sum(1))
    chunk = max(1, MAX_PROBABILITIES // (sentences.tokens.shape[1] * language.words))
    parts = map(sentences.rows, sentences.lengths.argsort(stable=True).split(chunk))
    return Estimate.of(torch.cat([entropies(language.conditionals(part), part) for part in parts]))


def word_shares(language: Language, sentences: Sentences) -> Float[Tensor, " word"]:
    """Compute the relative frequency of every word."""
    counts = sentences.tokens[sentences.inside].long().bincount(minlength=language.words + 1)[1:]
    return counts.double() / counts.sum()


def length_distribution(language: Language) -> Float[Tensor, " length"]:
    """Compute Pr(n tokens) for n = 1 .. max_length, exactly, as the probability of n masks.

    Raises:
        LanguageError: for an autoregressive language with too many fillings of the masks.

    """
    lengths = torch.arange(1, language.max_length + 1)
    masks = torch.zeros(len(lengths), language.max_length, dtype=torch.long)
    return language.log_prob(Sentences(masks, lengths)).exp()


def blind_entropy(language: Language) -> float:
    """Compute the exact entropy of a token given its position and the length only (nats per masked token).

    It is the lowest loss of a model that ignores its input; its excess over the masked entropy is the
    information that the other tokens carry.

    Raises:
        LanguageError: for an autoregressive language with too many fillings of the masks.

    """
    lengths = length_distribution(language)
    possible = (lengths > 0).nonzero().squeeze(1)
    masks = Sentences(torch.zeros(len(possible), language.max_length, dtype=torch.long), possible + 1)
    return float(lengths[possible] @ entropies(language.conditionals(masks), masks))


def context_information(
    language: Language, sentences: Sentences, conditionals: Float[Tensor, "batch seq word"]
) -> Estimate:
    """Estimate I(x_t; x_-t) given position and length: blind entropy minus masked entropy.

    It is all there is to learn, and thus the unit in which a KL divergence is small or large. If the
    language cannot compute its blind entropy, the marginals are estimated by averaging the conditionals.

    Args:
        language: whose sentences these are.
        sentences: independent samples; the sentence is the unit of the standard error.
        conditionals: Pr(. | x_-t) at every position.

    Returns:
        Nats per masked token, with the standard error of the masked entropy.

    """
    try:
        blind = blind_entropy(language)
    except LanguageError:  # autoregressive
        blind = _mean_marginal_entropy(sentences, conditionals)
    return Estimate.of(blind - entropies(conditionals, sentences))


def _mean_marginal_entropy(sentences: Sentences, conditionals: Float[Tensor, "batch seq word"]) -> float:
    """Entropy of the mean conditional at each position of each length, in nats per token."""
    total = 0.0
    for length in sentences.lengths.unique():
        same_length = conditionals[sentences.lengths == length]
        total += len(same_length) * float(torch.special.entr(same_length.mean(0)).sum() / length)
    return total / len(sentences.lengths)


MAX_STRINGS = 20_000
"""Largest number of strings that `enumerate_sentences` tries."""


def enumerate_sentences(language: Language) -> Iterator[Sentences]:
    """Yield all sentences of positive probability, one batch per length.

    Raises:
        LanguageError: if there are more than `MAX_STRINGS` strings.

    """
    strings = sum(language.words**length for length in range(1, language.max_length + 1))
    if strings > MAX_STRINGS:
        raise LanguageError(
            f"{strings:.2g} strings of up to {language.max_length} tokens are too many to "
            f"enumerate (at most {MAX_STRINGS:,}); sample instead."
        )
    for length in range(1, language.max_length + 1):
        tokens = torch.tensor(list(product(range(1, language.words + 1), repeat=length)))
        sentences = Sentences(tokens, torch.full((len(tokens),), length))
        possible = language.log_prob(sentences).isfinite()
        if possible.any():
            yield sentences.rows(possible)
