"""Losses, gradients and traces against automatic differentiation; solutions against the theory."""

import pytest
import torch

from sameloss.errors import ModelError
from sameloss.studies.dyck.search import random_start, smoothed_loss_and_trace, to_zero_loss
from sameloss.studies.dyck.theory import (
    ZERO_LOSS,
    Transformer,
    averaged_curvature,
    cancellation,
    check_width,
    conditions,
    dense_hessian_trace,
    hessian_trace,
    kinked_solution,
    kinks,
    loss_gradient,
    lower_bound,
    off_direction,
    pretraining_inputs,
    pretraining_loss,
    random_feature_solution,
    run,
    smallest_head,
    trace_parts,
    transferable_solution,
)


@pytest.fixture(scope="module")
def inputs():
    return pretraining_inputs(6)


def drawn(width: int = 3, seed: int = 0, models: int = 1) -> Transformer:
    return random_start(6, width, models, torch.Generator().manual_seed(seed), rank=2)


def test_output_is_the_formula_of_the_paper(inputs):
    """Eq. of Section 5, one input at a time, with loops."""
    model = drawn().model(0)
    done = run(model, inputs)
    for at in (0, 17, 101):
        tokens = inputs.tokens[at]
        scores = torch.stack([(model.query @ tokens[0]) @ (model.key @ token) for token in tokens])
        h = (scores.exp() / scores.exp().sum()) @ tokens
        f = sum(u * max(0.0, float(v @ h)) for u, v in zip(model.head, model.value, strict=True)) / 3
        torch.testing.assert_close(done.outputs[at], f)
        torch.testing.assert_close(done.averages[at], h)


def test_many_models_are_computed_as_one(inputs):
    models = drawn(models=4)
    for at in range(4):
        torch.testing.assert_close(run(models, inputs).outputs[at], run(models.model(at), inputs).outputs)
        torch.testing.assert_close(hessian_trace(models, inputs)[at], hessian_trace(models.model(at), inputs))


def test_gradients_match_automatic_ones(inputs):
    some = inputs.rows(torch.arange(0, 240, 7))
    model = Transformer(*(tensor.requires_grad_() for tensor in drawn().model(0)))
    expected = torch.autograd.grad(pretraining_loss(model, some), model)
    for ours, automatic in zip(loss_gradient(model, some), expected, strict=True):
        torch.testing.assert_close(ours, automatic)


def test_gradients_of_batches_of_their_own(inputs):
    models = drawn(models=2)
    rows = torch.arange(20).view(2, 10)
    both = loss_gradient(models, inputs.rows(rows))
    for at in range(2):
        alone = loss_gradient(models.model(at), inputs.rows(rows[at]))
        for ours, own in zip(both.model(at), alone, strict=True):
            torch.testing.assert_close(ours, own)


def test_trace_parts_are_squared_gradient_norms(inputs):
    """2 E‖∇f‖² of each parameter, with gradients of f by automatic differentiation."""
    model, some = drawn().model(0), inputs.rows(torch.arange(0, 240, 11))
    total = dict.fromkeys(Transformer._fields, 0.0)
    leaves = Transformer(*(tensor.clone().requires_grad_() for tensor in model))
    for at in range(len(some.target)):
        gradients = torch.autograd.grad(run(leaves, some).outputs[at], leaves)
        for name, gradient in zip(Transformer._fields, gradients, strict=True):
            total[name] += 2 * float(gradient.square().sum()) / len(some.target)
    for name, part in trace_parts(model, some).items():
        assert float(part) == pytest.approx(total[name], rel=1e-10)


def solved_with_attention(inputs) -> Transformer:
    """Return a generic solution, attention uneven: zero loss on a few inputs by moving V and u."""
    return to_zero_loss(drawn(width=12).model(0), inputs.rows(torch.arange(0, 240, 30)))


def test_trace_is_the_dense_hessians_at_zero_loss(inputs):
    """Lemma F.4 with its factor 2, all four parameters with gradients of their own."""
    some, model = inputs.rows(torch.arange(0, 240, 30)), solved_with_attention(inputs)
    assert pretraining_loss(model, some) < ZERO_LOSS
    assert all(part > 0 for part in trace_parts(model, some).values())
    trace = float(hessian_trace(model, some))
    assert trace == pytest.approx(dense_hessian_trace(model, some), rel=1e-8)


def test_away_from_zero_loss_it_is_not(inputs):
    model = drawn().model(0)
    assert float(hessian_trace(model, inputs)) != pytest.approx(dense_hessian_trace(model, inputs), rel=0.05)


