"""Solved probes against scikit-learn's optimum."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from sameloss.errors import ParameterError
from sameloss.measures.downstream import OptimalProbe


def make_data(seeds=2, examples=500, width=6, classes=3):
    """Features of very different scales, half of them almost the others, and labels with noise."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(seeds, examples, width, generator=generator)
    near = hidden + 0.01 * torch.randn(hidden.shape, generator=generator)
    features = torch.cat([hidden, near], -1) * torch.logspace(-1, 2, 2 * width) + 3
    truth = torch.randn(width, classes, generator=generator)
    noise = torch.rand(seeds, examples, classes, generator=generator)
    return features, (hidden @ truth - (-noise.log()).log()).argmax(-1, keepdim=True)


def reference(read, labels, ridge):
    """Return what scikit-learn solves; of two classes it has one weight, which is the difference of ours."""
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
    assert (probes.gradient(features, labels) < 1e-8).all()


def test_the_ridge_is_the_one_that_is_best_on_held_out_sentences():
    ridges = (1e-5, 1e-2, 1.0)
    features, labels = make_data(examples=60)
    probes = OptimalProbe(ridges).fit(features, labels, [3], seed=0)
    for seed in range(2):
        read, own = standardised(features[seed].double()), labels[seed, :, 0].numpy()
        losses = []
        for ridge in ridges:
            _, solved = reference(read[:48], own[:48], ridge)
            held_out = np.concatenate([read[48:], np.ones((12, 1))], 1)
            losses.append(log_loss(own[48:], solved.predict_proba(held_out), labels=[0, 1, 2]))
        assert probes.ridge[seed].item() == pytest.approx(ridges[int(np.argmin(losses))])


def test_tasks_and_seeds_do_not_influence_each_other():
    features, labels = make_data()
    other = torch.randint(0, 5, labels.shape, generator=torch.Generator().manual_seed(1))
    probe = OptimalProbe(tolerance=1e-8)
    both = probe.fit(features, torch.cat([labels, other], -1), [3, 5], seed=0)
    alone = probe.fit(features[1:], labels[1:], [3], seed=0)
    torch.testing.assert_close(both.weight[1:, :, :3], alone.weight, rtol=0, atol=1e-5)
    assert torch.equal(both.ridge[1:, :1], alone.ridge)
    assert both.ridge[1, 1] > both.ridge[1, 0]  # labels without a rule want the largest


def test_the_scale_of_features_does_not_matter():
    features, labels = make_data()
    first, second = (OptimalProbe().fit(scale * features, labels, [3], seed=0) for scale in (1.0, 1000.0))
    torch.testing.assert_close(first.weight, second.weight, rtol=0, atol=1e-4)


def test_a_class_that_does_not_occur_and_a_constant_feature_are_harmless():
    features, labels = make_data()
    features[..., 0] = 7.0
    probes = OptimalProbe().fit(features, labels, [4], seed=0)
    assert probes.weight.isfinite().all()
    assert (probes.gradient(features, labels) < OptimalProbe.tolerance).all()
    assert (probes.logits(features)[0].argmax(-1) < 3).all()


def test_fewer_sentences_than_features_have_an_optimum():
    """The same as in the axes that their sentences do not span, which are left out."""
    features, labels = make_data(examples=9)
    probes = OptimalProbe(ridges=(1e-2,), tolerance=1e-9).fit(features, labels, [3], seed=0)
    assert (probes.gradient(features, labels) < 1e-8).all()
    _, solved = reference(standardised(features[0].double()), labels[0, :, 0].numpy(), 1e-2)
    ours = torch.cat([probes.weight[0], probes.bias[0]]).T.numpy()
    np.testing.assert_allclose(ours, solved.coef_, atol=1e-5)


def test_a_class_that_only_held_out_sentences_have_is_harmless():
    """It asks for a large ridge; then the probe is fitted to it too."""
    features = torch.randn(1, 8, 20, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 0, 1, 2, 2, 2, 2])[None, :, None]
    probes = OptimalProbe(ridges=(1e-3, 10.0), held_out=0.5).fit(features, labels, [4], seed=0)
    assert probes.ridge.tolist() == [[10.0]]
    assert (probes.gradient(features, labels) < OptimalProbe.tolerance).all()
    absent = probes.logits(features)[0].softmax(-1)[..., 3]
    assert ((absent > 0) & (absent < 0.25)).all()


def test_a_probe_that_was_stopped_early_says_so():
    """The gradient is of the whole of what is minimised, and far from zero before the optimum."""
    features, labels = make_data()
    stopped = OptimalProbe(ridges=(1e-3,), iterations=1).fit(features, labels, [3], seed=0)
    assert (stopped.gradient(features, labels) > 1e-3).all()


def test_probes_of_a_projection_read_as_many_dimensions():
    features, labels = make_data()
    probes = OptimalProbe(projection=4).fit(features, labels, [3], seed=0)
    assert probes.weight.shape == (2, 4, 3)
    assert (probes.gradient(features, labels) < OptimalProbe.tolerance).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ridges": ()}, r"ridges must be positive numbers, one at least; got \(\)"),
        ({"ridges": (0.0, 1.0)}, "ridges must be positive numbers"),
        ({"held_out": 1.0}, "held_out must lie between 0 and 1; got 1.0"),
        ({"tolerance": 0.0}, "tolerance must be positive and finite; got 0.0"),
        ({"projection": 0}, "projection must be a whole number, at least 1; got 0"),
    ],
)
def test_what_has_no_optimum_is_refused(wrong, message):
    with pytest.raises(ParameterError, match=message):
        replace(OptimalProbe(), **wrong)
