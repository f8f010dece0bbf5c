"""LSTMs that can be differentiated in every way: kept off cuDNN, or unrolled so that gates can be watched."""

from contextlib import AbstractContextManager

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def without_cudnn() -> AbstractContextManager[None]:
    """Keep LSTMs off cuDNN, which has no gradient in evaluation, no gradient of a gradient and no vmap."""
    return torch.backends.cudnn.flags(enabled=False)


def unrolled_lstm(
    input: Float[Tensor, "first second feature"],
    states: tuple[Tensor, Tensor] | list[Tensor],
    weights: list[Tensor],
    has_biases: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `torch.lstm` returns for the same arguments: outputs, last h, last c."""
    h = input if batch_first else input.transpose(0, 1)
    directions = 1 + bidirectional
    size = 2 + 2 * has_biases
    last = []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            at = layer * directions + direction
            own = weights[at * size : (at + 1) * size]
            start = states[0][at], states[1][at]
            output, end = _one_way(h.flip(1) if direction else h, start, own)
            outputs.append(output.flip(1) if direction else output)
            last.append(end)
        h = torch.cat(outputs, -1)
    last_h, last_c = (torch.stack(parts) for parts in zip(*last, strict=True))
    return h if batch_first else h.transpose(0, 1), last_h, last_c


def _one_way(
    inputs: Float[Tensor, "batch seq feature"], state: tuple[Tensor, Tensor], weights: list[Tensor]
) -> tuple[Float[Tensor, "batch seq hidden"], tuple[Tensor, Tensor]]:
    """Run one direction of one layer from the first token to the last."""
    of_input, of_hidden, *biases = weights
    input_bias, hidden_bias = biases or (None, None)
    from_inputs = F.linear(inputs, of_input, input_bias).unbind(1)
    h, c = state
    outputs = []
    for token in from_inputs:
        gates = token + F.linear(h, of_hidden, hidden_bias)
        take, keep, new, show = gates.chunk(4, -1)
        c = keep.sigmoid() * c + take.sigmoid() * new.tanh()
        h = show.sigmoid() * c.tanh()
        outputs.append(h)
    return torch.stack(outputs, 1), (h, c)
