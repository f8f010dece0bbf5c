"""Larger encoders from a small one: widened or deepened with the same function, or grown in depth."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from sameloss.checks import check_count
from sameloss.errors import ParameterError
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.masked_model import INITIAL_SCALE

# A small encoder embedded into a large one's parameter space (App. B.1; B.4 of the ICML text).
#
# Width is replicated: features, heads and MLP units come in k equal copies. If a parameter has `copies`
# copies, each of them `divisor` times smaller, then every copy gets the same gradient, which by the chain
# rule is divisor / copies times that of the small model. So the Fisher trace of this parameter is multiplied
# by divisor² / copies, which `trace_law` returns.

Tying = Literal["paper", "balanced"]

LINEAR = r"(blocks\.\d+\.(attention\.qkv|attention\.out|mlp_in|mlp_out)|head_dense)"

NORM = r"(embedding_norm|final_norm|blocks\.\d+\.(attention_norm|mlp_norm))"

KINDS = {
    "embedding": r"(word|position)\.weight",
    "matrix": LINEAR + r"\.weight",
    "vector": rf"{LINEAR}\.bias|{NORM}\.(weight|bias)",
    "head norm": r"head_norm\.(weight|bias)",
    "head bias": "head_bias",
}
"""Patterns of parameter names, by the way in which widening replicates the parameter."""


def widen(model: Encoder, ratio: int, *, tied: Tying = "paper") -> Encoder:
    """Return an encoder of the same function with `ratio` times the width, heads and MLP units.

    The embedding is both the input, whose scale the LayerNorm after it removes, and the output matrix,
    whose sum over the copies must not grow. `paper` divides it by the ratio. `balanced` divides both it
    and the head's LayerNorm by the square root of the ratio, which keeps the embedding's Fisher trace (see
    `trace_law`).

    Raises:
        ParameterError: for a ratio that is not positive.

    """
    check_count("ratio", ratio)
    small = model.shape
    shape = EncoderShape(ratio * small.d_model, ratio * small.heads, small.layers, ratio * small.d_inter)
    state = {name: _replicated(name, value, ratio, tied) for name, value in model.state_dict().items()}
    return _built(model, shape, state)


def deepen(
    model: Encoder,
    layers: int,
    *,
    filling: Literal["zeros", "initial"] = "zeros",
    generator: torch.Generator | None = None,
) -> Encoder:
    """Return an encoder with blocks on top, `layers` in all, that add zero to the residual stream.

    This preserves a pre-LN function. It does NOT preserve a post-LN one whose last gains and biases
    are trained: the added LayerNorms apply to an h that is no longer normalised, LN(h) != h, which
    App. B.1 overlooks. The Fisher trace grows in any case, because the output biases of the added
    blocks have gradients: a pre-LN block of zeros adds twice the trace of the last `mlp_out.bias`.

    Args:
        model: the small encoder.
        layers: number of blocks of the result.
        filling: of the added blocks' matrices other than output matrices: `zeros`, which get no gradient (see
            `Filling`), or `initial` for N(0, 0.02²). Biases are 0 and LayerNorms the identity either way.
        generator: of the initial matrices, on the CPU.

    """
    old = model.shape.layers
    on_top = LayerMap((*range(old), *[old - 1] * (layers - old)), tuple(at >= old for at in range(layers)))
    return _grown(model, on_top, "silent" if filling == "initial" else "zeros", generator)


def trace_law(name: str, ratio: int, tied: Tying = "paper") -> float:
    """Return the factor by which `widen` multiplies the Fisher trace of the parameter `name`.

    >>> trace_law("word.weight", 3), trace_law("word.weight", 3, "balanced")
    (3.0, 1.0)

    Raises:
        ParameterError: for a name that is not of a parameter.

    """
    return kind_law(kind_of(name), ratio, tied)


def kind_law(kind: str, ratio: int, tied: Tying = "paper") -> float:
    """Return the `trace_law` of all parameters of a kind in `KINDS`."""
    copies = {"matrix": ratio**2, "head bias": 1}.get(kind, ratio)
    return round(divisor(kind, ratio, tied) ** 2) / copies  # the square is whole, its root may be rounded


def kind_of(name: str) -> str:
    """Return the kind of a parameter, one of `KINDS`.

    Raises:
        ParameterError: for a name that is not of a parameter.

    """
    for kind, pattern in KINDS.items():
        if re.fullmatch(pattern, name):
            return kind
    raise ParameterError(f"{name!r} is not a parameter of an encoder; word.weight, for example, is.")


def divisor(kind: str, ratio: int, tied: Tying) -> float:
    """Return the divisor of each copy; those of embedding and head LayerNorm multiply to the ratio."""
    embedding = float(ratio) if tied == "paper" else ratio**0.5
    divisors = {"embedding": embedding, "head norm": ratio / embedding, "matrix": float(ratio)}
    return divisors.get(kind, 1.0)


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


def _built(model: Encoder, shape: EncoderShape, state: dict[str, Tensor]) -> Encoder:
    """Build an encoder from a shape and weights, with the norm and mode of `model`, without dropout."""
    with torch.device("meta"):  # draws no random numbers
        large = Encoder(shape, len(model.head_bias), len(model.position.weight), norm=model.norm)
    large.load_state_dict(state, assign=True)
    return large.train(model.training)


# Growing in depth (Karp 2024, Section 5.2.1): where the layers of the grown model come from.
#
# Layers are counted from 0, as in the thesis' experiments; its text counts from 1.


@dataclass(frozen=True)
class LayerMap:
    """The layers of a grown model: every shallow layer once, in order, and added layers.

    Raises:
        ParameterError: where a layer is lost, or an added one repeats none that there is.

    """

    sources: tuple[int, ...]  # the shallow layer at each position, or the one that an added layer repeats
    new: tuple[bool, ...]  # whether the layer is added

    def __post_init__(self) -> None:
        """Check the sources."""
        kept = [source for source, new in zip(self.sources, self.new, strict=False) if not new]
        shallow = range(len(kept))
        if len(self.sources) != len(self.new) or kept != [*shallow] or not {*self.sources} <= {*shallow}:
            raise ParameterError(
                "A map keeps the layers 0, 1, ... of the shallow model once and in order, and adds copies of "
                f"these; got {self.sources}, of which added: {self.new}."
            )

    @property
    def layers(self) -> int:
        """The number of layers of the shallow model."""
        return len(self.new) - sum(self.new)

    def __str__(self) -> str:
        """Write the layers, added ones in brackets.

        >>> print(repeated(6, 3, index=1, block=1))
        0 1 (1) 2 (2) 3 (3) 4 5
        """
        pairs = zip(self.sources, self.new, strict=True)
        return " ".join(f"({source})" if new else str(source) for source, new in pairs)


def repeated(layers: int, added: int, index: int, block: int) -> LayerMap:
    """Repeat `added` consecutive layers in blocks (the thesis' design space): each block comes twice.

    Args:
        layers: L, the depth of the shallow model.
        added: k; the grown model has L + k layers.
        index: i, the first of the k layers, from 0.
        block: b, layers per block.

    Raises:
        ParameterError: for a combination outside the design space.

    >>> print(repeated(6, 3, index=1, block=3))
    0 1 2 3 (1) (2) (3) 4 5

    """
    if not 1 <= added <= layers:
        raise ParameterError(f"From {layers} layers 1 to {layers} can be added; got {added}.")
    if not 0 <= index <= layers - added:
        raise ParameterError(
            f"The first of {added} out of {layers} layers is 0 to {layers - added} (the thesis' text counts "
            f"from 1); got {index}."
        )
    if block < 1 or added % block:
        raise ParameterError(f"A block size divides the {added} added layers; got {block}.")
    pairs = [(source, False) for source in range(index)]
    for first in range(index, index + added, block):
        pairs += [(source, new) for new in (False, True) for source in range(first, first + block)]
    pairs += [(source, False) for source in range(index + added, layers)]
    return LayerMap(*map(tuple, zip(*pairs, strict=True)))


def grid(layers: int, added: int, every: int = 1) -> dict[tuple[int, int], LayerMap]:
    """Return all maps of the design space by index and block size, with indices in steps of `every`.

    >>> len(grid(12, 4, every=2)), list(grid(2, 2))
    (15, [(0, 1), (0, 2)])
    """
    blocks = [block for block in range(1, added + 1) if added % block == 0]
    places = [(i, b) for i in range(0, layers - added + 1, every) for b in blocks]
    return {(index, block): repeated(layers, added, index, block) for index, block in places}


# Growing in depth: initial values of the added layers (Karp 2024, Section 5.2).

Filling = Literal["duplicate", "random", "silent", "muted"]
"""Initial values of an added layer.

- duplicate: a copy of the layer that it repeats (the thesis);
- random: as at initialisation (the thesis);
- silent: random, with output matrices of zero, so that it adds nothing to the residual stream;
- muted: a copy with output matrices of zero (LLaMA-Pro).

The last two preserve the function of a pre-LN model. Their other matrices are not zero, because then neither
would ever get a gradient.
"""

PRESERVING: tuple[Filling, ...] = ("silent", "muted")

BLOCK = re.compile(r"blocks\.(\d+)\.(.+)")
"""Name of a parameter of a layer: the layer's number, and the name within the layer."""

OUTPUTS = ("attention.out", "mlp_out")
"""Modules of a layer that write to the residual stream."""


def grow(
    model: Encoder, layers: LayerMap, filling: Filling, generator: torch.Generator | None = None
) -> Encoder:
    """Grow an encoder in depth.

    Args:
        model: the shallow encoder.
        layers: the layers of the grown one.
        filling: initial values of the added layers.
        generator: of random values, on the CPU.

    Raises:
        ParameterError: for a map of another number of layers, an unknown filling, or a function-preserving
            one for a post-LN encoder.

    """
    if filling not in get_args(Filling):
        raise ParameterError(f"Unknown filling {filling!r}; choose one of {', '.join(get_args(Filling))}.")
    if filling in PRESERVING and model.norm == "post":
        raise ParameterError(
            f"Filling {filling} preserves the function of a pre-LN encoder only: a post-LN block without "
            "outputs still normalises once more; choose duplicate or random."
        )
    return _grown(model, layers, filling, generator)


def _grown(model: Encoder, layers: LayerMap, filling: str, generator: torch.Generator | None) -> Encoder:
    def new(name: str, source: Tensor) -> Tensor:
        if begins_as_copy(name, filling):
            return source.clone()
        if "norm" in name:
            return torch.full_like(source, float(name.endswith("weight")))
        if filling == "zeros" or name.endswith("bias") or _is_silenced(name, filling):
            return torch.zeros_like(source)
        return torch.empty(source.shape).normal_(0, INITIAL_SCALE, generator=generator).to(source)

    state = grow_tensors(model.state_dict(), layers, new)
    return _built(model, replace(model.shape, layers=len(layers.sources)), state)


def grow_tensors(
    tensors: Mapping[str, Tensor], layers: LayerMap, new: Callable[[str, Tensor], Tensor]
) -> dict[str, Tensor]:
    """Map a tensor for each parameter of a shallow model to those of a grown one.

    Args:
        tensors: weights, or moments of an optimiser, by parameter name; they are copied.
        layers: the layers of the grown model.
        new: makes a tensor of an added layer from its name within the layer and the repeated layer's tensor.

    """
    places = {name: BLOCK.fullmatch(name) for name in tensors}
    depth = 1 + max(int(place[1]) for place in places.values() if place)
    if depth != layers.layers:
        raise ParameterError(f"The map is for a model of {layers.layers} layers; this one has {depth}.")
    grown = {name: value.clone() for name, value in tensors.items() if places[name] is None}
    for at, (source, added) in enumerate(zip(layers.sources, layers.new, strict=True)):
        for name, place in places.items():
            if place and int(place[1]) == source:
                value = new(place[2], tensors[name]) if added else tensors[name].clone()
                grown[f"blocks.{at}.{place[2]}"] = value
    return grown


def begins_as_copy(name: str, filling: str) -> bool:
    """Whether an added layer's parameter, by its name within the layer, is copied from the repeated layer."""
    return filling in ("duplicate", "muted") and not _is_silenced(name, filling)


def _is_silenced(name: str, filling: str) -> bool:
    return filling in PRESERVING and name.rpartition(".")[0] in OUTPUTS
