import math
from dataclasses import replace
from itertools import product

import pytest
import torch

from sameloss.errors import LanguageError
from sameloss.languages import Language, LanguageSpec, Sentences, mask_one
from sameloss.languages import autoregressive as opt_module
from sameloss.languages.autoregressive import AutoregressiveLanguage, TeacherSpec

PRIOR = (0.3, 0.7)
SPEC = TeacherSpec(words=3, max_length=3, topics=2, d_model=4, layers=2, heads=2, scale=3.0, logit_scale=1.5)
STRINGS = [words for length in (1, 2, 3) for words in product((1, 2, 3), repeat=length)]


def teacher(starts=(0, 1), prior=PRIOR, **changes):
    """A teacher of 39 sentences whose words are the model's tokens 5, 3, 4 in this order."""
    spec = replace(SPEC, **changes)
    return AutoregressiveLanguage(spec.build().model.model, (5, 3, 4), starts, prior, 2, spec.max_length)


@pytest.fixture(scope="module")
def language():
    return teacher()


@pytest.fixture(scope="module")
def given_start(language):
    """Pr(x | z) of all sentences, from the model's own logits, one sentence at a time, no cache."""
    return [{words: chained(language, start, words) for words in STRINGS} for start in (0, 1)]


@pytest.fixture(scope="module")
def probabilities(given_start):
    return {words: sum(p * g[words] for p, g in zip(PRIOR, given_start, strict=True)) for words in STRINGS}


@torch.no_grad()
def chained(language, start, words):
    ids = [start] + [(5, 3, 4)[word - 1] for word in words]
    logits = language.model.model(torch.tensor([ids])).logits[0]
    probability = 1.0
    for step, token in enumerate([*ids[1:], 2][: language.max_length]):
        allowed = [3, 4, 5] + [2] * (step > 0)
        probability *= (logits[step, token].exp() / logits[step, allowed].exp().sum()).item()
    return probability


def as_sentences(strings, width=3):
    tokens = torch.tensor([list(words) + [0] * (width - len(words)) for words in strings])
    return Sentences(tokens, torch.tensor([len(words) for words in strings]))


def substituted(probabilities, words, position):
    joint = [probabilities[(*words[:position], v, *words[position + 1 :])] for v in (1, 2, 3)]
    return torch.tensor(joint, dtype=torch.float64) / sum(joint)


def close(actual, expected, rtol=1e-12):
    torch.testing.assert_close(actual, torch.as_tensor(expected, dtype=torch.float64), rtol=rtol, atol=0)


def test_probabilities_are_the_chain_rule_and_sum_to_one(language, probabilities):
    close(language.log_prob(as_sentences(STRINGS)).exp(), list(probabilities.values()))
    assert math.isclose(sum(probabilities.values()), 1, abs_tol=1e-10)


def test_conditionals_are_the_substituted_joint_probabilities(language, probabilities):
    conditionals = language.conditionals(as_sentences(STRINGS))
    for row, words in enumerate(STRINGS):
        for position in range(len(words)):
            close(conditionals[row, position], substituted(probabilities, words, position))
        assert (conditionals[row, len(words) :] == 0).all()


def test_conditionals_at_agree_and_do_not_read_their_token(language):
    sentences = as_sentences(STRINGS)
    positions = torch.arange(len(STRINGS)) % sentences.lengths
    masked = Sentences(mask_one(sentences.tokens, positions), sentences.lengths)
    expected = language.conditionals(sentences)[torch.arange(len(STRINGS)), positions]
    close(language.conditionals_at(sentences, positions), expected)
    close(language.conditionals_at(masked, positions), expected)
    with pytest.raises(LanguageError, match=r"0\.\.length - 1"):
        language.conditionals_at(sentences, sentences.lengths)


def test_padding_is_not_read(language):
    tidy, untidy = as_sentences([(2,), (3, 1)]), as_sentences([(2, 99, -5), (3, 1, 2)])
    untidy = Sentences(untidy.tokens, tidy.lengths)
    assert torch.equal(language.conditionals(untidy), language.conditionals(tidy))
    assert torch.equal(language.log_prob(untidy), language.log_prob(tidy))


def test_masked_tokens_are_summed_out(language, probabilities):
    masked = as_sentences([(0, 2, 0), (1, 3, 2), (3, 0)])
    expected = [
        sum(p for words, p in probabilities.items() if len(words) == 3 and words[1] == 2),
        probabilities[1, 3, 2],
        sum(probabilities[3, v] for v in (1, 2, 3)),
    ]
    close(language.log_prob(masked).exp(), expected)
    joint = [[probabilities[first, v] for first in (1, 2, 3)] for v in (1, 2, 3)]
    joint = torch.tensor(joint, dtype=torch.float64).sum(1)
    close(language.conditionals(as_sentences([(0, 2)]))[0, 1], joint / joint.sum())


def test_too_many_masks_are_refused():
    long = teacher(max_length=9)
    with pytest.raises(LanguageError, match="9 masks of 3 words have 19,683 fillings; at most 10,000"):
        long.log_prob(as_sentences([(0,) * 9], 9))
    assert long.log_prob(as_sentences([(1,) * 3 + (0,) * 6], 9)).isfinite().all()
    # the mask that is predicted is not one of those summed over
    assert long.conditionals_at(as_sentences([(0,) * 9], 9), torch.tensor([8])).isfinite().all()


