"""The transformer encoder: BERT's shape, pre-LN (the released code) or post-LN (App. B.1).

Pre-LN computes the same function as HuggingFace's `RobertaPreLayerNormForMaskedLM`: normalised embeddings,
pre-LN blocks, a final LayerNorm, and a masked-LM head tied to the word embedding. Post-LN is
`BertForMaskedLM`: each block ends in a LayerNorm, so there is no final one.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.checks import check_counts
from sameloss.errors import ParameterError
from sameloss.models.masked_model import EPSILON, MaskedLanguageModel, Norm, Shape, chosen


@dataclass(frozen=True)
class EncoderShape(Shape):
    """The columns of Table 3; `d_inter` is the width inside the MLP."""

    d_model: int
    heads: int
    layers: int
    d_inter: int

    def __post_init__(self) -> None:
        check_counts(self, "d_model", "heads", "layers", "d_inter")
        if self.d_model % self.heads:
            raise ParameterError(f"heads = {self.heads} does not divide d_model = {self.d_model}.")

    def build(
        self, words: int, max_length: int, seed: int | None = None, norm: Norm = "pre", dropout: float = 0.0
    ) -> "Encoder":
        return Encoder(self, words, max_length, seed, norm, dropout)

    @property
    def matrix_parameters(self) -> int:
        """The parameters of attention's four matrices and the MLP's two, in all blocks.

        >>> EncoderShape(64, 1, 1, 256).matrix_parameters
        49152
        """
        return self.layers * (4 * self.d_model**2 + 2 * self.d_model * self.d_inter)

    def flops(self, words: int, length: float) -> float:
        """Count the floating-point operations of a training step on one sentence with one mask.

        A parameter takes 6 per token that it multiplies: 2 forward and 4 backward. The blocks' matrices
        multiply every token, but the last block needs only keys and values at all of them; the head reads
        the one masked position. Attention adds 12 d T per token and layer.
        """
        spared = self.matrix_parameters // self.layers - 2 * self.d_model**2
        head = self.d_model * (self.d_model + words)
        products = length * self.matrix_parameters + head - (length - 1) * spared
        attention = 12 * self.d_model * length * ((self.layers - 1) * length + 1)
        return float(6 * products + attention)

    def activations(self, length: int) -> int:
        return self.layers * (12 * self.d_model + 3 * self.d_inter + 3 * self.heads * length)


class Attention(nn.Module):
    """Multi-head self-attention; one matrix computes the queries, keys and values of all heads."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        bias: Float[Tensor, "batch 1 1 seq"] | None,
        at: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch out d_model"]:
        """Attend from all positions, or from `at`; the bias on the scores masks padding with -inf."""
        d, weight, offset = x.shape[-1], self.qkv.weight, self.qkv.bias
        q = F.linear(chosen(x, at), weight[:d], offset[:d]).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        split = F.linear(x, weight[d:], offset[d:]).unflatten(-1, (2, self.heads, -1))
        k, v = split.permute(2, 0, 3, 1, 4)  # q, k, v: [batch, head, seq, d_head]
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        weights = (scores if bias is None else scores + bias).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """One pre-LN block: v = h + Attn(LN h), then v + MLP(LN v)."""

    def __init__(self, shape: EncoderShape, dropout: float = 0.0) -> None:
        super().__init__()
        d = shape.d_model
        self.attention_norm = nn.LayerNorm(d, EPSILON)
        self.attention = Attention(d, shape.heads)
        self.mlp_norm = nn.LayerNorm(d, EPSILON)
        self.mlp_in = nn.Linear(d, shape.d_inter)
        self.mlp_out = nn.Linear(shape.d_inter, d)
        self.dropout = dropout

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training) if self.dropout else x

    def _mlp(self, x: Tensor) -> Tensor:
        return self._dropped(self.mlp_out(F.gelu(self.mlp_in(x))))

    def forward(
        self,
        h: Float[Tensor, "batch seq d_model"],
        bias: Float[Tensor, "batch 1 1 seq"] | None,
        at: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch out d_model"]:
        """Apply the block at all positions, or only at position `at` of each sentence."""
        v = chosen(h, at) + self._dropped(self.attention(self.attention_norm(h), bias, at))
        return v + self._mlp(self.mlp_norm(v))


class PostBlock(Block):
    """One post-LN block with the same parameters: v = LN(h + Attn h), then LN(v + MLP v)."""

    def forward(
        self,
        h: Float[Tensor, "batch seq d_model"],
        bias: Float[Tensor, "batch 1 1 seq"] | None,
        at: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch out d_model"]:
        """Apply the block at all positions, or only at position `at` of each sentence."""
        v = self.attention_norm(chosen(h, at) + self._dropped(self.attention(h, bias, at)))
        return self.mlp_norm(v + self._mlp(v))


class Encoder(MaskedLanguageModel):
    """A masked language model with transformer blocks."""

    def __init__(
        self,
        shape: EncoderShape,
        words: int,
        max_length: int,
        seed: int | None = None,
        norm: Norm = "pre",
        dropout: float = 0.0,
    ) -> None:
        """Build the model and, given a seed, initialise it as BERT: matrices N(0, 0.02²), biases 0.

        See `Shape.build` for the arguments.
        """
        if norm not in ("pre", "post"):
            raise ParameterError(f"Unknown norm {norm!r}; choose pre or post.")
        pre = norm == "pre"
        blocks = ((Block if pre else PostBlock)(shape, dropout) for _ in range(shape.layers))
        final_norm = nn.LayerNorm(shape.d_model, EPSILON) if pre else nn.Identity()
        super().__init__(shape.d_model, words, max_length, blocks, final_norm)
        self.shape, self.norm = shape, norm
        if seed is not None:
            self._initialise(torch.Generator().manual_seed(seed))

    def context(
        self, tokens: Int[Tensor, "batch seq"], lengths: Int[Tensor, " batch"] | None
    ) -> Float[Tensor, "batch 1 1 seq"] | None:
        """Return the bias on attention scores: -inf at padding; None without padding."""
        if lengths is None:
            return None
        hidden = (torch.arange(tokens.shape[1], device=tokens.device) >= lengths[:, None])[:, None, None]
        bias = torch.zeros(hidden.shape, device=tokens.device, dtype=self.word.weight.dtype)
        return bias.masked_fill(hidden, float("-inf"))
