"""The search for the flattest solution, SGD with label noise, random features."""

import numpy as np
import pytest
import torch

from sameloss.errors import NonFiniteLoss, NotConverged
from sameloss.studies.dyck.search import (
    constructed_head,
    constructed_loss,
    exact_width,
    label_noise_sgd,
    least_norm,
    measured,
    minimise_trace,
    noisy_batch,
    random_start,
    to_zero_loss,
)
from sameloss.studies.dyck.theory import (
    ZERO_LOSS,
    Transformer,
    downstream_inputs,
    hessian_trace,
    lower_bound,
    pretraining_inputs,
    pretraining_loss,
    run,
)

# The search for the flattest solution finds the bound, or says that it failed.


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


def test_many_models_stay_one_tuple():
    assert Transformer(*random_start(6, 2, 3, torch.Generator(), 1)).model(1).width == 2


def test_starts_are_random_of_the_asked_spread():
    start = random_start(6, 40, 50, torch.Generator().manual_seed(0), rank=3, spread=(3.0, 0.1))
    assert [tuple(part.shape) for part in start] == [(50, 3, 12), (50, 3, 12), (50, 40, 12), (50, 40)]
    spreads = [float(part.std()) for part in start]
    assert spreads == pytest.approx([0.5, 0.5, 3.0, 0.1], rel=0.05)


def test_a_close_solution_is_reached_and_attention_left_alone():
    inputs = pretraining_inputs(6).rows(torch.arange(0, 240, 30))
    model = random_start(6, 12, 1, torch.Generator().manual_seed(0), rank=2).model(0)
    close = to_zero_loss(model, inputs)
    assert pretraining_loss(close, inputs) < ZERO_LOSS < pretraining_loss(model, inputs)
    torch.testing.assert_close((close.query, close.key), (model.query, model.key))
    assert (close.head - model.head).norm() < 3 * model.head.norm()


# Random features: their rank, the head of the paper's proof, and the least norm of any head.


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


# SGD with label noise: what it lowers, what its noise is, and where it diverges.


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


def test_checkpoints_are_yielded_after_their_steps():
    """The first is the start; the others do not depend on which are asked for."""
    inputs, start = pretraining_inputs(6), random_start(6, 3, 2, torch.Generator().manual_seed(0), 1)

    def trained(*checkpoints):
        generator = torch.Generator().manual_seed(1)
        options = {"lr": 0.1, "batch": 4, "checkpoints": checkpoints, "generator": generator}
        return dict(label_noise_sgd(start, inputs, torch.ones(2).double(), **options))

    all_of_them, last = trained(0, 2, 5), trained(5)
    assert list(all_of_them) == [0, 2, 5]
    torch.testing.assert_close(tuple(all_of_them[0]), tuple(start))
    torch.testing.assert_close(tuple(all_of_them[5]), tuple(last[5]))
