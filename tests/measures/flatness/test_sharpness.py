"""Measures of flatness against dense Hessians, closed forms and statistics with power, in float64.

Where the truth is the model's own predictions, Fisher and Hessian agree (Lemma 3.2).
"""

import math
from copy import deepcopy

import pytest
import torch
from torch import nn

from sameloss.errors import ModelError, ParameterError
from sameloss.languages import PCFGSpec
from sameloss.languages.masking import Batch, mask_batch
from sameloss.measures.flatness.diagonal import (
    GroupDiagonals,
    adam_trace,
    adaptive_trace,
    group_diagonals,
    jackknife,
)
from sameloss.measures.flatness.estimated_trace import Cost, EstimatedTrace
from sameloss.measures.flatness.hessian import dense_hessian, flat_parameters, population_loss, unflattened
from sameloss.measures.flatness.learning_coefficient import langevin_excess, local_learning_coefficient
from sameloss.measures.flatness.sharpness import (
    adaptive_sharpness,
    relative_trace,
    top_eigenvalue,
    worst_case_adaptive_sharpness,
)
from sameloss.models.reparametrise import REPARAMETRISATIONS
from sameloss.statistics.estimate import Estimate

SCALINGS = ("LayerNorm gains × 2", "queries × 2", "values × 2", "embedding × 2")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def masked(tiny_language):
    return mask_batch(tiny_language.sample(12, seeded()), torch.arange(12) % 4)


@pytest.fixture
def padded():
    language = PCFGSpec(2, 2, 2, 1, 2, 3, 2, 1.0, 1.0, early_stop=(0.3, 0.6), seed=5).build()
    return mask_batch(language.sample(12, seeded()), torch.zeros(12).long())


@torch.no_grad()
def predictions(model, masked):
    return model(masked.masked, masked.positions, masked.lengths).softmax(-1)


def hessian_diagonal(model, masked):
    """Return the exact diagonal at saturation; rounding leaves some zeros slightly negative."""
    return dense_hessian(model, masked, predictions(model, masked)).diagonal().clamp_min(0)


def repeated(masked, times):
    return masked.rows(torch.arange(len(masked.masked)).repeat(times))


def reparametrised(model, name):
    return REPARAMETRISATIONS[name](model, seeded())


