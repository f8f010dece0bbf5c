"""Linear probes: their labels, the features they read, their optimum against scikit-learn's."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from sameloss.errors import ParameterError
from sameloss.languages import Sentences
from sameloss.measures.downstream import (
    LinearProbes,
    OptimalProbe,
    check_labels,
    contextual_features,
    one_hot_features,
    random_expansion,
)

# --- Labels ---


def test_every_seed_and_task_is_checked():
    labels = torch.tensor([[[0, 0], [1, 1]], [[1, 0], [0, 0]]])
    with pytest.raises(ParameterError, match="All 2 training sentences of task 1 are of class 0"):
        check_labels(labels, [2, 2])
    check_labels(labels[:1], [2, 2])


def test_a_class_without_sentences_passes():
    """Only a task with training sentences of one class is refused."""
    check_labels(torch.tensor([[[0], [1], [1]]]), [3])
    check_labels(torch.zeros(1, 2, 1).long(), [1])


@pytest.mark.parametrize(
    ("labels", "fault"),
    [
        (torch.zeros(2, 0, 1).long(), "no labelled sentences"),
        (torch.tensor([[[0], [1]]]), "Task 0 has 3 classes and only 2 training sentences"),
        (torch.tensor([[[0], [1], [3]]]), r"Labels of task 0 lie in 0..2; got 3\."),
        (torch.tensor([[[0], [1], [-1]]]), r"Labels of task 0 lie in 0..2; got -1\."),
        (torch.tensor([[[0], [1], [2]], [[2], [2], [2]]]), "All 3 training sentences .* are of class 2"),
    ],
)
def test_unusable_labels_are_refused(labels, fault):
    with pytest.raises(ParameterError, match=fault):
        check_labels(labels, [3])


# --- Features ---

RAGGED = Sentences(torch.tensor([[1, 2, 3, 1], [3, 1, 2, 2]]), torch.tensor([4, 2]))


def test_contextual_features_concatenate_all_tokens(tiny_model):
    features = contextual_features(tiny_model, RAGGED).unflatten(1, (4, 4))
    with torch.no_grad():
        alone = tiny_model.features(RAGGED.tokens[1:, :2])[0].float()
    torch.testing.assert_close(features[1, :2], alone)
    assert (features[1, 2:] == 0).all()


@pytest.mark.parametrize("train", [8, 40])
def test_features_of_a_diverged_model_are_zero(tiny_model, tiny_language, train):
    """With fewer sentences than features, and with more: NaN would break either decomposition."""
    for weights in tiny_model.parameters():
        weights.data.fill_(torch.nan)
    features = contextual_features(tiny_model, tiny_language.sample(train, torch.Generator().manual_seed(0)))
    assert (features == 0).all()
    labels = torch.tensor([0, 1, 1, 1] * (train // 4))[None, :, None]
    probes = OptimalProbe().fit(features[None], labels, [2], seed=0)
    assert (probes.logits(features[None])[0].argmax(-1) == 1).all()


def test_one_hot_features(tiny_language):
    features = one_hot_features(tiny_language, RAGGED).unflatten(1, (4, 3))
    assert features[0].argmax(-1).tolist() == [0, 1, 2, 0]
    assert features[1].tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_an_expansion_keeps_the_features_and_makes_exclusive_or_linear():
    """Exclusive or is no linear function of two features, but is one of random ReLU features of them."""
    corners = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]).repeat(5, 1)
    labels = (corners[:, 0] != corners[:, 1]).long()[:, None]
    wide = random_expansion(corners, 40)
    assert wide.shape == (20, 40)
    assert wide[:, :2].equal(corners)
    assert (wide[:, 2:] >= 0).all()
    right = [
        OptimalProbe().fit(read[None], labels[None], [2], seed=0).correct(read, labels).double().mean()
        for read in (corners, wide)
    ]
    assert right[0] < 0.8
    assert right[1] == 1
    assert random_expansion(corners, 40).equal(wide)
    with pytest.raises(ParameterError, match="2 features cannot be expanded to 1"):
        random_expansion(corners, 1)


# --- Given probes ---


def read_by(probes, features):
    """Features projected and standardised, an axis for seeds first."""
    projected = features if probes.projection is None else features @ probes.projection
    return (projected - probes.centre) / probes.spread


def gradient(probes, features, labels):
    """Largest entry of the gradient of each seed's objective: the mean of x (p - y), plus λ W."""
    read = torch.nn.functional.pad(read_by(probes, features), (0, 1), value=1.0).double()
    weights, largest = torch.cat([probes.weight, probes.bias], 1).double().split(probes.classes, -1), []
    for task, (weight, classes) in enumerate(zip(weights, probes.classes, strict=True)):
        wrong = (read @ weight).softmax(-1) - torch.nn.functional.one_hot(labels[..., task], classes)
        slope = read.mT @ wrong / read.shape[1] + probes.ridge[:, task, None, None] * weight
        largest.append(slope.abs().amax((1, 2)))
    return torch.stack(largest).amax(0)


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


