"""Fixtures of measures of flatness: masked sentences of one length and of several.

If the truth is the model's predictions, Fisher and Hessian agree (Lemma 3.2).
"""

from copy import deepcopy
from math import nan

import pytest
import torch
from tiny_models import seeded

from sameloss.languages import PCFGSpec
from sameloss.languages.masking import mask_batch


@pytest.fixture
def masked(tiny_language):
    return mask_batch(tiny_language.sample(12, seeded()), torch.arange(12) % 4)


@pytest.fixture
def ragged():
    language = PCFGSpec(2, 2, 2, 1, 2, 3, 2, 1.0, 1.0, early_stop=(0.3, 0.6), seed=5).build()
    masked = mask_batch(language.sample(12, seeded()), torch.zeros(12).long())
    assert masked.lengths is not None
    return masked


@pytest.fixture
def truth():
    """Conditionals unlike the model's predictions."""
    return torch.randn(12, 3, generator=seeded(7), dtype=torch.float64).mul(2).softmax(-1)


@pytest.fixture
def broken(tiny_model):
    """A model with one NaN weight."""
    model = deepcopy(tiny_model)
    model.head_bias.data[0] = nan
    return model


@pytest.fixture
def head(tiny_model):
    """A model with only two trainable biases: few parameters, a known rank."""
    for name, parameter in tiny_model.named_parameters():
        parameter.requires_grad_(name in ("head_bias", "head_norm.bias"))
    return tiny_model
