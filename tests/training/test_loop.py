"""The training loop: schedule, micro-batches, resumption, divergence."""

import pytest
import torch

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.training.corpus import Corpus, write_corpus
from sameloss.training.loop import Optimisation, make_optimiser, pretrain

SETTINGS = Optimisation(steps=30, batch=16, lr=1e-2, weight_decay=0.1)


@pytest.fixture
def corpus(tiny_language, tmp_path):
    write_corpus(tiny_language, 500, 0, tmp_path)
    return Corpus(tmp_path)


def new_model():
    return Encoder(EncoderShape(8, 2, 1, 16), 3, 4, seed=0)


def train(corpus, model, optimiser, until=None, **options):
    for step in pretrain(model, optimiser, lambda s: corpus.batch(0, s, 16), SETTINGS, **options):
        if step.done == until:
            break
    return model


def test_loss_falls_towards_the_entropy(corpus):
    model = new_model()
    steps = list(pretrain(model, make_optimiser(model, SETTINGS), lambda s: corpus.batch(0, s, 16), SETTINGS))
    assert [s.done for s in steps] == list(range(1, 31))
    assert sum(s.loss for s in steps[-5:]) < sum(s.loss for s in steps[:5])


def test_interrupted_training_is_bit_identical(corpus):
    model = new_model()
    whole = train(corpus, model, make_optimiser(model, SETTINGS))
    model = new_model()
    optimiser = make_optimiser(model, SETTINGS)
    train(corpus, model, optimiser, until=13)
    resumed, fresh = new_model(), None
    resumed.load_state_dict(model.state_dict())
    fresh = make_optimiser(resumed, SETTINGS)
    fresh.load_state_dict(optimiser.state_dict())
    train(corpus, resumed, fresh, start=13)
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_micro_batches_give_the_same_gradient(corpus):
    whole, parts = new_model().double(), new_model().double()
    train(corpus, whole, make_optimiser(whole, SETTINGS), until=5)
    train(corpus, parts, make_optimiser(parts, SETTINGS), until=5, micro_batch=5)
    for a, b in zip(whole.parameters(), parts.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_a_diverging_run_stops_before_the_weights_are_spoiled(corpus):
    model = new_model()
    settings = Optimisation(steps=50, batch=16, lr=1e30)
    with pytest.raises(NonFiniteLoss, match=r"loss is nan at step \d+ with lr = "):
        list(pretrain(model, make_optimiser(model, settings), lambda s: corpus.batch(0, s, 16), settings))


@pytest.mark.parametrize("name", ["steps", "batch", "lr"])
def test_settings_must_be_positive(name):
    with pytest.raises(ParameterError, match=f"{name} must be .*; got 0"):
        Optimisation(**{"steps": 1, "batch": 1, "lr": 1.0, name: 0.0 if name == "lr" else 0})


@pytest.mark.parametrize(
    "wrong",
    [
        {"beta1": 2.0},
        {"beta2": 1.0},
        {"warmup": 6.0},
        {"weight_decay": -1.0},
        {"sam_radius": -1.0},
        {"lr": float("inf")},
        {"schedule": "cosine"},
        {"optimiser": "adam"},
    ],
)
def test_settings_that_mean_nothing_are_refused_by_name(wrong):
    ((name, value),) = wrong.items()
    with pytest.raises(ParameterError, match=f"{name}.*{value}"):
        Optimisation(**{"steps": 1, "batch": 1, "lr": 1.0, **wrong})


def test_a_training_shorter_than_its_warm_up_is_all_warm_up():
    assert Optimisation(steps=100, batch=1, lr=1.0, warmup=0.5).lasting(10).warmup == 1.0


def test_weight_decay_spares_vectors():
    decays = {g["weight_decay"]: g["params"] for g in make_optimiser(new_model(), SETTINGS).param_groups}
    assert all(p.ndim > 1 for p in decays[0.1])
    assert all(p.ndim == 1 for p in decays[0.0])


def gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def loss_at(model, batch):
    logits = model(batch.masked, batch.positions, batch.lengths)
    return torch.nn.functional.cross_entropy(logits, batch.targets)


def test_sgd_takes_the_gradient_times_the_rate(corpus):
    settings = Optimisation(steps=3, batch=16, lr=0.5, optimiser="sgd", schedule="constant", warmup=0.0)
    model, moved = new_model().double(), new_model().double()
    next(pretrain(moved, make_optimiser(moved, settings), lambda s: corpus.batch(0, s, 16), settings))
    loss_at(model, corpus.batch(0, 0, 16)).backward()
    for before, after in zip(model.parameters(), moved.parameters(), strict=True):
        torch.testing.assert_close(after, before - 0.5 * before.grad)


def test_a_constant_schedule_stays_after_the_warmup():
    settings = Optimisation(steps=100, batch=1, lr=1.0, warmup=0.12, schedule="constant")
    assert [settings.lr_at(s) for s in (11, 12, 50, 99)] == [1.0] * 4
    assert settings.lr_at(5) == 0.5
    assert Optimisation(steps=100, batch=1, lr=1.0, warmup=0.0, schedule="constant").lr_at(0) == 1.0


def test_sam_takes_the_gradient_uphill(corpus):
    """One SGD step of SAM equals the gradient at theta + radius g / |g|, applied at theta."""
    common = {"steps": 1, "batch": 16, "lr": 0.5, "optimiser": "sgd", "warmup": 0.0}
    settings = Optimisation(**common, schedule="constant", sam_radius=0.3)
    moved, there, start = (new_model().double() for _ in range(3))
    batch = corpus.batch(0, 0, 16)
    next(pretrain(moved, make_optimiser(moved, settings), lambda s: batch, settings))
    loss_at(start, batch).backward()
    norm = gradient(start).norm()
    with torch.no_grad():
        for p, q in zip(there.parameters(), start.parameters(), strict=True):
            p.add_(0.3 * q.grad / norm)
    loss_at(there, batch).backward()
    for before, uphill, after in zip(start.parameters(), there.parameters(), moved.parameters(), strict=True):
        torch.testing.assert_close(after, before - 0.5 * uphill.grad)


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [("optimiser", "adam", "adamw or sgd"), ("schedule", "cosine", "linear or constant")],
)
def test_unknown_settings_say_what_is_valid(name, value, valid):
    with pytest.raises(ParameterError, match=f"Unknown {name} '{value}'; choose {valid}"):
        Optimisation(**{"steps": 1, "batch": 1, "lr": 1.0, name: value})
