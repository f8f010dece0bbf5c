"""The hidden Markov model's exact quantities against the enumeration of every path and sentence."""

from dataclasses import replace
from itertools import pairwise, product
from math import prod

import numpy as np
import pytest
import torch
from hmmlearn.hmm import CategoricalHMM
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, chisquare, kstest

from sameloss.errors import LanguageError, ParameterError
from sameloss.languages import hmm
from sameloss.languages.hmm import HMM, HMMSpec
from sameloss.languages.language import Language, LanguageSpec, Sentences

TINY = HMMSpec(4, 6, 5, 2, 1.0, 1.0, seed=2)
PAPER_SHAPE = HMMSpec(100, 200, 16, 4, 0.5, 0.8, smoothing=0.01)

exactly = {"rtol": 1e-12, "atol": 1e-15}


def random_model(states, words, length, zeros=0.0, seed=0):
    """Draw a model whose rows have about a share `zeros` of impossible entries."""
    rng = np.random.default_rng(seed)

    def rows(count, columns):
        weights = rng.gamma(1.0, size=(count, columns)) * (rng.random((count, columns)) >= zeros)
        weights[np.arange(count), rng.integers(columns, size=count)] += 0.1
        return torch.as_tensor(weights / weights.sum(1, keepdims=True))

    return HMM(rows(1, states)[0], rows(states, states), rows(states, words), length)


models = st.builds(
    random_model,
    states=st.integers(1, 3),
    words=st.integers(1, 3),
    length=st.integers(1, 3),
    zeros=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 10_000),
)


def enumerated(model):
    """Return Pr(z_1, ..., z_n, x_1, ..., x_n) with an axis for each, one path and sentence at a time."""
    start, move, speak = (table.tolist() for table in (model.initial, model.transition, model.emission))
    paths = product(range(model.states), repeat=model.length)
    joint = torch.zeros([model.states] * model.length + [model.words] * model.length, dtype=torch.float64)
    for path, words in product(paths, list(product(range(model.words), repeat=model.length))):
        moves = prod(move[z][following] for z, following in pairwise(path))
        spoken = prod(speak[z][word] for z, word in zip(path, words, strict=True))
        joint[path + words] = start[path[0]] * moves * spoken
    return joint


def marginal(joint, tokens, state=None, word=None):
    """Return the joint probability of the unmasked tokens with one state, one word, or nothing more.

    `state` and `word` are positions; the observed word at `word` is left out.
    """
    length = len(tokens)
    for position, token in enumerate(tokens):
        if token and position != word:
            joint = joint.narrow(length + position, token - 1, 1)
    kept = {state} if state is not None else {length + word} if word is not None else set()
    summed = [axis for axis in range(2 * length) if axis not in kept]
    return joint.sum(summed)


def all_strings(model):
    """Return every string of words and masks."""
    return list(product(range(model.words + 1), repeat=model.length))


def as_sentences(strings):
    tokens = torch.tensor(strings)
    return Sentences(tokens, torch.full((len(tokens),), tokens.shape[1]))


def hmmlearn_model(model):
    reference = CategoricalHMM(model.states, implementation="scaling")
    reference.n_features = model.words
    reference.startprob_ = model.initial.numpy()
    reference.transmat_ = model.transition.numpy()
    reference.emissionprob_ = model.emission.numpy()
    return reference


@settings(max_examples=40)
@given(models)
def test_log_prob_matches_enumeration(model):
    joint, strings = enumerated(model), all_strings(model)
    expected = torch.stack([marginal(joint, tokens) for tokens in strings])
    torch.testing.assert_close(joint.sum().item(), 1.0, **exactly)
    torch.testing.assert_close(model.log_prob(as_sentences(strings)).exp(), expected, **exactly)


@settings(max_examples=40)
@given(models)
def test_conditionals_match_enumeration(model):
    """At every position, masked or not, and whether or not the token there is itself possible."""
    joint = enumerated(model)
    expected = {
        tokens: torch.stack([marginal(joint, tokens, word=t) for t in range(model.length)])
        for tokens in all_strings(model)
    }
    defined = [tokens for tokens, table in expected.items() if (table.sum(1) > 0).all()]
    tables = torch.stack([expected[tokens] for tokens in defined])
    conditionals = model.conditionals(as_sentences(defined))
    torch.testing.assert_close(conditionals, tables / tables.sum(2, keepdim=True), **exactly)
    for tokens in set(expected) - set(defined):
        first = int((expected[tokens].sum(1) > 0).long().argmin())
        with pytest.raises(LanguageError, match=f"Sentence 0 cannot occur .* its token {first} is"):
            model.conditionals(as_sentences([tokens]))


