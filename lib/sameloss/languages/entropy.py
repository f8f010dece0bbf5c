"""What a language is like: entropy, lengths, words, all sentences of a small one (Section 2.3, App. A.1)."""

from collections.abc import Iterable, Iterator
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.errors import LanguageError
from sameloss.languages.language import MASK, Language, Sentences
from sameloss.statistics.intervals import Estimate

AT_ONCE = 1 << 23
"""Conditional probabilities held at once (64 MB)."""


def entropies(conditionals: Float[Tensor, "batch seq word"], sentences: Sentences) -> Float[Tensor, " batch"]:
    """Compute the mean of H(Pr(. | x_-t)) over the positions of each sentence, in nats a masked token."""
    return torch.special.entr(conditionals).sum((1, 2)) / sentences.lengths


def masked_entropy(language: Language, sentences: Sentences, generator: torch.Generator) -> Estimate:
    """Estimate H(x_t | x_-t), the best possible loss, on sampled sentences (nats a masked token).

    The mean is over all positions of every sentence. In a language whose conditionals cost a pass for
    every word it is over one position of each sentence, drawn by the generator.
    """
    if hasattr(language, "conditionals_at"):
        place = torch.rand(len(sentences.lengths), generator=generator)
        positions = (place * sentences.lengths).long()
        return Estimate.of(torch.special.entr(language.conditionals_at(sentences, positions)).sum(1))
    most = max(1, AT_ONCE // (sentences.tokens.shape[1] * language.words))
    parts = map(sentences.rows, sentences.lengths.argsort(stable=True).split(most))
    return Estimate.of(torch.cat([entropies(language.conditionals(part), part) for part in parts]))


def word_shares(language: Language, sentences: Sentences) -> Float[Tensor, " word"]:
    """Compute the share of the tokens that each word has."""
    counts = sentences.tokens[sentences.inside].long().bincount(minlength=language.words + 1)[1:]
    return counts.double() / counts.sum()


def length_distribution(language: Language) -> Float[Tensor, " length"]:
    """Compute Pr(a sentence has n tokens), n = 1 .. max_length, exactly, by masking all tokens.

    Raises:
        LanguageError: for an autoregressive language, which cannot sum over all tokens.

    """
    lengths = torch.arange(1, language.max_length + 1)
    masks = torch.zeros(len(lengths), language.max_length, dtype=torch.long)
    return language.log_prob(Sentences(masks, lengths)).exp()


def check_attainable(language: Language, sentences: Sentences) -> None:
    """Refuse a language with conditionals of zero: no softmax attains the minimum of its loss.

    Assumption 3.1 and all that follows from it ask for models that do.

    Raises:
        LanguageError: naming a sentence, a position and a word of probability zero.

    """
    zeros = ((language.conditionals(sentences) == 0) & sentences.inside[..., None]).nonzero()
    if len(zeros):
        row, position, word = zeros[0].tolist()
        raise LanguageError(
            f"Word {word + 1} has probability zero at position {position} of sentence {row}, so no softmax "
            "attains the best possible loss; a language with smoothing > 0 is needed."
        )


def blind_entropy(language: Language) -> float:
    """Compute the entropy of a token given its position and the length alone, exactly.

    Its excess over the masked entropy is what the other tokens tell: a model that reads nothing is that
    far from the best possible loss.

    Returns:
        Nats a masked token.

    Raises:
        LanguageError: for an autoregressive language, which cannot sum over all tokens.

    """
    lengths = length_distribution(language)
    possible = (lengths > 0).nonzero().squeeze(1)
    masks = Sentences(torch.zeros(len(possible), language.max_length, dtype=torch.long), possible + 1)
    return float(lengths[possible] @ entropies(language.conditionals(masks), masks))


def context_information(
    language: Language, sentences: Sentences, conditionals: Float[Tensor, "batch seq word"]
) -> Estimate:
    """Estimate I(x_t; x_-t), what the other tokens tell about a masked one given its position and the length.

    It is the entropy of a model that reads nothing less the best possible one: all there is to learn, and so
    the unit in which a KL is small or large.

    Args:
        language: sums over all tokens where it can; else its marginals are the means of the conditionals.
        sentences: independent sentences; the sentence is the unit of error.
        conditionals: Pr(. | x_-t) of every position.

    Returns:
        Nats a masked token, with the error of the masked entropy.

    """
    try:
        blind = blind_entropy(language)
    except LanguageError:  # an autoregressive language cannot sum over all tokens
        blind = _mean_marginal_entropy(sentences, conditionals)
    known = entropies(conditionals, sentences)
    return Estimate.of(blind - known)


def _mean_marginal_entropy(sentences: Sentences, conditionals: Float[Tensor, "batch seq word"]) -> float:
    """Return the entropy of the mean conditional at each position of each length, nats a token."""
    total = 0.0
    for length in sentences.lengths.unique():
        alike = conditionals[sentences.lengths == length]
        total += len(alike) * float(torch.special.entr(alike.mean(0)).sum() / length)
    return total / len(sentences.lengths)


def mask_some(sentences: Sentences, masks: int, generator: torch.Generator) -> Sentences:
    """Mask `masks` positions of each sentence, all choices equally likely; a shorter one is masked fully."""
    order = torch.rand(sentences.tokens.shape, generator=generator)
    chosen = order.masked_fill(~sentences.inside, 2.0).argsort(1)[:, :masks]
    return Sentences(sentences.tokens.scatter(1, chosen, MASK), sentences.lengths)


def entropy_under_masks(language: Language, masked: Sentences) -> Estimate:
    """Estimate the entropy of one masked token given the unmasked ones (nats a masked token).

    Other masked tokens are summed out. The sentence is the unit of error.
    """
    asked = (masked.tokens == MASK) & masked.inside
    entropy = torch.special.entr(language.conditionals(masked)).sum(2)
    return Estimate.of((entropy * asked).sum(1) / asked.sum(1))


# How much of what a sentence tells about a word is told by its neighbours: what depth could be good for.


def beyond_windows(language: Language, sentences: Sentences, windows: Iterable[int]) -> dict[int, Estimate]:
    """Return the information about a masked word beyond the words at most so many places away.

    It is H(x_t | window) - H(x_t | x_-t), in nats, averaged over the positions of each sentence. Both
    entropies are exact; what lies beyond a window is summed out.

    Args:
        language: whose conditionals take masked words.
        sentences: sampled; the sentence is the unit of error.
        windows: distances, 0 for no neighbour at all.

    """
    tokens, lengths = sentences
    places = torch.arange(tokens.shape[1])
    full = entropies(language.conditionals(sentences), sentences)

    def given(window: int) -> torch.Tensor:
        """Return the entropy of a word given its window, mean over the positions of each sentence."""
        total = torch.zeros(len(tokens), dtype=torch.float64)
        for position in range(int(lengths.max())):
            hidden = tokens.where((places - position).abs() <= window, MASK)
            conditionals = language.conditionals(Sentences(hidden, lengths))[:, position]
            total += torch.special.entr(conditionals).sum(-1).where(position < lengths, 0.0)
        return total / lengths

    return {window: Estimate.of(given(window) - full) for window in windows}


# All sentences of a language that is small enough.

MOST_STRINGS = 20_000
"""Largest number of strings that `enumerate_sentences` tries."""


def enumerate_sentences(language: Language) -> Iterator[Sentences]:
    """Yield every sentence of positive probability, in chunks.

    Raises:
        LanguageError: where there would be more than `MOST_STRINGS` strings.

    """
    strings = sum(language.words**length for length in range(1, language.max_length + 1))
    if strings > MOST_STRINGS:
        raise LanguageError(
            f"{strings:.2g} strings of up to {language.max_length} tokens are too many to "
            f"enumerate (at most {MOST_STRINGS:,}); sample instead."
        )
    for length in range(1, language.max_length + 1):
        everything = torch.tensor(list(product(range(1, language.words + 1), repeat=length)))
        for tokens in everything.split(1 << 16):
            lengths = torch.full((len(tokens),), length)
            possible = language.log_prob(Sentences(tokens, lengths)).isfinite()
            if possible.any():
                yield Sentences(tokens[possible], lengths[possible])
