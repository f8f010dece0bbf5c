"""Bidirectional LSTMs, also one that can be differentiated twice."""

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
    """The width and the depth of a stack; each direction has half of the width."""

    family: ClassVar[str] = "An LSTM"
    plain: ClassVar[bool] = True  # autocast would take float16, without a scaled loss

    d_model: int
    layers: int

    def __post_init__(self) -> None:
        """Refuse what is no shape, and a width that cannot be halved."""
        check_counts(self, "d_model", "layers")
        if self.d_model % 2:
            raise ParameterError(f"d_model = {self.d_model} is odd; two directions need an even width.")

    def build(
        self,
        words: int,
        max_length: int,
        seed: int | None = None,
        norm: Norm = "pre",
        dropout: float = 0.0,
    ) -> "BiLSTM":
        """Return a new stack of LSTMs, which have no LayerNorm to move and no dropout."""
        self.check_plain(norm == "post", dropout > 0)
        return BiLSTM(self, words, max_length, seed)

    @property
    def matrix_parameters(self) -> int:
        """Return the number of parameters of the four gates' matrices, of both directions, in all blocks.

        >>> BiLSTMShape(64, 1).matrix_parameters
        24576
        """
        return self.layers * 6 * self.d_model**2

    def flops(self, words: int, length: float) -> float:
        """Return the floating-point operations of a training step on one sentence with one mask.

        A product with a parameter takes 6: 2 forward and 4 backward. The gates' matrices multiply every
        token, the head's the one masked position.
        """
        products = length * self.matrix_parameters + self.d_model * (self.d_model + words)
        return float(6 * products)

    def activations(self, length: int) -> int:
        """Return roughly how many numbers a token leaves for the backward pass."""
        return self.layers * 20 * self.d_model


def mirror(
    tokens: Int[Tensor, "batch seq"], lengths: Int[Tensor, " batch"] | None
) -> Int[Tensor, "batch seq"]:
    """Return the places that reverse each sentence within its length; padding keeps its place."""
    place = torch.arange(tokens.shape[1], device=tokens.device).expand(tokens.shape)
    mirrored = (tokens.shape[1] if lengths is None else lengths[:, None]) - 1 - place
    return torch.where(mirrored < 0, place, mirrored)


class BiLSTMBlock(nn.Module):
    """One layer: h + LN(BiLSTM h).

    It has two LSTMs of one direction each, because a bidirectional one would start its way back in the
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
        """Apply the layer; `mirrored` are the places of the reversed sentences."""
        there = self.lstm_forward(h)[0]
        back = self.lstm_backward(h.take_along_dim(mirrored[..., None], 1))[0]
        both = torch.cat([there, back.take_along_dim(mirrored[..., None], 1)], -1)
        return chosen(h, at) + self.norm(chosen(both, at))


class BiLSTM(MaskedLanguageModel):
    """The masked language model whose blocks are bidirectional LSTMs."""

    def __init__(self, shape: BiLSTMShape, words: int, max_length: int, seed: int | None = None) -> None:
        """Build the model and, given a seed, draw weights: LSTMs' as PyTorch does, all others as BERT does.

        Args:
            shape: its width and depth.
            words: vocabulary size c; the embedding has c + 1 rows, of which row 0 is that of [MASK].
            max_length: number of learned positions.
            seed: of the initial weights.

        """
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
        """Return the places of the reversed sentences."""
        return mirror(tokens, lengths)


# LSTMs that can be differentiated in every way: kept off cuDNN, or unrolled so that gates can be watched.


def without_cudnn() -> AbstractContextManager[None]:
    """Keep LSTMs off cuDNN, which has no gradient in evaluation, no gradient of a gradient and no vmap."""
    return torch.backends.cudnn.flags(enabled=False)


def unrolled_lstm(
    inputs: Float[Tensor, "batch seq feature"], states: tuple[Tensor, Tensor], weights: list[Tensor]
) -> tuple[
    Float[Tensor, "batch seq hidden"], Float[Tensor, "1 batch hidden"], Float[Tensor, "1 batch hidden"]
]:
    """Return what `torch.lstm` does for one layer of one direction: outputs, last h, last c."""
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