@settings(max_examples=40)
@given(models)
def test_state_posteriors_and_label_scores_match_enumeration(model):
    joint = enumerated(model)
    possible = [tokens for tokens in all_strings(model) if marginal(joint, tokens) > 0]
    sentences = as_sentences(possible)
    posteriors = model.state_posteriors(sentences)
    for position, task in enumerate(model.tasks):
        prior = marginal(joint, [0] * model.length, state=position)
        scores = torch.stack([marginal(joint, tokens, state=position) for tokens in possible])
        expected = scores / scores.sum(1, keepdim=True)
        torch.testing.assert_close(posteriors[:, position], expected, **exactly)
        torch.testing.assert_close(model.posterior(sentences, task), expected, **exactly)
        given_state = torch.where(prior > 0, scores / prior, 0.0)
        expected = given_state / given_state.sum(1, keepdim=True)
        torch.testing.assert_close(model.likelihood(sentences, task), expected, **exactly)


def test_a_token_impossible_in_its_place_has_a_conditional_there():
    """Two states in turn, each with its own word: the sentence cannot occur, one conditional can."""
    turns = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double()
    model = HMM(torch.tensor([1.0, 0.0]).double(), turns, torch.eye(2).double(), 1)
    assert model.log_prob(as_sentences([[2]])).item() == -torch.inf
    assert model.conditionals(as_sentences([[2]])).tolist() == [[[1.0, 0.0]]]
    model = HMM(model.initial, turns, model.emission, 3)
    assert model.conditionals(as_sentences([[1, 2, 1]])).argmax(2).tolist() == [[0, 1, 0]]
    with pytest.raises(LanguageError, match=r"Sentence 1 cannot occur .* its token 0 is"):
        model.conditionals(as_sentences([[1, 2, 1], [1, 1, 1]]))


@pytest.mark.parametrize("model", [random_model(5, 7, 9, zeros=0.3), PAPER_SHAPE.build()])
def test_agreement_with_hmmlearn(model):
    sentences = model.sample(50, torch.Generator().manual_seed(0))
    reference = hmmlearn_model(model)
    words = (sentences.tokens - 1).reshape(-1, 1).numpy()
    score = reference.score(words, sentences.lengths.numpy())
    assert model.log_prob(sentences).sum().item() == pytest.approx(score, rel=1e-12)
    posteriors = torch.as_tensor(reference.predict_proba(words, sentences.lengths.numpy()))
    torch.testing.assert_close(model.state_posteriors(sentences).flatten(0, 1), posteriors, **exactly)


def test_long_sentences_do_not_underflow():
    model = random_model(20, 1000, 200)
    sentences = model.sample(4, torch.Generator().manual_seed(0))
    words = (sentences.tokens - 1).reshape(-1, 1).numpy()
    log_prob = model.log_prob(sentences)
    score = hmmlearn_model(model).score(words, sentences.lengths.numpy())
    assert log_prob.sum().item() == pytest.approx(score, rel=1e-12)
    assert log_prob.max() < -1000  # e^-1000 is far below the least float64
    ones = torch.ones(4, 200, dtype=torch.float64)
    torch.testing.assert_close(model.conditionals(sentences).sum(2), ones, **exactly)
    torch.testing.assert_close(model.state_posteriors(sentences).sum(2), ones, **exactly)


def test_sampled_sentences_and_states_follow_the_model():
    model = random_model(2, 3, 3, zeros=0.3, seed=4)
    expected = enumerated(model).flatten()
    count = 100_000
    sentences, states = model.sample_states(count, torch.Generator().manual_seed(0))
    digits = torch.cat([states, sentences.tokens - 1], 1)
    place = torch.tensor([108, 54, 27, 9, 3, 1])
    seen = (digits * place).sum(1).bincount(minlength=len(expected)).double()
    assert not seen[expected == 0].any()
    likely = count * expected > 10
    assert likely.sum() > 30
    rest = [torch.stack([x[~likely].sum()]) for x in (seen, count * expected)]
    pair = [torch.cat([x[likely], r]) for x, r in zip((seen, count * expected), rest, strict=True)]
    assert chisquare(*pair, sum_check=False).pvalue > 1e-3


def test_every_column_of_a_wide_row_is_drawn_at_its_rate():
    spec = HMMSpec(1, 500, 20, 1, 1.0, 0.3, seed=1)
    model = spec.build()
    tokens = model.sample(50_000, torch.Generator().manual_seed(0)).tokens
    seen = tokens.flatten().bincount(minlength=501)[1:].double()
    expected = model.emission[0] * tokens.numel()
    standard = (seen - expected)[expected > 10] / expected[expected > 10].sqrt()
    assert len(standard) > 200
    assert standard.square().sum().item() == pytest.approx(len(standard), abs=4 * (2 * len(standard)) ** 0.5)
    assert seen[expected < 1e-6].sum() == 0


