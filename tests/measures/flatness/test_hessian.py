"""Products, the dense Hessian and its largest eigenvalue against independent derivatives."""

import pytest
import torch
from tiny_models import Unigram, one_word_sentences, predictions, reparametrised, seeded
from torch import nn
from torch.func import grad, jacfwd
from torch.nn import functional as F

from sameloss.errors import ModelError, ParameterError
from sameloss.measures.flatness.hessian import (
    dense_hessian,
    flat_parameters,
    hessian_product,
    population_loss,
    top_eigenvalue,
    unflattened,
)
from sameloss.models.bilstm import BiLSTM, BiLSTMShape


def flat_loss(model, masked, truth=None):
    loss = population_loss(model, masked, truth)
    return lambda flat: loss(unflattened(model, flat))


# --- The loss and its parameters ---


def test_flat_parameters_round_trip(tiny_model):
    flat = flat_parameters(tiny_model)
    assert len(flat) == tiny_model.parameter_count
    assert not flat.requires_grad
    back = unflattened(tiny_model, flat)
    assert list(back) == [name for name, _ in tiny_model.named_parameters()]
    for name, parameter in tiny_model.named_parameters():
        assert torch.equal(back[name], parameter)


def test_frozen_parameters_have_no_row(head, masked):
    assert list(unflattened(head, flat_parameters(head))) == ["head_bias", "head_norm.bias"]
    assert dense_hessian(head, masked).shape == (7, 7)


def test_loss_is_the_cross_entropy(tiny_model, masked, ragged, truth):
    for batch in (masked, ragged):
        logits = tiny_model(batch.masked, batch.positions, batch.lengths)
        parameters = dict(tiny_model.named_parameters())
        torch.testing.assert_close(
            population_loss(tiny_model, batch)(parameters), F.cross_entropy(logits, batch.targets)
        )
        torch.testing.assert_close(
            population_loss(tiny_model, batch, truth)(parameters), F.cross_entropy(logits, truth)
        )


# --- Exact derivatives ---


