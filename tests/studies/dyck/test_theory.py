"""The bracket language, the Transformer, its neurons, and transfer."""

from itertools import product
from math import comb

import numpy as np
import pytest
import torch

from sameloss.errors import LanguageError, ModelError
from sameloss.studies.dyck.search import random_start, smoothed_loss_and_trace, to_zero_loss
from sameloss.studies.dyck.theory import (
    RIGHT,
    ZERO_LOSS,
    Transformer,
    allowed_neurons,
    averaged_curvature,
    cancellation,
    check_length,
    check_width,
    conditions,
    cyclic_matrix,
    dense_hessian_trace,
    downstream_inputs,
    downstream_loss,
    error_after,
    exact_rank,
    failure_probability,
    hessian_trace,
    in_words,
    kinked_solution,
    kinks,
    loss_gradient,
    lower_bound,
    missing_sign_probability,
    off_direction,
    pretraining_inputs,
    pretraining_loss,
    random_feature_solution,
    run,
    simulated_failures,
    smallest_head,
    trace_parts,
    transferable_solution,
    wrong_activations,
    zero_probability,
)

# The bracket language against binomials, brute force and hand-made sentences.


@pytest.mark.parametrize("length", [4, 6, 8])
def test_every_masked_sentence_is_there_once(length):
    inputs = pretraining_inputs(length)
    assert len(inputs.target) == 2 * length * comb(length, length // 2)
    assert len(inputs.tokens.sum(1).unique(dim=0)) == len(inputs.target)
    assert inputs.target.unique(return_counts=True)[1].tolist() == [len(inputs.target) // 2] * 2
    torch.testing.assert_close(
        inputs.tokens.abs().sum((1, 2)), torch.full((len(inputs.target),), 1.0 * length).double()
    )
    assert (inputs.tokens @ inputs.tokens.mT).diagonal(dim1=1, dim2=2).eq(1).all()


def test_both_signs_of_each_mask():
    masks = pretraining_inputs(6).tokens[:, :, 6:].sum(1)
    values, counts = masks.unique(dim=0, return_counts=True)
    assert len(values) == 12
    assert counts.eq(comb(6, 3)).all()


def test_the_target_names_the_masked_bracket():
    """⟨ hidden: one ⟩ too many is seen and g* = 1 (after Eq. 2); recount in the text itself."""
    inputs = pretraining_inputs(4)
    for tokens, target in zip(inputs.tokens, inputs.target, strict=True):
        text = in_words(tokens)
        assert text.count("⟩") - text.count("⟨") == target
        hidden = "⟨" if target == 1 else "⟩"
        filled = text.replace("[M]", hidden)
        assert filled.count("⟩") == filled.count("⟨")


def test_the_target_is_linear_in_the_encoding():
    for inputs in (pretraining_inputs(6), downstream_inputs(6)):
        torch.testing.assert_close(inputs.target, -inputs.tokens.sum(1)[:, :6].sum(1))


def test_downstream_strings_are_binomial_and_unmasked():
    inputs = downstream_inputs(6)
    values, counts = inputs.target.unique(return_counts=True)
    assert values.tolist() == [-6, -4, -2, 0, 2, 4, 6]
    assert counts.tolist() == [comb(6, k) for k in range(7)]
    assert not inputs.tokens[:, :, 6:].any()
    assert zero_probability(6) == counts[3] / 64


@pytest.mark.parametrize(("length", "samples"), [(2, 1), (2, 4), (4, 3), (6, 2)])
def test_missing_signs_by_brute_force(length, samples):
    target = downstream_inputs(length).target.tolist()
    tuples = list(product(target, repeat=samples))
    missing = sum(not (min(drawn) < 0 < max(drawn)) for drawn in tuples)
    assert missing_sign_probability(length, samples) == pytest.approx(missing / len(tuples), abs=1e-12)


@pytest.mark.parametrize(("length", "words"), [(7, "even"), (4, "at least 6"), (12, "at most 10")])
def test_lengths_of_no_theorem_are_refused(length, words):
    with pytest.raises(LanguageError, match=rf"sentence_length.*{words}|{words}.*; got {length}"):
        check_length(length)


def test_odd_lengths_have_no_sentences():
    with pytest.raises(LanguageError, match="must be even"):
        pretraining_inputs(5)


# Losses, gradients and traces against automatic differentiation; solutions against the theory.


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


# Exact facts about single neurons and stacked inputs, by brute force and by numpy.


def test_neurons_that_the_conditions_allow():
    """One of case 1, 2ᵀ of case 2, and 4T that Lemma F.3 leaves out; brute force at T = 4 over V^(p) too."""
    counts = allowed_neurons(6)
    assert counts == (1 + 2**6 + 4 * 6, 1 + 2**6, 1)
    inputs = pretraining_inputs(4)
    z = (inputs.tokens.sum(1)[inputs.target > 0] * 2).int().numpy()
    grid = np.array(list(product((-2, -1, 0, 1, 2), repeat=4)))
    halves = np.array(list(product((-1, 0, 1), repeat=4)))
    allowed = 0
    for brackets in grid:
        values = (z[:, :4] @ brackets)[:, None] + z[:, 4:] @ halves.T
        allowed += int(np.isin(values, (0, 4)).all(0).sum())
    assert allowed - 1 == allowed_neurons(4).all  # all but V = 0


def test_cyclic_matrices_have_full_rank():
    for k in range(1, 9):
        matrix = cyclic_matrix(k)
        assert matrix.sum(1).tolist() == [1] * (2 * k + 1)
        assert exact_rank(matrix) == np.linalg.matrix_rank(matrix) == 2 * k + 1
    assert exact_rank(np.ones((3, 4), dtype=int)) == 1


def test_activations_have_the_sign_of_the_target():
    inputs = pretraining_inputs(6)
    model = transferable_solution(6, 4)
    assert wrong_activations(model, inputs) == 0
    assert wrong_activations(model._replace(head=-model.head), inputs) == 480


def test_ranks_are_numpys():
    rng = np.random.default_rng(0)
    for rows, columns, rank in ((5, 7, 3), (7, 5, 5), (4, 4, 1)):
        matrix = rng.integers(-3, 4, (rows, rank)) @ rng.integers(-3, 4, (rank, columns))
        assert exact_rank(matrix) == np.linalg.matrix_rank(matrix)
    assert exact_rank(np.zeros((3, 2), dtype=int)) == 0


# Probabilities of success, exact, against exhaustive samples and simulations.


@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize("kind", ["solution (1)", "mask", "token"])
def test_failures_by_every_possible_sample(samples, kind):
    """All 16ⁿ samples of strings of four brackets, each with its fitted head."""
    inputs = downstream_inputs(4)
    model = transferable_solution(4, 3) if kind == "solution (1)" else kinked_solution(4, kind)
    rows = torch.tensor(list(product(range(16), repeat=samples)))
    features = run(model, inputs).preactivations.relu()
    heads = smallest_head(model, inputs.rows(rows), features[rows])
    share = float((downstream_loss(model, heads, inputs) > RIGHT).double().mean())
    (exact,) = failure_probability(model, inputs, [samples])
    assert exact == pytest.approx(share, abs=1e-9)
    if kind != "token":
        assert exact == pytest.approx(missing_sign_probability(4, samples), abs=1e-9)


def test_the_published_bound_is_too_good():
    """n = 5, T = 6: 0.240, not 2⁻⁵."""
    (exact,) = failure_probability(transferable_solution(6, 4), downstream_inputs(6), [5])
    balanced = 20 / 64
    assert exact == pytest.approx(2 * ((1 + balanced) / 2) ** 5 - balanced**5, abs=1e-9)
    assert exact == pytest.approx(0.2405, abs=1e-4)


def test_simulation_agrees_with_the_count():
    model, inputs = kinked_solution(6, "token"), downstream_inputs(6)
    (exact,) = failure_probability(model, inputs, [5])
    failures = simulated_failures(model, inputs, 5, 2000, torch.Generator().manual_seed(0))
    assert failures / 2000 == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 2000) ** 0.5)
    assert abs(exact - missing_sign_probability(6, 5)) > 0.1


def test_no_head_is_right_on_few_random_features():
    model = random_start(6, 3, 1, torch.Generator().manual_seed(0), 1).model(0)
    with pytest.raises(ModelError, match="No head"):
        failure_probability(model, downstream_inputs(6), [3])


def test_downstream_is_learnt_from_solution_one():
    model, inputs = transferable_solution(6, 4), downstream_inputs(6)
    assert float(downstream_loss(model, model.head, inputs)) < 1e-20
    assert error_after(model, inputs, 30, torch.Generator().manual_seed(0)) < 1e-20
