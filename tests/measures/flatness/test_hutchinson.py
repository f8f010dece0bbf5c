"""Traces from random directions against the dense Hessian and known variances."""

import pytest
import tiny_models
import torch
from tiny_models import predictions, seeded
from torch import nn
from torch.func import jacrev
from torch.nn import functional as F

from sameloss.errors import ParameterError
from sameloss.measures.flatness.hessian import (
    _hutch_plus_plus,
    _hutchinson,
    dense_hessian,
    fisher_gap,
    flat_parameters,
    hutchinson_trace,
    unflattened,
)
from sameloss.statistics.intervals import Estimate


class Bigram(nn.Module):
    """Logits of a masked word given the next token: cheap and curved, with a large diagonal."""

    def __init__(self):
        super().__init__()
        self.word = nn.Parameter(torch.randn(3, 4, generator=seeded(2), dtype=torch.float64))

    def forward(self, masked, positions, lengths=None):
        return self.word.sinh().T[masked[torch.arange(len(masked)), (positions + 1) % 4]]


class Temperature(nn.Module):
    """One parameter: random signs square to 1, so that every draw is exact."""

    def __init__(self):
        super().__init__()
        self.word = nn.Parameter(torch.tensor([0.7], dtype=torch.float64))

    def forward(self, masked, positions, lengths=None):
        return self.word.exp() * F.one_hot(masked.sum(1) % 3, 3)


def exact_fisher(model, masked):
    """Return E sum_y f[y] ||grad log f[y]||²."""
    start = flat_parameters(model)

    def log_probabilities(flat):
        parameters = unflattened(model, flat)
        inputs = (masked.masked, masked.positions, masked.lengths)
        return torch.func.functional_call(model, parameters, inputs).log_softmax(-1)

    norms = jacrev(log_probabilities)(start).square().sum(-1)
    return (log_probabilities(start).exp() * norms).sum(-1).mean().item()


def repeated(masked, times, truth=None):
    """Repeat sentences and conditionals, so that every batch of twelve has the same Hessian."""
    return tiny_models.repeated(masked, times), None if truth is None else truth.repeat(times, 1)


def diagonal(model, hessian):
    """Return the trace of a dense Hessian by parameter."""
    return {name: part.sum().item() for name, part in unflattened(model, hessian.diag()).items()}


def assert_unbiased(draws, expected, largest_error):
    """Require means within four standard errors of their expectations, and small errors."""
    for name, values in draws.items():
        estimate = Estimate.of(values)
        assert abs(estimate.mean - expected[name]) < 4 * estimate.standard_error + 1e-12, name
    total = Estimate.of(torch.stack(list(draws.values())).sum(0))
    assert abs(total.mean - sum(expected.values())) < 4 * total.standard_error
    assert total.standard_error < largest_error


@pytest.mark.parametrize("vectors", ["rademacher", "gaussian"])
def test_hutchinson_is_unbiased_by_parameter(tiny_model, masked, vectors):
    """At the predictions, where the trace is far from 0; two directions a draw."""
    truth = predictions(tiny_model, masked)
    expected = diagonal(tiny_model, dense_hessian(tiny_model, masked, truth))
    many, q = repeated(masked, 60, truth)
    trace = hutchinson_trace(tiny_model, many, q, batch=12, draws=2, vectors=vectors, generator=seeded())
    assert_unbiased(trace.draws, expected, largest_error=0.1 * sum(expected.values()))


@pytest.mark.parametrize("vectors", ["rademacher", "gaussian"])
def test_hutchinson_variance_is_the_known_one(masked, vectors):
    """2 ||H||² for Gaussian directions, 2 (||H||² - ||diag H||²) for random signs."""
    model = Bigram()
    hessian = dense_hessian(model, masked)
    everything, diag = hessian.square().sum().item(), hessian.diag().square().sum().item()
    variances = {"rademacher": 2 * (everything - diag), "gaussian": 2 * everything}
    many, _ = repeated(masked, 300)
    trace = hutchinson_trace(model, many, batch=12, vectors=vectors, generator=seeded())
    squares = Estimate.of((trace.draws["word"] - hessian.trace()).square())
    assert abs(squares.mean - variances[vectors]) < 4 * squares.standard_error
    assert 4 * squares.standard_error < abs(variances["gaussian"] - variances["rademacher"])


def test_directions_average_within_a_batch(masked):
    """Four directions a draw have a quarter of the variance; draws stay one a batch."""
    many, _ = repeated(masked, 100)
    spread = []
    for draws in (1, 4):
        trace = hutchinson_trace(Bigram(), many, batch=12, draws=draws, generator=seeded(draws))
        assert trace.total.count == 100
        spread.append(trace.total.standard_error**2)
    assert 2.2 < spread[0] / spread[1] < 7


def test_standard_error_covers_the_population(masked):
    """Sentences drawn from the twelve: both they and the directions contribute to the error."""
    model, covered = Bigram(), 0
    truth = dense_hessian(model, masked).trace().item()
    for seed in range(200):
        generator = seeded(seed)
        rows = torch.randint(12, (21,), generator=generator)
        estimate = hutchinson_trace(model, masked.rows(rows), batch=2, generator=generator).total
        covered += abs(estimate.mean - truth) < 2 * estimate.standard_error
    assert 0.90 <= covered / 200 <= 0.99


def test_cost_is_counted(head, masked):
    trace = hutchinson_trace(head, masked, batch=5, draws=3, generator=seeded())
    assert trace.cost[:2] == (10 * 3, 3 * 10 * 3)
    assert trace.cost.seconds > 0
    plus = hutchinson_trace(head, masked, batch=5, draws=3, rank=2, generator=seeded())
    assert plus.cost[:2] == (10 * 7, 3 * 10 * 7)