def test_dense_hessian_matches_forward_over_reverse(tiny_model, masked, ragged, truth):
    """By another mode of differentiation; `torch.func.hessian` is no reference, see `dense_hessian`."""
    for batch, q in ((masked, truth), (ragged, None)):
        hessian = dense_hessian(tiny_model, batch, q)
        forward = jacfwd(grad(flat_loss(tiny_model, batch, q)))(flat_parameters(tiny_model))
        torch.testing.assert_close(hessian, forward, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(hessian, hessian.T, rtol=1e-10, atol=1e-12)
        assert hessian.abs().max() > 0.1


def test_trace_matches_torch_func(tiny_model, masked, truth):
    """The diagonal of torch.func.hessian is right, see `dense_hessian`."""
    reference = torch.func.hessian(flat_loss(tiny_model, masked, truth))(flat_parameters(tiny_model))
    diag = dense_hessian(tiny_model, masked, truth).diag()
    torch.testing.assert_close(diag, reference.diag(), rtol=1e-10, atol=1e-12)


def test_product_matches_the_dense_hessian_and_plain_autograd(tiny_model, masked, truth):
    vector = torch.randn(tiny_model.parameter_count, generator=seeded(), dtype=torch.float64)
    by_name, parameters = unflattened(tiny_model, vector), dict(tiny_model.named_parameters())
    loss = population_loss(tiny_model, masked, truth)
    product = unflattened(tiny_model, hessian_product(tiny_model, loss)(vector))
    dense = unflattened(tiny_model, dense_hessian(tiny_model, masked, truth) @ vector)
    gradient = torch.autograd.grad(loss(parameters), list(parameters.values()), create_graph=True)
    along = sum((g * v).sum() for g, v in zip(gradient, by_name.values(), strict=True))
    plain = torch.autograd.grad(along, list(parameters.values()))
    assert list(product) == list(parameters)
    for name, twice in zip(parameters, plain, strict=True):
        torch.testing.assert_close(product[name], dense[name], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(product[name], twice, rtol=1e-10, atol=1e-12)


class Fused(nn.Module):
    """A model on PyTorch's fused attention, whose backward pass has no derivative."""

    def __init__(self):
        super().__init__()
        self.word, self.out = nn.Embedding(4, 4), nn.Linear(4, 3)

    def forward(self, masked, positions, lengths=None):
        x = self.word(masked)[:, None]
        return self.out(F.scaled_dot_product_attention(x, x, x)[torch.arange(len(x)), 0, positions])


@pytest.mark.parametrize("build", [Fused, lambda: BiLSTM(BiLSTMShape(4, 1), 3, 4, seed=0)])
def test_hessians_of_other_architectures(build, masked):
    """Against central differences in float64; float32, where PyTorch has other kernels, agrees."""
    torch.manual_seed(0)
    model = build()
    single = dense_hessian(model, masked)
    model.double()
    flat, loss = flat_parameters(model), flat_loss(model, masked)
    step = 1e-4 * F.normalize(torch.randn(len(flat), generator=seeded(), dtype=torch.float64), dim=0)
    hessian = dense_hessian(model, masked)
    difference = (grad(loss)(flat + step) - grad(loss)(flat - step)) / 2
    torch.testing.assert_close(hessian @ step / 1e-4, difference / 1e-4, rtol=0, atol=1e-5)
    torch.testing.assert_close(single.double(), hessian, rtol=0, atol=1e-4)


# --- The largest eigenvalue ---


@pytest.mark.parametrize("shift", [None, 0, 1])
def test_top_eigenvalue_matches_the_dense_hessian(tiny_model, masked, shift):
    """Away from saturation the smallest eigenvalue is the largest in absolute value."""
    truth = None if shift is None else predictions(tiny_model, masked).roll(shift, -1)
    eigenvalues = torch.linalg.eigvalsh(dense_hessian(tiny_model, masked, truth))
    assert shift == 0 or eigenvalues[0] < -1.5 * eigenvalues[-1]
    assert top_eigenvalue(tiny_model, masked, truth) == pytest.approx(eigenvalues[-1].item(), rel=1e-3)


def test_top_eigenvalue_is_reproducible(tiny_model, masked):
    assert top_eigenvalue(tiny_model.float(), masked) == top_eigenvalue(tiny_model, masked)


@pytest.mark.parametrize("name", ["heads rotated", "neurons permuted"])
def test_eigenvalues_are_invariant_under_rotations(tiny_model, masked, name):
    expected = pytest.approx(top_eigenvalue(tiny_model, masked), rel=1e-9)
    assert top_eigenvalue(reparametrised(tiny_model, name), masked) == expected


def test_failed_convergence_is_an_error():
    """The largest eigenvalues of diag(p) - pp^T are close together."""
    ramp = torch.arange(1.0, 2001).double()
    truth = (ramp / ramp.sum()).expand(50, -1)
    with pytest.raises(ParameterError, match=r"did not find .* in 2 restarts; allow a larger tolerance"):
        top_eigenvalue(
            Unigram(truth[0].tolist()), one_word_sentences([0] * 50), truth, tolerance=1e-9, restarts=2
        )


# --- Faults ---


def test_bad_conditionals_and_targets_are_refused(tiny_model, masked, truth):
    parameters = dict(tiny_model.named_parameters())
    with pytest.raises(ParameterError, match="logits cover 3 words, truth 4"):
        population_loss(tiny_model, masked, F.pad(truth, (0, 1)))(parameters)
    with pytest.raises(ParameterError, match="one row per sentence, 12 of them; got 11"):
        population_loss(tiny_model, masked, truth[:11])
    beyond = masked._replace(targets=masked.targets + 1)
    with pytest.raises(ModelError, match="cover 3 words, but the word behind a mask is number 4"):
        dense_hessian(tiny_model, beyond)


def test_large_models_are_refused(tiny_model, masked):
    with pytest.raises(ParameterError, match=r"251 parameters takes 0\.000504 GB; the limit is 250"):
        dense_hessian(tiny_model, masked, most=250)
