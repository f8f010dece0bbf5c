"""Tiny models and masked sentences whose Hessian is known."""

import torch
from torch import nn

from sameloss.languages.masking import Batch
from sameloss.measures.flatness.hessian import dense_hessian
from sameloss.models.reparametrise import REPARAMETRISATIONS


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@torch.no_grad()
def predictions(model, masked):
    return model(masked.masked, masked.positions, masked.lengths).softmax(-1)


def hessian_diagonal(model, masked):
    """Return the exact diagonal at saturation; rounding leaves some zeros slightly negative."""
    return dense_hessian(model, masked, predictions(model, masked)).diagonal().clamp_min(0)


def repeated(masked, times):
    """Return the sentences again and again: every batch of their number has one and the same Hessian."""
    return masked.rows(torch.arange(len(masked.masked)).repeat(times))


def reparametrised(model, name):
    return REPARAMETRISATIONS[name](model, seeded())


class Unigram(nn.Module):
    """Predicts the same words behind every mask, f = softmax(b), b one parameter per word.

    Where the true conditionals are f, the Hessian of its loss is diag f - f f^T. For f = (1/2, 1/4, 1/4) its
    eigenvalues are 3/8, 1/4 and 0, and its trace is 5/8.
    """

    def __init__(self, probabilities):
        super().__init__()
        self.bias = nn.Parameter(torch.tensor(probabilities, dtype=torch.float64).log())

    def forward(self, masked, positions, lengths=None):
        return torch.zeros(len(masked), len(self.bias), device=masked.device) + self.bias


def one_word_sentences(targets):
    """Return masked sentences of one token each; the words behind the masks are counted from 0."""
    zeros = torch.zeros(len(targets), dtype=torch.long)
    return Batch(zeros[:, None], zeros, torch.tensor(targets), None)
