"""The training loop: schedule, optimisers, micro-batches, resumption, divergence, execution, processes."""

import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import pytest
import torch
from quick_workers import FORKING
from recorded.tiny_runs import trained
from torch import distributed

from sameloss.errors import NonFiniteLoss, ParameterError
from sameloss.languages.masking import Batch
from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.store.store import Store
from sameloss.training.corpus import Corpus, write_corpus
from sameloss.training.loop import ALONE, PLAIN, Execution, Optimisation, Process, make_optimiser, pretrain
from sameloss.training.objectives import Losses, plain_loss

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
    resumed = new_model()
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


@pytest.mark.parametrize("passes", [1, 2])
def test_a_penalty_that_diverges_stops_before_the_weights_are_spoiled(corpus, passes):
    """The masked loss is finite; with SAM only the loss uphill has the penalty."""
    model, calls = new_model(), []
    before = [p.detach().clone() for p in model.parameters()]
    settings = Optimisation(steps=2, batch=16, lr=0.01, sam_radius=0.05 if passes == 2 else 0.0)

    def loss(forward, batch):
        masked = plain_loss(forward, batch).masked
        calls.append(masked)
        return Losses(masked * (math.nan if len(calls) == passes else 1.0), masked)

    optimiser = make_optimiser(model, settings)
    with pytest.raises(NonFiniteLoss, match="loss is nan at step 1 "):
        list(
            pretrain(model, optimiser, lambda s: corpus.batch(0, s, 16), settings, loss_at=lambda step: loss)
        )
    assert all(map(torch.equal, model.parameters(), before))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"steps": 0}, "steps must be .*; got 0"),
        ({"batch": 0}, "batch must be .*; got 0"),
        ({"lr": 0.0}, "lr must be .*; got 0"),
        ({"lr": float("inf")}, "lr must be .*; got inf"),
        ({"beta1": 2.0}, "beta1 must lie .*; got 2"),
        ({"beta2": 1.0}, "beta2 must lie .*; got 1"),
        ({"warmup": 6.0}, "warmup must lie .*; got 6"),
        ({"weight_decay": -1.0}, "weight_decay must be .*; got -1"),
        ({"sam_radius": -1.0}, "sam_radius must be .*; got -1"),
        ({"schedule": "cosine"}, "Unknown schedule 'cosine'; choose linear or constant"),
        ({"optimiser": "adam"}, "Unknown optimiser 'adam'; choose adamw or sgd"),
    ],
)
def test_impossible_settings_are_refused(wrong, message):
    with pytest.raises(ParameterError, match=message):
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


# Execution

BRIEF = Optimisation(steps=12, batch=32, lr=1e-2)


def ragged(step: int) -> Batch:
    """Sentences of 3 to 20 tokens and five words."""
    generator = torch.Generator().manual_seed(step)
    lengths = torch.randint(3, 21, (32,), generator=generator)
    tokens = torch.randint(1, 6, (32, 20), generator=generator)
    positions = (torch.rand(32, generator=generator) * lengths).long()
    targets = tokens[torch.arange(32), positions] - 1
    masked = tokens.where(torch.arange(20) != positions[:, None], 0)
    return Batch(masked.where(torch.arange(20) < lengths[:, None], 0), positions, targets, lengths)


def losses(execution: Execution, dtype=torch.float64, **options) -> list[float]:
    model = Encoder(EncoderShape(8, 2, 2, 16), 5, 20, seed=0).to(dtype)
    optimiser = make_optimiser(model, BRIEF)
    steps = pretrain(model, optimiser, ragged, BRIEF, micro_batch=8, execution=execution, **options)
    return [step.loss for step in steps]


def test_batches_by_length_change_nothing():
    """The gradient is a mean over sentences, and padding is masked."""
    assert losses(Execution(by_length=True)) == pytest.approx(losses(PLAIN), rel=1e-9)


def test_batches_by_length_save_padding():
    """Micro-batches are as wide as their longest sentence, rounded up to a multiple of eight."""
    batch = ragged(0)
    parts = Execution(by_length=True).parts(batch, 8, 20)
    widths = [part.masked.shape[1] for part in parts]
    assert widths == [min(-(-int(part.lengths.max()) // 8) * 8, 20) for part in parts] == sorted(widths)
    assert widths[0] < 20
    assert torch.cat([part.targets for part in parts]).bincount().equal(batch.targets.bincount())


def test_micro_batches_have_few_shapes():
    """Also if no sentence of a batch has the maximal length."""
    shapes = {
        (part.masked.shape, part.lengths is None)
        for step in range(20)
        for part in Execution(by_length=True).parts(ragged(step).narrowed(), 8, 20)
    }
    assert shapes == {((8, width), False) for width in (8, 16, 20)}


def test_bfloat16_products_train_float32_weights():
    """The loss stays close, is not the same, and falls; weights and moments keep their precision."""
    rough, exact = losses(Execution(autocast=True), torch.float32), losses(PLAIN, torch.float32)
    assert rough == pytest.approx(exact, rel=0.02)
    assert rough != exact


@pytest.mark.parametrize(
    "algorithm", ["adversarial", "trace-penalty", "sharpen-after", "sam", "mask-rate", "dropout"]
)
def test_every_algorithm_trains_in_bfloat16_by_length(algorithm, tmp_path):
    run = replace(trained(algorithm), execution=Execution(autocast=True, by_length=True))
    assert len(Store(tmp_path).get(run).history) == 12


def test_impossible_executions():
    with pytest.raises(ParameterError, match="processes must be a whole number, at least 1; got 0"):
        Execution(processes=0)
    with pytest.raises(ParameterError, match="compiled needs by_length"):
        Execution(compiled=True)


def test_an_execution_is_reduced_to_what_the_shape_supports():
    fast = Execution(autocast=True, compiled=True, by_length=True, processes=2)
    assert fast.for_shape(EncoderShape(8, 2, 1, 16)) == fast
    assert fast.for_shape(BiLSTMShape(8, 1)) == Execution(by_length=True, processes=2)
    assert fast.eager_in_one_process() == Execution(autocast=True, by_length=True)


# Processes


def test_a_single_process_leads_and_averages_nothing():
    assert ALONE.leads
    assert ALONE.mean(0.1) == 0.1
    assert not Process(rank=1, world=2).leads


def test_two_processes_get_the_same_mean(tmp_path):
    with ProcessPoolExecutor(2, FORKING) as pool:
        means = list(pool.map(_mean_of_two, range(2), [str(tmp_path / "meeting")] * 2))
    assert means == [(0.1 + 0.4) / 2] * 2


def _mean_of_two(rank, meeting):
    distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    mean = Process(rank, 2).mean([0.1, 0.4][rank])
    distributed.destroy_process_group()
    return mean
