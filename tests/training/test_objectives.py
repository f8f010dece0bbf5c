"""Objectives: noise of the labels, the adversary's closed form, the differentiable trace."""

import pytest
import torch
from sklearn.linear_model import Ridge
from torch.nn import functional as F

from sameloss.errors import ParameterError
from sameloss.languages.masking import mask_batch, mask_share
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.training.objectives import (
    Labelled,
    Objective,
    fisher_trace_along,
    loss_of,
    one_hot_classes,
    plain_loss,
    random_signs,
    token_features,
    transfer_loss,
    true_conditionals,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def batch(tiny_language):
    sentences = tiny_language.sample(64, seeded())
    return mask_batch(sentences, torch.arange(64) % 4)


@pytest.fixture
def downstream(tiny_language):
    labels = torch.stack([torch.arange(60) % 2, torch.arange(60) % 3], 1)
    return Labelled(tiny_language.sample(60, seeded(1)), one_hot_classes(labels, (2, 3)))


def loss(objective, language, batch, model, downstream=None, seed=0):
    return loss_of(objective, seeded(seed), language, downstream)(model, batch)


def gradient(value, model):
    parts = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
    return torch.cat([g.flatten() for g in parts if g is not None])


def test_one_mask_and_sampled_labels_are_ordinary_training(tiny_language, tiny_model, batch):
    general = loss(Objective(label_noise=1.0, trace_penalty=1e-12), tiny_language, batch, tiny_model)
    torch.testing.assert_close(general.masked, plain_loss(tiny_model, batch).masked)
    assert loss_of(Objective(mask_rate=0.15), seeded()) is plain_loss


def test_soft_labels_are_the_mean_of_sampled_ones(tiny_language, tiny_model, batch):
    """Averaged over the words that can stand behind the mask, sampled labels give the exact ones."""
    truth = true_conditionals(tiny_language, batch)
    soft = loss(Objective(label_noise=0.0), tiny_language, batch, tiny_model).total
    averaged = 0.0
    for word in range(tiny_language.words):
        logits = tiny_model(batch.masked, batch.positions, batch.lengths)
        there = batch._replace(targets=torch.full_like(batch.targets, word))
        averaged = averaged + (F.cross_entropy(logits, there.targets, reduction="none") * truth[:, word])
    torch.testing.assert_close(soft, averaged.mean(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_noise_scales_the_deviation_of_the_gradient_alone(tiny_language, tiny_model, batch, scale):
    def at(noise):
        return gradient(
            loss(Objective(label_noise=noise), tiny_language, batch, tiny_model).total, tiny_model
        )

    exact, sampled = at(0.0), at(1.0)
    assert (sampled - exact).norm() > 1e-2
    torch.testing.assert_close(at(scale) - exact, scale * (sampled - exact), rtol=1e-7, atol=1e-10)


def test_targets_of_several_masks_are_their_marginals(tiny_language, tiny_model):
    """With k masks the target of each is its conditional given the tokens that are left."""
    import numpy as np

    sentences = tiny_language.sample(8, seeded())
    batch = mask_share(sentences, 0.6, np.random.default_rng(0))
    truth = true_conditionals(tiny_language, batch)
    hidden = int((batch.masked[0] == 0).sum())
    assert hidden > 1
    every = torch.cartesian_prod(*[torch.arange(1, 4)] * 4)
    prob = tiny_language.log_prob(type(sentences)(every, torch.full((81,), 4))).exp()
    agrees = ((batch.masked[0] == 0) | (every == batch.masked[0])).all(1)
    mass = [prob[agrees & (every[:, batch.positions[0]] == w)].sum() for w in (1, 2, 3)]
    torch.testing.assert_close(truth[0], torch.stack(mass) / sum(mass), rtol=1e-9, atol=0)


def test_the_adversarys_head_is_ridge_regression(tiny_model, downstream):
    first, second = (
        Labelled(downstream.sentences.rows(rows), downstream.classes[rows])
        for rows in (slice(0, 30), slice(30, 60))
    )
    found = transfer_loss(tiny_model, first, second, ridge=0.1)
    h1, h2 = (token_features(tiny_model, part.sentences).detach() for part in (first, second))
    alpha = 0.1 * h1.square().sum(1).mean()
    head = Ridge(alpha=float(alpha), fit_intercept=False, tol=1e-12).fit(h1.numpy(), first.classes.numpy())
    off = head.predict(h2.numpy()) - second.classes.numpy()
    assert float(found.detach()) == pytest.approx((off**2).sum(1).mean(), rel=1e-9)


def test_the_gradient_goes_through_the_head(tiny_model, downstream):
    """A finite difference moves the head along with the representation."""
    first, second = (
        Labelled(downstream.sentences.rows(rows), downstream.classes[rows].double())
        for rows in (slice(0, 30), slice(30, 60))
    )

    def value():
        return transfer_loss(tiny_model, first, second, ridge=0.1)

    parameter = tiny_model.word.weight
    (exact,) = torch.autograd.grad(value(), [parameter])
    step = 1e-5
    with torch.no_grad():
        parameter[1, 2] += step
        up = value()
        parameter[1, 2] -= 2 * step
        down = value()
    assert float(exact[1, 2]) == pytest.approx(float((up - down) / (2 * step)), rel=1e-6)


def test_scaling_the_representation_gains_the_adversary_nothing(tiny_model, downstream):
    def value(scale):
        with torch.no_grad():
            tiny_model.final_norm.weight.mul_(scale)
            tiny_model.final_norm.bias.mul_(scale)
        first, second = (
            Labelled(downstream.sentences.rows(rows), downstream.classes[rows])
            for rows in (slice(0, 30), slice(30, 60))
        )
        return float(transfer_loss(tiny_model, first, second, ridge=0.1).detach())

    large = value(1e3)
    assert value(1e3) == pytest.approx(large, rel=1e-4)  # both so large that the constant counts no more


def test_the_adversary_is_subtracted(tiny_language, tiny_model, batch, downstream):
    objective = Objective(adversary=0.7, adversary_sentences=20)
    losses = loss(objective, tiny_language, batch, tiny_model, downstream)
    drawn = torch.randperm(60, generator=seeded())[:40].split(20)
    parts = [Labelled(downstream.sentences.rows(r), downstream.classes[r]) for r in drawn]
    expected = losses.masked - 0.7 * transfer_loss(tiny_model, *parts, 0.1)
    torch.testing.assert_close(losses.total, expected)


def averaged_over_signs(model, batch):
    """Return the mean over all signs: for one sentence, the expectation."""
    logits = model(batch.masked, batch.positions, batch.lengths)
    every = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0], dtype=torch.float64)] * 3)
    return sum(fisher_trace_along(model, logits, signs[None]) for signs in every) / len(every)


