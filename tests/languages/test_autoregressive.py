"""Autoregressive languages against the chain rule and enumeration; their restricted models; the stand-in."""

import math
from dataclasses import replace
from functools import cache
from itertools import product

import pytest
import torch
from enumeration import as_sentences as sentences_of_width
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertLMHeadModel,
    GPT2Config,
    LlamaConfig,
    MambaConfig,
    OPTConfig,
)

from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import Language, LanguageSpec, Sentences, mask_one
from sameloss.languages import autoregressive as module
from sameloss.languages.autoregressive import (
    AutoregressiveLanguage,
    RestrictedModel,
    TeacherSpec,
    fillings,
    sum_of_fillings,
)

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
    return sentences_of_width(strings, width)


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


def test_with_one_start_the_task_is_the_next_word(language):
    """Which of the words is most probable after the sentence, if it goes on; topics have no part in it."""
    language = teacher(starts=(1,), prior=(1.0,))
    assert (language.tasks, language.classes("next")) == (("next",), 3)
    sentences = as_sentences(STRINGS)
    found = language.posterior(sentences, "next")
    for row, words in zip(found, STRINGS, strict=True):
        with torch.no_grad():
            logits = language.model.model(torch.tensor([[1, *((5, 3, 4)[w - 1] for w in words)]])).logits[0]
        close(row, logits[-1, [5, 3, 4]].softmax(0), rtol=1e-10)
    assert torch.equal(language.likelihood(sentences, "next"), found)
    with pytest.raises(LanguageError, match="next needs sentences without masked tokens"):
        language.posterior(as_sentences([(0, 1)]), "next")
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


@pytest.fixture
def rows_read(language, monkeypatch):
    """The number of rows of each forward pass."""
    read, log_probs = [], language.model.log_probs

    def spy(tokens, cache):
        read.append(len(tokens))
        return log_probs(tokens, cache)

    monkeypatch.setattr(language.model, "log_probs", spy)
    return read


def test_ended_sentences_are_not_read_again(language, rows_read):
    _, lengths = language.sample(50, torch.Generator().manual_seed(0))
    assert rows_read == [int((lengths >= step).sum()) for step in range(3)]


def test_results_do_not_depend_on_the_size_of_a_chunk(language, monkeypatch):
    sentences = as_sentences([*STRINGS[::3], (0, 2, 0)])
    generator = torch.Generator()

    def results():
        drawn = language.sample(50, generator.manual_seed(3))
        return language.conditionals(sentences), language.log_prob(sentences), drawn.tokens.double()

    whole = results()
    for numbers in (1, 20_000):
        monkeypatch.setattr(module, "NUMBERS", numbers)
        for part, expected in zip(results(), whole, strict=True):
            close(part, expected)


def test_one_pass_reads_no_more_than_its_share(language, rows_read, monkeypatch):
    """A forward pass holds at most NUMBERS numbers, as long as that is one sentence."""
    monkeypatch.setattr(module, "NUMBERS", 12 * 4 * language.model.numbers_per_token)
    language.conditionals(as_sentences(STRINGS))
    assert max(rows_read) == 12


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


# Fillings of masks


def test_every_word_stands_in_every_masked_place():
    filled, owners = fillings(as_sentences([(0, 2, 0), (1, 3, 2), (3, 0)], 3), words=3)
    found = [set(), set(), set()]
    for row, length, owner in zip(*map(torch.Tensor.tolist, (*filled, owners)), strict=True):
        found[owner].add(tuple(row[:length]))
    assert found[0] == {(a, 2, b) for a, b in product((1, 2, 3), repeat=2)}
    assert found[1] == {(1, 3, 2)}
    assert found[2] == {(3, 1), (3, 2), (3, 3)}
    assert len(owners) == 9 + 1 + 3


def test_a_mask_beyond_the_end_is_padding():
    sentences = as_sentences([(1, 2)], 4)
    filled, owners = fillings(sentences, words=5)
    assert torch.equal(filled.tokens, sentences.tokens)
    assert owners.tolist() == [0]


def test_sums_are_by_owner_and_do_not_underflow():
    logs = torch.tensor([[-1000.0, 0.0], [-1000.0, 1.0], [2.0, 3.0]], dtype=torch.float64)
    found = sum_of_fillings(logs, torch.tensor([1, 1, 0]), 2)
    torch.testing.assert_close(found[0], logs[2])
    torch.testing.assert_close(found[1], logs[:2].logsumexp(0))


# Models of several architectures

SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 12}
HEADS = {"num_attention_heads": 2, "max_position_embeddings": 16}
ARCHITECTURES = {
    "OPT": OPTConfig(**SIZES, **HEADS, word_embed_proj_dim=8, ffn_dim=16, init_std=0.5),
    "GPT-2": GPT2Config(n_embd=8, n_layer=2, n_head=2, n_positions=16, vocab_size=12, initializer_range=0.5),
    "Llama": LlamaConfig(
        **SIZES, **HEADS, num_key_value_heads=1, intermediate_size=16, initializer_range=0.5
    ),
    "Mamba": MambaConfig(**SIZES, state_size=4, initializer_range=0.5),
}


@cache
def random_model(kind):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(ARCHITECTURES[kind]).double().eval()


def one_by_one(model, allowed, start, end, length, words, position):
    """The conditional by one pass over the whole sentence for each candidate."""
    joint = []
    for candidate in range(1, len(allowed) + 1):
        filled = [*words[:position], candidate, *words[position + 1 :]]
        ids = [start, *(allowed[word - 1] for word in filled), end]
        with torch.no_grad():
            logits = model(torch.tensor([ids[:-1]])).logits[0].double()
        steps = range(min(len(filled) + 1, length))
        chosen = [logits[t, [*allowed, *[end] * (t > 0)]].log_softmax(0) for t in steps]
        places = [*(word - 1 for word in filled), len(allowed)]
        joint.append(sum(log_p[places[t]] for t, log_p in enumerate(chosen)))
    return torch.stack(joint).softmax(0)


@st.composite
def questions(draw):
    """An architecture, a vocabulary, a largest length, a sentence and a position in it."""
    allowed = draw(st.permutations(range(2, 12)))[: draw(st.integers(2, 6))]
    length = draw(st.integers(1, 6))
    sentence = draw(st.lists(st.integers(1, len(allowed)), min_size=1, max_size=length))
    return (
        draw(st.sampled_from([*ARCHITECTURES])),
        allowed,
        length,
        sentence,
        draw(st.integers(0, len(sentence) - 1)),
    )


@settings(max_examples=60)
@given(question=questions(), rows=st.integers(1, 40), tolerance=st.sampled_from([0.001, 0.1, 0.5]))
def test_conditionals_of_any_architecture_are_those_of_one_pass_per_candidate(question, rows, tolerance):
    """Llama and Mamba round to float32 inside. Whatever is left out, it holds no more than what is proved."""
    kind, allowed, length, words, position = question
    model = random_model(kind)
    expected = one_by_one(model, allowed, 0, 1, length, words, position)
    language = AutoregressiveLanguage(model, allowed, (0,), (1.0,), 1, length)
    about = as_sentences([words], length), torch.tensor([position])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "NUMBERS", rows * language.model.numbers_per_token * (length + 1))
        exact = language.conditionals_at(*about)[0]
        bounded, bound = language.bounded_conditionals_at(*about, tolerance, margin=math.inf)
    torch.testing.assert_close(exact, expected, rtol=0, atol=1e-5)
    assert bound <= tolerance
    assert (bounded[0] - expected).abs().sum() / 2 <= bound + 1e-5
    assert language.model.cached == (kind != "Mamba")


def peaked():
    """A teacher of 60 words that knows its next word well."""
    return TeacherSpec(words=60, max_length=5, topics=2, d_model=16, logit_scale=6.0).build()


def test_words_that_can_hold_almost_nothing_are_left_out(monkeypatch):
    language = peaked()
    sentences = language.sample(20, torch.Generator().manual_seed(0))
    positions = torch.arange(20) % sentences.lengths
    exact = language.conditionals_at(sentences, positions)
    monkeypatch.setattr(module, "NUMBERS", 8 * language.model.numbers_per_token * 6)
    bounded, bound = language.bounded_conditionals_at(sentences, positions, 0.01)
    assert ((bounded - exact).abs().sum(1) / 2 <= bound).all()
    assert (bound <= 0.01).all()
    assert (bounded == 0).double().mean() > 0.5
    language.tolerance = 0.01
    assert torch.equal(language.conditionals_at(sentences, positions), bounded)
    with pytest.raises(LanguageError, match="summed out exactly only"):
        language.conditionals_at(as_sentences([(0, 0)], 5), torch.tensor([0]))


def test_a_model_that_reads_ahead_is_refused():
    torch.manual_seed(0)
    config = BertConfig(**SIZES, **HEADS, intermediate_size=16, initializer_range=0.5)
    with pytest.raises(LanguageError, match="reads ahead; give one that predicts the next token"):
        RestrictedModel(BertLMHeadModel(config), (5, 3), 2)


