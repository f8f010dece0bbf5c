"""The adversary's closed form, its gradient, and what it draws."""

import pytest
import torch
from sklearn.linear_model import Ridge

from sameloss.errors import ParameterError
from sameloss.training import objectives
from sameloss.training.objectives import (
    Adversary,
    TaskExamples,
    one_hot_classes,
    token_features,
    transfer_loss,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def halves(examples):
    double = TaskExamples(examples.sentences, examples.classes.double())
    return double.rows(slice(0, 30)), double.rows(slice(30, 60))


def loss_of_ridge_regression(model, first, second):
    """Return what scikit-learn's head, fitted on the first sentences, loses on the second."""
    h1, h2 = (token_features(model, part.sentences).detach().double() for part in (first, second))
    alpha = 0.1 * h1.square().sum(1).mean()
    head = Ridge(alpha=float(alpha), fit_intercept=False, tol=1e-12).fit(h1.numpy(), first.classes.numpy())
    return ((head.predict(h2.numpy()) - second.classes.numpy()) ** 2).sum(1).mean()


def test_the_adversarys_head_is_ridge_regression(tiny_model, halves):
    found = float(transfer_loss(tiny_model, *halves, ridge=0.1).detach())
    assert found == pytest.approx(loss_of_ridge_regression(tiny_model, *halves), rel=1e-9)


def test_the_head_of_features_in_bfloat16_is_fitted_in_full_precision(tiny_model, halves):
    with torch.autocast("cpu", torch.bfloat16):
        found = float(transfer_loss(tiny_model.float(), *halves, ridge=0.1).detach())
        expected = loss_of_ridge_regression(tiny_model, *halves)
    assert found == pytest.approx(expected, rel=1e-5)


def test_the_gradient_goes_through_the_head(tiny_model, halves):
    """A finite difference moves the head along with the representation."""
    parameter = tiny_model.word.weight
    (exact,) = torch.autograd.grad(transfer_loss(tiny_model, *halves, ridge=0.1), [parameter])
    step = 1e-5
    with torch.no_grad():
        parameter[1, 2] += step
        up = transfer_loss(tiny_model, *halves, ridge=0.1)
        parameter[1, 2] -= 2 * step
        down = transfer_loss(tiny_model, *halves, ridge=0.1)
    assert float(exact[1, 2]) == pytest.approx(float((up - down) / (2 * step)), rel=1e-6)


def test_scaling_the_representation_gains_the_adversary_nothing(tiny_model, halves):
    def value(scale):
        with torch.no_grad():
            tiny_model.final_norm.weight.mul_(scale)
            tiny_model.final_norm.bias.mul_(scale)
        return float(transfer_loss(tiny_model, *halves, ridge=0.1).detach())

    large = value(1e3)
    assert value(1e3) == pytest.approx(large, rel=1e-4)  # both so large that the constant counts no more


def test_features_beyond_a_sentences_end_are_zero(tiny_model, examples):
    ragged = examples.sentences._replace(lengths=torch.arange(60) % 4 + 1)
    features = token_features(tiny_model, ragged)
    (alone,) = token_features(tiny_model, ragged.rows(slice(1, 2))._replace(tokens=ragged.tokens[1:2, :2]))
    expected = torch.cat([alone[:-1], torch.zeros(8).double(), torch.ones(1).double()])
    torch.testing.assert_close(features[1], expected)


def test_what_is_added_is_minus_the_loss_on_sentences_drawn_apart(tiny_model, examples):
    added = Adversary(0.7, sentences=20).term(seeded(), examples)(tiny_model, torch.empty(0, 3))
    first, second = (examples.rows(rows) for rows in torch.randperm(60, generator=seeded())[:40].split(20))
    torch.testing.assert_close(added, -0.7 * transfer_loss(tiny_model, first, second, 0.1))


def test_two_parts_share_no_example(examples, monkeypatch):
    parts = []
    monkeypatch.setattr(
        objectives, "transfer_loss", lambda model, *two: parts.extend(two[:2]) or torch.tensor(0)
    )
    numbered = TaskExamples(examples.sentences, torch.arange(60.0)[:, None])
    Adversary(1.0, sentences=30).term(seeded(), numbered)(torch.nn.Identity(), torch.empty(0, 3))
    drawn = torch.cat([part.classes for part in parts])
    assert sorted(drawn.flatten().tolist()) == list(range(60))


def test_one_hot_classes_stand_side_by_side():
    assert one_hot_classes(torch.tensor([[0, 2], [1, 0]]), (2, 3)).tolist() == [
        [1, 0, 0, 0, 1],
        [0, 1, 1, 0, 0],
    ]


@pytest.mark.parametrize("name", ["weight", "sentences", "ridge"])
def test_impossible_adversaries(name):
    with pytest.raises(ParameterError, match=f"{name} must be .*; got 0"):
        Adversary(**{"weight": 1.0, name: 0})


def test_too_few_downstream_sentences(examples):
    with pytest.raises(ParameterError, match="needs 2 x 128 downstream sentences; there are 60"):
        Adversary(0.1).term(seeded(), examples)
    with pytest.raises(ParameterError, match="there are 0"):
        Adversary(0.1).term(seeded(), None)
