"""A whole population: loss, derivatives and gradient noise against definitions and finite differences."""

from dataclasses import replace

import pytest
import torch

from sameloss.errors import ModelError
from sameloss.languages import Sentences
from sameloss.studies.manifold_flow.experiment import ZEROS_LANGUAGE
from sameloss.studies.manifold_flow.theory import LogBilinear, Population, masked_population
from sameloss.studies.same_loss.estimators import everything_masked


def test_contexts_of_a_language(tiny_language):
    """Weights and conditionals from sums over sentences agree with the language's own conditionals."""
    weights, conditionals = masked_population(tiny_language)
    masked, known = everything_masked(tiny_language)
    torch.testing.assert_close(weights.sum(), torch.tensor(1.0).double())
    torch.testing.assert_close(conditionals, known, rtol=1e-10, atol=1e-12)
    tokens = masked.masked[5:6].repeat(3, 1)
    tokens[:, masked.positions[5]] = torch.arange(1, 4)
    shares = tiny_language.log_prob(Sentences(tokens, torch.full((3,), 4))).exp() / 4
    torch.testing.assert_close(weights[5], shares.sum())


def test_loss_is_entropy_plus_kl(population, start, away):
    torch.testing.assert_close(
        population.loss(away) - population.entropy, population.kl(away), rtol=1e-10, atol=0
    )
    assert population.kl(start) < 1e-28
    zeros = Population(*masked_population(ZEROS_LANGUAGE.build()), LogBilinear(8, 4, 4))
    theta = torch.randn(48, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(zeros.kl(theta), zeros.loss(theta) - zeros.entropy, rtol=1e-10, atol=0)


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


def test_what_is_no_distribution_is_refused(population):
    with pytest.raises(ModelError, match="weights of a population must be non-negative and sum to one"):
        replace(population, weights=2 * population.weights)
    with pytest.raises(ModelError, match="conditionals of a population"):
        replace(population, conditionals=-population.conditionals)
