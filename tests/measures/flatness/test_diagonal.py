"""The Fisher diagonal and its statistics against dense Hessians, biases and coverage."""

import pytest
import torch
from tiny_models import hessian_diagonal, reparametrised, repeated, seeded

from sameloss.errors import ParameterError
from sameloss.measures.flatness.hessian import flat_parameters
from sameloss.measures.flatness.sharpness import GroupDiagonals, group_diagonals, jackknife
from sameloss.models.bilstm import BiLSTMShape
from sameloss.statistics.intervals import Estimate


@pytest.mark.parametrize("batch", ["masked", "ragged"])
def test_diagonal_matches_the_dense_hessian(tiny_model, batch, request):
    masked = request.getfixturevalue(batch)
    diagonals = group_diagonals(tiny_model, masked, groups=10)
    assert sorted(diagonals.sizes.tolist()) == [1] * 8 + [2] * 2
    mean = diagonals.sizes.double() @ diagonals.values / 12
    torch.testing.assert_close(mean, hessian_diagonal(tiny_model, masked), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("batch", ["masked", "ragged"])
def test_the_diagonal_of_an_lstm_matches_the_dense_hessian(batch, request):
    masked = request.getfixturevalue(batch)
    model = BiLSTMShape(4, 1).build(words=3, max_length=4, seed=0).double().eval()
    diagonals = group_diagonals(model, masked, groups=10)
    mean = diagonals.sizes.double() @ diagonals.values / 12
    torch.testing.assert_close(mean, hessian_diagonal(model, masked), rtol=1e-9, atol=1e-12)


def test_every_group_is_the_diagonal_of_its_sentences(tiny_model, masked, monkeypatch):
    seven_gradients = {"cpu": 14_000}
    monkeypatch.setattr("sameloss.measures.flatness.sharpness.GRADIENT_BYTES", seven_gradients)
    diagonals = group_diagonals(tiny_model, repeated(masked, 3), groups=12)
    for group in (0, 5, 11):
        sentences = repeated(masked, 3).rows(slice(3 * group, 3 * group + 3))
        expected = hessian_diagonal(tiny_model, sentences)
        torch.testing.assert_close(diagonals.values[group], expected, rtol=1e-9, atol=1e-12)


def test_sampled_diagonals_are_unbiased(tiny_model, masked):
    diagonals = group_diagonals(tiny_model, repeated(masked, 400), generator=seeded(), labels=2, groups=400)
    truth = hessian_diagonal(tiny_model, masked)
    there = truth > 1e-9
    assert not diagonals.values[:, ~there].gt(1e-9).any()
    error = diagonals.values.std(0) / 20
    z = ((diagonals.values.mean(0) - truth) / error)[there]
    assert z.abs().max() < 4.5
    assert (error / truth)[there].median() < 0.1


def test_traces_match_the_dense_hessian(tiny_model, masked):
    """Groups of the same sentences have neither noise nor bias."""
    options = {"groups": 10}
    diagonal, theta = hessian_diagonal(tiny_model, masked), flat_parameters(tiny_model)
    diagonals = group_diagonals(tiny_model, repeated(masked, 10), **options)
    adam, adaptive = diagonals.adam_trace(), diagonals.adaptive_trace(tiny_model)
    assert adam.mean == pytest.approx(diagonal.sqrt().sum().item(), rel=1e-6)
    assert adaptive.mean == pytest.approx((theta.square() @ diagonal).item(), rel=1e-9)
    assert adam.count == adaptive.count == 120
    assert max(adam.standard_error, adaptive.standard_error) < 1e-6


def test_jackknife_of_a_mean_is_the_mean():
    values = torch.rand(15, 3, generator=seeded()).double()
    weights = torch.tensor([1.0, -2.0, 3.0]).double()
    equal = jackknife(GroupDiagonals(values, torch.full((15,), 4)), lambda d: weights @ d)
    mean = Estimate.of(values @ weights)
    assert equal == pytest.approx((mean.mean, mean.standard_error, 60))
    sizes = torch.tensor([4, 5, 6] * 5)
    unequal = jackknife(GroupDiagonals(values, sizes), lambda d: weights @ d)
    assert unequal.mean == pytest.approx((sizes.double() @ values @ weights / 75).item())


def test_jackknife_of_unequal_groups_has_the_error_of_a_weighted_mean():
    """Group means of n_g sentences have variance 1 / n_g, so their weighted mean has 1 / N."""
    sizes = torch.tensor([2, 20] * 10)
    draws = torch.randn(300, 20, 1, generator=seeded()).double() / sizes[:, None] ** 0.5
    errors = [jackknife(GroupDiagonals(values, sizes), lambda d: d.sum()).standard_error for values in draws]
    assert torch.tensor(errors).square().mean().item() == pytest.approx(1 / 220, rel=0.1)


@pytest.fixture
def samples(tiny_model, masked):
    """Draw 200 independent samples of 40 sentences in 20 groups from the population of twelve."""
    generator = seeded()
    rows = torch.randint(12, (200 * 40,), generator=generator)
    options = {"generator": generator, "groups": 200 * 20}
    diagonals = group_diagonals(tiny_model, masked.rows(rows), **options)
    parts = zip(diagonals.values.split(20), diagonals.sizes.split(20), strict=True)
    return [GroupDiagonals(*part) for part in parts]


def test_jackknife_removes_the_bias(tiny_model, masked, samples):
    """The first-order error has mean 0 and is subtracted: what is left is the bias."""
    truth = hessian_diagonal(tiny_model, masked)
    slope = torch.where(truth > 1e-9, 0.5 / truth.sqrt(), 0)
    first_order = torch.stack([slope @ (sample.values.mean(0) - truth) for sample in samples])
    plain = torch.stack([sample.values.mean(0).sqrt().sum() for sample in samples])
    corrected = torch.tensor([sample.adam_trace().mean for sample in samples])
    before, after = (Estimate.of(v - truth.sqrt().sum() - first_order) for v in (plain, corrected))
    assert before.mean < -10 * before.standard_error
    assert abs(after.mean) < 3 * after.standard_error
    assert after.standard_error < 0.1 * abs(before.mean)


def test_standard_errors_cover_the_truth(tiny_model, masked, samples):
    """Of 200 estimates about 186 lie within two standard errors of 19 degrees of freedom."""
    diagonal, theta = hessian_diagonal(tiny_model, masked), flat_parameters(tiny_model)
    truths = diagonal.sqrt().sum(), theta.square() @ diagonal
    estimates = [(s.adam_trace(), s.adaptive_trace(tiny_model)) for s in samples]
    for truth, drawn in zip(truths, zip(*estimates, strict=True), strict=True):
        covered = sum(abs(e.mean - truth) < 2 * e.standard_error for e in drawn)
        assert 173 <= covered <= 196


@pytest.mark.parametrize("name", ["LayerNorm gains × 2", "queries × 2", "values × 2", "embedding × 2"])
def test_the_adaptive_trace_is_invariant_under_scalings(tiny_model, masked, name):
    def trace(model):
        return group_diagonals(model, masked, groups=10).adaptive_trace(model).mean

    assert trace(reparametrised(tiny_model, name)) == pytest.approx(trace(tiny_model))


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ("from 10 to the number of sentences, here 12; got 13", {"groups": 13}),
        ("from 10 to the number of sentences, here 12; got 9", {"groups": 9}),
        (
            "labels must be a whole number, at least 1; got 0",
            {"groups": 10, "generator": seeded(), "labels": 0},
        ),
    ],
)
def test_bad_requests_say_what_is_valid(tiny_model, masked, fault, options):
    with pytest.raises(ParameterError, match=fault):
        group_diagonals(tiny_model, masked, **options)
