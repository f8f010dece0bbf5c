"""Models, populations, flows and replicas: definitions, finite differences and independent integrators."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sameloss.errors import ManifoldError, ModelError, NonFiniteLoss
from sameloss.languages import Sentences
from sameloss.studies.manifold_flow.experiment import FLOW_LANGUAGE, ZEROS_LANGUAGE
from sameloss.studies.manifold_flow.theory import (
    SGD,
    Adam,
    LogBilinear,
    Population,
    PowerSum,
    adam_metric,
    adam_potential,
    adam_sharpness,
    exact_labels,
    finite_rate_potential,
    gradients,
    masked_population,
    onto_manifold,
    projected_flow,
    rank_of,
    replicate,
    sampled_labels,
    tangent_projection,
    trace_potential,
    velocity,
)
from sameloss.studies.same_loss.estimators import everything_masked


@pytest.fixture(scope="module")
def population():
    """Six masked sentences of three words, and the log-bilinear model of them."""
    weights, conditionals = masked_population(FLOW_LANGUAGE.build())
    return Population(weights, conditionals, LogBilinear(6, 3, 3))


@pytest.fixture(scope="module")
def start(population):
    """A minimiser that is not flat."""
    return population.logits.minimiser(population.conditionals, torch.Generator().manual_seed(0), 3.0)


@pytest.fixture(scope="module")
def away(start):
    """A point off the manifold."""
    generator = torch.Generator().manual_seed(1)
    return start + 0.2 * torch.randn(len(start), dtype=torch.float64, generator=generator)


# Small models whose minimisers and traces are known in closed form.


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_closed_form_traces(population, start, away):
    """The log-bilinear one holds off the manifold too, the power sum's on it."""
    for theta in (start, away):
        closed = population.logits.trace(theta, population.weights)
        torch.testing.assert_close(closed, population.hessian(theta).trace(), rtol=1e-12, atol=0)
    words = torch.tensor([[0.7, 0.3]], dtype=torch.float64)
    two = Population(torch.ones(1, dtype=torch.float64), words, PowerSum())
    theta = torch.tensor([0.4, (np.log(7 / 3) - 0.4**3) ** (1 / 3)], dtype=torch.float64)
    torch.testing.assert_close(PowerSum().trace(theta, 0.7), two.hessian(theta).trace(), rtol=1e-10, atol=0)


def test_logits_are_a_product_row_by_row():
    model = LogBilinear(contexts=2, words=3, rank=1)
    theta = torch.tensor([2.0, 3.0, 1.0, 10.0, 100.0]).double()
    assert model(theta).tolist() == [[2, 20, 200], [3, 30, 300]]
    assert model(torch.stack([theta, theta]))[1].tolist() == model(theta).tolist()


def test_minimisers_predict_the_conditionals_however_unbalanced(population):
    traces = []
    for unbalance in (1.0, 3.0):
        theta = population.logits.minimiser(population.conditionals, drawn(), unbalance)
        predicted = population.logits(theta).softmax(-1)
        torch.testing.assert_close(predicted, population.conditionals, rtol=1e-10, atol=0)
        traces.append(float(population.logits.trace(theta, population.weights)))
    assert traces[1] > 1.5 * traces[0]


def test_power_sums_by_hand():
    assert PowerSum()(torch.tensor([1.0, 2.0])).tolist() == [[9.0, 0.0]]
    assert PowerSum().trace(torch.tensor([1.0, 2.0]), 0.5) == 0.25 * 9 * (1 + 16)


def test_unattainable_conditionals_are_refused():
    with pytest.raises(ModelError, match="smooth the language"):
        LogBilinear(8, 4, 4).minimiser(masked_population(ZEROS_LANGUAGE.build())[1], drawn())


# A whole population: loss, derivatives and gradient noise against definitions and finite differences.


def test_contexts_of_a_language(tiny_language):
    """Weights and conditionals from sums over sentences agree with the language's own conditionals."""
    weights, conditionals = masked_population(tiny_language)
    masked, known = everything_masked(tiny_language)
    torch.testing.assert_close(weights.sum(), torch.tensor(1.0).double())
    torch.testing.assert_close(conditionals, known, rtol=1e-10, atol=1e-12)
    tokens = masked.masked[5:6].repeat(3, 1)
    tokens[:, masked.positions[5]] = torch.arange(1, 4)
    probabilities = tiny_language.log_prob(Sentences(tokens, torch.full((3,), 4))).exp() / 4
    torch.testing.assert_close(weights[5], probabilities.sum())