class Unigram(nn.Module):
    """Predicts the same words behind every mask; the sum of its logits does not matter."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, masked, positions, lengths=None):
        return self.logits.expand(len(masked), -1)


UNIFORM = Batch(torch.zeros(50, 3).long(), torch.zeros(50).long(), torch.arange(50) % 5, None)


# The largest eigenvalue


@pytest.mark.parametrize("shift", [None, 0, 1])
def test_top_eigenvalue_matches_the_dense_hessian(tiny_model, masked, shift):
    """Away from saturation the smallest eigenvalue is the largest in absolute value."""
    truth = None if shift is None else predictions(tiny_model, masked).roll(shift, -1)
    eigenvalues = torch.linalg.eigvalsh(dense_hessian(tiny_model, masked, truth))
    assert shift == 0 or eigenvalues[0] < -1.5 * eigenvalues[-1]
    assert top_eigenvalue(tiny_model, masked, truth) == pytest.approx(eigenvalues[-1].item(), rel=1e-3)


def test_top_eigenvalue_is_reproducible(tiny_model, masked):
    assert top_eigenvalue(tiny_model.float(), masked, seed=3) == top_eigenvalue(tiny_model, masked, seed=3)


def test_lanczos_that_does_not_converge_says_so():
    """The largest eigenvalues of diag(p) - pp^T crowd together."""
    ramp = torch.arange(1.0, 2001).double()
    truth = (ramp / ramp.sum()).expand(50, -1)
    with pytest.raises(ParameterError, match=r"did not find .* in 2 restarts; allow a larger tolerance"):
        top_eigenvalue(Unigram(truth[0].log()), UNIFORM, truth, tolerance=1e-9, restarts=2)


# The diagonal, and what is made of it


@pytest.mark.parametrize("batch", ["masked", "padded"])
def test_diagonal_matches_the_dense_hessian(tiny_model, batch, request):
    masked = request.getfixturevalue(batch)
    diagonals = group_diagonals(tiny_model, masked, estimator="exact", groups=10)
    assert sorted(diagonals.sizes.tolist()) == [1] * 8 + [2] * 2
    mean = diagonals.sizes.double() @ diagonals.values / 12
    torch.testing.assert_close(mean, hessian_diagonal(tiny_model, masked), rtol=1e-9, atol=1e-12)


def test_every_group_is_the_diagonal_of_its_sentences(tiny_model, masked, monkeypatch):
    monkeypatch.setattr(
        "sameloss.measures.flatness.diagonal.GRADIENT_BYTES", {"cpu": 14_000}
    )  # seven gradients
    diagonals = group_diagonals(tiny_model, repeated(masked, 3), estimator="exact", groups=12)
    for group in (0, 5, 11):
        own = repeated(masked, 3).rows(slice(3 * group, 3 * group + 3))
        expected = hessian_diagonal(tiny_model, own)
        torch.testing.assert_close(diagonals.values[group], expected, rtol=1e-9, atol=1e-12)


def test_sampled_diagonals_are_unbiased(tiny_model, masked):
    diagonals = group_diagonals(tiny_model, repeated(masked, 400), generator=seeded(), labels=2, groups=400)
    truth = hessian_diagonal(tiny_model, masked)
    there = truth > 1e-9
    assert not diagonals.values[:, ~there].gt(1e-9).any()
    error = diagonals.values.std(0) / 20
    z = ((diagonals.values.mean(0) - truth) / error)[there]
    assert z.abs().max() < 4.5
    assert (error / truth)[there].median() < 0.1


def test_traces_match_the_dense_hessian(tiny_model, masked):
    """Where every group is the same sentences there is neither noise nor a bias to take off."""
    options = {"estimator": "exact", "groups": 10}
    diagonal, theta = hessian_diagonal(tiny_model, masked), flat_parameters(tiny_model)
    adam = adam_trace(tiny_model, repeated(masked, 10), **options)
    adaptive = adaptive_trace(tiny_model, repeated(masked, 10), **options)
    assert adam.mean == pytest.approx(diagonal.sqrt().sum().item(), rel=1e-6)
    assert adaptive.mean == pytest.approx((theta.square() @ diagonal).item(), rel=1e-9)
    assert adam.count == adaptive.count == 120
    assert max(adam.standard_error, adaptive.standard_error) < 1e-6


def test_one_pass_serves_both_traces(tiny_model, masked):
    both = group_diagonals(tiny_model, repeated(masked, 4), generator=seeded())
    options = {"masked": repeated(masked, 4), "generator": seeded()}
    assert both.adam_trace() == adam_trace(tiny_model, **options)
    options["generator"].manual_seed(0)
    assert both.adaptive_trace(tiny_model) == adaptive_trace(tiny_model, **options)


def test_jackknife_of_a_mean_is_the_mean():
    values = torch.rand(15, 3, generator=seeded()).double()
    weights = torch.tensor([1.0, -2.0, 3.0]).double()
    equal = jackknife(GroupDiagonals(values, torch.full((15,), 4)), lambda d: weights @ d)
    mean = Estimate.of(values @ weights)
    assert equal == pytest.approx((mean.mean, mean.standard_error, 60))
    sizes = torch.tensor([4, 5, 6] * 5)
    unequal = jackknife(GroupDiagonals(values, sizes), lambda d: weights @ d)
    assert unequal.mean == pytest.approx((sizes.double() @ values @ weights / 75).item())


def test_jackknife_of_unequal_groups_has_the_error_of_a_weighted_mean():
    """Group means of n_g sentences have variance 1 / n_g, so their weighted mean has 1 / N."""
    sizes = torch.tensor([2, 20] * 10)
    draws = torch.randn(300, 20, 1, generator=seeded()).double() / sizes[:, None] ** 0.5
    errors = [jackknife(GroupDiagonals(values, sizes), lambda d: d.sum()).standard_error for values in draws]
    assert torch.tensor(errors).square().mean().item() == pytest.approx(1 / 220, rel=0.1)


@pytest.fixture
def samples(tiny_model, masked):
    """Return 200 independent samples of 40 sentences in 20 groups, from the twelve as population."""
    generator = seeded()
    rows = torch.randint(12, (200 * 40,), generator=generator)
    options = {"generator": generator, "groups": 200 * 20}
    diagonals = group_diagonals(tiny_model, masked.rows(rows), **options)
    parts = zip(diagonals.values.split(20), diagonals.sizes.split(20), strict=True)
    return [GroupDiagonals(*part) for part in parts]


def test_jackknife_takes_the_bias_off(tiny_model, masked, samples):
    """The first-order error has mean 0 and is subtracted, so that the bias of the rest shows."""
    truth = hessian_diagonal(tiny_model, masked)
    slope = torch.where(truth > 1e-9, 0.5 / truth.sqrt(), 0)
    first_order = torch.stack([slope @ (sample.values.mean(0) - truth) for sample in samples])
    plain = torch.stack([sample.values.mean(0).sqrt().sum() for sample in samples])
    corrected = torch.tensor([sample.adam_trace().mean for sample in samples])
    before, after = (Estimate.of(v - truth.sqrt().sum() - first_order) for v in (plain, corrected))
    assert before.mean < -10 * before.standard_error
    assert abs(after.mean) < 3 * after.standard_error
    assert after.standard_error < 0.1 * abs(before.mean)


def test_standard_errors_cover_the_truth(tiny_model, masked, samples):
    """Of 200 estimates about 186 lie within two standard errors of 19 degrees of freedom."""
    diagonal, theta = hessian_diagonal(tiny_model, masked), flat_parameters(tiny_model)
    truths = diagonal.sqrt().sum(), theta.square() @ diagonal
    estimates = [(s.adam_trace(), s.adaptive_trace(tiny_model)) for s in samples]
    for truth, drawn in zip(truths, zip(*estimates, strict=True), strict=True):
        covered = sum(abs(e.mean - truth) < 2 * e.standard_error for e in drawn)
        assert 173 <= covered <= 196


# Adaptive sharpness


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
                adaptive_trace(model, masked, estimator="exact", groups=10).mean,
                adaptive_sharpness(model, masked, rho=0.1, draws=2, generator=seeded()).mean,
                worst_case_adaptive_sharpness(model, masked, rho=0.1),
            ]
        )

    torch.testing.assert_close(measured(reparametrised(tiny_model, name)), measured(tiny_model))


@pytest.mark.parametrize("name", ["heads rotated", "neurons permuted"])
def test_eigenvalues_are_invariant_under_rotations(tiny_model, masked, name):
    changed = reparametrised(tiny_model, name)
    expected = pytest.approx(top_eigenvalue(tiny_model, masked), rel=1e-9)
    assert top_eigenvalue(changed, masked, seed=1) == expected


# The trace relative to the weights


def test_relative_trace_by_hand():
    model = nn.ModuleDict({"a": nn.Linear(1, 2)})
    with torch.no_grad():
        model["a"].weight.copy_(torch.tensor([[3.0], [4.0]]))  # squared norm 25
        model["a"].bias.copy_(torch.tensor([1.0, 1.0]))  # 2
    draws = {"a.weight": torch.tensor([1.0, 2.0]), "a.bias": torch.tensor([10.0, 0.0])}
    result = relative_trace(model, EstimatedTrace(draws, Cost(2, 2, 0.0)))
    assert result == pytest.approx((47.5, 2.5, 2))  # of 25 + 20 and 50


@pytest.mark.parametrize(
    "name", ["LayerNorm gains × 2", "embedding × 2", "heads rotated", "neurons permuted"]
)
def test_relative_trace_is_invariant_where_whole_tensors_change(tiny_model, masked, name):
    def measured(model):
        parts = unflattened(model, hessian_diagonal(model, masked))
        draws = {part: value.sum().expand(2) for part, value in parts.items()}
        return relative_trace(model, EstimatedTrace(draws, Cost(2, 2, 0.0))).mean

    assert measured(reparametrised(tiny_model, name)) == pytest.approx(measured(tiny_model), rel=1e-9)


# The local learning coefficient


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
    ours = local_learning_coefficient(
        Unigram(torch.zeros(5).double()), UNIFORM, truth, generator=seeded(), **options
    )
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
    assert first == draw(generator=seeded(), n=12, inverse_temperature=1 / math.log(12), burn_in=4)
    assert first != draw(generator=seeded(1))


def test_minibatches_keep_sentences_and_truth_together(tiny_model, masked):
    """At saturation every minibatch is at its own minimum: of order lr, where a gradient is sqrt(lr)."""
    truth = predictions(tiny_model, masked)
    options = {"chains": 4, "steps": 3, "batch": 1, "lr": 1e-10, "localisation": 1.0, "generator": seeded()}
    curvature = hessian_diagonal(tiny_model, masked).sum()
    ours = local_learning_coefficient(tiny_model, masked, truth, inverse_temperature=1.0, **options)
    assert 0 < ours.mean < 12 * 1e-10 * 5 * curvature


def test_a_chain_that_diverges_names_the_rate():
    loss = lambda w: w["x"].square().sum()  # noqa: E731
    options = {"steps": 2000, "burn_in": 0, "lr": 10.0, "localisation": 1.0, "generator": seeded()}
    with pytest.raises(ParameterError, match="left the finite numbers at lr = 10; choose a smaller lr"):
        langevin_excess(lambda: loss, {"x": torch.ones(2)}, 1.0, **options)


# What cannot be measured


def test_bad_requests_say_what_is_valid(tiny_model, masked):
    chain = {"chains": 2, "steps": 4, "batch": 2, "lr": 1e-4, "localisation": 1.0, "generator": seeded()}
    sharp = {"rho": 0.1, "draws": 2, "generator": seeded()}
    sampled = {"generator": seeded(), "groups": 10}
    trace = EstimatedTrace({"strange.weight": torch.ones(2)}, Cost(2, 2, 0.0))
    faults = [
        ("from 10 to the number of sentences, here 12; got 13", adaptive_trace, masked, {"groups": 13}),
        ("from 10 to the number of sentences, here 12; got 9", adam_trace, masked, {"groups": 9}),
        ("labels must be positive; got 0", adam_trace, masked, sampled | {"labels": 0}),
        ("Sampled labels need a generator", adam_trace, masked, {"groups": 10}),
        ("draws must be at least 2", adaptive_sharpness, masked, sharp | {"draws": 1}),
        ("rho must be positive and finite; got -1", adaptive_sharpness, masked, sharp | {"rho": -1.0}),
        (
            "rho must be positive and finite; got nan",
            worst_case_adaptive_sharpness,
            masked,
            {"rho": math.nan},
        ),
        ("chains must be at least 2", local_learning_coefficient, masked, chain | {"chains": 1}),
        ("must be at least 2; got 1", local_learning_coefficient, masked, chain | {"n": 1}),
        ("from 0 to steps - 1 = 3; got 4", local_learning_coefficient, masked, chain | {"burn_in": 4}),
        ("batch must be positive; got 0", local_learning_coefficient, masked, chain | {"batch": 0}),
        ("lr must be positive and finite; got 0", local_learning_coefficient, masked, chain | {"lr": 0.0}),
        ("localisation must not be", local_learning_coefficient, masked, chain | {"localisation": -1.0}),
        (r"it has \['strange.weight'\]", relative_trace, trace, {}),
        ("it has none", relative_trace, EstimatedTrace({}, Cost(0, 0, 0.0)), {}),
    ]
    for message, measure, on, options in faults:
        with pytest.raises(ParameterError, match=message):
            measure(tiny_model, on, **options)


def test_models_and_sentences_that_cannot_be_measured_are_refused(tiny_model, masked):
    chain = {"chains": 2, "steps": 4, "batch": 2, "lr": 1e-4, "localisation": 1.0, "generator": seeded()}
    measures = [
        (top_eigenvalue, {}),
        (adam_trace, {"generator": seeded()}),
        (adaptive_trace, {"generator": seeded()}),
        (adaptive_sharpness, {"rho": 0.1, "draws": 2, "generator": seeded()}),
        (worst_case_adaptive_sharpness, {"rho": 0.1}),
        (local_learning_coefficient, chain | {"n": 100}),
    ]
    broken = deepcopy(tiny_model)
    broken.head_bias.data[0] = math.nan
    for measure, options in measures:
        with pytest.raises(ModelError, match="no masked sentences"):
            measure(tiny_model, masked.rows(slice(0)), **options)
        with pytest.raises(ModelError, match="head_bias holds values that are not finite"):
            measure(broken, masked, **options)


def test_truth_must_be_of_the_sentences(tiny_model, masked):
    options = {"chains": 2, "steps": 4, "batch": 2, "lr": 1e-4, "localisation": 1.0, "generator": seeded()}
    truth = predictions(tiny_model, masked).repeat(2, 1)
    with pytest.raises(ParameterError, match="truth needs a row a sentence, 12 of them; got 24"):
        local_learning_coefficient(tiny_model, masked, truth, **options)


def test_an_unknown_estimator_is_refused_before_the_model_runs(tiny_model, masked):
    with pytest.raises((ParameterError, TypeError), match="exact"):
        adam_trace(tiny_model, masked, estimator="approximate", groups=10)


def test_ascent_needs_a_gradient():
    truth = torch.full((50, 5), 0.2).double()
    with pytest.raises(ParameterError, match="gradient is zero, so ascent has no direction"):
        worst_case_adaptive_sharpness(Unigram(torch.zeros(5).double()), UNIFORM, truth, rho=0.1)
