"""A small encoder as a point of a large encoder's parameter space (App. B.1; B.4 of the ICML text).

Width is replicated: features, heads and MLP units come in k equal copies. Where a parameter has
`copies` copies, each of them `divisor` times smaller, every copy gets the same gradient, and the
chain rule makes it divisor / copies times the small one's. So the Fisher trace of that parameter
is multiplied by divisor² / copies, which `trace_law` returns.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor

from sameloss.errors import ParameterError
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.masked_model import INITIAL_SCALE

Tying = Literal["paper", "balanced"]

Filling = Literal["zeros", "initial"]

LINEAR = r"(blocks\.\d+\.(attention\.qkv|attention\.out|mlp_in|mlp_out)|head_dense)"

NORM = r"(embedding_norm|final_norm|blocks\.\d+\.(attention_norm|mlp_norm))"

KINDS = {
    "embedding": r"(word|position)\.weight",
    "matrix": LINEAR + r"\.weight",
    "vector": rf"{LINEAR}\.bias|{NORM}\.(weight|bias)",
    "head norm": r"head_norm\.(weight|bias)",
    "head bias": "head_bias",
}
"""Patterns of the names of an encoder's parameters, by what becomes of them when the encoder is widened."""


def widen(model: Encoder, ratio: int, *, tied: Tying = "paper") -> Encoder:
    """Return the same function with `ratio` times the width, heads and MLP units.

    The embedding is both the input, whose scale the LayerNorm behind it removes, and the output
    matrix, whose sum over the copies must not grow. `paper` divides it by the ratio.
    `balanced` divides it by the root of the ratio and the head's LayerNorm by the other root,
    which keeps the embedding's Fisher trace (see `trace_law`).

    Raises:
        ParameterError: no positive ratio, or an unknown `tied`.

    """
    _check_widening(ratio, tied)
    small = model.shape
    shape = EncoderShape(ratio * small.d_model, ratio * small.heads, small.layers, ratio * small.d_inter)
    state = {name: _replicated(name, value, ratio, tied) for name, value in model.state_dict().items()}
    return built(model, shape, state)


def deepen(
    model: Encoder, layers: int, *, filling: Filling = "zeros", generator: torch.Generator | None = None
) -> Encoder:
    """Return the encoder with blocks added on top, `layers` in all, that add zero to the residuals.

    This preserves a pre-LN function. It does NOT preserve a post-LN one whose last gains and biases
    are trained: the added LayerNorms apply to an h that is no longer normalised, LN(h) != h, which
    App. B.1 overlooks. The Fisher trace grows in any case, for the output biases of the added
    blocks have gradients: a pre-LN block of zeros adds twice the trace of the last `mlp_out.bias`.

    Args:
        model: the small encoder.
        layers: number of blocks of the result.
        filling: of the other matrices in the added blocks: `zeros`, from which no gradient would ever move
            them (see `grow`), or `initial` for N(0, 0.02²); in both cases their biases are 0 and their
            LayerNorms have gain 1 and bias 0.
        generator: of the initial matrices, on the CPU.

    Raises:
        ParameterError: fewer layers than the model has, or an unknown `filling`.

    """
    shape = replace(model.shape, layers=layers)
    check_enlargeable(model.shape, shape)
    if filling not in get_args(Filling):
        raise ParameterError(f"Unknown filling {filling!r}; choose zeros or initial.")
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for name, parameter in _hollow(model, shape).named_parameters():
        if name not in state:
            state[name] = _added(name, parameter.shape, filling, generator).to(model.word.weight)
    return built(model, shape, state)


def enlarge(
    model: Encoder,
    shape: EncoderShape,
    *,
    tied: Tying = "paper",
    filling: Filling = "zeros",
    generator: torch.Generator | None = None,
) -> Encoder:
    """Widen, then deepen the model to exactly `shape`; see there for what is preserved.

    Raises:
        ParameterError: a shape into which the model's does not embed.

    """
    ratio = check_enlargeable(model.shape, shape)
    return deepen(widen(model, ratio, tied=tied), shape.layers, filling=filling, generator=generator)