def test_loss_is_entropy_plus_kl(population, start, away):
    assert population.kl(start) < 1e-28
    above = population.loss(away) - population.loss(start)
    torch.testing.assert_close(above, population.kl(away), rtol=1e-10, atol=0)
    zeros = Population(*masked_population(ZEROS_LANGUAGE.build()), LogBilinear(8, 4, 4))
    q = zeros.conditionals
    entropy = -(zeros.weights * torch.xlogy(q, q).sum(-1)).sum()
    theta = torch.randn(48, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(zeros.kl(theta), zeros.loss(theta) - entropy, rtol=1e-10, atol=0)


def test_hessian_against_finite_differences(population, away):
    step, some = 1e-5, slice(0, None, 4)
    unit = step * torch.eye(len(away), dtype=torch.float64)[some]
    columns = [(population.gradient(away + e) - population.gradient(away - e)) / (2 * step) for e in unit]
    torch.testing.assert_close(population.hessian(away)[:, some], torch.stack(columns, 1), rtol=0, atol=1e-9)


def test_covariance_is_the_hessian_on_the_manifold_only(population, start, away):
    """Lemma 3.2, also for a model that is not bilinear; off the manifold by its definition."""
    for model, theta in ((population.logits, start), (lambda t: population.logits(t.sinh()), start.asinh())):
        own = replace(population, logits=model)
        assert own.kl(theta) < 1e-28
        for matrix in (own.covariance(theta), own.fisher(theta)):
            torch.testing.assert_close(matrix, own.hessian(theta), rtol=0, atol=1e-10)
    assert (population.covariance(away) - population.hessian(away)).norm() > 0.1


def test_covariance_by_definition(population, away):
    """Sum over every context and label of the centred outer product, one at a time."""
    mean, expected = population.gradient(away), 0
    for context in range(6):
        for word in range(3):
            theta = away.clone().requires_grad_()
            loss = -population.log_f(theta)[context, word]
            centred = torch.autograd.grad(loss, theta)[0] - mean
            expected = expected + population.joint[context, word] * torch.outer(centred, centred)
    torch.testing.assert_close(population.covariance(away), expected, rtol=0, atol=1e-14)


def test_a_population_needs_distributions(population):
    with pytest.raises(ModelError, match="weights of a population must be non-negative and sum to one"):
        replace(population, weights=2 * population.weights)
    with pytest.raises(ModelError, match="conditionals of a population"):
        replace(population, conditionals=-population.conditionals)


# The flow along the minimisers: its projection, its potentials, and an independent integrator.


def test_tangent_projection(population, start):
    """It has the dimension of the manifold, and its range is the kernel of the Hessian."""
    rank = rank_of(population, start)
    projection = tangent_projection(population, start, rank)
    assert rank == 6 * 2
    torch.testing.assert_close(projection.trace(), torch.tensor(27.0 - 12).double())
    torch.testing.assert_close(projection @ projection, projection)
    assert (population.hessian(start) @ projection).norm() < 1e-12
    assert torch.linalg.eigvalsh(population.hessian(start))[15] > 1e-3


def euler_on_minimisers(population, theta, time, steps):
    """The flow by Euler's method: central differences of the dense Hessian's trace, moved back to Γ."""
    unit = 1e-4 * torch.eye(len(theta), dtype=torch.float64)
    for _ in range(steps):
        kernel = torch.linalg.eigh(population.hessian(theta))[1][:, :15]
        at = [population.logits.trace(theta + sign * unit, population.weights) for sign in (1, -1)]
        gradient = (at[0] - at[1]) / 2e-4
        theta = onto_manifold(population, theta - time / steps / 4 * kernel @ kernel.T @ gradient)
    return theta


def test_flow_against_an_independent_integrator(population, start):
    """Euler's error is halved with its step and extrapolated away; projection and gradient are others."""
    times = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    flow = projected_flow(population, start, trace_potential, times)
    coarse, fine = (euler_on_minimisers(population, start, 1.0, steps) for steps in (50, 100))
    ratio = (coarse - flow[-1]).norm() / (fine - flow[-1]).norm()
    assert ratio == pytest.approx(2, abs=0.1)
    torch.testing.assert_close(2 * fine - coarse, flow[-1], rtol=0, atol=2e-4)
    assert population.kl(flow).max() < 1e-15
    trace = population.along(flow, torch.trace)
    assert (trace.diff() < -0.1).all()


def test_flow_ends_where_the_trace_is_least(population, start):
    """At the end the projected gradient has all but vanished, and balanced points are no flatter."""
    flow = projected_flow(population, start, trace_potential, torch.tensor([0.0, 200.0]).double(), None, 1e-7)
    rank = rank_of(population, start)
    first, last = (velocity(population, at, trace_potential, rank).norm() for at in flow)
    assert last < 1e-4 * first
    others = [population.logits.minimiser(population.conditionals, drawn(seed)) for seed in range(5)]
    least = population.along(flow, torch.trace)[-1]
    assert all(population.fisher(other).trace() > least for other in others)


def test_potentials(population, start):
    """Each is its series where it is small, and the metric's flow is tangent and lowers its potential."""
    hessian, rate = population.hessian(start), 1e-3
    series = hessian.trace() / 4 + rate / 16 * (hessian @ hessian).trace()
    torch.testing.assert_close(finite_rate_potential(rate)(hessian), series, rtol=1e-6, atol=0)
    small = adam_potential(4, 1e-10)(hessian)
    torch.testing.assert_close(small, adam_sharpness(hessian) / 4, rtol=1e-6, atol=0)
    rank, potential = rank_of(population, start), adam_potential(4, 0.02)
    moved = velocity(population, start, potential, rank, adam_metric(4, 0.02))
    assert (population.hessian(start) @ moved).norm() < 1e-10
    later = population.fisher(onto_manifold(population, start + 1e-4 * moved))
    assert potential(later) < potential(hessian)


def test_adam_potential_belongs_to_its_metric(population, start):
    """The drift is D times the gradient of <H, D>/4B with D held: that is the gradient of the potential."""
    held = adam_metric(4, 0.02)(population.fisher(start))
    drift = torch.func.grad(lambda t: (population.fisher(t).diagonal() * held).sum() / 16)(start)
    own = torch.func.grad(lambda t: adam_potential(4, 0.02)(population.fisher(t)))(start)
    torch.testing.assert_close(own, drift, rtol=1e-8, atol=1e-12)


def test_minimisers_close_by(population, start, away):
    close = onto_manifold(population, torch.stack([away, start]))
    assert population.kl(close).max() < 1e-12
    assert (close[0] - away).norm() < (start - away).norm()
    torch.testing.assert_close(close[1], start, rtol=0, atol=1e-12)


def test_faults_are_one_sentence(population, start, away):
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    with pytest.raises(ManifoldError, match="starting point is"):
        projected_flow(population, away, trace_potential, times)
    with pytest.raises(ManifoldError, match="rank is 12 here and 11"):
        tangent_projection(population, start, 11)
    with pytest.raises(ManifoldError, match="minimiser close by is"):
        onto_manifold(population, torch.full_like(start, 40.0))


# SGD and Adam on sampled labels: by hand, by their moments, and beside the flow of Theorem 3.3.


def test_sampled_gradients_have_this_mean_and_covariance(population, away):
    """A batch of four has a quarter of the covariance; the error of 40,000 draws is under 3 %."""
    labels = next(sampled_labels(population, 4, 40_000, drawn()))
    found = gradients(population, away.repeat(40_000, 1), labels)
    covariance = population.covariance(away)
    error = (covariance.diagonal() / 4 / 40_000).sqrt()
    assert ((found.mean(0) - population.gradient(away)).abs() < 4.5 * error).all()
    assert (4 * found.T.cov() - covariance).norm() / covariance.norm() < 0.03


def sgd_traces(population, start, rate, batch, replicas=200, time=1.0):
    labels = sampled_labels(population, batch, replicas, drawn(3))
    seen = replicate(population, start, SGD(rate), labels, [0, round(time * batch / rate**2)])[-1]
    trace = population.logits.trace(onto_manifold(population, seen), population.weights)
    return float(trace.mean()), float(trace.std() / replicas**0.5)


@pytest.mark.parametrize("batch", [1, 4])
def test_sgd_follows_the_flow_of_a_quarter(population, start, batch):
    """Two rates, extrapolated to none, meet the flow of 1/4 within four standard errors.

    The flow of 1/2 is more than 30 of them away, and so is that of 1/8: a wrong constant fails.
    """
    times = torch.tensor([0.0, 0.5, 1.0, 2.0], dtype=torch.float64)
    flow = projected_flow(population, start, trace_potential, times, None, 1e-8)
    _, half, one, two = population.along(flow, torch.trace).tolist()
    (fine, fine_error), (coarse, coarse_error) = (
        sgd_traces(population, start, rate * batch**0.5, batch) for rate in (0.05, 0.1)
    )
    limit, error = 2 * fine - coarse, np.hypot(2 * fine_error, coarse_error)
    assert limit == pytest.approx(one, abs=4 * error)
    assert min(abs(limit - half), abs(limit - two)) > 30 * error


def test_nothing_moves_without_noise(population, start):
    seen = replicate(population, start, SGD(0.2), exact_labels(population, 2), [0, 500])
    torch.testing.assert_close(seen[1], seen[0], rtol=0, atol=1e-12)


def test_adam_by_hand():
    """Two steps of one parameter with a settled second moment of 4."""
    adam = Adam(0.1, beta1=0.75, beta2=0.75, epsilon=1.0)
    change, state = adam.update(torch.tensor([[2.0]]), adam.begin(torch.tensor([4.0]), 1))
    assert change.item() == pytest.approx(-0.1 * 0.5 / 3.0)
    change, _ = adam.update(torch.tensor([[4.0]]), state)
    assert change.item() == pytest.approx(-0.1 * 1.375 / (7.0**0.5 + 1))


def test_replicas_are_returned_after_the_given_steps(population, start):
    """0 is the start, and the labels do not depend on which steps are returned."""
    seen = replicate(population, start, SGD(0.1), sampled_labels(population, 2, 3, drawn()), [0, 2, 5])
    assert seen.shape == (3, 3, len(start))
    torch.testing.assert_close(seen[0], start.expand(3, -1))
    last = replicate(population, start, SGD(0.1), sampled_labels(population, 2, 3, drawn()), [5])
    torch.testing.assert_close(last[0], seen[2])


def test_a_rate_too_large_is_one_sentence(population, start):
    labels = sampled_labels(population, 1, 5, drawn())
    with pytest.raises(NonFiniteLoss, match="SGD with learning rate 3 diverged before step"):
        replicate(population, start, SGD(3.0), labels, [0, 100, 2000])