def test_sampling_is_reproducible_and_the_same_with_and_without_states(monkeypatch):
    monkeypatch.setattr(hmm, "ROWS_AT_ONCE", 7)
    model = TINY.build()
    draws = [model.sample(50, torch.Generator().manual_seed(7)) for _ in range(2)]
    sentences, states = model.sample_states(50, torch.Generator().manual_seed(7))
    assert torch.equal(draws[0].tokens, draws[1].tokens)
    assert torch.equal(draws[0].tokens, sentences.tokens)
    assert states.shape == sentences.tokens.shape == (50, 5)
    assert sentences.lengths.tolist() == [5] * 50
    assert model.sample(0, torch.Generator()).tokens.shape == (0, 5)


def test_chunks_and_wider_tokens_change_nothing(monkeypatch):
    model = PAPER_SHAPE.build()
    sentences = model.sample(10, torch.Generator().manual_seed(0))
    measures = (model.conditionals, model.state_posteriors)
    log_prob, whole = model.log_prob(sentences), [measure(sentences) for measure in measures]
    monkeypatch.setattr(hmm, "CHUNK", 3)
    beyond = torch.full((10, 2), 999)  # tokens after the length are ignored
    wider = Sentences(torch.cat([sentences.tokens, beyond], 1), sentences.lengths)
    torch.testing.assert_close(model.log_prob(wider), log_prob, **exactly)
    for measure, expected in zip(measures, whole, strict=True):
        torch.testing.assert_close(measure(wider)[:, :16], expected, **exactly)
    assert not model.conditionals(wider)[:, 16:].any()


def test_nothing_is_made_on_the_default_device():
    """Results lie where the tokens lie: with another default device they stay the same."""
    model, generator = TINY.build(), torch.Generator().manual_seed(0)
    sentences = model.sample(20, generator)
    with torch.device("meta"):
        assert model.log_prob(sentences).isfinite().all()
        assert model.conditionals(sentences).sum().item() == pytest.approx(100)
        assert model.posterior(sentences, "state5").sum().item() == pytest.approx(20)
        assert model.likelihood(sentences, "state5").sum().item() == pytest.approx(20)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_agrees():
    model = PAPER_SHAPE.build()
    sentences = model.sample(100, torch.Generator().manual_seed(0))
    there = Sentences(sentences.tokens.cuda(), sentences.lengths.cuda())
    for measure in (model.conditionals, model.state_posteriors, model.log_prob):
        assert measure(there).is_cuda
        torch.testing.assert_close(measure(there).cpu(), measure(sentences), **exactly)


def test_matrices_are_block_diagonal_until_smoothed():
    model = TINY.build()
    states, words = torch.arange(4) // 2, torch.arange(6) // 3
    assert torch.equal(model.transition > 0, states[:, None] == states)
    assert torch.equal(model.emission > 0, states[:, None] == words)
    assert model.initial.tolist() == [0.25] * 4
    smoothed = replace(TINY, smoothing=0.1).build()
    torch.testing.assert_close(smoothed.emission, 0.9 * model.emission + 0.1 / 6, **exactly)
    assert torch.equal(smoothed.transition, model.transition)


@pytest.mark.parametrize("concentration", [0.1, 1.0, 30.0])
def test_rows_are_dirichlet(concentration):
    model = HMMSpec(2000, 2000, 1, 500, 1.0, concentration).build()
    rows = model.emission.view(500, 4, 500, 4).diagonal(dim1=0, dim2=2)  # (state, word, block)
    law = beta(concentration, 3 * concentration)
    assert min(kstest(rows[:, word].flatten(), law.cdf).pvalue for word in range(4)) > 1e-3


def entropy(spec):
    """Return the mean entropy (nats) of the true conditionals over all sentences."""
    model = spec.build()
    sentences = as_sentences(list(product(range(1, spec.words + 1), repeat=spec.length)))
    conditionals = model.conditionals(sentences)
    surprise = torch.special.entr(conditionals).sum(2).mean(1)
    return float(model.log_prob(sentences).exp() @ surprise)


@pytest.mark.parametrize("name", ["transition_concentration", "emission_concentration"])
@pytest.mark.parametrize("concentration", [0.05, 0.7, 20.0])
def test_entropy_is_smooth_in_a_concentration(name, concentration):
    """Differences shrink with the step: what a search for a given entropy needs."""
    spec = HMMSpec(6, 4, 3, 1, 0.7, 0.7, smoothing=0.01)

    def change(step):
        here = entropy(replace(spec, **{name: concentration}))
        return entropy(replace(spec, **{name: concentration * (1 + step)})) - here

    assert change(1e-3) == pytest.approx(10 * change(1e-4), rel=0.02)
    assert change(1e-3) != 0


