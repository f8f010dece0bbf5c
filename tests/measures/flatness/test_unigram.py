"""Every measure of a model whose Hessian is known by hand: diag f - f f^T, f = (1/2, 1/4, 1/4)."""

import pytest
import torch
from tiny_models import Unigram, one_word_sentences, seeded

from sameloss.measures.flatness.hessian import (
    dense_hessian,
    fisher_gap,
    hutchinson_trace,
    top_eigenvalue,
)
from sameloss.measures.flatness.sharpness import (
    adaptive_sharpness,
    group_diagonals,
    local_learning_coefficient,
    worst_case_adaptive_sharpness,
)
from sameloss.measures.flatness.trace import fisher_trace, minibatch_trace, relative_trace

MODEL, MASKED = Unigram([0.5, 0.25, 0.25]), one_word_sentences([0, 0, 1, 2] * 25)
PROBABILITIES = torch.tensor([0.5, 0.25, 0.25])


def test_exact_measures():
    assert MODEL(MASKED.masked, MASKED.positions).exp()[3].tolist() == pytest.approx([0.5, 0.25, 0.25])
    eigenvalues = torch.linalg.eigvalsh(dense_hessian(MODEL, MASKED))
    assert eigenvalues.tolist() == pytest.approx([0, 1 / 4, 3 / 8], abs=1e-12)
    assert top_eigenvalue(MODEL, MASKED) == pytest.approx(3 / 8)
    trace = fisher_trace(MODEL, MASKED, estimator="exact")
    assert trace.total == pytest.approx((0.625, 0.0, 100))
    assert relative_trace(MODEL, trace).mean == pytest.approx(2.703, abs=5e-4)  # (log² 2 + 2 log² 4) 5/8
    diagonals = group_diagonals(MODEL, MASKED)
    assert diagonals.values[0].tolist() == pytest.approx([0.25, 0.1875, 0.1875])  # f (1 - f)
    assert diagonals.adam_trace().mean == pytest.approx(1.366, abs=5e-4)
    draws = {"batch": 4, "generator": seeded()}
    assert fisher_gap(MODEL, MASKED, None, **draws).total == (0.0, 0.0, 25)  # its logits are linear
    plus = hutchinson_trace(MODEL, MASKED, rank=3, **draws).total  # the sketch spans the whole range
    assert plus[:2] == pytest.approx((0.625, 0.0), abs=1e-9)
    sharp = worst_case_adaptive_sharpness(Unigram([0.8, 0.1, 0.1]), MASKED, rho=0.1)
    assert sharp == pytest.approx(0.051, abs=5e-4)


def test_random_measures():
    for estimate in (hutchinson_trace, minibatch_trace):
        trace = estimate(MODEL, MASKED, batch=4, generator=seeded()).total
        assert abs(trace.mean - 0.625) < 3 * trace.standard_error < 0.4
    sharpness = adaptive_sharpness(MODEL, MASKED, rho=0.1, draws=100, generator=seeded())
    assert abs(sharpness.mean - 0.1**2 / 2 * 0.841) < 3 * sharpness.standard_error < 2e-3
    chain = {"chains": 8, "steps": 200, "batch": 4, "lr": 2e-3, "localisation": 1.0, "generator": seeded()}
    masked, truth = one_word_sentences([0, 0, 1, 2] * 2500), PROBABILITIES.expand(10_000, 3)
    coefficient = local_learning_coefficient(MODEL, masked, truth, **chain)
    assert coefficient.mean == pytest.approx(1.2, abs=0.3)  # half of two curved directions, and 0.2 by lr