@pytest.mark.parametrize("length", [4, 6, 8])
@pytest.mark.parametrize("width", [2, 3, 5])
def test_solution_one_meets_the_bound(length, width):
    """4/(m√T), and not 4/(m²√T) or the printed √(4/T); by the dense Hessian too."""
    model, all_inputs = transferable_solution(length, width), pretraining_inputs(length)
    assert pretraining_loss(model, all_inputs) < ZERO_LOSS
    assert float(hessian_trace(model, all_inputs)) == pytest.approx(4 / (width * length**0.5), rel=1e-12)
    assert lower_bound(length, width) == pytest.approx(4 / (width * length**0.5), rel=1e-12)
    assert max(conditions(model, all_inputs).values()) < 1e-12
    assert cancellation(model, all_inputs) == pytest.approx(1)
    assert off_direction(model) < 1e-12
    assert not kinks(model, all_inputs).any()
    if length == 6:
        assert dense_hessian_trace(model, all_inputs) == pytest.approx(lower_bound(length, width), rel=1e-8)


@pytest.mark.parametrize("kind", ["mask", "token"])
@pytest.mark.parametrize("length", [6, 8])
def test_kinked_solutions_meet_the_conditions(kind, length):
    """The counter-example to Lemma F.3, and the second case of its proof."""
    model, all_inputs = kinked_solution(length, kind), pretraining_inputs(length)
    assert pretraining_loss(model, all_inputs) < ZERO_LOSS
    assert float(hessian_trace(model, all_inputs)) == pytest.approx(lower_bound(length, 4), rel=1e-9)
    assert max(conditions(model, all_inputs).values()) < 1e-12
    assert float(kinks(model, all_inputs).double().mean()) == 0.5
    multiples = model.value[:, :length].std(1) < 1e-12
    assert bool(multiples.all()) is (kind == "mask")


def test_curvature_at_kinks_is_an_average_over_directions(inputs):
    """Against second differences of the loss along random directions, both within 4 s.e."""
    model = kinked_solution(6, "token")
    generator, step = torch.Generator().manual_seed(0), 1e-4
    directions = [torch.randn(2000, *p.shape, generator=generator).double() for p in model]
    moved = Transformer(*(p + step * d for p, d in zip(model, directions, strict=True)))
    quadratic = 2 * pretraining_loss(moved, inputs) / step**2
    error = 4 * float(quadratic.std()) / 2000**0.5
    assert averaged_curvature(model, inputs) == pytest.approx(float(quadratic.mean()), abs=error)
    assert averaged_curvature(model, inputs) - float(hessian_trace(model, inputs)) > 2 * error


def test_curvature_without_kinks_is_the_trace(inputs):
    model = transferable_solution(6, 4)
    assert averaged_curvature(model, inputs) == pytest.approx(float(hessian_trace(model, inputs)))


def test_uneven_keys_break_the_bound_and_keep_the_conditions(inputs):
    """Lemma F.1's "if and only if" needs the gradient by Q and K too."""
    model = transferable_solution(6, 4)._replace(key=drawn().key[0, :1])
    residuals = conditions(model, inputs)
    assert max(residuals[name] for name in ("balance", "cancellation", "uniformity")) < 1e-12
    assert residuals["scores"] > 0.1
    assert float(hessian_trace(model, inputs)) > 1.5 * lower_bound(6, 4)
    assert dense_hessian_trace(model, inputs) == pytest.approx(float(hessian_trace(model, inputs)))


def test_random_features_fit_and_cancel(inputs):
    model = random_feature_solution(inputs, 200, torch.Generator().manual_seed(0))
    assert pretraining_loss(model, inputs) < ZERO_LOSS
    assert float(hessian_trace(model, inputs)) > 5 * lower_bound(6, 200)
    assert cancellation(model, inputs) > 2
    assert float(model.value.square().mean()) == pytest.approx(6, rel=0.1)


def test_the_smallest_head_is_numpys_least_squares(inputs):
    model, some = drawn(width=12).model(0), inputs.rows(torch.arange(5))
    features = run(model, some).preactivations.relu() / 12
    expected = torch.linalg.lstsq(features, some.target[:, None], driver="gelsd").solution.squeeze(1)
    torch.testing.assert_close(smallest_head(model, some), expected)


def test_the_smoothed_objective_tends_to_the_exact_one(inputs):
    model = drawn().model(0)
    loss, trace = smoothed_loss_and_trace(model, inputs, 1e6)
    torch.testing.assert_close(loss, pretraining_loss(model, inputs), rtol=1e-4, atol=0)
    torch.testing.assert_close(trace, hessian_trace(model, inputs), rtol=1e-4, atol=0)


def test_one_neuron_is_no_model_of_the_theorem():
    with pytest.raises(ModelError, match="width of at least 2"):
        check_width(1)
    with pytest.raises(ModelError, match="got 1"):
        transferable_solution(6, 1)
