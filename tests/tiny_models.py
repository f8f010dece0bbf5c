"""Tiny models and masked sentences whose Hessian is known."""

import torch

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