@pytest.mark.parametrize("concentration", [1e-300, 1e-5, 1e-3, 1e9])
def test_extreme_concentrations_give_distributions(concentration):
    model = replace(TINY, emission_concentration=concentration).build()
    torch.testing.assert_close(model.emission.sum(1), torch.ones(4).double(), **exactly)
    peak = model.emission.amax(1)
    expected = 1.0 if concentration < 1 else 1 / 3
    torch.testing.assert_close(peak, torch.full_like(peak, expected), rtol=0, atol=1e-3)


def test_it_is_a_language():
    model = TINY.build()
    assert isinstance(model, Language)
    assert isinstance(TINY, LanguageSpec)
    assert model.tasks == ("state1", "state2", "state3", "state4", "state5")
    assert model.classes("state3") == model.states == 4
    assert model.words == TINY.words == 6
    assert model.max_length == TINY.max_length == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blocks": 3}, "blocks = 3 must divide states = 4 and words = 6"),
        ({"blocks": 4}, "blocks = 4 must divide states = 4 and words = 6"),
        ({"blocks": 0}, "at least 1"),
        ({"words": -2}, "at least 1"),
        ({"transition_concentration": 0.0}, "transition_concentration must be positive"),
        ({"emission_concentration": float("nan")}, "emission_concentration must be positive"),
        ({"smoothing": 1.5}, "smoothing must lie in"),
    ],
)
def test_bad_dimensions_say_what_is_wrong(change, message):
    with pytest.raises((LanguageError, ParameterError), match=message):
        replace(TINY, **change)


def test_bad_probabilities_say_what_is_wrong():
    initial, moves, words = torch.tensor([0.5, 0.5]).double(), torch.eye(2).double(), torch.eye(2).double()
    short = torch.tensor([[1.0, 0.0], [0.5, 0.4]], dtype=torch.float64)
    negative = torch.tensor([[1.0, 0.0], [-0.5, 1.5]]).double()
    for tables, message in [
        ((initial * 1.1, moves, words), "Every row of `initial` must be a probability distribution"),
        ((initial, short, words), "Every row of `transition`"),
        ((initial, moves, short), "Every row of `emission`"),
        ((initial, moves, short * torch.nan), "Every row of `emission`"),
        ((initial, negative, words), "Every row of `transition`"),
        ((initial, moves[:1], words), "transition must be 2 × 2, and emission 2 × words"),
        ((initial, moves, words[:1]), "transition must be 2 × 2, and emission 2 × words"),
    ]:
        with pytest.raises(LanguageError, match=message):
            HMM(*tables, 3)


def test_bad_sentences_and_tasks_say_what_is_wrong():
    model = TINY.build()
    short = as_sentences([[1, 1, 1]])
    assert model.log_prob(short).item() == -torch.inf
    mixed = Sentences(torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]), torch.tensor([3, 5]))
    assert model.log_prob(mixed).isfinite().tolist() == [False, True]
    for measure in (
        model.conditionals,
        model.state_posteriors,
        lambda sentences: model.posterior(sentences, "state1"),
        lambda sentences: model.likelihood(sentences, "state1"),
    ):
        with pytest.raises(LanguageError, match=r"^Every sentence of this language has 5 tokens"):
            measure(mixed)
        with pytest.raises(LanguageError, match=r"ids lie in 0\.\.6; got 9"):
            measure(as_sentences([[1, 1, 9, 1, 1]]))
    with pytest.raises(LanguageError, match="Unknown task 'state0'; choose one of state1, state2"):
        model.posterior(as_sentences([[1] * 5]), "state0")
    with pytest.raises(LanguageError, match="Unknown task 'state6'; choose one of state1, state2"):
        model.classes("state6")


@pytest.mark.parametrize("chunk", [1, 1024])
def test_sentences_that_cannot_occur_have_no_posterior(monkeypatch, chunk):
    monkeypatch.setattr(hmm, "CHUNK", chunk)
    model = TINY.build()
    sentences = as_sentences([[1, 2, 3, 1, 2], [1, 2, 4, 1, 2]])  # the second leaves its block
    assert model.log_prob(sentences).isfinite().tolist() == [True, False]
    with pytest.raises(LanguageError, match=r"Sentence 1 cannot occur .* its token 0 is"):
        model.conditionals(sentences)
    with pytest.raises(LanguageError, match=r"^A sentence cannot occur .* no posterior"):
        model.state_posteriors(sentences)
    with pytest.raises(LanguageError, match=r"^A sentence cannot occur .* no posterior"):
        model.posterior(sentences, "state3")
    likelihood = model.likelihood(sentences, "state3")
    assert likelihood[0].sum().item() == pytest.approx(1)
    assert not likelihood[1].any()
