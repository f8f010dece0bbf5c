"""SGD and Adam on sampled labels: by hand, by their moments, and beside the flow of Theorem 3.3."""

import numpy as np
import pytest
import torch

from sameloss.errors import NonFiniteLoss
from sameloss.studies.manifold_flow.theory import (
    SGD,
    Adam,
    exact_labels,
    gradients,
    onto_manifold,
    projected_flow,
    replicate,
    sampled_labels,
    trace_potential,
)


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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
    seen = replicate(population, start, SGD(rate), labels, [0, round(time * batch / rate**2)]).theta[-1]
    trace = population.logits.trace(onto_manifold(population, seen), population.weights)
    return float(trace.mean()), float(trace.std() / replicas**0.5)


@pytest.mark.parametrize("batch", [1, 4])
def test_sgd_follows_the_flow_of_a_quarter(population, start, batch):
    """Two rates, extrapolated to none, meet the flow of 1/4 within four standard errors.

    The flow of 1/2 is more than 30 of them away, and so is that of 1/8: a wrong constant fails.
    """
    times = torch.tensor([0.0, 0.5, 1.0, 2.0], dtype=torch.float64)
    flow = projected_flow(population, start, trace_potential(), times, None, 1e-8)
    _, half, one, two = flow.along(population, torch.trace).tolist()
    (fine, fine_error), (coarse, coarse_error) = (
        sgd_traces(population, start, rate * batch**0.5, batch) for rate in (0.05, 0.1)
    )
    limit, error = 2 * fine - coarse, np.hypot(2 * fine_error, coarse_error)
    assert limit == pytest.approx(one, abs=4 * error)
    assert min(abs(limit - half), abs(limit - two)) > 30 * error


def test_nothing_moves_without_noise(population, start):
    seen = replicate(population, start, SGD(0.2), exact_labels(population, 2), [0, 500]).theta
    torch.testing.assert_close(seen[1], seen[0], rtol=0, atol=1e-12)


def test_adam_by_hand():
    """Two steps of one parameter with a settled second moment of 4."""
    adam = Adam(0.1, beta1=0.75, beta2=0.75, epsilon=1.0)
    change, state = adam.update(torch.tensor([[2.0]]), adam.begin(torch.tensor([4.0]), 1))
    assert change.item() == pytest.approx(-0.1 * 0.5 / 3.0)
    change, _ = adam.update(torch.tensor([[4.0]]), state)
    assert change.item() == pytest.approx(-0.1 * 1.375 / (7.0**0.5 + 1))


def test_replicas_are_looked_at_after_the_steps_asked_for(population, start):
    """The start first; an algorithm sees the same labels whenever it is looked at."""
    seen = replicate(population, start, SGD(0.1), sampled_labels(population, 2, 3, drawn()), [0, 2, 5])
    assert seen.theta.shape == (3, 3, len(start))
    torch.testing.assert_close(seen.theta[0], start.expand(3, -1))
    last = replicate(population, start, SGD(0.1), sampled_labels(population, 2, 3, drawn()), [5]).theta
    torch.testing.assert_close(last[0], seen.theta[2])


def test_a_rate_too_large_is_one_sentence(population, start):
    labels = sampled_labels(population, 1, 5, drawn())
    with pytest.raises(NonFiniteLoss, match="SGD with learning rate 3 diverged before step"):
        replicate(population, start, SGD(3.0), labels, [0, 100, 2000])
