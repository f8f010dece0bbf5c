"""Estimators of the Fisher trace against dense Hessians, each other and their own errors."""

import pytest
import torch
from tiny_models import predictions
from torch import nn
from torch.func import functional_call, hessian

from sameloss.errors import ModelError, ParameterError
from sameloss.languages.masking import mask_batch
from sameloss.measures.flatness.trace import ESTIMATORS, fisher_trace, minibatch_trace
from sameloss.statistics.intervals import Estimate


def dense_trace(model, masked, truth):
    """Return Tr of the Hessian of E[-sum_y truth[y] log f[y]] over all parameters."""
    names = [name for name, _ in model.named_parameters()]
    shapes = [p.shape for p in model.parameters()]
    flat = torch.cat([p.detach().flatten() for p in model.parameters()])

    def loss(flat):
        parts = flat.split([shape.numel() for shape in shapes])
        weights = {n: p.view(s) for n, p, s in zip(names, parts, shapes, strict=True)}
        logits = functional_call(model, weights, (masked.masked, masked.positions, masked.lengths))
        return -(truth * logits.log_softmax(-1)).sum(-1).mean()

    return hessian(loss)(flat).trace()


def test_trace_matches_the_dense_hessian_at_saturation(tiny_model, masked):
    """Lemma 3.2: where the outputs are the conditionals, Fisher and Hessian agree."""
    truth = predictions(tiny_model, masked)
    exact = fisher_trace(tiny_model, masked, estimator="exact").total.mean
    assert exact == pytest.approx(dense_trace(tiny_model, masked, truth).item(), rel=1e-9)


def test_trace_differs_from_the_hessian_away_from_saturation(tiny_model, masked):
    truth = predictions(tiny_model, masked).roll(1, dims=-1)
    exact = fisher_trace(tiny_model, masked, estimator="exact").total.mean
    assert exact != pytest.approx(dense_trace(tiny_model, masked, truth).item(), rel=1e-2)


@pytest.mark.parametrize("batch", ["masked", "ragged"])
def test_exact_trace_is_the_sum_over_labels(tiny_model, batch, request):
    masked = request.getfixturevalue(batch)
    logs = tiny_model(masked.masked, masked.positions, masked.lengths).log_softmax(-1)
    parameters = list(tiny_model.parameters())

    def squared_norm(log_probability):
        gradients = torch.autograd.grad(log_probability, parameters, retain_graph=True)
        return sum(g.square().sum() for g in gradients).item()

    slow = sum(log.exp().item() * squared_norm(log) for row in logs for log in row) / len(logs)
    assert fisher_trace(tiny_model, masked, estimator="exact").total.mean == pytest.approx(slow, rel=1e-10)


def test_cost_counts_passes(tiny_model, masked):
    cost = fisher_trace(tiny_model, masked, labels=5, generator=torch.Generator()).cost
    assert (cost.forward, cost.backward) == (12, 60)
    exact = fisher_trace(tiny_model, masked, estimator="exact").cost
    assert (exact.forward, exact.backward) == (12, 36)
    assert cost.seconds > 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_chunks_do_not_change_the_estimate(tiny_model, masked, estimator):
    whole, parts = (
        fisher_trace(
            tiny_model,
            masked,
            estimator=estimator,
            labels=3,
            generator=torch.Generator().manual_seed(0),
            chunk=chunk,
        ).total.mean
        for chunk in (12, 5)
    )
    assert whole == pytest.approx(parts, rel=1e-12)


def totals(model, masked, estimator, generator):
    """All draws of the total: one a sentence, or one a mini-batch of six."""
    if estimator == "minibatch":
        trace = minibatch_trace(model, masked, batch=6, generator=generator)
    else:
        trace = fisher_trace(model, masked, estimator=estimator, generator=generator)
    return sum(trace.draws.values())


@pytest.mark.parametrize("estimator", ["sampled", "rademacher", "minibatch"])
def test_estimators_are_unbiased(tiny_model, masked, estimator):
    """On 12 sentences whose exact trace is known, each repeated 300 times."""
    exact = fisher_trace(tiny_model, masked, estimator="exact").total.mean
    repeated = masked.rows(torch.arange(12).repeat(300))
    draws = totals(tiny_model, repeated, estimator, torch.Generator().manual_seed(0))
    means = draws.view(300, -1).mean(1)
    error = means.std() / len(means) ** 0.5
    assert abs(means.mean() - exact) < 4 * error
    assert error < 0.03 * exact


class Bag(nn.Module):
    """A bag of words: quick, for thousands of backward passes."""

    def __init__(self):
        super().__init__()
        self.word, self.output = nn.Embedding(4, 3), nn.Linear(3, 3)

    def forward(self, masked, positions, lengths=None):
        return self.output(self.word(masked).mean(1))


@pytest.mark.parametrize("estimator", ["exact", "sampled", "rademacher", "minibatch"])
def test_standard_error_covers_the_truth(tiny_language, estimator):
    """Of 200 estimates about 95 % lie within two standard errors of the population's trace."""
    torch.manual_seed(1)
    model = Bag()

    def masked(count, seed):
        generator = torch.Generator().manual_seed(seed)
        sentences = tiny_language.sample(count, generator)
        place = torch.rand(count, generator=generator)
        return mask_batch(sentences, (place * sentences.lengths).long())

    truth = fisher_trace(model, masked(200_000, 0), estimator="exact").total
    count = 90 if estimator == "minibatch" else 400
    draws = totals(model, masked(200 * count, 1), estimator, torch.Generator().manual_seed(2))
    estimates = [Estimate.of(part) for part in draws.view(200, -1)]
    covered = sum(abs(e.mean - truth.mean) < 2 * e.standard_error for e in estimates) / 200
    assert 0.90 <= covered <= 0.99
    assert truth.standard_error < 0.2 * estimates[0].standard_error


def test_bad_requests_say_what_is_valid(tiny_model, masked):
    with pytest.raises(ParameterError, match="labels must be a whole number, at least 1; got 0"):
        fisher_trace(tiny_model, masked, labels=0)
    with pytest.raises(ParameterError, match="The estimator rademacher draws; give it a generator"):
        fisher_trace(tiny_model, masked, estimator="rademacher")
    with pytest.raises(ParameterError, match="Unknown estimator 'best'; choose one of exact, sampled, rad"):
        fisher_trace(tiny_model, masked, estimator="best")
    for batch in (0, 13):
        with pytest.raises(
            ParameterError, match=f"batch must be 1 to the 12 sentences there are; got {batch}"
        ):
            minibatch_trace(tiny_model, masked, batch=batch, generator=torch.Generator())
    nothing = masked._replace(masked=masked.masked[:0], positions=masked.positions[:0])
    for estimate, options in ((fisher_trace, {}), (minibatch_trace, {"batch": 1})):
        with pytest.raises(ModelError, match="no masked sentences"):
            estimate(tiny_model, nothing, generator=torch.Generator(), **options)
