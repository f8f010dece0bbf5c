"""SGD with label noise: what it lowers, what its noise is, and where it diverges."""

import pytest
import torch

from sameloss.errors import NonFiniteLoss
from sameloss.studies.dyck.search import label_noise_sgd, noisy_batch, random_start
from sameloss.studies.dyck.theory import hessian_trace, pretraining_inputs, pretraining_loss


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
