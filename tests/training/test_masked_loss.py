"""The masked loss: noise of the labels, and targets of several masks."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sameloss.languages.masking import mask_share
from sameloss.training.objectives import noisy_targets, plain_loss, true_conditionals


def logits_of(model, batch):
    return model(batch.masked, batch.positions, batch.lengths)


def test_without_noise_scaled_it_is_the_plain_loss(tiny_language, tiny_model, batch):
    targets = noisy_targets(tiny_language, batch, 1.0)
    plain = plain_loss(tiny_model, batch)
    torch.testing.assert_close(F.cross_entropy(logits_of(tiny_model, batch), targets), plain.masked)
    assert plain.total is plain.masked


def test_soft_labels_are_the_mean_of_sampled_ones(tiny_language, tiny_model, batch):
    """Averaged over the words that can stand behind the mask, sampled labels give the exact ones."""
    truth = true_conditionals(tiny_language, batch)
    logits = logits_of(tiny_model, batch)
    averaged = 0.0
    for word in range(tiny_language.words):
        there = torch.full_like(batch.targets, word)
        averaged = averaged + F.cross_entropy(logits, there, reduction="none") * truth[:, word]
    soft = F.cross_entropy(logits, noisy_targets(tiny_language, batch, 0.0))
    torch.testing.assert_close(soft, averaged.mean(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_noise_scales_the_deviation_of_the_gradient_alone(tiny_language, tiny_model, batch, scale):
    def gradient_at(noise):
        targets = noisy_targets(tiny_language, batch, noise)
        loss = F.cross_entropy(logits_of(tiny_model, batch), targets)
        parts = torch.autograd.grad(loss, list(tiny_model.parameters()))
        return torch.cat([part.flatten() for part in parts])

    exact, sampled = gradient_at(0.0), gradient_at(1.0)
    assert (sampled - exact).norm() > 1e-2
    torch.testing.assert_close(gradient_at(scale) - exact, scale * (sampled - exact), rtol=1e-7, atol=1e-10)


def test_targets_of_several_masks_are_their_marginals(tiny_language):
    """With k masks the target of each is its conditional given the tokens that are left."""
    sentences = tiny_language.sample(8, torch.Generator().manual_seed(0))
    batch = mask_share(sentences, 0.6, np.random.default_rng(0))
    truth = true_conditionals(tiny_language, batch)
    hidden = int((batch.masked[0] == 0).sum())
    assert hidden > 1
    every = torch.cartesian_prod(*[torch.arange(1, 4)] * 4)
    prob = tiny_language.log_prob(type(sentences)(every, torch.full((81,), 4))).exp()
    agrees = ((batch.masked[0] == 0) | (every == batch.masked[0])).all(1)
    mass = [prob[agrees & (every[:, batch.positions[0]] == w)].sum() for w in (1, 2, 3)]
    torch.testing.assert_close(truth[0], torch.stack(mass) / sum(mass), rtol=1e-9, atol=0)
