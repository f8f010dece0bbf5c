"""Adaptive sharpness against the curvature, its definition, and the step of ASAM, in float64."""

import math

import pytest
import torch
from tiny_models import Unigram, one_word_sentences, predictions, reparametrised, seeded

from sameloss.errors import ModelError, ParameterError
from sameloss.measures.flatness.hessian import dense_hessian, flat_parameters, population_loss, unflattened
from sameloss.measures.flatness.sharpness import adaptive_sharpness, worst_case_adaptive_sharpness
from sameloss.statistics.intervals import Estimate

SCALINGS = ("LayerNorm gains × 2", "queries × 2", "values × 2", "embedding × 2")
SHARP = {"rho": 0.1, "draws": 2, "generator": seeded()}

UNIFORM = one_word_sentences([0, 1, 2, 3, 4] * 10)


@pytest.mark.parametrize("saturated", [True, False])
def test_average_case_sharpness_is_the_adaptive_trace_at_small_rho(tiny_model, masked, saturated):
    """Antithetic pairs cancel the gradient, which away from saturation would hide the curvature."""
    truth = predictions(tiny_model, masked) if saturated else None
    curvature = flat_parameters(tiny_model).square() @ dense_hessian(tiny_model, masked, truth).diagonal()
    options = {"rho": 1e-3, "draws": 150, "generator": seeded()}
    sharpness = adaptive_sharpness(tiny_model, masked, truth, **options)
    assert sharpness.count == 150
    assert abs(sharpness.mean - 1e-6 / 2 * curvature) < 3 * sharpness.standard_error
    assert sharpness.standard_error < (0.1 if saturated else 0.5) * abs(curvature) * 1e-6 / 2


def test_average_case_sharpness_at_large_rho_is_its_definition(tiny_model, masked):
    """Half as much again as the curvature says, in independent directions without antithetic pairs."""
    truth, generator = predictions(tiny_model, masked), seeded(1)
    loss, point = population_loss(tiny_model, masked, truth), flat_parameters(tiny_model)
    steps = 0.3 * point.abs() * torch.randn(150, len(point), generator=generator).double()
    centre = loss(unflattened(tiny_model, point))
    plain = Estimate.of(torch.stack([loss(unflattened(tiny_model, point + s)) - centre for s in steps]))
    ours = adaptive_sharpness(tiny_model, masked, truth, rho=0.3, draws=75, generator=seeded())
    error = math.hypot(plain.standard_error, ours.standard_error)
    assert abs(ours.mean - plain.mean) < 3 * error < 0.4 * plain.mean


def test_worst_case_sharpness_takes_the_step_of_asam(tiny_model, masked):
    loss = population_loss(tiny_model, masked)
    before = loss(dict(tiny_model.named_parameters()))
    before.backward()
    steps = [p.detach().square() * p.grad for p in tiny_model.parameters()]
    length = sum((p.detach() * p.grad).square().sum() for p in tiny_model.parameters()).sqrt()
    result = worst_case_adaptive_sharpness(tiny_model, masked, rho=0.1)
    with torch.no_grad():
        for parameter, step in zip(tiny_model.parameters(), steps, strict=True):
            parameter.add_(0.1 * step / length)
    assert result == pytest.approx((loss(dict(tiny_model.named_parameters())) - before).item(), rel=1e-9)


def test_worst_case_sharpness_beats_random_directions(tiny_model, masked):
    loss, point = population_loss(tiny_model, masked), flat_parameters(tiny_model)
    directions = torch.randn(50, len(point), generator=seeded()).double()
    steps = 1e-3 * point * directions / directions.norm(dim=1, keepdim=True)
    centre = loss(unflattened(tiny_model, point))
    random = max(loss(unflattened(tiny_model, point + step)) - centre for step in steps)
    assert worst_case_adaptive_sharpness(tiny_model, masked, rho=1e-3) > 2 * random > 0


@pytest.mark.parametrize("name", SCALINGS)
def test_adaptive_measures_are_invariant_under_scalings(tiny_model, masked, name):
    def measured(model):
        return torch.tensor(
            [
                adaptive_sharpness(model, masked, rho=0.1, draws=2, generator=seeded()).mean,
                worst_case_adaptive_sharpness(model, masked, rho=0.1),
            ]
        )

    torch.testing.assert_close(measured(reparametrised(tiny_model, name)), measured(tiny_model))


def test_ascent_needs_a_gradient():
    """At the minimum; there is nothing to scale either where all parameters are zero."""
    truth = torch.full((50, 5), 0.2).double()
    with pytest.raises(ParameterError, match="gradient is zero, so ascent has no direction"):
        worst_case_adaptive_sharpness(Unigram([1.0] * 5), UNIFORM, truth, rho=0.1)


@pytest.mark.parametrize(
    ("measure", "options"), [(adaptive_sharpness, SHARP), (worst_case_adaptive_sharpness, {"rho": 0.1})]
)
def test_what_cannot_be_measured_is_refused(tiny_model, broken, masked, measure, options):
    with pytest.raises(ModelError, match="no masked sentences"):
        measure(tiny_model, masked.rows(slice(0)), **options)
    with pytest.raises(ModelError, match="head_bias holds values that are not finite"):
        measure(broken, masked, **options)


@pytest.mark.parametrize(
    ("fault", "measure", "options"),
    [
        ("draws must be at least 2", adaptive_sharpness, SHARP | {"draws": 1}),
        ("rho must be positive and finite; got -1", adaptive_sharpness, SHARP | {"rho": -1.0}),
        ("rho must be positive and finite; got nan", worst_case_adaptive_sharpness, {"rho": math.nan}),
    ],
)
def test_bad_requests_say_what_is_valid(tiny_model, masked, fault, measure, options):
    with pytest.raises(ParameterError, match=fault):
        measure(tiny_model, masked, **options)