def test_projections_are_gaussian_and_each_seed_s_own():
    features, labels = torch.randn(2, 50, 400), torch.tensor([0, 1] * 25).expand(2, -1)[..., None]
    drawn = OptimalProbe(projection=100, iterations=1).fit(features, labels, [2], seed=0).projection
    assert drawn.shape == (2, 400, 100)
    assert not torch.equal(drawn[0], drawn[1])
    entries = 400**0.5 * drawn.double().flatten()  # 80,000 of N(0, 1)
    assert abs(entries.mean()) < 4 / len(entries) ** 0.5
    assert abs(entries.var() - 1) < 4 * (2 / len(entries)) ** 0.5
    assert abs((entries**4).mean() - 3) < 4 * (96 / len(entries)) ** 0.5


def test_features_are_standardised_and_constants_centred():
    features = torch.randn(2, 50, 3, generator=torch.Generator().manual_seed(0)) * 9 + 4
    features[..., 0] = 7.0
    labels = torch.tensor([0, 1] * 25).expand(2, -1)[..., None]
    probes = OptimalProbe(iterations=1).fit(features, labels, [2], seed=0)
    read = read_by(probes, features)
    torch.testing.assert_close(read.mean(1), torch.zeros(2, 3).double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(read.std(1)[:, 1:], torch.ones(2, 2).double(), atol=1e-5, rtol=0)
    assert (read[..., 0] == 0).all()


# --- The optimum ---


def make_data(seeds=2, examples=500, width=6, classes=3):
    """Features of very different scales, half of them nearly equal to the others, and noisy labels."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(seeds, examples, width, generator=generator)
    near = hidden + 0.01 * torch.randn(hidden.shape, generator=generator)
    features = torch.cat([hidden, near], -1) * torch.logspace(-1, 2, 2 * width) + 3
    truth = torch.randn(width, classes, generator=generator)
    noise = torch.rand(seeds, examples, classes, generator=generator)
    return features, (hidden @ truth - (-noise.log()).log()).argmax(-1, keepdim=True)


def reference(read, labels, ridge):
    """Solve with scikit-learn, which for two classes has one weight vector, the difference of ours."""
    padded = np.concatenate([read, np.ones((len(read), 1))], 1)
    ridge = ridge if labels.max() > 1 else ridge / 2
    solver = LogisticRegression(C=1 / (ridge * len(read)), fit_intercept=False, max_iter=100_000, tol=1e-10)
    return padded, solver.fit(padded, labels)


def standardised(features):
    return ((features - features.mean(0)) / features.std(0)).double().numpy()


@pytest.mark.parametrize("ridge", [1e-5, 1e-3, 1e-1])
@pytest.mark.parametrize("classes", [2, 3])
def test_coefficients_are_scikit_learn_s(ridge, classes):
    features, labels = make_data(classes=classes)
    probes = OptimalProbe(ridges=(ridge,), tolerance=1e-9).fit(features, labels, [classes], seed=0)
    for seed in range(2):
        read = standardised(features[seed].double())
        _, solved = reference(read, labels[seed, :, 0].numpy(), ridge)
        ours = torch.cat([probes.weight[seed], probes.bias[seed]]).T.numpy()
        ours = ours if classes > 2 else ours[1:] - ours[:1]
        np.testing.assert_allclose(ours, solved.coef_, atol=1e-4 * abs(solved.coef_).max())
    assert (gradient(probes, features, labels) < 1e-8).all()


def test_the_ridge_is_the_one_that_is_best_on_held_out_sentences():
    ridges = (1e-5, 1e-2, 1.0)
    features, labels = make_data(examples=60)
    probes = OptimalProbe(ridges).fit(features, labels, [3], seed=0)
    for seed in range(2):
        read, y = standardised(features[seed].double()), labels[seed, :, 0].numpy()
        losses = []
        for ridge in ridges:
            _, solved = reference(read[:48], y[:48], ridge)
            held_out = np.concatenate([read[48:], np.ones((12, 1))], 1)
            losses.append(log_loss(y[48:], solved.predict_proba(held_out), labels=[0, 1, 2]))
        assert probes.ridge[seed].item() == pytest.approx(ridges[int(np.argmin(losses))])


def test_tasks_and_seeds_do_not_influence_each_other():
    features, labels = make_data()
    other = torch.randint(0, 5, labels.shape, generator=torch.Generator().manual_seed(1))
    probe = OptimalProbe(tolerance=1e-8)
    both = probe.fit(features, torch.cat([labels, other], -1), [3, 5], seed=0)
    alone = probe.fit(features[1:], labels[1:], [3], seed=0)
    torch.testing.assert_close(both.weight[1:, :, :3], alone.weight, rtol=0, atol=1e-5)
    assert torch.equal(both.ridge[1:, :1], alone.ridge)
    assert both.ridge[1, 1] > both.ridge[1, 0]  # random labels want the largest


def test_the_scale_of_features_does_not_matter():
    features, labels = make_data()
    first, second = (OptimalProbe().fit(scale * features, labels, [3], seed=0) for scale in (1.0, 1000.0))
    torch.testing.assert_close(first.weight, second.weight, rtol=0, atol=1e-4)


def test_a_class_that_does_not_occur_and_a_constant_feature_are_harmless():
    features, labels = make_data()
    features[..., 0] = 7.0
    probes = OptimalProbe().fit(features, labels, [4], seed=0)
    assert probes.weight.isfinite().all()
    assert (gradient(probes, features, labels) < OptimalProbe.tolerance).all()
    assert (probes.logits(features)[0].argmax(-1) < 3).all()


def test_fewer_sentences_than_features_have_an_optimum():
    """Axes that the sentences do not span are left out, where the optimum is zero."""
    features, labels = make_data(examples=9)
    probes = OptimalProbe(ridges=(1e-2,), tolerance=1e-9).fit(features, labels, [3], seed=0)
    assert (gradient(probes, features, labels) < 1e-8).all()
    _, solved = reference(standardised(features[0].double()), labels[0, :, 0].numpy(), 1e-2)
    ours = torch.cat([probes.weight[0], probes.bias[0]]).T.numpy()
    np.testing.assert_allclose(ours, solved.coef_, atol=1e-5)


def test_a_class_that_only_held_out_sentences_have_is_harmless():
    """It calls for a large ridge; then the probe is fitted to it too."""
    features = torch.randn(1, 8, 20, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 0, 1, 0, 1, 2, 2])[None, :, None]
    probes = OptimalProbe(ridges=(1e-3, 10.0)).fit(features, labels, [4], seed=0)
    assert probes.ridge.tolist() == [[10.0]]
    assert (gradient(probes, features, labels) < OptimalProbe.tolerance).all()
    absent = probes.logits(features)[0].softmax(-1)[..., 3]
    assert ((absent > 0) & (absent < 0.25)).all()


def test_the_gradient_shows_an_early_stop():
    features, labels = make_data()
    stopped = OptimalProbe(ridges=(1e-3,), iterations=1).fit(features, labels, [3], seed=0)
    assert (gradient(stopped, features, labels) > 1e-3).all()


def test_probes_read_a_projection():
    features, labels = make_data()
    probes = OptimalProbe(projection=4).fit(features, labels, [3], seed=0)
    assert probes.weight.shape == (2, 4, 3)
    assert (gradient(probes, features, labels) < OptimalProbe.tolerance).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ridges": ()}, r"ridges must be one or more positive numbers; got \(\)"),
        ({"ridges": (0.0, 1.0)}, "ridges must be one or more positive numbers"),
        ({"tolerance": 0.0}, "tolerance must be positive and finite; got 0.0"),
        ({"projection": 0}, "projection must be a whole number, at least 1; got 0"),
    ],
)
def test_settings_without_an_optimum_are_refused(wrong, message):
    with pytest.raises(ParameterError, match=message):
        replace(OptimalProbe(), **wrong)
