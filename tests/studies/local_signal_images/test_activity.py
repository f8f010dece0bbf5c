"""Active neurons of networks made by hand."""

import torch
from torch import nn

from sameloss.studies.local_signal_images.training import active_shares


def test_units_that_fire_for_some_images_count_in_part():
    model = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1), nn.ReLU(), nn.Flatten(0))
    weights = {
        "0.weight": torch.tensor([[1.0], [-1.0], [0.0], [0.0]]),
        "0.bias": torch.tensor([0.0, 0.0, 1.0, -1.0]),  # one fires always, one never
        "2.weight": torch.zeros(1, 4),
        "2.bias": torch.tensor([0.5]),
    }
    x = torch.tensor([[1.0], [2.0], [3.0], [-1.0]])
    assert active_shares(model, weights, x) == [(3 + 1 + 4 + 0) / 16, 1.0]


def test_pixels_count_each_and_the_model_is_left_as_it_was():
    model = nn.Sequential(nn.Identity(), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(0))
    x = torch.tensor([[[[1.0, -1.0], [0.0, 2.0]]]]).expand(300, 1, 2, 2)
    assert active_shares(model, {}, x) == [0.5]
    assert not any(layer._forward_hooks for layer in model.modules())
