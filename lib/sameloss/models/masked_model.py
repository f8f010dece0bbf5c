"""What all masked language models share: names of their parameters, the model class, shapes."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cache
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from sameloss.errors import ParameterError


class _Uninitialised(TorchFunctionMode):
    """Leaves out normal random numbers, for which torch would import its compiler on the meta device."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (
            (kwargs or {}).get("tensor", *args[:1])
            if func is nn.init.normal_
            else func(*args, **kwargs or {})
        )


# The part of a model that a parameter belongs to, by its name: in our models and in HuggingFace's.

GROUPS = {
    "LayerNorm": r"norm\d?\.(weight|bias)$|\bln_\w+\.",
    "position": r"position|\bwpe\b",
    "word embedding": r"^word\b|word_embeddings|embed_tokens|token_type|tok_embeddings|\bwte\b|^shared\b",
    "head": r"^head|lm_head|^cls\.|predictions|^vocab_|^decoder\.\w+$",
    "LSTM": r"lstm|(weight|bias)_[ih]h",
    "attention": r"attention|attn",
    "MLP": r"mlp|ffn|feed_?forward|intermediate|output\.dense|densereludense|fc1|fc2|linear[12]\b",
}
"""Groups of parameters by patterns of their names; the first match counts."""


def parameter_group(name: str) -> str:
    """Return the group of a parameter: one of `GROUPS`, or other.

    >>> parameter_group("blocks.0.attention.qkv.weight")
    'attention'
    >>> parameter_group("bert.encoder.layer.1.attention.output.LayerNorm.bias")
    'LayerNorm'
    """
    lower = name.lower()
    return next((group for group, pattern in GROUPS.items() if re.search(pattern, lower)), "other")


# The model: embeddings, a stack of blocks, a tied head.

EPSILON = 1e-12
"""Epsilon of all LayerNorms, as in BERT."""

INITIAL_SCALE = 0.02
"""Standard deviation of BERT's initial weights."""


def chosen(
    h: Float[Tensor, "batch seq d_model"], at: Int[Tensor, " batch"] | None
) -> Float[Tensor, "batch out d_model"]:
    """Select h at one position `at` per sentence; all positions if None."""
    return h if at is None else h[torch.arange(len(h), device=h.device), at][:, None]


class MaskedLanguageModel(nn.Module):
    """A masked language model f: contextual representations h, and a head tied to the embedding.

    Subclasses build the blocks, and compute in `context` what these need to know about the sentences.
    """

    def __init__(
        self, d_model: int, words: int, max_length: int, blocks: Iterable[nn.Module], final_norm: nn.Module
    ) -> None:
        """Register the parts; their order determines which random numbers initialise a parameter.

        Args:
            d_model: width of the representations.
            words: vocabulary size c; the embedding has c + 1 rows, of which row 0 is that of [MASK].
            max_length: number of learned positions.
            blocks: modules that map (h, context, at) to the next h, at all positions or only at `at`; an
                iterator builds them after the embeddings.
            final_norm: applied to the last block's output.

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
        """Compute what every block needs besides h."""
        raise NotImplementedError

    def features(
        self,
        tokens: Int[Tensor, "batch seq"],
        lengths: Int[Tensor, " batch"] | None = None,
        at: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch out d_model"]:
        """Compute the contextual representations h_psi(x), after the final LayerNorm if there is one.

        Args:
            tokens: word ids; 0 is [MASK].
            lengths: of the sentences, if they differ; tokens beyond them are ignored.
            at: a position of each sentence; all positions if None. The last block computes only these,
                which saves a third of a two-layer model's work.

        """
        place = torch.arange(tokens.shape[1], device=tokens.device)
        context = self.context(tokens, lengths)
        h = self.embedding_norm(self.word(tokens) + self.position(place))
        *first, last = self.blocks
        for block in first:
            h = block(h, context)
        return self.final_norm(last(h, context, at))

    def head(self, h: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch word"]:
        """Compute the logits of words 1..c; the last matrix is the tied embedding."""
        transformed = self.head_norm(F.gelu(self.head_dense(h)))
        return F.linear(transformed, self.word.weight[1:], self.head_bias)

    def forward(
        self,
        masked: Int[Tensor, "batch seq"],
        positions: Int[Tensor, " batch"],
        lengths: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch word"]:
        """Compute the logits of f(x_-t) at the masked position of each sentence."""
        return self.head(self.features(masked, lengths, positions).squeeze(1))

    @property
    def max_length(self) -> int:
        """The number of learned positions, the longest sentence that the model takes."""
        return self.position.num_embeddings

    @property
    def parameter_count(self) -> int:
        """The number of parameters; the tied embedding counts once."""
        return sum(parameter.numel() for parameter in self.parameters())


# Shapes: the sizes of a family of models, with their costs.

Norm = Literal["pre", "post"]


class Shape(ABC):
    """A size of a family of models.

    A family is a frozen dataclass of this kind, whose fields enter the keys of runs. Training code and cost
    estimates rely on this interface only.
    """

    plain: ClassVar[bool] = False
    """Whether post-LN, dropout, bfloat16 and compilation are unsupported."""

    d_model: int
    layers: int

    @abstractmethod
    def build(
        self, words: int, max_length: int, seed: int | None = None, norm: Norm = "pre", dropout: float = 0.0
    ) -> MaskedLanguageModel:
        """Build a model.

        Args:
            words: vocabulary size c, without [MASK].
            max_length: number of learned positions.
            seed: of the initial weights; PyTorch's defaults if None.
            norm: LayerNorms before attention and MLP (`pre`), or after their residual sums (`post`).
            dropout: rate of residual dropout, after attention and MLP.

        Raises:
            ParameterError: if the family does not support `norm` or `dropout`.

        """

    @property
    @abstractmethod
    def matrix_parameters(self) -> int:
        """The number of parameters that multiply every token: the matrices of all blocks."""

    @abstractmethod
    def flops(self, words: int, length: float) -> float:
        """Count the floating-point operations of a training step on one sentence with one mask.

        Args:
            words: vocabulary size c.
            length: tokens of the sentence, or their mean.

        """

    @abstractmethod
    def activations(self, length: int) -> int:
        """Estimate the activations per token that the backward pass needs."""

    @cache  # noqa: B019 - a few shapes in a process, each asked for at every estimate
    def parameter_count(self, words: int, max_length: int) -> int:
        """Count the parameters of a model of this shape, without allocating them."""
        with torch.device("meta"), _Uninitialised():
            return self.build(words, max_length).parameter_count

    def check_plain(self, *options: bool) -> None:
        """Require that no option is set if the family supports plain training only."""
        if self.plain and any(options):
            raise ParameterError(
                f"{type(self).__name__} cannot be trained with post-LN, dropout, bfloat16 or compilation; "
                "choose another family's size."
            )
