"""The flow along the minimisers: its projection, its potentials, and an independent integrator."""

import pytest
import torch

from sameloss.errors import ManifoldError
from sameloss.studies.manifold_flow.theory import (
    adam_metric,
    adam_potential,
    adam_sharpness,
    finite_rate_potential,
    onto_manifold,
    projected_flow,
    rank_of,
    tangent_projection,
    trace_potential,
    velocity,
)


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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
    flow = projected_flow(population, start, trace_potential(), times)
    coarse, fine = (euler_on_minimisers(population, start, 1.0, steps) for steps in (50, 100))
    ratio = (coarse - flow.theta[-1]).norm() / (fine - flow.theta[-1]).norm()
    assert ratio == pytest.approx(2, abs=0.1)
    torch.testing.assert_close(2 * fine - coarse, flow.theta[-1], rtol=0, atol=2e-4)
    assert population.kl(flow.theta).max() < 1e-15
    trace = flow.along(population, torch.trace)
    assert (trace.diff() < -0.1).all()


def test_flow_ends_where_the_trace_is_least(population, start):
    """At the end the projected gradient has all but vanished, and balanced points are no flatter."""
    flow = projected_flow(
        population, start, trace_potential(), torch.tensor([0.0, 200.0]).double(), None, 1e-7
    )
    rank = rank_of(population, start)
    first, last = (velocity(population, at, trace_potential(), rank).norm() for at in flow.theta)
    assert last < 1e-4 * first
    others = [population.logits.minimiser(population.conditionals, drawn(seed)) for seed in range(5)]
    least = flow.along(population, torch.trace)[-1]
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
        projected_flow(population, away, trace_potential(), times)
    with pytest.raises(ManifoldError, match="rank is 12 here and 11"):
        tangent_projection(population, start, 11)
    with pytest.raises(ManifoldError, match="minimiser close by is"):
        onto_manifold(population, torch.full_like(start, 40.0))
