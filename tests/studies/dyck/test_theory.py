"""The bracket language, the Transformer, its neurons, and transfer."""

from itertools import product
from math import comb

import numpy as np
import pytest
import torch

from sameloss.errors import NonFiniteLoss, NotConverged
from sameloss.studies.dyck import theory
from sameloss.studies.dyck.theory import (
    ZERO_LOSS,
    Transformer,
    conditions,
    dense_hessian_trace,
    downstream_inputs,
    failure_probability,
    hessian_trace,
    kinked_solution,
    lower_bound,
    missing_sign_probability,
    pretraining_inputs,
    random_start,
    run,
    smallest_head,
    transferable_solution,
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


def test_the_target_names_the_masked_bracket():
    """⟨ hidden: one ⟩ too many is seen and g* = 1 (after Eq. 2). Masks have both signs."""
    inputs = pretraining_inputs(6)
    brackets = inputs.tokens[:, :, :6].sum(1)
    for visible, target in zip(brackets.tolist(), inputs.target.tolist(), strict=True):
        assert visible.count(0) == 1
        assert visible.count(-1) - visible.count(1) == target
    masks, counts = inputs.tokens[:, :, 6:].sum(1).unique(dim=0, return_counts=True)
    assert len(masks) == 12
    assert counts.eq(comb(6, 3)).all()


def test_the_target_is_linear_in_the_encoding():
    for inputs in (pretraining_inputs(6), downstream_inputs(6)):
        torch.testing.assert_close(inputs.target, -inputs.tokens.sum(1)[:, :6].sum(1))


def test_downstream_strings_are_binomial_and_unmasked():
    inputs = downstream_inputs(6)
    values, counts = inputs.target.unique(return_counts=True)
    assert values.tolist() == [-6, -4, -2, 0, 2, 4, 6]
    assert counts.tolist() == [comb(6, k) for k in range(7)]
    assert not inputs.tokens[:, :, 6:].any()
    assert theory.zero_probability(6) == counts[3] / 64


@pytest.mark.parametrize(("length", "samples"), [(2, 1), (2, 4), (4, 3), (6, 2)])
def test_missing_signs_by_brute_force(length, samples):
    target = downstream_inputs(length).target.tolist()
    tuples = list(product(target, repeat=samples))
    missing = sum(not (min(drawn) < 0 < max(drawn)) for drawn in tuples)
    assert missing_sign_probability(length, samples) == pytest.approx(missing / len(tuples), abs=1e-12)


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
    expected = torch.autograd.grad(run(model, some).loss, model)
    torch.testing.assert_close(tuple(theory.loss_gradient(model, some)), expected)


def test_gradients_of_batches_of_their_own(inputs):
    models = drawn(models=2)
    rows = torch.arange(20).view(2, 10)
    both = theory.loss_gradient(models, inputs.rows(rows))
    for at in range(2):
        alone = theory.loss_gradient(models.model(at), inputs.rows(rows[at]))
        torch.testing.assert_close(tuple(both.model(at)), tuple(alone))


def test_trace_parts_are_squared_gradient_norms(inputs):
    """2 E‖∇f‖² of each parameter, with gradients of f by automatic differentiation."""
    model, some = drawn().model(0), inputs.rows(torch.arange(0, 240, 11))
    total = dict.fromkeys(Transformer._fields, 0.0)
    leaves = Transformer(*(tensor.clone().requires_grad_() for tensor in model))
    for at in range(len(some.target)):
        gradients = torch.autograd.grad(run(leaves, some).outputs[at], leaves)
        for name, gradient in zip(Transformer._fields, gradients, strict=True):
            total[name] += 2 * float(gradient.square().sum()) / len(some.target)
    for name, part in theory.trace_parts(model, some).items():
        assert float(part) == pytest.approx(total[name], rel=1e-10)


def solved_with_attention(inputs) -> Transformer:
    """Return a generic solution, attention uneven: zero loss on a few inputs by moving V and u."""
    return theory.to_zero_loss(drawn(width=12).model(0), inputs.rows(torch.arange(0, 240, 30)))


def test_trace_is_the_dense_hessians_at_zero_loss(inputs):
    """Lemma F.4 with its factor 2, all four parameters with gradients of their own."""
    some, model = inputs.rows(torch.arange(0, 240, 30)), solved_with_attention(inputs)
    assert run(model, some).loss < ZERO_LOSS
    assert all(part > 0 for part in theory.trace_parts(model, some).values())
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
    assert run(model, all_inputs).loss < ZERO_LOSS
    assert float(hessian_trace(model, all_inputs)) == pytest.approx(4 / (width * length**0.5), rel=1e-12)
    assert lower_bound(length, width) == pytest.approx(4 / (width * length**0.5), rel=1e-12)
    assert max(conditions(model, all_inputs).values()) < 1e-12
    assert theory.cancellation(model, all_inputs) == pytest.approx(1)
    assert theory.off_direction(model) < 1e-12
    assert not theory.kinks(model, all_inputs).any()
    if length == 6:
        assert dense_hessian_trace(model, all_inputs) == pytest.approx(lower_bound(length, width), rel=1e-8)


@pytest.mark.parametrize("length", [6, 8])
def test_the_kinked_solution_meets_the_conditions(length):
    """The counter-example to Lemma F.3."""
    model, all_inputs = kinked_solution(length), pretraining_inputs(length)
    assert run(model, all_inputs).loss < ZERO_LOSS
    assert float(hessian_trace(model, all_inputs)) == pytest.approx(lower_bound(length, 4), rel=1e-9)
    assert max(conditions(model, all_inputs).values()) < 1e-12
    assert float(theory.kinks(model, all_inputs).double().mean()) == 0.5
    multiples = model.value[:, :length].std(1) < 1e-12
    assert not multiples.any()


def test_uneven_keys_break_the_bound_and_keep_the_conditions(inputs):
    """Lemma F.1's "if and only if" needs the gradient by Q and K too."""
    model = transferable_solution(6, 4)._replace(key=drawn().key[0, :1])
    residuals = conditions(model, inputs)
    assert max(residuals[name] for name in ("balance", "cancellation", "uniformity")) < 1e-12
    assert residuals["scores"] > 0.1
    assert float(hessian_trace(model, inputs)) > 1.5 * lower_bound(6, 4)
    assert dense_hessian_trace(model, inputs) == pytest.approx(float(hessian_trace(model, inputs)))


def test_random_features_fit_and_cancel(inputs):
    model = theory.random_feature_solution(inputs, 200, torch.Generator().manual_seed(0))
    assert run(model, inputs).loss < ZERO_LOSS
    assert float(hessian_trace(model, inputs)) > 5 * lower_bound(6, 200)
    assert theory.cancellation(model, inputs) > 2
    assert float(model.value.square().mean()) == pytest.approx(6, rel=0.1)


def test_the_smallest_head_is_that_of_least_squares(inputs):
    some = inputs.rows(torch.arange(5))
    features = run(drawn(width=12).model(0), some).features
    expected = torch.linalg.lstsq(features / 12, some.target[:, None], driver="gelsd").solution.squeeze(1)
    torch.testing.assert_close(smallest_head(features, some.target), expected)


def test_the_smoothed_pass_tends_to_the_exact_one(inputs):
    model = drawn().model(0)
    smoothed, exact = run(model, inputs, 1e6), run(model, inputs)
    torch.testing.assert_close(smoothed.loss, exact.loss, rtol=1e-4, atol=0)
    traces = (hessian_trace(model, inputs, done) for done in (smoothed, exact))
    torch.testing.assert_close(*traces, rtol=1e-4, atol=0)


# Allowed neurons, by brute force.


def test_neurons_that_the_conditions_allow():
    """One of case 1, 2ᵀ of case 2, and 4T that Lemma F.3 leaves out; brute force at T = 4 over V^(p) too."""
    counts = theory.allowed_neurons(6)
    assert counts == (1 + 2**6 + 4 * 6, 1 + 2**6, 1)
    inputs = pretraining_inputs(4)
    z = (inputs.tokens.sum(1)[inputs.target > 0] * 2).int().numpy()
    grid = np.array(list(product((-2, -1, 0, 1, 2), repeat=4)))
    halves = np.array(list(product((-1, 0, 1), repeat=4)))
    allowed = 0
    for brackets in grid:
        values = (z[:, :4] @ brackets)[:, None] + z[:, 4:] @ halves.T
        allowed += int(np.isin(values, (0, 4)).all(0).sum())
    assert allowed - 1 == theory.allowed_neurons(4).all  # all but V = 0


# Probabilities of success, exact, against exhaustive samples and simulations.


@pytest.mark.parametrize("samples", [1, 2, 3])
@pytest.mark.parametrize("kind", ["solution (1)", "kinked"])
def test_failures_by_every_possible_sample(samples, kind):
    """All 16ⁿ samples of strings of four brackets, each with its fitted head."""
    inputs = downstream_inputs(4)
    model = transferable_solution(4, 3) if kind == "solution (1)" else kinked_solution(4)
    rows = torch.tensor(list(product(range(16), repeat=samples)))
    features = run(model, inputs).features
    losses = theory.head_loss(features, smallest_head(features[rows], inputs.target[rows]), inputs.target)
    share = float((losses > theory.RIGHT).double().mean())
    (exact,) = failure_probability(model, inputs, [samples])
    assert exact == pytest.approx(share, abs=1e-9)
    if kind == "solution (1)":
        assert exact == pytest.approx(missing_sign_probability(4, samples), abs=1e-9)


def test_simulation_agrees_with_the_count():
    model, inputs = kinked_solution(6), downstream_inputs(6)
    (exact,) = failure_probability(model, inputs, [5])
    losses = theory.fitted_losses(model, inputs, 5, 2000, torch.Generator().manual_seed(0))
    failures = float((losses > theory.RIGHT).double().mean())
    assert failures == pytest.approx(exact, abs=4 * (exact * (1 - exact) / 2000) ** 0.5)
    assert abs(exact - missing_sign_probability(6, 5)) > 0.1  # which is 0.24, and not 2⁻⁵


# The search for the flattest solution finds the bound, or says that it failed.


def test_the_search_finds_the_bound():
    models = theory.minimise_trace(6, 3, 2, 350, torch.Generator().manual_seed(0))
    inputs = pretraining_inputs(6)
    solved = run(models, inputs).loss < ZERO_LOSS
    ratios = (hessian_trace(models, inputs) / lower_bound(6, 3))[solved]
    assert 1 - 1e-9 < float(ratios.min()) < 1.1


def test_a_search_that_fails_says_so():
    """Two neurons from seed 0 end with the same sign."""
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(NotConverged, match="None of 1 restarts reached zero loss in 1 steps"):
        theory.minimise_trace(6, 2, 1, 1, generator)


def test_starts_are_random_of_the_asked_spread():
    start = random_start(6, 40, 50, torch.Generator().manual_seed(0), rank=3, spread=(3.0, 0.1))
    assert [tuple(part.shape) for part in start] == [(50, 3, 12), (50, 3, 12), (50, 40, 12), (50, 40)]
    spreads = [float(part.std()) for part in start]
    assert spreads == pytest.approx([0.5, 0.5, 3.0, 0.1], rel=0.05)


def test_a_close_solution_is_reached_and_attention_left_alone():
    inputs = pretraining_inputs(6).rows(torch.arange(0, 240, 30))
    model = random_start(6, 12, 1, torch.Generator().manual_seed(0), rank=2).model(0)
    close = theory.to_zero_loss(model, inputs)
    assert run(close, inputs).loss < ZERO_LOSS < run(model, inputs).loss
    torch.testing.assert_close((close.query, close.key), (model.query, model.key))
    assert (close.head - model.head).norm() < 3 * model.head.norm()


# Random features: their rank, the head of the paper's proof, and the least norm of any head.


def test_the_proofs_head_has_the_expected_loss():
    """(2T² + 3)/m within 4 s.e., the s.e. below a tenth; Lemma F.7's weights."""
    inputs, generator = pretraining_inputs(6), torch.Generator().manual_seed(0)
    drawn = [theory.random_feature_solution(inputs, 500, generator) for _ in range(100)]
    heads = [theory.constructed_head(model) for model in drawn]
    solutions = (model._replace(head=head) for model, head in zip(drawn, heads, strict=True))
    losses = torch.stack([run(model, inputs).loss for model in solutions]) / theory.constructed_loss(6, 500)
    error = float(losses.std()) / 10
    assert error < 0.1
    assert float(losses.mean()) == pytest.approx(1, abs=4 * error)
    assert float(torch.stack(heads).square().mean()) == pytest.approx(4 * 36, rel=0.05)


def test_random_features_have_the_predicted_rank():
    inputs = pretraining_inputs(6)
    for width, rank in ((100, 100), (300, 132)):
        model = theory.random_feature_solution(inputs, width, torch.Generator().manual_seed(0))
        features = run(model, inputs).features
        assert int(torch.linalg.matrix_rank(features)) == rank <= theory.exact_width(inputs) == 132
        assert bool(run(model, inputs).loss < ZERO_LOSS) is (rank == 132)
        assert float(model.head.square().sum()) > theory.least_norm(features)


def test_no_head_is_smaller_than_the_least_norm():
    """Ridge regressions of every strength, as far as their loss is at most 0.1."""
    inputs = pretraining_inputs(6)
    model = theory.random_feature_solution(inputs, 150, torch.Generator().manual_seed(1))
    features = run(model, inputs).features / 150
    least, smallest = theory.least_norm(150 * features), float("inf")
    for strength in np.logspace(-9, 1, 40):
        gram = features.T @ features / 240 + strength * torch.eye(150).double()
        head = torch.linalg.solve(gram, features.T @ inputs.target / 240)
        if float((features @ head - inputs.target).square().mean()) <= 0.1:
            smallest = min(smallest, float(head.square().sum()))
    assert least < smallest < 1e9


# SGD with label noise: what it lowers, what its noise is, and where it diverges.


def test_training_lowers_the_loss_and_noise_the_trace():
    inputs, generator = pretraining_inputs(6), torch.Generator().manual_seed(0)
    start = random_start(6, 4, 6, generator, 2, (6**0.5, 1.0))
    noise = torch.tensor([0.0, 0, 0, 1, 1, 1]).double()
    options = {"lr": 0.3, "batch": 16, "checkpoints": (0, 1000), "generator": generator}
    (_, before), (step, after) = theory.label_noise_sgd(start, inputs, noise, **options)
    assert step == 1000
    assert run(after, inputs).loss.median() < 0.2 * run(before, inputs).loss.median()
    traces = hessian_trace(after, inputs)
    assert traces[3:].median() < traces[:3].median()


def test_noise_is_of_its_size_and_mean_zero():
    inputs = pretraining_inputs(6)
    batch = theory.noisy_batch(
        inputs, torch.tensor([0.0, 0.5]).double(), 4000, torch.Generator().manual_seed(0)
    )
    off = batch.target - -batch.tokens.sum(2)[..., :6].sum(-1)
    assert not off[0].any()
    assert off[1].abs().eq(0.5).all()
    assert abs(float(off[1].mean())) < 4 * 0.5 / 4000**0.5


def test_a_learning_rate_too_large_is_one_sentence():
    inputs, generator = pretraining_inputs(6), torch.Generator().manual_seed(0)
    start = random_start(6, 4, 1, generator, 2)
    options = {"lr": 1e4, "batch": 8, "checkpoints": (0, 60), "generator": generator}
    with pytest.raises(NonFiniteLoss, match="diverged before step 60 at learning rate 10000"):
        list(theory.label_noise_sgd(start, inputs, torch.zeros(1).double(), **options))


def test_checkpoints_are_yielded_after_their_steps():
    """The first is the start; the others do not depend on which are asked for."""
    inputs, start = pretraining_inputs(6), random_start(6, 3, 2, torch.Generator().manual_seed(0), 1)

    def trained(*checkpoints):
        generator = torch.Generator().manual_seed(1)
        options = {"lr": 0.1, "batch": 4, "checkpoints": checkpoints, "generator": generator}
        return dict(theory.label_noise_sgd(start, inputs, torch.ones(2).double(), **options))

    all_of_them, last = trained(0, 2, 5), trained(5)
    assert list(all_of_them) == [0, 2, 5]
    torch.testing.assert_close(tuple(all_of_them[0]), tuple(start))
    torch.testing.assert_close(tuple(all_of_them[5]), tuple(last[5]))
