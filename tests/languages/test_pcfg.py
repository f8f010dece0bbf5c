"""The grammar's exact quantities against the enumeration of every derivation tree."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sameloss.errors import LanguageError
from sameloss.languages import Language, LayeredPCFG, PCFGSpec, Sentences


def derivations(language, level, symbol):
    """Yield (words, probability) for every tree below a symbol."""
    for word, probability in enumerate(language.emission[level][symbol].tolist(), start=1):
        if probability:
            yield (word,), probability
    if level < language.levels:
        for (j, k), probability in branches(language.binary[level][symbol]):
            pairs = product(derivations(language, level + 1, j), derivations(language, level + 1, k))
            for (left, p), (right, q) in pairs:
                yield left + right, probability * p * q


def branches(rules):
    return [((j, k), rules[j, k].item()) for j, k in rules.nonzero().tolist()]


def enumerated(language):
    """Return Pr(sentence) for every sentence, by summing over trees."""
    total = {}
    for symbol, prior in enumerate(language.prior.tolist()):
        for words, probability in derivations(language, 0, symbol):
            total[words] = total.get(words, 0.0) + prior * probability
    return total


def as_sentences(strings, width):
    tokens = torch.tensor([list(words) + [0] * (width - len(words)) for words in strings])
    return Sentences(tokens, torch.tensor([len(words) for words in strings]))


def substituted(probabilities, words, position, vocabulary):
    """Return Pr(x_t | x_-t) word by word from the joint probabilities."""
    joint = torch.tensor(
        [
            probabilities.get((*words[:position], w, *words[position + 1 :]), 0.0)
            for w in range(1, vocabulary + 1)
        ],
        dtype=torch.float64,
    )
    return joint / joint.sum()


early_stopping = PCFGSpec(2, 2, 2, 1, 2, 3, 2, 1.0, 1.0, early_stop=(0.2, 0.5), seed=5)
specs = st.builds(
    PCFGSpec,
    levels=st.integers(1, 2),
    start_symbols=st.integers(1, 2),
    symbols=st.integers(1, 2),
    start_rules=st.just(1),
    rules=st.just(1),
    words=st.integers(2, 3),
    words_per_symbol=st.integers(1, 2),
    rule_concentration=st.just(1.0),
    emission_concentration=st.floats(0.5, 2),
    early_stop=st.sampled_from([(0.0, 0.0), (0.2, 0.6)]),
    smoothing=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 1000),
)


@settings(max_examples=20, deadline=None)
@given(specs)
def test_log_prob_and_conditionals_match_enumeration_of_trees(spec):
    language = spec.build()
    probabilities = enumerated(language)
    strings = list(probabilities)
    sentences = as_sentences(strings, language.max_length)
    expected = torch.tensor([probabilities[words] for words in strings], dtype=torch.float64)
    torch.testing.assert_close(expected.sum(), torch.ones(()).double(), rtol=1e-12, atol=0)
    torch.testing.assert_close(language.log_prob(sentences).exp(), expected, rtol=1e-12, atol=0)
    conditionals = language.conditionals(sentences)
    for row, words in enumerate(strings[:20]):
        for position in range(len(words)):
            torch.testing.assert_close(
                conditionals[row, position],
                substituted(probabilities, words, position, spec.words),
                rtol=1e-12,
                atol=1e-15,
            )


def test_conditionals_do_not_read_the_token_they_predict(tiny_language):
    sentences = as_sentences([(1, 2, 3, 1), (1, 2, 3, 3)], 4)
    conditionals = tiny_language.conditionals(sentences)
    torch.testing.assert_close(conditionals[0, 3], conditionals[1, 3])
    assert not torch.allclose(conditionals[0, 0], conditionals[1, 0])


def test_masked_tokens_are_summed_out(tiny_language):
    probabilities = enumerated(tiny_language)
    expected = sum(p for words, p in probabilities.items() if words[1:3] == (2, 3))
    masked = Sentences(torch.tensor([[0, 2, 3, 0]]), torch.tensor([4]))
    assert tiny_language.log_prob(masked).exp().item() == pytest.approx(expected, rel=1e-12)


def test_impossible_sentences(tiny_spec):
    language = replace(tiny_spec, smoothing=0.0, words_per_symbol=1).build()
    strings = list(product((1, 2, 3), repeat=4))
    possible = enumerated(language)
    log_prob = language.log_prob(as_sentences(strings, 4))
    assert [words for words, lp in zip(strings, log_prob, strict=True) if lp > -torch.inf] == [
        words for words in strings if words in possible
    ]
    far = next(
        w for w in strings if not any(sum(a != b for a, b in zip(w, v, strict=True)) <= 1 for v in possible)
    )
    with pytest.raises(LanguageError, match="token 0 is"):
        language.conditionals(as_sentences([far], 4))


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("kind", ["likelihood", "posterior"])
@pytest.mark.parametrize("task", ["root", "span2"])
def test_labels_match_enumeration(tiny_spec, task, kind, stops):
    language = early_stopping.build() if stops else tiny_spec.build()
    level, span = {"root": (0, 4), "span2": (1, 2)}[task]
    strings = list(enumerated(language))[::3]
    labels = language.labels(as_sentences(strings, 4), task, kind)
    seen = set()
    for words, label in zip(strings, labels.tolist(), strict=True):
        scores = [symbol_score(language, level, s, words[:span], words, kind) for s in range(2)]
        assert scores[label] == pytest.approx(max(scores), rel=1e-9)
        seen.add(label)
    assert seen == {0, 1} or kind == "posterior"


def inside(language, level, symbol, words):
    return sum(p for w, p in derivations(language, level, symbol) if w == words)


def symbol_score(language, level, symbol, prefix, words, kind):
    if kind == "likelihood":
        return inside(language, level, symbol, prefix)
    if level == 0:
        return language.prior[symbol].item() * inside(language, 0, symbol, words)
    return sum(
        prior
        * language.binary[0][start, symbol, other].item()
        * inside(language, 1, symbol, words[:split])
        * inside(language, 1, other, words[split:])
        for start, prior in enumerate(language.prior.tolist())
        for other in range(2)
        for split in range(1, len(words))
    )


@pytest.mark.parametrize("spec", [early_stopping, None])
def test_sampling_follows_the_language(spec, tiny_spec):
    language = (spec or tiny_spec).build()
    probabilities = enumerated(language)
    count = 40_000
    tokens, lengths = language.sample(count, torch.Generator().manual_seed(0))
    seen = {}
    for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True):
        seen[tuple(row[:length])] = seen.get(tuple(row[:length]), 0) + 1
    assert set(seen) <= set(probabilities)
    expected = {w: count * p for w, p in probabilities.items() if count * p > 10}
    chi2 = sum((seen.get(w, 0) - e) ** 2 / e for w, e in expected.items())
    freedom = len(expected)
    assert abs(chi2 - freedom) < 4 * (2 * freedom) ** 0.5
    assert freedom > 10


def test_sampling_is_reproducible(tiny_language):
    draws = [tiny_language.sample(50, torch.Generator().manual_seed(7)) for _ in range(2)]
    assert torch.equal(draws[0].tokens, draws[1].tokens)


def test_paper_shape_is_in_range_of_float64():
    from sameloss.presets import PAPER_LANGUAGE

    language = PAPER_LANGUAGE.build()
    assert language.max_length == 32
    assert language.words == 200
    sentences = language.sample(50, torch.Generator().manual_seed(0))
    conditionals = language.conditionals(sentences)
    inside = torch.arange(32) < sentences.lengths[:, None]
    assert torch.allclose(conditionals.sum(-1), inside.double(), atol=1e-12)
    assert language.log_prob(sentences).isfinite().all()


def test_it_is_a_language(tiny_language):
    assert isinstance(tiny_language, Language)
    assert tiny_language.tasks == ("root", "span2")
    assert tiny_language.classes("root") == 2


def test_bad_grammars_and_sentences_say_what_is_wrong(tiny_spec, tiny_language):
    with pytest.raises(LanguageError, match="words_per_symbol = 4 is above words = 3"):
        replace(tiny_spec, words_per_symbol=4)
    with pytest.raises(LanguageError, match="at most symbols² = 4"):
        replace(tiny_spec, rules=5)
    with pytest.raises(LanguageError, match="smoothing lies in"):
        replace(tiny_spec, smoothing=1.5)
    half = [tiny_language.binary[0], tiny_language.binary[1] * torch.tensor([1, 0.5])[:, None, None]]
    with pytest.raises(LanguageError, match="level 1, symbol 1, sum to 0"):
        LayeredPCFG(tiny_language.prior, half, tiny_language.emission)
    with pytest.raises(LanguageError, match=r"ids lie in 0\.\.3; got 9"):
        tiny_language.log_prob(as_sentences([(1, 2, 3, 9)], 4))
    assert tiny_language.log_prob(as_sentences([(1, 2, 3)], 3)).item() == -torch.inf
    with pytest.raises(LanguageError, match="No sentence has 3 tokens"):
        tiny_language.conditionals(as_sentences([(1, 2, 3)], 3))
    with pytest.raises(LanguageError, match="choose one of root, span2"):
        tiny_language.labels(as_sentences([(1, 2, 3, 1)], 4), "leaf", "likelihood")
