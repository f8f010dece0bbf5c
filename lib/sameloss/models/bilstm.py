"""Bidirectional LSTMs, and what differentiating them twice needs."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.checks import check_counts
from sameloss.errors import ParameterError
from sameloss.models.masked_model import EPSILON, MaskedLanguageModel, Norm, Shape, chosen

# The bidirectional LSTM stack of the released code: the paper's 4M, 10M, 67M and 135M LSTMs.


@dataclass(frozen=True)
class BiLSTMShape(Shape):
    """Width and depth of a stack; each direction has half of the width."""

    plain: ClassVar[bool] = True  # autocast would use float16, without loss scaling

    d_model: int
    layers: int

    def __post_init__(self) -> None:
        check_counts(self, "d_model", "layers")
        if self.d_model % 2:
            raise ParameterError(f"d_model = {self.d_model} is odd; two directions need an even width.")

    def build(
        self, words: int, max_length: int, seed: int | None = None, norm: Norm = "pre", dropout: float = 0.0
    ) -> "BiLSTM":
        self.check_plain(norm == "post", dropout > 0)
        return BiLSTM(self, words, max_length, seed)

    @property
    def matrix_parameters(self) -> int:
        """The parameters of the four gates' matrices, in both directions and all blocks.

        >>> BiLSTMShape(64, 1).matrix_parameters
        24576
        """
        return self.layers * 6 * self.d_model**2

    def flops(self, words: int, length: float) -> float:
        """Count the floating-point operations of a training step on one sentence with one mask.

        A parameter takes 6 per token that it multiplies: 2 forward and 4 backward. The gates' matrices
        multiply every token, the head's the one masked position.
        """
        products = length * self.matrix_parameters + self.d_model * (self.d_model + words)
        return float(6 * products)

    def activations(self, length: int) -> int:
        return self.layers * 20 * self.d_model


class BiLSTMBlock(nn.Module):
    """One layer: h + LN(BiLSTM h).

    It has two unidirectional LSTMs, because the backward half of a bidirectional one would start in the
    padding.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.lstm_forward = nn.LSTM(d_model, d_model // 2, batch_first=True)
        self.lstm_backward = nn.LSTM(d_model, d_model // 2, batch_first=True)
        self.norm = nn.LayerNorm(d_model, EPSILON)

    def forward(
        self,
        h: Float[Tensor, "batch seq d_model"],
        mirrored: Int[Tensor, "batch seq"],
        at: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch out d_model"]:
        """Apply the layer; `mirrored` are the positions that reverse each sentence."""
        there = self.lstm_forward(h)[0]
        back = self.lstm_backward(h.take_along_dim(mirrored[..., None], 1))[0]
        both = torch.cat([there, back.take_along_dim(mirrored[..., None], 1)], -1)
        return chosen(h, at) + self.norm(chosen(both, at))


class BiLSTM(MaskedLanguageModel):
    """A masked language model with bidirectional LSTM blocks."""

    def __init__(self, shape: BiLSTMShape, words: int, max_length: int, seed: int | None = None) -> None:
        """Build the model and, given a seed, initialise LSTMs as PyTorch does and the rest as in BERT."""
        blocks = (BiLSTMBlock(shape.d_model) for _ in range(shape.layers))
        super().__init__(shape.d_model, words, max_length, blocks, nn.Identity())
        self.shape = shape
        if seed is not None:
            self._initialise(torch.Generator().manual_seed(seed))

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        super()._initialise(generator)
        bound = (self.shape.d_model // 2) ** -0.5
        for name, parameter in self.blocks.named_parameters():
            if "lstm" in name:
                parameter.uniform_(-bound, bound, generator=generator)

    def context(
        self, tokens: Int[Tensor, "batch seq"], lengths: Int[Tensor, " batch"] | None
    ) -> Int[Tensor, "batch seq"]:
        """Return the positions that reverse each sentence within its length; padding stays in place."""
        position = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
        mirrored = (tokens.shape[1] if lengths is None else lengths[:, None]) - 1 - position
        return torch.where(mirrored < 0, position, mirrored)


def without_cudnn() -> AbstractContextManager[None]:
    """Disable cuDNN, whose LSTMs have no gradient in evaluation mode, no second derivative and no vmap."""
    return torch.backends.cudnn.flags(enabled=False)


def unrolled_lstm(
    inputs: Float[Tensor, "batch seq feature"], states: tuple[Tensor, Tensor], weights: list[Tensor]
) -> tuple[
    Float[Tensor, "batch seq hidden"], Float[Tensor, "1 batch hidden"], Float[Tensor, "1 batch hidden"]
]:
    """Compute `torch.lstm` for one layer of one direction, step by step: outputs, last h, last c."""
    of_input, of_hidden, input_bias, hidden_bias = weights
    from_inputs = F.linear(inputs, of_input, input_bias).unbind(1)
    h, c = (state[0] for state in states)
    outputs = []
    for token in from_inputs:
        gates = token + F.linear(h, of_hidden, hidden_bias)
        take, keep, new, show = gates.chunk(4, -1)
        c = keep.sigmoid() * c + take.sigmoid() * new.tanh()
        h = show.sigmoid() * c.tanh()
        outputs.append(h)
    return torch.stack(outputs, 1), h[None], c[None]
