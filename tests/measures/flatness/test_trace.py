"""Estimators of the Fisher trace against dense Hessians, each other and their standard errors; its parts."""

import pytest
import torch
from tiny_models import hessian_diagonal, predictions, reparametrised, seeded
from torch import nn
from torch.func import functional_call, hessian

from sameloss.errors import ParameterError
from sameloss.languages.masking import mask_batch
from sameloss.measures.flatness import gradient_norms
from sameloss.measures.flatness.hessian import unflattened
from sameloss.measures.flatness.trace import (
    ESTIMATORS,
    Cost,
    EstimatedTrace,
    fisher_trace,
    minibatch_trace,
    relative_trace,
)
from sameloss.models.masked_model import parameter_group
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
def test_chunks_do_not_change_the_estimate(tiny_model, masked, estimator, monkeypatch):
    options = {"estimator": estimator, "labels": 3}
    whole = fisher_trace(tiny_model, masked, generator=seeded(), **options).total.mean
    monkeypatch.setitem(gradient_norms.CHUNK_BYTES, "cpu", 1)  # one sentence at a time
    parts = fisher_trace(tiny_model, masked, generator=seeded(), **options).total.mean
    assert parts != 0
    assert whole == pytest.approx(parts, rel=1e-12)


def totals(model, masked, estimator, generator, labels=1):
    """All draws of the total: one per sentence, or one per mini-batch of six."""
    if estimator == "minibatch":
        trace = minibatch_trace(model, masked, batch=6, generator=generator)
    else:
        trace = fisher_trace(model, masked, estimator=estimator, labels=labels, generator=generator)
    return sum(trace.draws.values())


@pytest.mark.parametrize(
    ("estimator", "labels"),
    [("sampled", 1), ("sampled", 3), ("rademacher", 1), ("rademacher", 3), ("minibatch", 1)],
)
def test_estimators_are_unbiased(tiny_model, masked, estimator, labels):
    """On 12 sentences whose exact trace is known, each repeated 300 times."""
    exact = fisher_trace(tiny_model, masked, estimator="exact").total.mean
    repeated = masked.rows(torch.arange(12).repeat(300))
    draws = totals(tiny_model, repeated, estimator, torch.Generator().manual_seed(0), labels)
    means = draws.view(300, -1).mean(1)
    error = means.std() / len(means) ** 0.5
    assert abs(means.mean() - exact) < 4 * error
    assert error < 0.03 * exact


class Bag(nn.Module):
    """A bag of words, fast enough for thousands of backward passes."""

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

    truth = fisher_trace(model, masked(30_000, 0), estimator="exact").total
    count = 90 if estimator == "minibatch" else 400
    draws = totals(model, masked(200 * count, 1), estimator, torch.Generator().manual_seed(2))
    estimates = [Estimate.of(part) for part in draws.view(200, -1)]
    covered = sum(abs(e.mean - truth.mean) < 2 * e.standard_error for e in estimates) / 200
    assert 0.90 <= covered <= 0.99
    assert truth.standard_error < 0.2 * estimates[0].standard_error


def test_bad_requests_say_what_is_valid(tiny_model, masked):
    with pytest.raises(ParameterError, match="labels must be a whole number, at least 1; got 0"):
        fisher_trace(tiny_model, masked, labels=0)
    with pytest.raises(ParameterError, match="The estimator rademacher is random; give it a generator"):
        fisher_trace(tiny_model, masked, estimator="rademacher")
    with pytest.raises(ParameterError, match="Unknown estimator 'best'; choose one of exact, sampled, rad"):
        fisher_trace(tiny_model, masked, estimator="best")
    for batch in (0, 13):
        with pytest.raises(ParameterError, match=f"batch must be 1 to 12, the number of .*; got {batch}"):
            minibatch_trace(tiny_model, masked, batch=batch, generator=torch.Generator())


# --- Parts of a trace ---

DRAWS = {"word.weight": torch.tensor([1.0, 3.0]), "head_bias": torch.tensor([5.0, 3.0])}


def test_parts_add_up(tiny_model, masked):
    trace = fisher_trace(tiny_model, masked, estimator="exact")
    assert sum(part.mean for part in trace.parts.values()) == pytest.approx(trace.total.mean, rel=1e-12)
    assert set(trace.parts) == {"word embedding", "position", "LayerNorm", "attention", "MLP", "head"}
    assert trace.by(parameter_group) == trace.parts


def test_the_error_of_a_sum_includes_correlations():
    """The parts vary, each with an error of 1; their sum does not."""
    trace = EstimatedTrace(DRAWS, Cost(2, 2, 0.0))
    assert trace.total == (6.0, 0.0, 2)
    assert trace.by(lambda name: name) == {"word.weight": (2.0, 1.0, 2), "head_bias": (4.0, 1.0, 2)}


def test_parts_are_scaled():
    trace = EstimatedTrace(DRAWS, Cost(2, 2, 0.0))
    doubled = trace.scaled(lambda name: 2.0 if name == "word.weight" else 0.5)
    assert doubled.total == pytest.approx((6.0, 1.5, 2))
    assert doubled.cost == trace.cost
    assert trace.total.mean == 6.0


# --- The trace relative to the weights ---


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


@pytest.mark.parametrize(
    ("fault", "draws"),
    [(r"it has \['strange.weight'\]", {"strange.weight": torch.ones(2)}), ("it has none", {})],
)
def test_the_trace_of_another_model_is_refused(tiny_model, fault, draws):
    with pytest.raises(ParameterError, match=fault):
        relative_trace(tiny_model, EstimatedTrace(draws, Cost(2, 2, 0.0)))
