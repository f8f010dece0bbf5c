"""Fine-tuning learns what a frozen first token does not contain, and leaves its input unchanged."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.languages import Sentences
from sameloss.measures.downstream import FinetuneSettings, OptimalProbe, contextual_features, finetune
from sameloss.models.bilstm import BiLSTM, BiLSTMShape
from sameloss.models.encoder import Encoder, EncoderShape

QUICK = FinetuneSettings(epochs=1, batch=50, lr=1e-2, warmup_steps=2)
LEARNING = FinetuneSettings(epochs=15, batch=50, lr=2e-2, warmup_steps=10)


def make_data(count=300, lengths=None):
    """Return sentences of words 1 to 3; a label is the third word."""
    tokens = torch.randint(1, 4, (count, 4), generator=torch.Generator().manual_seed(0))
    sentences = Sentences(tokens, torch.full((count,), 4) if lengths is None else lengths)
    return sentences, tokens[:, 2] - 1


def make_ragged(filler):
    """Return sentences of three and four tokens, and whatever `filler` is after their ends."""
    sentences, labels = make_data(lengths=torch.tensor([3, 4]).repeat(150))
    return sentences._replace(tokens=sentences.tokens.where(sentences.inside, filler)), labels


@pytest.fixture
def model():
    """A model whose tokens do not see each other: its attention outputs zero."""
    model = Encoder(EncoderShape(8, 2, 1, 16), words=3, max_length=4, seed=0)
    with torch.no_grad():
        model.blocks[0].attention.out.weight.zero_()
    return model


def parameters(tuned):
    return torch.cat([p.detach().flatten() for p in (*tuned.model.parameters(), tuned.weight, tuned.bias)])


def test_it_learns_what_the_frozen_first_token_does_not_contain(model):
    sentences, labels = make_data()
    first = contextual_features(model, sentences)[:, :8]
    probes = OptimalProbe().fit(first[None], labels[None, :, None], [3], seed=0)
    assert probes.correct(first, labels[:, None]).float().mean() < 0.5
    tuned = finetune(model, sentences, labels, 3, LEARNING, seed=0)
    other, other_labels = make_data(500)
    assert tuned.correct(other, other_labels)[300:].all()
    assert not tuned.correct(other, (other_labels + 1) % 3).any()


def test_an_lstm_learns_too():
    sentences, labels = make_data()
    tuned = finetune(BiLSTM(BiLSTMShape(8, 1), 3, 4, seed=0), sentences, labels, 3, LEARNING, seed=0)
    assert tuned.correct(sentences, labels).float().mean() > 0.95


def test_the_given_model_is_untouched(model):
    model.requires_grad_(False).eval()
    before = deepcopy(model.state_dict())
    tuned = finetune(model, *make_data(), 3, QUICK, seed=0)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
        changed = not torch.equal(tuned.model.state_dict()[name], value)
        assert changed == (not name.startswith("head")), name
    assert not any(p.requires_grad or p.grad is not None for p in model.parameters())
    assert not tuned.model.training


def test_the_seed_decides_the_result(model):
    fit = lambda seed: parameters(finetune(model, *make_data(), 3, QUICK, seed))  # noqa: E731
    state = torch.get_rng_state()
    assert torch.equal(fit(0), fit(0))
    assert not torch.equal(fit(0), fit(1))
    assert torch.equal(torch.get_rng_state(), state)


def test_nothing_is_dropped_while_fine_tuning():
    shape = EncoderShape(8, 2, 1, 16)
    models = [Encoder(shape, words=3, max_length=4, seed=0, dropout=rate) for rate in (0.0, 0.5)]
    plain, dropping = (finetune(model, *make_data(), 3, QUICK, seed=0) for model in models)
    assert torch.equal(parameters(plain), parameters(dropping))


def test_a_batch_moves_a_bias_by_the_learning_rates_of_its_steps(model):
    """While the gradient keeps its sign, Adam moves by the learning rate: 1/5 + 2/5 + 3/5 + 4/5 + 1 + 1."""
    sentences, labels = make_data()
    labels = (labels > 1).long() * (torch.arange(300) % 30 == 0)  # class 1 is rare: its bias falls throughout
    settings = FinetuneSettings(epochs=6, batch=300, lr=1e-6, warmup_steps=5)
    tuned = finetune(model, sentences, labels, 2, settings, seed=0)
    torch.testing.assert_close(tuned.bias.detach(), torch.tensor([4e-6, -4e-6]), rtol=1e-3, atol=0)


def test_what_lies_beyond_the_ends_does_not_matter(model):
    (zeros, labels), (ones, _) = make_ragged(0), make_ragged(1)
    tuned = [finetune(model, part, labels, 3, LEARNING, seed=0) for part in (zeros, ones)]
    assert torch.equal(parameters(tuned[0]), parameters(tuned[1]))
    assert torch.equal(tuned[0].logits(zeros), tuned[0].logits(ones))
    assert tuned[0].correct(ones, labels).all()
    short = Sentences(zeros.tokens[::2, :3], zeros.lengths[::2])
    torch.testing.assert_close(tuned[0].logits(short), tuned[0].logits(zeros)[::2])


def test_divergence_is_an_error(model):
    with pytest.raises(NonFiniteLoss, match=r"loss of (nan|inf); choose a smaller lr"):
        finetune(model, *make_data(), 3, replace(QUICK, lr=1e30), seed=0)


def test_unusable_labels_are_refused(model):
    sentences, labels = make_data(3)[0], torch.tensor([1, 1, 1])
    with pytest.raises(ParameterError, match="All 3 training sentences of task 0 are of class 1"):
        finetune(model, sentences, labels, 2, QUICK, seed=0)
    with pytest.raises(ParameterError, match="All 3 training sentences of task 0 are of class 1"):
        OptimalProbe().fit(torch.ones(1, 3, 2), labels[None, :, None], [2], seed=0)


def test_a_task_of_one_class_by_definition_is_trivial(model):
    sentences, labels = make_data()
    tuned = finetune(model, sentences, torch.zeros_like(labels), 1, QUICK, seed=0)
    assert tuned.correct(sentences, torch.zeros_like(labels)).all()


@pytest.mark.parametrize("nothing", [{"epochs": 0}, {"batch": 0}, {"lr": 0.0}])
def test_a_training_of_nothing_is_refused(nothing):
    with pytest.raises(ParameterError, match=f"{next(iter(nothing))} must be .*; got 0"):
        FinetuneSettings(**nothing)
