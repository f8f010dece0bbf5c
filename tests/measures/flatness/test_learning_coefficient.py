"""The local learning coefficient against quadratic losses with a known answer."""

import math

import pytest
import torch
from tiny_models import Unigram, hessian_diagonal, one_word_sentences, predictions, seeded

from sameloss.errors import ModelError, ParameterError
from sameloss.measures.flatness.sharpness import langevin_excess, local_learning_coefficient
from sameloss.statistics.intervals import Estimate

UNIFORM = one_word_sentences([0, 1, 2, 3, 4] * 10)


@pytest.mark.parametrize("localisation", [50.0, 500.0])
def test_langevin_dynamics_of_a_quadratic(localisation):
    """An autoregression of variance 1 / (a (1 - lr a / 4)), a = n beta h + gamma, in each direction."""
    curvatures = torch.rand(400, generator=seeded()).double() * 10
    lr, strength = 2e-3, 60.0
    loss = lambda w: 0.5 * (curvatures * (w["x"] - 3).square()).sum()  # noqa: E731
    generator = seeded(1)
    options = {"steps": 350, "burn_in": 100, "lr": lr, "localisation": localisation, "generator": generator}
    centre = {"x": torch.full((400,), 3.0).double()}
    means = torch.tensor([langevin_excess(lambda: loss, centre, strength, **options) for _ in range(4)])
    excess = Estimate.of(strength * means)
    pull = strength * curvatures + localisation
    exact = 0.5 * (strength * curvatures / pull / (1 - lr * pull / 4)).sum().item()
    assert abs(excess.mean - exact) < 4 * excess.standard_error < 0.05 * exact


def test_langevin_dynamics_starts_at_its_centre():
    """After one step from w* = 3 the excess is that of the noise, h lr / 2."""
    loss = lambda w: 0.5 * (w["x"] - 3).square().sum()  # noqa: E731
    options = {"steps": 2, "burn_in": 1, "lr": 1e-4, "localisation": 1.0, "generator": seeded()}
    excess = langevin_excess(lambda: loss, {"x": torch.full((20_000,), 3.0).double()}, 1.0, **options)
    assert excess == pytest.approx(20_000 * 1e-4 / 2, rel=0.05)


def test_learning_coefficient_of_a_regular_minimum():
    """Half the number of directions that matter, (5 - 1) / 2; here h = 1/5 in each of them."""
    options = {"chains": 4, "steps": 300, "batch": 4, "lr": 4e-3, "localisation": 1.0, "n": 10_000}
    truth = torch.full((50, 5), 0.2).double()
    ours = local_learning_coefficient(Unigram([0.2] * 5), UNIFORM, truth, generator=seeded(), **options)
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
    assert first == draw(generator=seeded(), n=12)
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
    options = {"steps": 2000, "burn_in": 0, "lr": 10.0, "localisation": 1.0, "generator": seeded()}
    with pytest.raises(ParameterError, match="left the finite numbers at lr = 10; choose a smaller lr"):
        langevin_excess(lambda: loss, {"x": torch.ones(2)}, 1.0, **options)


def test_truth_must_be_of_the_sentences(tiny_model, masked):
    options = {"chains": 2, "steps": 4, "batch": 2, "lr": 1e-4, "localisation": 1.0, "generator": seeded()}
    truth = predictions(tiny_model, masked).repeat(2, 1)
    with pytest.raises(ParameterError, match="truth needs a row a sentence, 12 of them; got 24"):
        local_learning_coefficient(tiny_model, masked, truth, **options)


def test_what_cannot_be_measured_is_refused(tiny_model, broken, masked):
    chain = {"chains": 2, "steps": 4, "batch": 2, "lr": 1e-4, "localisation": 1.0, "generator": seeded()}
    with pytest.raises(ModelError, match="no masked sentences"):
        local_learning_coefficient(tiny_model, masked.rows(slice(0)), n=100, **chain)
    with pytest.raises(ModelError, match="head_bias holds values that are not finite"):
        local_learning_coefficient(broken, masked, n=100, **chain)


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ("chains must be at least 2", {"chains": 1}),
        ("must be at least 2; got 1", {"n": 1}),
        ("steps must be positive; got 0", {"steps": 0}),
        ("batch must be positive; got 0", {"batch": 0}),
        ("lr must be positive and finite; got 0", {"lr": 0.0}),
        ("localisation must not be", {"localisation": -1.0}),
    ],
)
def test_bad_requests_say_what_is_valid(tiny_model, masked, fault, wrong):
    chain = {"chains": 2, "steps": 4, "batch": 2, "lr": 1e-4, "localisation": 1.0, "generator": seeded()}
    with pytest.raises(ParameterError, match=fault):
        local_learning_coefficient(tiny_model, masked, **chain | wrong)
