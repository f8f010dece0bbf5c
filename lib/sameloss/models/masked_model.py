"""What every masked language model of the book shares: embeddings, a stack of blocks, a tied head."""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

EPSILON = 1e-12
"""The epsilon of all LayerNorms, which is BERT's."""

INITIAL_SCALE = 0.02
"""The standard deviation of BERT's initial weights."""


def chosen(
    h: Float[Tensor, "batch seq d_model"], at: Int[Tensor, " batch"] | None
) -> Float[Tensor, "batch out d_model"]:
    """Return h at all positions, or at the one position `at` of each sentence."""
    return h if at is None else h[torch.arange(len(h), device=h.device), at][:, None]


class MaskedLanguageModel(nn.Module):
    """A masked language model f: contextual representations h, and a head tied to the embedding.

    A family's class builds the blocks, and `context` says what they have to know of the sentences.
    """

    def __init__(
        self, d_model: int, words: int, max_length: int, blocks: Iterable[nn.Module], final_norm: nn.Module
    ) -> None:
        """Register the parts, whose order decides which random numbers a parameter gets.

        Args:
            d_model: width of the representations.
            words: vocabulary size c; the embedding has c + 1 rows, of which row 0 is that of [MASK].
            max_length: number of learned positions.
            blocks: map (h, context, at) to a new h, at all positions or only at `at`; an iterator makes
                them after the embeddings.
            final_norm: is applied to the last block's output.

        """
        super().__init__()
        self.word = nn.Embedding(words + 1, d_model)
        self.position = nn.Embedding(max_length, d_model)
        self.embedding_norm = nn.LayerNorm(d_model, EPSILON)
        self.blocks = nn.ModuleList(blocks)
        self.final_norm = final_norm
        self.head_dense = nn.Linear(d_model, d_model)
        self.head_norm = nn.LayerNorm(d_model, EPSILON)
        self.head_bias = nn.Parameter(torch.zeros(words))

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, INITIAL_SCALE, generator=generator)
            elif name.endswith("bias"):
                parameter.zero_()

    def context(self, tokens: Int[Tensor, "batch seq"], lengths: Int[Tensor, " batch"] | None) -> Any:
        """Return what every block is given besides h."""
        raise NotImplementedError

    def features(
        self,
        tokens: Int[Tensor, "batch seq"],
        lengths: Int[Tensor, " batch"] | None = None,
        at: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch out d_model"]:
        """Return the contextual representations h_psi(x), behind the final LayerNorm where there is one.

        Args:
            tokens: word ids; 0 is [MASK].
            lengths: of the sentences, where they differ; tokens beyond them do not matter.
            at: the one position of each sentence that is wanted; all are where it is None. The last block
                computes no other position, which saves a third of a two-layer model's work.

        """
        place = torch.arange(tokens.shape[1], device=tokens.device)
        context = self.context(tokens, lengths)
        h = self.embedding_norm(self.word(tokens) + self.position(place))
        *first, last = self.blocks
        for block in first:
            h = block(h, context)
        return self.final_norm(last(h, context, at))

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
        return self.head(self.features(masked, lengths, positions).squeeze(1))

    @property
    def max_length(self) -> int:
        """Return the number of tokens of the longest sentence that the model takes."""
        return self.position.num_embeddings

    @property
    def parameter_count(self) -> int:
        """Return the number of trainable parameters; the tied embedding counts once."""
        return sum(parameter.numel() for parameter in self.parameters())
