"""Adaptive sharpness against curvature and ASAM; the learning coefficient against known answers."""

import math

import pytest
import torch
from tiny_models import Unigram, hessian_diagonal, one_word_sentences, predictions, reparametrised, seeded

from sameloss.errors import ParameterError
from sameloss.measures.flatness.hessian import dense_hessian, flat_parameters, population_loss, unflattened
from sameloss.measures.flatness.sharpness import (
    adaptive_sharpness,
    langevin_excess,
    local_learning_coefficient,
    worst_case_adaptive_sharpness,
)
from sameloss.statistics.intervals import Estimate

SCALINGS = ("LayerNorm gains × 2", "queries × 2", "values × 2", "embedding × 2")
SHARP = {"rho": 0.1, "draws": 2, "generator": seeded()}
CHAIN = {"chains": 2, "steps": 4, "batch": 2, "lr": 1e-4, "localisation": 1.0, "generator": seeded()}

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
    """1.5 times what the curvature predicts; against independent directions without antithetic pairs."""
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
    """A minimum, and all parameters zero."""
    truth = torch.full((50, 5), 0.2).double()
    with pytest.raises(ParameterError, match="gradient is zero, so ascent has no direction"):
        worst_case_adaptive_sharpness(Unigram([1.0] * 5), UNIFORM, truth, rho=0.1)


@pytest.mark.parametrize(
    ("fault", "measure", "options"),
    [
        ("draws must be .* at least 2; got 1", adaptive_sharpness, SHARP | {"draws": 1}),
        ("rho must be positive and finite; got -1", adaptive_sharpness, SHARP | {"rho": -1.0}),
        ("rho must be positive and finite; got nan", worst_case_adaptive_sharpness, {"rho": math.nan}),
    ],
)
def test_bad_arguments_of_sharpness(tiny_model, masked, fault, measure, options):
    with pytest.raises(ParameterError, match=fault):
        measure(tiny_model, masked, **options)


# --- The local learning coefficient ---


@pytest.mark.parametrize("localisation", [50.0, 500.0])
def test_langevin_dynamics_of_a_quadratic(localisation):
    """In each direction an autoregression of variance 1 / (a (1 - lr a / 4)), a = n beta h + gamma."""
    curvatures = torch.rand(400, generator=seeded()).double() * 10
    lr, strength = 2e-3, 60.0
    loss = lambda w: 0.5 * (curvatures * (w["x"] - 3).square()).sum()  # noqa: E731
    generator = seeded(1)
    options = {"steps": 500, "lr": lr, "localisation": localisation, "generator": generator}
    centre = {"x": torch.full((400,), 3.0).double()}
    means = torch.tensor([langevin_excess(lambda: loss, centre, strength, **options) for _ in range(4)])
    excess = Estimate.of(strength * means)
    pull = strength * curvatures + localisation
    exact = 0.5 * (strength * curvatures / pull / (1 - lr * pull / 4)).sum().item()
    assert abs(excess.mean - exact) < 4 * excess.standard_error < 0.05 * exact


def test_langevin_dynamics_starts_at_its_centre():
    """After one step from w* = 3 the excess is that of the noise, h lr / 2."""
    loss = lambda w: 0.5 * (w["x"] - 3).square().sum()  # noqa: E731
    options = {"steps": 2, "lr": 1e-4, "localisation": 1.0, "generator": seeded()}
    excess = langevin_excess(lambda: loss, {"x": torch.full((20_000,), 3.0).double()}, 1.0, **options)
    assert excess == pytest.approx(20_000 * 1e-4 / 2, rel=0.05)


def test_learning_coefficient_of_a_regular_minimum():
    """Half the number of directions that matter, (5 - 1) / 2; here h = 1/5 in each of them."""
    options = {"chains": 4, "steps": 300, "batch": 4, "lr": 4e-3, "localisation": 1.0}
    masked, truth = one_word_sentences([0, 1, 2, 3, 4] * 2000), torch.full((10_000, 5), 0.2).double()
    ours = local_learning_coefficient(Unigram([0.2] * 5), masked, truth, generator=seeded(), **options)
    curvature = 10_000 / math.log(10_000) / 5
    pull = curvature + 1
    exact = 2 * curvature / pull / (1 - 4e-3 * pull / 4)
    assert ours.count == 4
    assert abs(ours.mean - exact) < 4 * ours.standard_error < 0.3 * exact


def test_learning_coefficient_of_the_encoder_is_positive_and_reproducible(tiny_model, masked):
    truth = predictions(tiny_model, masked)
    options = {"chains": 2, "steps": 8, "batch": 6, "lr": 1e-4, "localisation": 100.0}
    draw = lambda **more: local_learning_coefficient(tiny_model, masked, truth, **options, **more)  # noqa: E731
    first = draw(generator=seeded())
    assert first.mean > 0
    assert first == draw(generator=seeded())
    assert first != draw(generator=seeded(1))


def test_minibatches_keep_sentences_and_truth_together(tiny_model, masked):
    """At saturation every minibatch is at its own minimum: of order lr, where a gradient is sqrt(lr)."""
    truth = predictions(tiny_model, masked)
    options = {"chains": 4, "steps": 3, "batch": 1, "lr": 1e-10, "localisation": 1.0, "generator": seeded()}
    curvature = hessian_diagonal(tiny_model, masked).sum()
    ours = local_learning_coefficient(tiny_model, masked, truth, **options)
    assert 0 < ours.mean < 12 * 1e-10 * 5 * curvature


def test_a_chain_that_diverges_names_the_rate():
    loss = lambda w: w["x"].square().sum()  # noqa: E731
    options = {"steps": 2000, "lr": 10.0, "localisation": 1.0, "generator": seeded()}
    with pytest.raises(ParameterError, match="The chain diverged at lr = 10; choose a smaller lr"):
        langevin_excess(lambda: loss, {"x": torch.ones(2)}, 1.0, **options)


def test_truth_must_be_of_the_sentences(tiny_model, masked):
    truth = predictions(tiny_model, masked).repeat(2, 1)
    with pytest.raises(ParameterError, match="truth needs one row per sentence, 12 of them; got 24"):
        local_learning_coefficient(tiny_model, masked, truth, **CHAIN)


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ("chains must be .* at least 2; got 1", {"chains": 1}),
        ("steps must be .* at least 1; got 0", {"steps": 0}),
        ("batch must be .* at least 1; got 0", {"batch": 0}),
        ("lr must be positive and finite; got 0", {"lr": 0.0}),
        ("localisation must be finite and not negative; got -1", {"localisation": -1.0}),
    ],
)
def test_bad_arguments_of_the_learning_coefficient(tiny_model, masked, fault, wrong):
    with pytest.raises(ParameterError, match=fault):
        local_learning_coefficient(tiny_model, masked, **CHAIN | wrong)


def test_one_sentence_has_no_learning_coefficient(tiny_model, masked):
    with pytest.raises(ParameterError, match=r"the number of sentences must be .* at least 2; got 1"):
        local_learning_coefficient(tiny_model, masked.rows(slice(1)), **CHAIN)
