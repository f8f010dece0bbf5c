"""Reparametrisations of an encoder: other parameters of the same function.

A measure of flatness should not depend on them: Dinh, Pascanu, Bengio and Bengio (2017, "Sharp minima can
generalize for deep nets") change the sharpness of a network arbitrarily without changing its function. Each
function here returns a changed deep copy with the same logits for every input.
"""

import re
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from sameloss.models.encoder import Block, Encoder

Factors = dict[str, tuple[float, ...]]

SCALINGS: dict[str, Factors] = {
    "LayerNorm gains × 2": {r"(attention_norm|mlp_norm)\.": (2,), r"(qkv|mlp_in)\.weight": (0.5,)},
    "queries × 2": {r"\.qkv\.": (2, 0.5, 1)},
    "values × 2": {r"\.qkv\.": (1, 1, 2), r"attention\.out\.weight": (0.5,)},
    "embedding × 2": {r"^(word|position)\.": (2,), r"^head_norm\.": (0.5,)},
}
r"""Factors of the parameters that match a pattern; three are those of queries, keys and values.

- LayerNorms of pre-LN blocks feed one linear layer: $W(\gamma \odot \hat x + b)$ is linear in gain and bias.
  The final LayerNorm is left alone, since its output is also the features of Section 5.
- Scores are products $q \cdot k$, and attention averages values linearly.
- The embedding is tied. Its LayerNorm cancels a factor at the input, up to the epsilon of 1e-12 added to the
  variance; the head's cancels it at the output, $E(\gamma \odot \hat h + b)$.
"""


def rescale(factors: Factors, model: Encoder, _: torch.Generator | None = None) -> Encoder:
    """Multiply parameters, or their equal parts, by the factors of their pattern."""
    changed = deepcopy(model)
    for name, parameter in changed.named_parameters():
        for pattern, by_part in factors.items():
            if re.search(pattern, name):
                for part, factor in zip(parameter.data.chunk(len(by_part)), by_part, strict=True):
                    part.mul_(factor)
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


REPARAMETRISATIONS: dict[str, Callable[[Encoder, torch.Generator], Encoder]] = {
    **{name: partial(rescale, factors) for name, factors in SCALINGS.items()},
    "heads rotated": rotate_heads,
    "neurons permuted": permute_neurons,
}
"""Reparametrisations by name; those by a factor do not use the generator, and the first needs pre-LN."""


def _blocks(model: Encoder) -> Iterable[Block]:
    return cast(Iterable[Block], model.blocks)


def _rotations(
    count: int, width: int, generator: torch.Generator
) -> Float[Tensor, "{count} {width} {width}"]:
    """Draw orthogonal matrices from the Haar measure."""
    gaussian = torch.randn(count, width, width, generator=generator, dtype=torch.float64)
    orthogonal, triangle = torch.linalg.qr(gaussian)
    # fixing the signs of the triangle's diagonal makes the draw uniform
    return orthogonal * triangle.diagonal(dim1=1, dim2=2).sign()[:, None]
