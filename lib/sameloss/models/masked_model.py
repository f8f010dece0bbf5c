"""Masked language models: their protocol, their parts, their shapes by name."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sameloss.errors import ParameterError

# Which part of a model a parameter belongs to, read off its name: ours and HuggingFace's.

GROUPS = {
    "LayerNorm": r"norm\d?\.(weight|bias)$|\bln_\w+\.",
    "position": r"position|\bwpe\b",
    "word embedding": r"^word\b|word_embeddings|embed_tokens|token_type|tok_embeddings|\bwte\b|^shared\b",
    "head": r"^head|lm_head|^cls\.|predictions|^vocab_|^decoder\.\w+$",
    "LSTM": r"lstm|(weight|bias)_[ih]h",
    "attention": r"attention|attn",
    "MLP": r"mlp|ffn|feed_?forward|intermediate|output\.dense|densereludense|fc1|fc2|linear[12]\b",
}
"""Groups of parameters by a pattern in the name; the first that matches decides."""

DEPTH = re.compile(r"(?:blocks?|layers?|\bh)\.(\d+)\.")


def depth(layer: str) -> tuple[int, int]:
    """Return what orders the names that `parameter_layer` gives.

    >>> sorted(["head", "layer 10", "embedding", "layer 2"], key=depth)
    ['embedding', 'layer 2', 'layer 10', 'head']
    """
    kind, _, number = layer.partition(" ")
    return ("embedding", "layer", "head").index(kind), int(number or 0)


def parameter_group(name: str) -> str:
    """Return the group that a parameter belongs to, one of `GROUPS`, or other.

    >>> parameter_group("blocks.0.attention.qkv.weight")
    'attention'
    >>> parameter_group("bert.encoder.layer.1.attention.output.LayerNorm.bias")
    'LayerNorm'
    """
    lower = name.lower()
    return next((group for group, pattern in GROUPS.items() if re.search(pattern, lower)), "other")


def parameter_layer(name: str) -> str:
    """Return the depth of a parameter: embedding, layer 1, layer 2, ..., head.

    A tied embedding counts as embedding. What follows the last block counts as head.

    >>> [parameter_layer(n) for n in ("word.weight", "blocks.1.mlp_in.bias", "final_norm.weight")]
    ['embedding', 'layer 2', 'head']
    """
    depth = DEPTH.search(name)
    if depth:
        return f"layer {int(depth[1]) + 1}"
    return "embedding" if re.search(r"^word|position|embed|\bw[tp]e\b|^shared\b", name.lower()) else "head"


# What every masked language model of the book shares: embeddings, a stack of blocks, a tied head.

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


# What a family of models says of each of its sizes: how it is built, and what it takes.

Norm = Literal["pre", "post"]


class Shape(ABC):
    """A size of a family of models.

    A family is a frozen dataclass of this kind: its fields are part of a run's key, and whoever trains its
    models, or counts what that takes, needs to know no more of it than this class says.
    """

    family: ClassVar[str]
    """The family's name, with its article."""

    plain: ClassVar[bool] = False
    """Whether the family is trained in float32, uncompiled, without dropout and post-LN alone."""

    d_model: int
    layers: int

    @abstractmethod
    def build(
        self,
        words: int,
        max_length: int,
        seed: int | None = None,
        norm: Norm = "pre",
        dropout: float = 0.0,
    ) -> MaskedLanguageModel:
        """Return a new model.

        Args:
            words: vocabulary size c, [MASK] not counted.
            max_length: number of learned positions.
            seed: of the initial weights; where it is None, they are left as PyTorch makes them.
            norm: whether LayerNorms stand before the parts of a block, or behind their residual sums.
            dropout: share of what the blocks' parts add that is dropped in training.

        Raises:
            ParameterError: where `norm` or `dropout` asks for what the family lacks.

        """

    @property
    @abstractmethod
    def matrix_parameters(self) -> int:
        """Return the number of parameters that multiply every token: the matrices of all blocks."""

    @abstractmethod
    def flops(self, words: int, length: float) -> float:
        """Return the floating-point operations of a training step on one sentence with one mask.

        Args:
            words: vocabulary size c.
            length: tokens of the sentence; a mean length where a mean is wanted.

        """

    @abstractmethod
    def activations(self, length: int) -> int:
        """Return roughly how many numbers a token of a sentence leaves for the backward pass."""

    def parameter_count(self, words: int, max_length: int) -> int:
        """Return the number of parameters of a model of this shape, without making their values."""
        with torch.device("meta"):
            return self.build(words, max_length).parameter_count

    def check_plain(self, *asked: bool) -> None:
        """Refuse what is asked for beyond the plain training of a family that has no other.

        Raises:
            ParameterError: naming the family.

        """
        if self.plain and any(asked):
            raise ParameterError(
                f"{self.family} cannot be trained with post-LN, dropout, bfloat16 or compilation; choose "
                "another family's size."
            )