def test_topic_follows_bayes(language, given_start):
    sentences = as_sentences(STRINGS)
    likelihood = torch.tensor([[g[words] for g in given_start] for words in STRINGS], dtype=torch.float64)
    joint = likelihood * torch.tensor(PRIOR, dtype=torch.float64)
    close(language.posterior(sentences, "topic"), joint / joint.sum(1, keepdim=True))
    close(language.likelihood(sentences, "topic"), likelihood / likelihood.amax(1, keepdim=True))
    assert language.classes("topic") == 2


def test_one_start_has_no_task():
    language = teacher(starts=(1,), prior=(1.0,))
    assert language.tasks == ()
    with pytest.raises(LanguageError, match="one start token has no task"):
        language.classes("topic")
    assert math.isclose(language.log_prob(as_sentences(STRINGS)).exp().sum(), 1, abs_tol=1e-10)


def test_the_end_may_be_the_start():
    """As in OPT, where </s> is both."""
    language = teacher(starts=(2,), prior=(1.0,))
    expected = [chained(language, 2, words) for words in STRINGS]
    close(language.log_prob(as_sentences(STRINGS)).exp(), expected)


def test_sampling_follows_the_language(language, probabilities):
    count = 20_000
    tokens, lengths = language.sample(count, torch.Generator().manual_seed(0))
    drawn = [tuple(row[:length]) for row, length in zip(tokens.tolist(), lengths.tolist(), strict=True)]
    expected = {words: count * p for words, p in probabilities.items() if count * p > 10}
    chi2 = sum((drawn.count(words) - e) ** 2 / e for words, e in expected.items())
    freedom = len(expected)
    assert freedom > 25
    assert abs(chi2 - freedom) < 4 * (2 * freedom) ** 0.5
    assert (tokens[torch.arange(3) >= lengths[:, None]] == 0).all()


def test_results_do_not_depend_on_the_size_of_a_chunk(language, monkeypatch):
    sentences = as_sentences([*STRINGS[::3], (0, 2, 0)])
    generator = torch.Generator()

    def results():
        drawn = language.sample(50, generator.manual_seed(3))
        return language.conditionals(sentences), language.log_prob(sentences), drawn.tokens.double()

    whole = results()
    for numbers in (1, 20_000):
        monkeypatch.setattr(opt_module, "NUMBERS", numbers)
        for part, expected in zip(results(), whole, strict=True):
            close(part, expected)


def test_one_pass_reads_no_more_than_its_share(language, monkeypatch):
    """A forward pass holds at most NUMBERS numbers, as long as that is one sentence."""
    read, log_probs = [], language.model.log_probs

    def spy(tokens, cache):
        read.append(len(tokens))
        return log_probs(tokens, cache)

    monkeypatch.setattr(language.model, "log_probs", spy)
    monkeypatch.setattr(opt_module, "NUMBERS", 12 * 4 * language.model.numbers_per_token)
    language.conditionals(as_sentences(STRINGS))
    assert max(read) == 12


def test_it_is_a_language(language):
    assert isinstance(language, Language)
    assert isinstance(SPEC, LanguageSpec)
    assert (language.words, language.max_length, language.tasks) == (3, 3, ("topic",))
    none = language.sample(0, torch.Generator())
    assert none.tokens.shape == (0, 3)
    assert language.conditionals(none).shape == (0, 3, 3)
    assert language.log_prob(none).shape == (0,)


@pytest.mark.parametrize("use", ["log_prob", "conditionals"])
def test_bad_sentences_say_what_is_wrong(language, use):
    use = getattr(language, use)
    with pytest.raises(LanguageError, match=r"0\.\.3; got 9"):
        use(as_sentences([(9,)]))
    with pytest.raises(LanguageError, match="1 to 3 tokens"):
        use(as_sentences([()]))
    with pytest.raises(LanguageError, match="1 to 3 tokens"):
        use(as_sentences([(1, 2, 3, 1)], 4))


def test_bad_languages_say_what_is_wrong(language):
    model = language.model.model
    with pytest.raises(LanguageError, match=r"lie in 0\.\.5; got \[5, 6, 2\]"):
        AutoregressiveLanguage(model, (5, 6), (0,), (1.0,), 2, 3)
    with pytest.raises(LanguageError, match=r"lie in 0\.\.5; got \[7\]"):
        AutoregressiveLanguage(model, (5,), (7,), (1.0,), 2, 3)
    with pytest.raises(LanguageError, match="different tokens"):
        AutoregressiveLanguage(model, (5, 2), (0,), (1.0,), 2, 3)
    with pytest.raises(LanguageError, match="positive probability"):
        AutoregressiveLanguage(model, (5, 3), (0, 1), (1.0,), 2, 3)
    with pytest.raises(LanguageError, match="positive probability"):
        AutoregressiveLanguage(model, (5, 3), (0, 1), (0.5, 0.4), 2, 3)
    with pytest.raises(LanguageError, match="max_length is at least 1"):
        AutoregressiveLanguage(model, (5, 3), (0,), (1.0,), 2, 0)
    with pytest.raises(LanguageError, match="Unknown task 'root'; choose topic"):
        language.posterior(as_sentences(STRINGS), "root")