def check_enlargeable(small: EncoderShape, large: EncoderShape) -> int:
    """Return the ratio of the widths.

    Raises:
        ParameterError: no integer ratio, heads or d_inter of another ratio, or fewer layers.

    """
    ratio, rest = divmod(large.d_model, small.d_model)
    if rest:
        raise ParameterError(f"d_model must be a multiple of {small.d_model}; got {large.d_model}.")
    if large.heads != ratio * small.heads:
        wanted = f"{ratio} × {small.heads}, as d_model is {ratio} × {small.d_model}"
        raise ParameterError(f"heads must be {wanted}; got {large.heads}.")
    if large.d_inter != ratio * small.d_inter:
        wanted = f"{ratio} × {small.d_inter}, as d_model is {ratio} × {small.d_model}"
        hint = "Table 4's d_inter as printed cannot embed, 4 × d_model can"
        raise ParameterError(f"d_inter must be {wanted}; got {large.d_inter} ({hint}).")
    if large.layers < small.layers:
        raise ParameterError(f"layers must be at least {small.layers}; got {large.layers}.")
    return ratio


def common_width(shapes: Iterable[EncoderShape]) -> int:
    """Return the width that all shapes can be widened to: the least common multiple of theirs.

    >>> from sameloss.models.sizes import LADDER
    >>> common_width(LADDER.values())
    1920
    """
    return math.lcm(*(shape.d_model for shape in shapes))


def trace_law(name: str, ratio: int, tied: Tying = "paper") -> float:
    """Return by what `widen` multiplies the Fisher trace of the parameter `name`, pre- or post-LN.

    >>> trace_law("word.weight", 3), trace_law("word.weight", 3, "balanced")
    (3.0, 1.0)

    Raises:
        ParameterError: a name that no encoder's parameter has.

    """
    return kind_law(kind_of(name), ratio, tied)


def kind_law(kind: str, ratio: int, tied: Tying = "paper") -> float:
    """Return what `trace_law` returns for the parameters of a kind, one of `KINDS`."""
    _check_widening(ratio, tied)
    copies = {"matrix": ratio**2, "head bias": 1}.get(kind, ratio)
    # The balanced divisor is a root whose square must not show its rounding error.
    return round(divisor(kind, ratio, tied) ** 2) / copies


def kind_of(name: str) -> str:
    """Return the kind of a parameter, one of `KINDS`.

    Raises:
        ParameterError: a name that no encoder's parameter has.

    """
    for kind, pattern in KINDS.items():
        if re.fullmatch(pattern, name):
            return kind
    raise ParameterError(f"{name!r} names no parameter of an encoder; word.weight, for one, does.")


def divisor(kind: str, ratio: int, tied: Tying) -> float:
    """Return by what each copy is divided; embedding's times head LayerNorm's is the ratio."""
    embedding = float(ratio) if tied == "paper" else ratio**0.5
    divisors = {"embedding": embedding, "head norm": ratio / embedding, "matrix": float(ratio)}
    return divisors.get(kind, 1.0)


def _check_widening(ratio: int, tied: str) -> None:
    if ratio < 1:
        raise ParameterError(f"ratio must be a positive integer; got {ratio}.")
    if tied not in get_args(Tying):
        raise ParameterError(f"Unknown tied {tied!r}; choose paper or balanced.")


def _replicated(name: str, value: Tensor, ratio: int, tied: Tying) -> Tensor:
    kind = kind_of(name)
    if kind == "head bias":
        return value.clone()
    if kind == "embedding":
        copied = value.repeat(1, ratio)
    else:  # the heads of query, key and value are replicated within each of the three
        grouped = value.unflatten(0, (3 if ".qkv." in name else 1, -1))
        copied = grouped.repeat(1, *[ratio] * value.ndim).flatten(0, 1)
    return copied / divisor(kind, ratio, tied)


def _added(name: str, shape: torch.Size, filling: str, generator: torch.Generator | None) -> Tensor:
    if name.endswith("norm.weight"):
        return torch.ones(shape)
    silent = "attention.out." in name or "mlp_out." in name
    if filling == "zeros" or silent or name.endswith("bias"):
        return torch.zeros(shape)
    return torch.empty(shape).normal_(0, INITIAL_SCALE, generator=generator)


def _hollow(model: Encoder, shape: EncoderShape) -> Encoder:
    """Return an encoder without values, so that building it draws no random numbers."""
    with torch.device("meta"):
        return Encoder(shape, len(model.head_bias), len(model.position.weight), norm=model.norm)


def built(model: Encoder, shape: EncoderShape, state: dict[str, Tensor]) -> Encoder:
    """Return an encoder of another shape and of the given weights, in all else like a model."""
    large = _hollow(model, shape)
    large.load_state_dict(state, assign=True)
    return large.train(model.training)