# Restricted models

ALLOWED, END = (5, 3, 4), 2


@pytest.fixture
def model():
    return TeacherSpec(words=3, max_length=3, topics=2, d_model=4).build().model.model


@torch.no_grad()
def test_columns_are_the_models_own_probabilities_renormalised(model):
    tokens = torch.tensor([[0, 5, 3], [1, 4, 4]])
    found, _ = RestrictedModel(model, ALLOWED, END).log_probs(tokens, None)
    logits = model(tokens).logits[..., [*ALLOWED, END]]
    logits[:, 0, -1] = -torch.inf  # no sentence is empty
    torch.testing.assert_close(found, logits.log_softmax(-1), rtol=1e-10, atol=1e-12)
    assert (found[:, 0, -1] == -torch.inf).all()


@torch.no_grad()
def test_a_cache_stands_for_the_tokens_before(model):
    restricted = RestrictedModel(model, ALLOWED, END)
    tokens = torch.tensor([[0, 5, 3], [1, 4, 4]])
    whole, _ = restricted.log_probs(tokens, None)
    first, cache = restricted.log_probs(tokens[:, :1], None)
    rest, _ = restricted.log_probs(tokens[:, 1:], cache)
    torch.testing.assert_close(torch.cat([first, rest], 1), whole, rtol=1e-10, atol=1e-12)


def test_a_model_with_another_output_layer_is_refused(model):
    model.lm_head.register_forward_hook(lambda module, inputs, logits: 3 * logits)
    with pytest.raises(LanguageError, match="linear map"):
        RestrictedModel(model, ALLOWED, END)


# The stand-in


def test_seeds_are_reproducible_and_global_randomness_is_left_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    draws = [SPEC.build().sample(50, torch.Generator().manual_seed(7)) for _ in range(2)]
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(draws[0].tokens, draws[1].tokens)
    other = replace(SPEC, seed=1).build().log_prob(draws[0])
    assert not torch.allclose(other, SPEC.build().log_prob(draws[0]))


def test_the_default_stand_in_has_structure():
    """The masked entropy lies clearly below that of uniform words, and the topic can be read in part."""
    language = TeacherSpec().build()
    sentences = language.sample(300, torch.Generator().manual_seed(0))
    conditionals = language.conditionals(sentences)
    inside = torch.arange(8) < sentences.lengths[:, None]
    assert torch.allclose(conditionals.sum(-1), inside.double(), rtol=0, atol=1e-12)
    entropy = torch.special.entr(conditionals).sum(-1)[inside].mean() / math.log(16)
    assert 0.75 < entropy < 0.85
    assert 0.5 < language.posterior(sentences, "topic").amax(1).mean() < 0.8
    assert sentences.lengths.double().mean() > 6


def test_dimensions_are_as_asked():
    language = SPEC.build()
    assert isinstance(SPEC, LanguageSpec)
    assert (language.words, language.max_length, language.classes("topic")) == (3, 3, 2)
    assert language.prior.tolist() == [0.5, 0.5]
    config = language.model.model.config
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size) == (4, 2, 2 + 1 + 3)
    assert {p.dtype for p in language.model.model.parameters()} == {torch.float64}


def test_weights_have_the_deviations_of_their_spec():
    """Entries N(0, d²): the variance of n of them is known to 2 d⁴ / n."""
    model = replace(SPEC, d_model=64, words=200, scale=3.0, logit_scale=1.5).build().model.model
    weights = dict(model.named_parameters())
    deviations = {"lm_head.weight": 1.5 / 8, "model.decoder.embed_tokens.weight": 1.0}
    deviations["model.decoder.layers.0.fc1.weight"] = 3.0 / 8
    for name, deviation in deviations.items():
        entries = weights[name].detach().flatten()
        assert abs(entries.var() / deviation**2 - 1) < 4 * (2 / len(entries)) ** 0.5
    assert (weights["model.decoder.layers.1.fc1.bias"] == 0).all()
    assert (weights["model.decoder.layers.1.final_layer_norm.weight"] == 1).all()


@pytest.mark.parametrize("name", ["words", "max_length", "topics", "d_model", "layers", "heads"])
def test_a_teacher_of_nothing_is_refused(name):
    with pytest.raises(ParameterError, match=f"^{name} must be a whole number, at least 1; got 0"):
        TeacherSpec(**{name: 0})
