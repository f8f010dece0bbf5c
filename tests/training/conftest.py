"""What tests of losses share: masked sentences, and sentences of two downstream tasks."""

import pytest
import torch

from sameloss.languages.masking import mask_batch
from sameloss.training.objectives import TaskExamples, one_hot_classes


@pytest.fixture
def batch(tiny_language):
    sentences = tiny_language.sample(64, torch.Generator().manual_seed(0))
    return mask_batch(sentences, torch.arange(64) % 4)


@pytest.fixture
def examples(tiny_language):
    labels = torch.stack([torch.arange(60) % 2, torch.arange(60) % 3], 1)
    sentences = tiny_language.sample(60, torch.Generator().manual_seed(1))
    return TaskExamples(sentences, one_hot_classes(labels, (2, 3)))
