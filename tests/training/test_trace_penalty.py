"""The differentiable trace, and what the penalty adds."""

import pytest
import torch

from sameloss.errors import ParameterError
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.training.objectives import TracePenalty, fisher_trace_along, random_signs


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def averaged_over_signs(model, batch):
    """Return the mean over all signs: for one sentence, the expectation."""
    logits = model(batch.masked, batch.positions, batch.lengths)
    every = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 3)
    return sum(fisher_trace_along(model, logits, signs[None]) for signs in every) / len(every)


def test_the_mean_over_signs_is_the_trace(tiny_model, batch):
    one = batch.rows(slice(5, 6))
    exact = fisher_trace(tiny_model, one, estimator="exact").total.mean
    assert float(averaged_over_signs(tiny_model, one).detach()) == pytest.approx(exact, rel=1e-10)


def test_its_gradient_is_that_of_the_trace(tiny_model, batch):
    one, parameter = batch.rows(slice(5, 6)), tiny_model.head_bias
    (gradient,) = torch.autograd.grad(averaged_over_signs(tiny_model, one), [parameter])

    def exact(shift):
        with torch.no_grad():
            parameter[0] += shift
        value = fisher_trace(tiny_model, one, estimator="exact").total.mean
        with torch.no_grad():
            parameter[0] -= shift
        return value

    assert float(gradient[0]) == pytest.approx((exact(1e-5) - exact(-1e-5)) / 2e-5, rel=1e-5)


def test_sentences_do_not_mix_on_average(tiny_model, batch):
    logits = tiny_model(batch.masked, batch.positions, batch.lengths)
    draws = [
        fisher_trace_along(tiny_model, logits, random_signs(logits.shape, seeded(seed)).double())
        for seed in range(400)
    ]
    values = torch.stack(draws).detach()
    exact = fisher_trace(tiny_model, batch, estimator="exact").total.mean
    error = float(values.std() / len(values) ** 0.5)
    assert error < 0.05 * exact
    assert abs(float(values.mean()) - exact) < 4 * error


def test_what_is_added_is_the_weight_times_the_trace_along_new_signs(tiny_model, batch):
    logits = tiny_model(batch.masked, batch.positions, batch.lengths)
    penalty, generator = TracePenalty(0.3).term(seeded()), seeded()
    for _ in range(2):
        signs = random_signs(logits.shape, generator).double()
        torch.testing.assert_close(
            penalty(tiny_model, logits), 0.3 * fisher_trace_along(tiny_model, logits, signs)
        )


def test_of_the_logarithm(tiny_model, batch):
    logits = tiny_model(batch.masked, batch.positions, batch.lengths)
    plain, log = (
        TracePenalty(1.0, logarithm).term(seeded())(tiny_model, logits) for logarithm in (False, True)
    )
    torch.testing.assert_close(log, plain.log())


def test_signs_are_equally_likely():
    signs = random_signs(torch.Size([10_000]), seeded())
    assert signs.abs().unique().tolist() == [1.0]
    assert abs(float(signs.mean())) < 4 * 10_000**-0.5


def test_a_negative_weight_rewards_sharpness(tiny_model, batch):
    logits = tiny_model(batch.masked, batch.positions, batch.lengths)
    reward, penalty = (TracePenalty(weight).term(seeded())(tiny_model, logits) for weight in (-0.3, 0.3))
    assert reward < 0
    torch.testing.assert_close(reward, -penalty)


@pytest.mark.parametrize("weight", [0.0, float("nan"), float("inf"), float("-inf")])
def test_an_impossible_penalty(weight):
    message = f"A trace penalty's weight must be a number other than 0; got {weight}"
    with pytest.raises(ParameterError, match=message):
        TracePenalty(weight)
