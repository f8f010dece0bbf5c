"""Probabilities of success against exhaustive samples; searches, trainings and single neurons."""

from itertools import product

import numpy as np
import pytest
import torch

from sameloss.errors import ModelError, NonFiniteLoss, NotConverged
from sameloss.studies.dyck.downstream import (
    RIGHT,
    downstream_loss,
    error_after,
    failure_probability,
    simulated_failures,
)
from sameloss.studies.dyck.language import downstream_inputs, missing_sign_probability, pretraining_inputs
from sameloss.studies.dyck.minimisation import minimise_trace, random_start
from sameloss.studies.dyck.neurons import allowed_neurons, cyclic_matrix, exact_rank, wrong_activations
from sameloss.studies.dyck.random_features import (
    constructed_head,
    constructed_loss,
    exact_width,
    least_norm,
    measured,
)
from sameloss.studies.dyck.training import label_noise_sgd, noisy_batch
from sameloss.studies.dyck.transformer import (
    ZERO_LOSS,
    Transformer,
    hessian_trace,
    kinked_solution,
    lower_bound,
    pretraining_loss,
    run,
    smallest_head,
    transferable_solution,
)


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


def test_the_proofs_head_has_the_expected_loss():
    """(2T² + 3)/m within 4 s.e., the s.e. below a tenth; Lemma F.7's weights."""
    inputs, generator = pretraining_inputs(6), torch.Generator().manual_seed(0)
    start = random_start(6, 500, 100, generator, 1, (6**0.5, 1.0)).uniform()
    heads = torch.stack([constructed_head(start.model(at), 6) for at in range(100)])
    losses = pretraining_loss(start._replace(head=heads), inputs) / constructed_loss(6, 500)
    error = float(losses.std()) / 10
    assert error < 0.1
    assert float(losses.mean()) == pytest.approx(1, abs=4 * error)
    assert float(heads.square().mean()) == pytest.approx(4 * 36, rel=0.05)


def test_random_features_have_the_predicted_rank():
    inputs, downstream = pretraining_inputs(6), downstream_inputs(6)
    generator = torch.Generator().manual_seed(0)
    model = random_start(6, 300, 1, generator, 1).model(0).uniform()
    assert (
        int(torch.linalg.matrix_rank(run(model, inputs).preactivations.relu())) == exact_width(inputs) == 132
    )
    few, enough = (measured(inputs, downstream, width, 16, generator) for width in (100, 160))
    assert few["loss"] > 1e-8
    assert enough["loss"] < ZERO_LOSS
    for row in (few, enough):
        assert row["norm"] > row["least_norm"]


def test_no_head_is_smaller_than_the_least_norm():
    """Ridge regressions of every strength, as far as their loss is at most 0.1."""
    inputs = pretraining_inputs(6)
    model = random_start(6, 150, 1, torch.Generator().manual_seed(1), 1).model(0).uniform()
    features = run(model, inputs).preactivations.relu() / 150
    least, smallest = least_norm(model, inputs), float("inf")
    for strength in np.logspace(-9, 1, 40):
        gram = features.T @ features / 240 + strength * torch.eye(150).double()
        head = torch.linalg.solve(gram, features.T @ inputs.target / 240)
        if float((features @ head - inputs.target).square().mean()) <= 0.1:
            smallest = min(smallest, float(head.square().sum()))
    assert least < smallest < 1e9


def test_the_search_finds_the_bound():
    found = minimise_trace(6, 3, 2, 350, torch.Generator().manual_seed(0))
    inputs = pretraining_inputs(6)
    solved = pretraining_loss(found, inputs) < ZERO_LOSS
    ratios = (hessian_trace(found, inputs) / lower_bound(6, 3))[solved]
    assert 1 - 1e-9 < float(ratios.min()) < 1.1


def test_a_search_that_fails_says_so():
    """Two neurons from seed 0 end with the same sign."""
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(NotConverged, match="None of 1 restarts reached zero loss in 1 steps"):
        minimise_trace(6, 2, 1, 1, generator)


def test_training_lowers_the_loss_and_noise_the_trace():
    inputs, generator = pretraining_inputs(6), torch.Generator().manual_seed(0)
    start = random_start(6, 4, 6, generator, 2, (6**0.5, 1.0))
    noise = torch.tensor([0.0, 0, 0, 1, 1, 1]).double()
    options = {"lr": 0.3, "batch": 16, "checkpoints": (0, 1000), "generator": generator}
    (_, before), (step, after) = label_noise_sgd(start, inputs, noise, **options)
    assert step == 1000
    assert float(pretraining_loss(after, inputs).median()) < 0.2 * float(
        pretraining_loss(before, inputs).median()
    )
    traces = hessian_trace(after, inputs)
    assert traces[3:].median() < traces[:3].median()


def test_noise_is_of_its_size_and_mean_zero():
    inputs = pretraining_inputs(6)
    batch = noisy_batch(inputs, torch.tensor([0.0, 0.5]).double(), 4000, torch.Generator().manual_seed(0))
    off = batch.target - -batch.tokens.sum(2)[..., :6].sum(-1)
    assert not off[0].any()
    assert off[1].abs().eq(0.5).all()
    assert abs(float(off[1].mean())) < 4 * 0.5 / 4000**0.5


def test_a_learning_rate_too_large_is_one_sentence():
    inputs, generator = pretraining_inputs(6), torch.Generator().manual_seed(0)
    start = random_start(6, 4, 1, generator, 2)
    options = {"lr": 1e4, "batch": 8, "checkpoints": (0, 60), "generator": generator}
    with pytest.raises(NonFiniteLoss, match="diverged before step 60 at learning rate 10000"):
        list(label_noise_sgd(start, inputs, torch.zeros(1).double(), **options))


def test_many_models_stay_one_tuple():
    assert Transformer(*random_start(6, 2, 3, torch.Generator(), 1)).model(1).width == 2
