"""Probes against scikit-learn, and the invariances they must have."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from sameloss.downstream.probe import ProbeSettings, fit_probes

LONG = ProbeSettings(epochs=400, batch=1000, lr=0.03)


def make_data(seeds=2, examples=1000, width=6, classes=3):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(seeds, examples, width, generator=generator)
    features = features * torch.logspace(-1, 1, width) + 3
    truth = torch.randn(width, classes, generator=generator)
    noise = torch.rand(seeds, examples, classes, generator=generator)
    labels = (features - 3).div(torch.logspace(-1, 1, width)) @ truth - (-noise.log()).log()
    return features, labels.argmax(-1, keepdim=True)


def test_converged_probes_match_scikit_learn():
    features, labels = make_data()
    probes = fit_probes(features, labels, [3], LONG, seed=0)
    predicted = probes.logits(features)[0].softmax(-1)
    for seed in range(2):
        reference = LogisticRegression(C=np.inf, max_iter=5000, tol=1e-8)
        reference.fit((features[seed] - probes.centre[seed]) / probes.spread[seed], labels[seed, :, 0])
        expected = reference.predict_proba((features[seed] - probes.centre[seed]) / probes.spread[seed])
        np.testing.assert_allclose(predicted[seed].numpy(), expected, atol=5e-3)


def test_tasks_do_not_influence_each_other():
    features, labels = make_data()
    other = torch.randint(0, 5, labels.shape, generator=torch.Generator().manual_seed(1))
    alone = fit_probes(features, labels, [3], LONG, seed=0).logits(features)[0].softmax(-1)
    both = fit_probes(features, torch.cat([labels, other], -1), [3, 5], LONG, seed=0)
    torch.testing.assert_close(both.logits(features)[0].softmax(-1), alone, rtol=0, atol=5e-3)


def test_standardised_probes_ignore_the_scale_of_features():
    features, labels = make_data()
    short = ProbeSettings(epochs=5, batch=100)
    fits = [fit_probes(scale * features, labels, [3], short, seed=0) for scale in (1.0, 1000.0)]
    torch.testing.assert_close(fits[0].weight, fits[1].weight, rtol=1e-3, atol=1e-4)
    raw = ProbeSettings(epochs=5, batch=100, standardise=False)
    fits = [fit_probes(scale * features, labels, [3], raw, seed=0) for scale in (1.0, 1000.0)]
    assert not torch.allclose(fits[0].weight, fits[1].weight, rtol=1e-3, atol=1e-4)


def test_seeds_train_on_their_own_sentences():
    features, labels = make_data()
    labels[1] = (labels[1] + 1) % 3
    probes = fit_probes(features, labels, [3], LONG, seed=0)
    correct = probes.correct(features[0], labels[0])
    assert correct.shape == (2, 1000, 1)
    accuracy = correct.float().mean(1).squeeze()
    assert accuracy[0] > 0.6
    assert accuracy[1] < 0.3


def test_constant_features_are_harmless():
    features, labels = make_data()
    features[..., 0] = 7.0
    probes = fit_probes(features, labels, [3], ProbeSettings(epochs=2, batch=100), seed=0)
    assert probes.weight.isfinite().all()


def test_the_seed_decides_the_result():
    features, labels = make_data()
    short = ProbeSettings(epochs=2, batch=100)
    fit = lambda seed: fit_probes(features, labels, [3], short, seed).weight  # noqa: E731
    assert torch.equal(fit(0), fit(0))
    assert not torch.equal(fit(0), fit(1))


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_accuracy_of_certain_data(share):
    features = torch.tensor([[-1.0], [1.0]]).repeat(50, 1)[None]
    labels = (features > 0).long()
    probes = fit_probes(features, labels, [2], LONG, seed=0)
    shown = labels[0] if share else 1 - labels[0]
    assert probes.correct(features[0], shown).float().mean() == share