def test_the_mean_over_signs_is_the_trace(tiny_model, batch):
    one = batch.rows(slice(5, 6))
    exact = fisher_trace(tiny_model, one, estimator="exact").total.mean
    assert float(averaged_over_signs(tiny_model, one).detach()) == pytest.approx(exact, rel=1e-10)


def test_its_gradient_is_that_of_the_trace(tiny_model, batch):
    one, parameter = batch.rows(slice(5, 6)), tiny_model.head_bias
    (gradient,) = torch.autograd.grad(averaged_over_signs(tiny_model, one), [parameter])

    def exact(shift):
        with torch.no_grad():
            parameter[0] += shift
        value = fisher_trace(tiny_model, one, estimator="exact").total.mean
        with torch.no_grad():
            parameter[0] -= shift
        return value

    assert float(gradient[0]) == pytest.approx((exact(1e-5) - exact(-1e-5)) / 2e-5, rel=1e-5)


def test_sentences_do_not_mix_on_average(tiny_model, batch):
    logits = tiny_model(batch.masked, batch.positions, batch.lengths)
    draws = [
        fisher_trace_along(tiny_model, logits, random_signs(logits.shape, seeded(seed)).double())
        for seed in range(400)
    ]
    values = torch.stack(draws).detach()
    exact = fisher_trace(tiny_model, batch, estimator="exact").total.mean
    error = float(values.std() / len(values) ** 0.5)
    assert error < 0.05 * exact
    assert abs(float(values.mean()) - exact) < 4 * error


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"adversary": -1.0}, "adversary must not be negative; got -1.0"),
        ({"label_noise": -0.5}, "label_noise must not be negative"),
        ({"mask_rate": 1.0}, "mask_rate must lie between 0 and 1; got 1.0"),
    ],
)
def test_impossible_objectives(settings, message):
    with pytest.raises(ParameterError, match=message):
        Objective(**settings)


def test_too_few_downstream_sentences(tiny_language, tiny_model, batch, downstream):
    with pytest.raises(ParameterError, match="needs 2 x 128 downstream sentences; there are 60"):
        loss(Objective(adversary=0.1), tiny_language, batch, tiny_model, downstream)
