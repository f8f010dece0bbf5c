"""Information beyond a window, against enumeration."""

import pytest
import torch

from sameloss.languages import HierarchySpec, HMMSpec, Sentences
from sameloss.languages.entropy import beyond_windows, enumerate_sentences

HMM = HMMSpec(2, 3, 4, 1, 0.5, 0.5, smoothing=0.05)


def entropy_by_hand(probabilities, tokens, position, window):
    """Return H(x_position | window) from the probabilities of all sentences."""
    near = [t for t in range(tokens.shape[1]) if t != position and abs(t - position) <= window]
    total = 0.0
    for seen in tokens[:, near].unique(dim=0) if near else [None]:
        there = torch.ones(len(tokens), dtype=bool) if seen is None else (tokens[:, near] == seen).all(1)
        words = torch.zeros(10, dtype=torch.float64).index_add_(
            0, tokens[there, position], probabilities[there]
        )
        total += float(words.sum()) * float(-torch.xlogy(words / words.sum(), words / words.sum()).sum())
    return total


@pytest.mark.parametrize("window", [0, 1, 2])
def test_it_is_what_enumeration_gives(window):
    language = HMM.build()
    sentences = Sentences.joined(enumerate_sentences(language))
    probabilities = language.log_prob(sentences).exp()
    tokens = sentences.tokens.long()
    hand = [
        entropy_by_hand(probabilities, tokens, t, window) - entropy_by_hand(probabilities, tokens, t, 4)
        for t in range(4)
    ]
    sampled = language.sample(3000, torch.Generator().manual_seed(0))
    found = beyond_windows(language, sampled, [window])[window]
    assert found.mean == pytest.approx(sum(hand) / 4, abs=4 * found.standard_error)
    assert found.standard_error < 0.02


def test_nothing_is_beyond_the_sentence_and_less_beyond_a_wider_window():
    language = HierarchySpec(levels=2, symbols=3, rules=2, smoothing=0.05).build()
    found = beyond_windows(language, language.sample(200, torch.Generator().manual_seed(0)), [0, 1, 2, 3])
    assert found[3].mean == pytest.approx(0, abs=1e-12)
    assert found[0].mean > found[1].mean > found[2].mean > 0.01


def test_independent_words_tell_nothing_of_each_other():
    language = HMMSpec(1, 3, 4, 1, 1.0, 1.0).build()
    found = beyond_windows(language, language.sample(50, torch.Generator().manual_seed(0)), [0])
    assert found[0].mean == pytest.approx(0, abs=1e-12)
