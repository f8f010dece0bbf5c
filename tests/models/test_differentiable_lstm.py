"""The unrolled LSTM against PyTorch's, and its gradients of gradients."""

import torch
from torch import nn

from sameloss.models.bilstm import unrolled_lstm, without_cudnn


def test_unrolled_is_the_same_function():
    torch.manual_seed(0)
    lstm = nn.LSTM(3, 4, batch_first=True).double()
    inputs = torch.randn(5, 6, 3).double().requires_grad_()
    states = torch.randn(2, 1, 5, 4).double().unbind()
    expected, (last_h, last_c) = lstm(inputs, states)
    found = unrolled_lstm(inputs, states, lstm._flat_weights)
    for ours, theirs in zip(found, (expected, last_h, last_c), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    variables = [inputs, *lstm.parameters()]
    ours = torch.autograd.grad(found[0].square().sum(), variables)
    theirs = torch.autograd.grad(expected.square().sum(), variables)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_its_gradient_can_be_differentiated():
    weights = [torch.randn(8, 3), torch.randn(8, 2), torch.randn(8), torch.randn(8)]
    weights = [weight.double().requires_grad_() for weight in weights]
    states = torch.zeros(1, 1, 2).double(), torch.zeros(1, 1, 2).double()
    inputs = torch.randn(1, 3, 3).double()

    def outputs(*weights):
        return unrolled_lstm(inputs, states, list(weights))[0]

    assert torch.autograd.gradgradcheck(outputs, weights)


def test_cudnn_is_off_for_a_while():
    before = torch.backends.cudnn.enabled
    with without_cudnn():
        assert not torch.backends.cudnn.enabled
    assert torch.backends.cudnn.enabled == before
