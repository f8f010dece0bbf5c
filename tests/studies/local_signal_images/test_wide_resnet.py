"""The wide network: seven convolutions, ways around them, and nothing kept between batches."""

import pytest
import torch
from torch import nn

from sameloss.studies.local_signal_images.training import WideBlock, WideResNet


def test_seven_convolutions_of_three_by_three_and_three_ways_around():
    model = WideResNet(2).build(3)
    sizes = [layer.kernel_size for layer in model.modules() if isinstance(layer, nn.Conv2d)]
    assert (sizes.count((3, 3)), sizes.count((1, 1))) == (7, 3)
    assert not list(model.buffers())


def test_a_block_adds_what_goes_around():
    block, x = WideBlock(4, 4, 1), torch.rand(3, 4, 5, 5)
    nn.init.zeros_(block.second.weight)
    torch.testing.assert_close(block(x), block.ready(x))
    assert WideBlock(4, 8, 2)(x).shape == (3, 8, 3, 3)


def test_a_block_normalises_by_the_batch():
    """So an output depends on what else is in the batch."""
    block, x = WideBlock(2, 4, 1), torch.rand(4, 2, 5, 5)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(block(x)[:2], block(x[:2]))
