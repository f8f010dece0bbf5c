"""Other parameters of the same function: what a measure of flatness should not depend on.

Dinh, Pascanu, Bengio and Bengio (2017, "Sharp minima can generalize for deep nets") change the
sharpness of a network at will without changing its function. Each function here returns a changed
deep copy of an `Encoder` with the same logits for every input, and leaves the given model alone.
"""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sameloss.errors import ParameterError
from sameloss.models.encoder import Attention, Block, Encoder


def rescale_norms(model: Encoder, factor: float) -> Encoder:
    r"""Return $(\gamma, b, W) \to (s\gamma, sb, W/s)$ for each LayerNorm that feeds one linear layer.

    These are the blocks' two: $W(\gamma \odot \hat x + b)$ is linear in gain and bias, and only W
    reads them. The final LayerNorm stays as it is: its output is also the features of Section 5.

    Args:
        model: a pre-LN encoder; not changed.
        factor: s > 0.

    Raises:
        ParameterError: where the encoder is post-LN.

    """
    if model.norm != "pre":
        raise ParameterError("Post-LN LayerNorms feed the residual too; rescale those of a pre-LN encoder.")
    changed = deepcopy(model)
    for block in _blocks(changed):
        _scale(factor, block.attention_norm.weight, block.attention_norm.bias)
        _scale(1 / factor, block.attention.qkv.weight)
        _scale(factor, block.mlp_norm.weight, block.mlp_norm.bias)
        _scale(1 / factor, block.mlp_in.weight)
    return changed


def rescale_queries(model: Encoder, factor: float) -> Encoder:
    r"""Return $(W_q, b_q, W_k, b_k) \to (sW_q, sb_q, W_k/s, b_k/s)$: scores are products $q \cdot k$.

    Args:
        model: the encoder; not changed.
        factor: s > 0.

    """
    changed = deepcopy(model)
    for attention in _attentions(changed):
        for part in (attention.qkv.weight, attention.qkv.bias):
            queries, keys, _ = part.data.chunk(3)
            _scale(factor, queries)
            _scale(1 / factor, keys)
    return changed


def rescale_values(model: Encoder, factor: float) -> Encoder:
    r"""Return $(W_v, b_v, W_o) \to (sW_v, sb_v, W_o/s)$: attention averages values linearly.

    Args:
        model: the encoder; not changed.
        factor: s > 0.

    """
    changed = deepcopy(model)
    for attention in _attentions(changed):
        for part in (attention.qkv.weight, attention.qkv.bias):
            _scale(factor, part.data.chunk(3)[2])
        _scale(1 / factor, attention.out.weight)
    return changed


def rotate_heads(model: Encoder, generator: torch.Generator) -> Encoder:
    r"""Rotate each head's inner space: $(q, k) \to (Rq, Rk)$ and $(v, W_o) \to (Sv, W_o S^\top)$.

    R and S are orthogonal $d_{head} \times d_{head}$ matrices, drawn independently for each head.

    Args:
        model: the encoder; not changed.
        generator: of the matrices.

    """
    changed = deepcopy(model)
    for attention in _attentions(changed):
        width = attention.out.in_features // attention.heads
        first = _rotations(attention.heads, width, generator).to(attention.out.weight)
        second = _rotations(attention.heads, width, generator).to(attention.out.weight)
        for part in (attention.qkv.weight, attention.qkv.bias):
            heads = part.data.view(3, attention.heads, width, -1)
            heads.copy_(torch.stack([first, first, second]) @ heads)
        columns = attention.out.weight.data.view(-1, attention.heads, width)
        columns.copy_(torch.einsum("ohj,hij->ohi", columns, second))
    return changed


def permute_neurons(model: Encoder, generator: torch.Generator) -> Encoder:
    r"""Renumber each MLP's hidden neurons: $(W_1, b_1, W_2) \to (PW_1, Pb_1, W_2P^\top)$.

    Args:
        model: the encoder; not changed.
        generator: of the permutations P.

    """
    changed = deepcopy(model)
    for block in _blocks(changed):
        order = torch.randperm(block.mlp_in.out_features, generator=generator).to(block.mlp_in.weight.device)
        for part in (block.mlp_in.weight, block.mlp_in.bias, block.mlp_out.weight.T):
            part.data.copy_(part.data[order])
    return changed


def rescale_embedding(model: Encoder, factor: float) -> Encoder:
    r"""Return $(E, P, \gamma, b) \to (sE, sP, \gamma/s, b/s)$, E tied, γ and b of the head's LayerNorm.

    The embedding's LayerNorm undoes s at the input, up to its epsilon of 1e-12 beside the variance
    of the embeddings; the head's undoes it at the output, $E(\gamma \odot \hat h + b)$.

    Args:
        model: the encoder; not changed.
        factor: s > 0.

    """
    changed = deepcopy(model)
    _scale(factor, changed.word.weight, changed.position.weight)
    _scale(1 / factor, changed.head_norm.weight, changed.head_norm.bias)
    return changed


REPARAMETRISATIONS: dict[str, Callable[[Encoder, torch.Generator], Encoder]] = {
    "LayerNorm gains × 2": lambda model, generator: rescale_norms(model, 2.0),
    "queries × 2": lambda model, generator: rescale_queries(model, 2.0),
    "values × 2": lambda model, generator: rescale_values(model, 2.0),
    "embedding × 2": lambda model, generator: rescale_embedding(model, 2.0),
    "heads rotated": rotate_heads,
    "neurons permuted": permute_neurons,
}
"""Reparametrisations by name; those by a factor leave the generator alone."""


def _blocks(model: Encoder) -> Iterable[Block]:
    return cast(Iterable[Block], model.blocks)


def _attentions(model: Encoder) -> Iterator[Attention]:
    return (block.attention for block in _blocks(model))


def _scale(factor: float, *parts: nn.Parameter | Tensor) -> None:
    for part in parts:
        part.data.mul_(factor)


def _rotations(
    count: int, width: int, generator: torch.Generator
) -> Float[Tensor, "{count} {width} {width}"]:
    """Draw orthogonal matrices from the Haar measure."""
    gaussian = torch.randn(count, width, width, generator=generator, dtype=torch.float64)
    orthogonal, triangle = torch.linalg.qr(gaussian)
    # QR's signs are a convention; without the triangle's signs the draw would not be uniform.
    return orthogonal * triangle.diagonal(dim1=1, dim2=2).sign()[:, None]
