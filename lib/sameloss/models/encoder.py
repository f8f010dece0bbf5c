"""The pre-LN transformer encoder of the book: BERT's shape as the released code trains it (App. A.3).

The same function as HuggingFace's `RobertaPreLayerNormForMaskedLM`: normalised embeddings,
pre-LN blocks, a final LayerNorm, and a masked-LM head tied to the word embedding.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.errors import ParameterError

EPSILON = 1e-12
"""LayerNorm's epsilon, BERT's."""


@dataclass(frozen=True)
class EncoderShape:
    """Table 3's columns; `d_inter` is the width inside the MLP."""

    d_model: int
    heads: int
    layers: int
    d_inter: int

    def __post_init__(self) -> None:
        """Refuse a width that the heads do not divide."""
        if self.d_model % self.heads:
            raise ParameterError(f"heads = {self.heads} does not divide d_model = {self.d_model}.")


class Attention(nn.Module):
    """Multi-head self-attention, all heads of query, key and value in one matrix."""

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], bias: Float[Tensor, "batch 1 1 seq"] | None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Mix the positions; `bias` is added to the scores (-inf hides padding)."""
        split = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        q, k, v = split.permute(2, 0, 3, 1, 4)  # each: batch head seq d_head
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        weights = (scores if bias is None else scores + bias).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """One pre-LN block: h + Attn(LN h), then v + MLP(LN v)."""

    def __init__(self, shape: EncoderShape) -> None:
        super().__init__()
        d = shape.d_model
        self.attention_norm = nn.LayerNorm(d, EPSILON)
        self.attention = Attention(d, shape.heads)
        self.mlp_norm = nn.LayerNorm(d, EPSILON)
        self.mlp_in = nn.Linear(d, shape.d_inter)
        self.mlp_out = nn.Linear(shape.d_inter, d)

    def forward(
        self, h: Float[Tensor, "batch seq d_model"], bias: Float[Tensor, "batch 1 1 seq"] | None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Apply the block."""
        v = h + self.attention(self.attention_norm(h), bias)
        return v + self.mlp_out(F.gelu(self.mlp_in(self.mlp_norm(v))))


class Encoder(nn.Module):
    """A masked language model f: contextual representations h, then a head tied to the embedding."""

    def __init__(self, shape: EncoderShape, words: int, max_length: int, seed: int | None = None) -> None:
        """Build and, given a seed, initialise as BERT does: weights N(0, 0.02²), biases 0.

        Args:
            shape: widths and depth.
            words: vocabulary size c; the embedding has c + 1 rows, row 0 for [MASK].
            max_length: number of learned positions.
            seed: of the initial weights.

        """
        super().__init__()
        d = shape.d_model
        self.word = nn.Embedding(words + 1, d)
        self.position = nn.Embedding(max_length, d)
        self.embedding_norm = nn.LayerNorm(d, EPSILON)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.final_norm = nn.LayerNorm(d, EPSILON)
        self.head_dense = nn.Linear(d, d)
        self.head_norm = nn.LayerNorm(d, EPSILON)
        self.head_bias = nn.Parameter(torch.zeros(words))
        if seed is not None:
            self._initialise(torch.Generator().manual_seed(seed))

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, 0.02, generator=generator)
            elif name.endswith("bias"):
                parameter.zero_()

    def features(
        self, tokens: Int[Tensor, "batch seq"], lengths: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """Return the contextual representations h_psi(x), after the final LayerNorm.

        Args:
            tokens: word ids, [MASK] = 0.
            lengths: of the sentences where they differ; tokens beyond are hidden from attention.

        """
        place = torch.arange(tokens.shape[1], device=tokens.device)
        bias = None
        if lengths is not None:
            hidden = (place >= lengths[:, None])[:, None, None]
            bias = torch.zeros(hidden.shape, device=tokens.device, dtype=self.word.weight.dtype)
            bias = bias.masked_fill(hidden, float("-inf"))
        h = self.embedding_norm(self.word(tokens) + self.position(place))
        for block in self.blocks:
            h = block(h, bias)
        return self.final_norm(h)

    def head(self, h: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch word"]:
        """Return the logits of the words 1..c; the tied embedding is the last matrix."""
        transformed = self.head_norm(F.gelu(self.head_dense(h)))
        return F.linear(transformed, self.word.weight[1:], self.head_bias)

    def forward(
        self,
        masked: Int[Tensor, "batch seq"],
        positions: Int[Tensor, " batch"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch word"]:
        """Return the logits of f(x_-t) at the masked position of each sentence."""
        h = self.features(masked, lengths)
        return self.head(h[torch.arange(len(masked), device=h.device), positions])

    @property
    def parameter_count(self) -> int:
        """Number of trainable parameters, the tied embedding counted once."""
        return sum(parameter.numel() for parameter in self.parameters())
