"""Reparametrisations of an encoder: other parameters of the same function.

A measure of flatness should not depend on them: Dinh, Pascanu, Bengio and Bengio (2017, "Sharp minima can
generalize for deep nets") change the sharpness of a network arbitrarily without changing its function. Each
function here returns a changed deep copy with the same logits for every input. Factors s are positive.
"""

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sameloss.errors import ParameterError
from sameloss.models.encoder import Block, Encoder


def rescale_norms(model: Encoder, factor: float) -> Encoder:
    r"""Apply $(\gamma, b, W) \to (s\gamma, sb, W/s)$ to each LayerNorm that feeds one linear layer.

    These are the blocks' two: $W(\gamma \odot \hat x + b)$ is linear in gain and bias, and only W
    reads them. The final LayerNorm is left alone: its output is also the features of Section 5.

    Raises:
        ParameterError: for a post-LN encoder.

    """
    if model.norm != "pre":
        raise ParameterError("Post-LN LayerNorms feed the residual too; rescale those of a pre-LN encoder.")
    changed = deepcopy(model)
    for block in _blocks(changed):
        for norm, linear in ((block.attention_norm, block.attention.qkv), (block.mlp_norm, block.mlp_in)):
            _scale(factor, norm.weight, norm.bias)
            _scale(1 / factor, linear.weight)
    return changed


def rescale_queries(model: Encoder, factor: float) -> Encoder:
    r"""Apply $(W_q, b_q, W_k, b_k) \to (sW_q, sb_q, W_k/s, b_k/s)$: scores are products $q \cdot k$."""
    changed = deepcopy(model)
    for block in _blocks(changed):
        for part in (block.attention.qkv.weight, block.attention.qkv.bias):
            queries, keys, _ = part.data.chunk(3)
            _scale(factor, queries)
            _scale(1 / factor, keys)
    return changed


def rescale_values(model: Encoder, factor: float) -> Encoder:
    r"""Apply $(W_v, b_v, W_o) \to (sW_v, sb_v, W_o/s)$: attention averages values linearly."""
    changed = deepcopy(model)
    for block in _blocks(changed):
        for part in (block.attention.qkv.weight, block.attention.qkv.bias):
            _scale(factor, part.data.chunk(3)[2])
        _scale(1 / factor, block.attention.out.weight)
    return changed


def rotate_heads(model: Encoder, generator: torch.Generator) -> Encoder:
    r"""Rotate each head's inner space: $(q, k) \to (Rq, Rk)$ and $(v, W_o) \to (Sv, W_o S^\top)$.

    R and S are orthogonal $d_{head} \times d_{head}$ matrices, drawn independently for each head.
    """
    changed = deepcopy(model)
    for attention in (block.attention for block in _blocks(changed)):
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
    r"""Permute each MLP's hidden neurons: $(W_1, b_1, W_2) \to (PW_1, Pb_1, W_2P^\top)$."""
    changed = deepcopy(model)
    for block in _blocks(changed):
        order = torch.randperm(block.mlp_in.out_features, generator=generator).to(block.mlp_in.weight.device)
        for part in (block.mlp_in.weight, block.mlp_in.bias, block.mlp_out.weight.T):
            part.data.copy_(part.data[order])
    return changed


def rescale_embedding(model: Encoder, factor: float) -> Encoder:
    r"""Apply $(E, P, \gamma, b) \to (sE, sP, \gamma/s, b/s)$, E tied, γ and b of the head's LayerNorm.

    The embedding's LayerNorm cancels s at the input, up to its epsilon of 1e-12 added to the variance
    of the embeddings; the head's cancels it at the output, $E(\gamma \odot \hat h + b)$.
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
"""Reparametrisations by name; those by a factor do not use the generator."""


def _blocks(model: Encoder) -> Iterable[Block]:
    return cast(Iterable[Block], model.blocks)


def _scale(factor: float, *parts: nn.Parameter | Tensor) -> None:
    for part in parts:
        part.data.mul_(factor)


def _rotations(
    count: int, width: int, generator: torch.Generator
) -> Float[Tensor, "{count} {width} {width}"]:
    """Draw orthogonal matrices from the Haar measure."""
    gaussian = torch.randn(count, width, width, generator=generator, dtype=torch.float64)
    orthogonal, triangle = torch.linalg.qr(gaussian)
    # fixing the signs of the triangle's diagonal makes the draw uniform
    return orthogonal * triangle.diagonal(dim1=1, dim2=2).sign()[:, None]
