"""Probes that AdamW trains: against scikit-learn where they train for long, and their invariances."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from sameloss.errors import ParameterError
from sameloss.measures.downstream.adamw_probe import AdamWProbe

LONG = AdamWProbe(epochs=400, batch=1000, lr=0.03)


def make_data(seeds=2, examples=1000, width=6, classes=3):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(seeds, examples, width, generator=generator)
    features = features * torch.logspace(-1, 1, width) + 3
    truth = torch.randn(width, classes, generator=generator)
    noise = torch.rand(seeds, examples, classes, generator=generator)
    labels = (features - 3).div(torch.logspace(-1, 1, width)) @ truth - (-noise.log()).log()
    return features, labels.argmax(-1, keepdim=True)


@pytest.mark.parametrize("projection", [None, 2])
def test_converged_probes_match_scikit_learn(projection):
    features, labels = make_data()
    probes = replace(LONG, projection=projection).fit(features, labels, [3], seed=0)
    logits = probes.logits(features)[0]
    accuracy = probes.predict(features).eq(labels).double().mean((1, 2))
    for seed in range(2):
        read = features[seed] if projection is None else features[seed] @ probes.projection[seed]
        scaled = (read - read.mean(0)) / read.std(0)
        reference = LogisticRegression(C=np.inf, max_iter=5000, tol=1e-8).fit(scaled, labels[seed, :, 0])
        predicted = logits[seed].softmax(-1).numpy()
        np.testing.assert_allclose(predicted, reference.predict_proba(scaled), atol=5e-3)
        centred = logits[seed] - logits[seed].mean(-1, keepdim=True)
        np.testing.assert_allclose(centred.numpy(), reference.decision_function(scaled), atol=0.1)
        assert accuracy[seed].item() == pytest.approx(reference.score(scaled, labels[seed, :, 0]), abs=2e-3)


def test_tasks_do_not_influence_each_other():
    features, labels = make_data()
    other = torch.randint(0, 5, labels.shape, generator=torch.Generator().manual_seed(1))
    alone = LONG.fit(features, labels, [3], seed=0).logits(features)[0].softmax(-1)
    both = LONG.fit(features, torch.cat([labels, other], -1), [3, 5], seed=0)
    torch.testing.assert_close(both.logits(features)[0].softmax(-1), alone, rtol=0, atol=5e-3)


def test_standardised_probes_ignore_the_scale_of_features():
    features, labels = make_data()
    short = AdamWProbe(epochs=5, batch=100)
    fits = [short.fit(scale * features, labels, [3], seed=0) for scale in (1.0, 1000.0)]
    torch.testing.assert_close(fits[0].weight, fits[1].weight, rtol=1e-3, atol=1e-4)
    raw = AdamWProbe(epochs=5, batch=100, standardise=False)
    fits = [raw.fit(scale * features, labels, [3], seed=0) for scale in (1.0, 1000.0)]
    assert not torch.allclose(fits[0].weight, fits[1].weight, rtol=1e-3, atol=1e-4)


def test_seeds_train_on_their_own_sentences():
    features, labels = make_data()
    labels[1] = (labels[1] + 1) % 3
    probes = LONG.fit(features, labels, [3], seed=0)
    correct = probes.correct(features[0], labels[0])
    assert correct.shape == (2, 1000, 1)
    accuracy = correct.float().mean(1).squeeze()
    assert accuracy[0] > 0.6
    assert accuracy[1] < 0.3


def test_constant_features_are_harmless():
    features, labels = make_data()
    features[..., 0] = 7.0
    probes = AdamWProbe(epochs=2, batch=100).fit(features, labels, [3], seed=0)
    assert probes.weight.isfinite().all()


def test_the_seed_decides_the_result():
    features, labels = make_data()
    short = AdamWProbe(epochs=2, batch=100)
    fit = lambda seed: short.fit(features, labels, [3], seed).weight  # noqa: E731
    assert torch.equal(fit(0), fit(0))
    assert not torch.equal(fit(0), fit(1))


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_accuracy_of_certain_data(share):
    features = torch.tensor([[-1.0], [1.0]]).repeat(50, 1)[None]
    labels = (features > 0).long()
    probes = LONG.fit(features, labels, [2], seed=0)
    shown = labels[0] if share else 1 - labels[0]
    assert probes.correct(features[0], shown).float().mean() == share


def test_the_seed_decides_the_projection():
    features, labels = make_data()
    probe = AdamWProbe(epochs=1, projection=4)
    drawn = [probe.fit(features, labels, [3], seed).projection for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_a_projection_bounds_what_a_probe_can_learn_by_heart():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(1, 100, 300, generator=generator)
    labels = torch.randint(0, 2, (1, 100, 1), generator=generator)
    learned = [
        replace(LONG, epochs=100, projection=width)
        .fit(features, labels, [2], seed=0)
        .correct(features, labels[0])
        .float()
        .mean()
        for width in (None, 200, 3)
    ]
    assert learned[:2] == [1, 1]
    assert learned[2] < 0.75


def test_a_projection_to_nothing_is_refused():
    with pytest.raises(ParameterError, match="projection must be a whole number, at least 1; got 0"):
        AdamWProbe(projection=0)
