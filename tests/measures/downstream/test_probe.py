"""What all linear probes share: what they read, and how far from their optimum they are."""

import numpy as np
import pytest
import torch

from sameloss.measures.downstream import LinearProbes, OptimalProbe, scaling


@pytest.fixture
def probes():
    """Probes of two seeds and two tasks, of three features projected to two dimensions."""
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 2, 5), (2, 1, 5), (2, 1, 2), (2, 1, 2)
    weight, bias, centre, spread = (torch.rand(shape, generator=generator) + 0.5 for shape in shapes)
    ridge = torch.tensor([[0.1, 0.2], [0.3, 0.4]])
    projection = torch.randn(2, 3, 2, generator=generator)
    return LinearProbes(weight, bias, centre, spread, (2, 3), ridge, projection)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(1)
    labels = [torch.randint(0, classes, (2, 7), generator=generator) for classes in (2, 3)]
    return torch.randn(2, 7, 3, generator=generator), torch.stack(labels, -1)


def test_features_are_projected_centred_and_scaled(probes, data):
    features, labels = data
    logits = probes.logits(features)
    assert [task.shape for task in logits] == [(2, 7, 2), (2, 7, 3)]
    for seed in range(2):
        read = (features[seed] @ probes.projection[seed] - probes.centre[seed]) / probes.spread[seed]
        expected = read @ probes.weight[seed] + probes.bias[seed]
        torch.testing.assert_close(torch.cat([task[seed] for task in logits], -1), expected)
        best = torch.stack([expected[:, :2].argmax(-1), expected[:, 2:].argmax(-1)], -1)
        assert torch.equal(probes.correct(features, labels[0])[seed], best == labels[0])


def test_the_gradient_is_that_of_mean_loss_and_ridge(probes, data):
    """Of weights, the mean of x (p - y) and λ W; the largest entry of weights and biases counts."""
    features, labels = data
    found = probes.gradient(features, labels)
    read = torch.nn.functional.pad(probes.read(features), (0, 1), value=1.0).double().numpy()
    for seed in range(2):
        weight = torch.cat([probes.weight[seed], probes.bias[seed]]).double().numpy()
        slopes = []
        for task, columns in enumerate((slice(0, 2), slice(2, 5))):
            odds = np.exp(read[seed] @ weight[:, columns])
            wrong = odds / odds.sum(1, keepdims=True) - np.eye(5)[labels[seed, :, task]][:, : odds.shape[1]]
            slopes.append(read[seed].T @ wrong / 7 + float(probes.ridge[seed, task]) * weight[:, columns])
        assert found[seed].item() == pytest.approx(abs(np.hstack(slopes)).max(), rel=1e-6)


def test_projections_are_gaussian_and_each_seed_s_own():
    features, labels = torch.randn(2, 50, 400), torch.tensor([0, 1] * 25).expand(2, -1)[..., None]
    drawn = OptimalProbe(projection=100, iterations=1).fit(features, labels, [2], seed=0).projection
    assert drawn.shape == (2, 400, 100)
    assert not torch.equal(drawn[0], drawn[1])
    entries = 400**0.5 * drawn.double().flatten()  # 80,000 of N(0, 1)
    assert abs(entries.mean()) < 4 / len(entries) ** 0.5
    assert abs(entries.var() - 1) < 4 * (2 / len(entries)) ** 0.5
    assert abs((entries**4).mean() - 3) < 4 * (96 / len(entries)) ** 0.5


def test_scaling_gives_mean_zero_and_variance_one_and_leaves_constants():
    features = torch.randn(2, 50, 3, generator=torch.Generator().manual_seed(0)) * 9 + 4
    features[..., 0] = 7.0
    centre, spread = scaling(features)
    scaled = (features - centre) / spread
    torch.testing.assert_close(scaled.mean(1), torch.zeros(2, 3), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.std(1)[:, 1:], torch.ones(2, 2))
    assert (scaled[..., 0] == 0).all()
