"""Objectives: the masked loss and the terms that are added to it."""

import pytest
import torch
from torch.nn import functional as F

from sameloss.errors import ParameterError
from sameloss.training.objectives import (
    ORDINARY,
    Adversary,
    Objective,
    TracePenalty,
    loss_of,
    noisy_targets,
    plain_loss,
)

ADVERSARY, PENALTY = Adversary(0.7, sentences=20), TracePenalty(0.3)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("objective", [ORDINARY, Objective(mask_rate=0.15)])
def test_one_mask_or_a_share_and_sampled_labels_are_plain_training(objective, tiny_language):
    assert loss_of(objective, seeded(), tiny_language) is plain_loss


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_label_noise_changes_the_targets(tiny_language, tiny_model, batch, noise):
    losses = loss_of(Objective(label_noise=noise), seeded(), tiny_language)(tiny_model, batch)
    logits = tiny_model(batch.masked, batch.positions, batch.lengths)
    expected = F.cross_entropy(logits, noisy_targets(tiny_language, batch, noise))
    assert torch.equal(losses.masked, expected)
    assert losses.total is losses.masked


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_terms_are_added_to_the_masked_loss(tiny_language, tiny_model, batch, examples, noise):
    both = Objective(label_noise=noise, adversary=ADVERSARY, trace_penalty=PENALTY)
    losses = loss_of(both, seeded(), tiny_language, examples)(tiny_model, batch)
    logits, generator = tiny_model(batch.masked, batch.positions, batch.lengths), seeded()
    adversary, penalty = ADVERSARY.term(generator, examples), PENALTY.term(generator)
    added = penalty(tiny_model, logits) + adversary(tiny_model, logits)
    assert float(added.detach().abs()) > 0.1
    torch.testing.assert_close(losses.total, losses.masked + added)
    bare = loss_of(Objective(label_noise=noise), seeded(), tiny_language)(tiny_model, batch)
    torch.testing.assert_close(losses.masked, bare.masked)


def test_exact_targets_keep_their_digits_under_autocast(tiny_language, tiny_model, batch):
    """The logits are rounded to bfloat16, the targets are not."""
    model, objective = tiny_model.float(), Objective(label_noise=0.0)
    with torch.autocast("cpu", torch.bfloat16):
        losses = loss_of(objective, seeded(), tiny_language)(model, batch)
        logits = model(batch.masked, batch.positions, batch.lengths)
    assert logits.dtype == torch.bfloat16
    exact = F.cross_entropy(logits.double(), noisy_targets(tiny_language, batch, 0.0))
    torch.testing.assert_close(losses.masked.double(), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label_noise": -0.5}, r"label_noise must be finite and not negative; got -0.5"),
        ({"mask_rate": 1.0}, r"mask_rate must lie between 0 and 1; got 1.0"),
    ],
)
def test_impossible_objectives(settings, message):
    with pytest.raises(ParameterError, match=message):
        Objective(**settings)