def test_a_draw_is_the_trace_of_its_own_batch(masked, truth):
    model = Temperature()
    trace = hutchinson_trace(model, masked, truth, batch=5, generator=seeded())
    assert trace.total.count == 2  # the last two sentences are dropped
    for draw, rows in zip(trace.draws["word"], (slice(0, 5), slice(5, 10)), strict=True):
        expected = dense_hessian(model, masked.rows(rows), truth[rows]).trace()
        torch.testing.assert_close(draw, expected)


def test_parts_add_up(tiny_model, masked, truth):
    arguments = {"batch": 6, "generator": seeded()}
    for trace in (
        hutchinson_trace(tiny_model, masked, truth, **arguments),
        hutchinson_trace(tiny_model, masked, truth, rank=3, **arguments),
        fisher_gap(tiny_model, masked, truth, **arguments),
    ):
        assert set(trace.draws) == {name for name, _ in tiny_model.named_parameters()}
        assert sum(part.mean for part in trace.parts.values()) == pytest.approx(trace.total.mean, rel=1e-12)


@pytest.mark.parametrize("rank", [2, 3, 9])
def test_hutch_plus_plus_is_exact_from_the_rank_on(head, masked, rank):
    """The logits are linear in the 7 biases; up to a constant the three of them are two: rank 2."""
    hessian = dense_hessian(head, masked)
    assert int(torch.linalg.matrix_rank(hessian, rtol=1e-10)) == 2
    many, _ = repeated(masked, 2)
    trace = hutchinson_trace(head, many, batch=12, rank=rank, generator=seeded())
    expected = diagonal(head, hessian)
    for name, values in trace.draws.items():
        assert values.tolist() == pytest.approx([expected[name]] * 2, rel=1e-9)


def test_estimators_are_unbiased_for_the_diagonal():
    """Averaged over all 32 sign vectors they are exact, entry by entry, even with a bad sketch."""
    root = torch.randn(5, 5, generator=seeded(), dtype=torch.float64)
    hessian, signs = root + root.T, torch.cartesian_prod(*[torch.tensor([-1.0, 1.0]).double()] * 5)
    for mean in (
        _hutchinson(hessian.mv, signs),
        _hutch_plus_plus(hessian.mv, torch.randn(2, 5, generator=seeded(1)).double(), signs),
    ):
        torch.testing.assert_close(mean, hessian.diag(), rtol=1e-12, atol=1e-12)


def test_hutch_plus_plus_beats_hutchinson_at_equal_products(tiny_model, masked):
    """Twelve products a draw: at the predictions few eigenvalues carry the trace."""
    truth = predictions(tiny_model, masked)
    many, q = repeated(masked, 10, truth)
    plain = hutchinson_trace(tiny_model, many, q, batch=12, draws=12, generator=seeded()).total
    plus = hutchinson_trace(tiny_model, many, q, batch=12, rank=4, draws=4, generator=seeded()).total
    assert plus.standard_error < plain.standard_error / 2
    trace = dense_hessian(tiny_model, masked, truth).trace().item()
    assert abs(plus.mean - trace) < 4 * plus.standard_error


def test_gap_vanishes_at_saturation(tiny_model, masked):
    """Lemma 3.2, direction by direction; the Fisher trace is then the Hessian's."""
    truth = predictions(tiny_model, masked)
    gap = fisher_gap(tiny_model, masked, truth, batch=4, generator=seeded())
    for values in gap.draws.values():
        torch.testing.assert_close(values, torch.zeros(3).double(), rtol=0, atol=1e-12)
    trace = dense_hessian(tiny_model, masked, truth).trace().item()
    assert exact_fisher(tiny_model, masked) == pytest.approx(trace, rel=1e-9)


@pytest.mark.parametrize("labels", ["conditionals", "targets"])
def test_gap_is_hessian_minus_fisher(tiny_model, masked, truth, labels):
    truth = truth if labels == "conditionals" else None
    expected = dense_hessian(tiny_model, masked, truth).trace().item() - exact_fisher(tiny_model, masked)
    many, q = repeated(masked, 12, truth)
    gap = fisher_gap(tiny_model, many, q, batch=12, draws=12, generator=seeded()).total
    assert abs(gap.mean - expected) < 4 * gap.standard_error
    assert 5 * gap.standard_error < abs(expected)


def test_gap_varies_less_than_the_hessian_near_saturation(tiny_model, masked, truth):
    near = 0.95 * predictions(tiny_model, masked) + 0.05 * truth
    many, q = repeated(masked, 20, near)
    gap = fisher_gap(tiny_model, many, q, batch=12, generator=seeded()).total
    whole = hutchinson_trace(tiny_model, many, q, batch=12, generator=seeded()).total
    assert gap.standard_error < whole.standard_error / 5


def test_a_single_batch_is_refused(tiny_model, masked):
    with pytest.raises(ParameterError, match=r"Two batches, .*, take 14 sentences; got 12"):
        hutchinson_trace(tiny_model, masked, batch=7, generator=seeded())


def test_bad_requests_say_what_is_valid(tiny_model, masked, truth):
    arguments = {"batch": 6, "generator": seeded()}
    with pytest.raises(ParameterError, match="draws must be a whole number, at least 1; got 0"):
        fisher_gap(tiny_model, masked, truth, draws=0, **arguments)
    with pytest.raises(ParameterError, match="rank must be a whole number, at least 0; got -1"):
        hutchinson_trace(tiny_model, masked, rank=-1, **arguments)
    with pytest.raises(ParameterError, match="batch must be a whole number, at least 1; got 0"):
        hutchinson_trace(tiny_model, masked, batch=0, generator=seeded())
