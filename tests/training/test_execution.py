"""Faster ways to execute a training give the same training."""

from dataclasses import replace

import pytest
import torch
from recorded.tiny_runs import trained

from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.store.store import Store
from sameloss.training.corpus import Corpus, write_corpus
from sameloss.training.loop import PLAIN, Execution, Optimisation, make_optimiser, pretrain

SETTINGS = Optimisation(steps=12, batch=32, lr=1e-2)


@pytest.fixture
def corpus(tiny_language, tmp_path):
    write_corpus(tiny_language, 500, 0, tmp_path)
    return Corpus(tmp_path)


def ragged(step: int) -> Batch:
    """Return sentences of 3 to 20 tokens, of five words."""
    generator = torch.Generator().manual_seed(step)
    lengths = torch.randint(3, 21, (32,), generator=generator)
    tokens = torch.randint(1, 6, (32, 20), generator=generator)
    positions = (torch.rand(32, generator=generator) * lengths).long()
    targets = tokens[torch.arange(32), positions] - 1
    masked = tokens.where(torch.arange(20) != positions[:, None], 0)
    return Batch(masked.where(torch.arange(20) < lengths[:, None], 0), positions, targets, lengths)


def losses(execution: Execution, dtype=torch.float64, **options) -> list[float]:
    """Return the losses of a short training."""
    model = Encoder(EncoderShape(8, 2, 2, 16), 5, 20, seed=0).to(dtype)
    optimiser = make_optimiser(model, SETTINGS)
    steps = pretrain(model, optimiser, ragged, SETTINGS, micro_batch=8, execution=execution, **options)
    return [step.loss for step in steps]


def test_batches_by_length_change_nothing():
    """The gradient is a mean over sentences, in whatever order; padding is hidden either way."""
    assert losses(Execution(by_length=True)) == pytest.approx(losses(PLAIN), rel=1e-9)


def test_batches_by_length_leave_padding_out():
    """Micro-batches are as wide as their longest sentence, in steps of eight columns; none is lost."""
    batch = ragged(0)
    parts = Execution(by_length=True).parts(batch, 8, 20)
    widths = [part.masked.shape[1] for part in parts]
    assert widths == [min(-(-int(part.lengths.max()) // 8) * 8, 20) for part in parts] == sorted(widths)
    assert widths[0] < 20
    assert torch.cat([part.targets for part in parts]).bincount().equal(batch.targets.bincount())


def test_micro_batches_have_few_shapes():
    """Each is compiled; also where no sentence of a batch is as long as the longest there is."""
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


def test_an_execution_is_brought_down_to_what_the_shape_allows():
    fast = Execution(autocast=True, compiled=True, by_length=True, processes=2)
    assert fast.for_shape(EncoderShape(8, 2, 1, 16)) == fast
    assert fast.for_shape(BiLSTMShape(8, 1)) == Execution(by_length=True, processes=2)
    assert fast.eager_in_one_process() == Execution(autocast=True, by_length=True)
