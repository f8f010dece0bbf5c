"""A small encoder as a point of a larger one's parameter space: widened, deepened, grown."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from sameloss.errors import ParameterError
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.masked_model import INITIAL_SCALE

# A small encoder as a point of a large encoder's parameter space (App. B.1; B.4 of the ICML text).
#
# Width is replicated: features, heads and MLP units come in k equal copies. Where a parameter has
# `copies` copies, each of them `divisor` times smaller, every copy gets the same gradient, and the
# chain rule makes it divisor / copies times the small one's. So the Fisher trace of that parameter
# is multiplied by divisor² / copies, which `trace_law` returns.

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
    return _built(model, shape, state)


def deepen(
    model: Encoder,
    layers: int,
    *,
    filling: Literal["zeros", "initial"] = "zeros",
    generator: torch.Generator | None = None,
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
        ParameterError: for no more layers than the model has.

    """
    old, added = model.shape.layers, max(0, layers - model.shape.layers)
    on_top = LayerMap((*range(old), *[old - 1] * added), (*[False] * old, *[True] * added))
    return _grown(model, on_top, "silent" if filling == "initial" else "zeros", generator)


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


def _built(model: Encoder, shape: EncoderShape, state: dict[str, Tensor]) -> Encoder:
    """Return an encoder of another shape and of the given weights, in all else like a model."""
    with torch.device("meta"):  # without values: building it draws no random numbers
        large = Encoder(shape, len(model.head_bias), len(model.position.weight), norm=model.norm)
    large.load_state_dict(state, assign=True)
    return large.train(model.training)


# Which layer of a shallow model each layer of a grown one comes from (Karp 2024, Section 5.2.1).
#
# Layers are counted from 0, as the thesis' experiments do; its text counts them from 1.


@dataclass(frozen=True)
class LayerMap:
    """The layers of a grown model, in their order."""

    sources: tuple[int, ...]  # the layer of the shallow model that stands there, or is repeated there
    new: tuple[bool, ...]  # which of them are added

    def __post_init__(self) -> None:
        """Refuse a map that loses, repeats or reorders what the shallow model has."""
        old = [source for source, new in zip(self.sources, self.new, strict=True) if not new]
        if old != list(range(len(old))) or not old:
            raise ParameterError(
                f"A grown model keeps every layer once and in order; the kept ones here are {old}."
            )
        if not all(0 <= source < len(old) for source in self.sources):
            wrong = next(source for source in self.sources if not 0 <= source < len(old))
            raise ParameterError(f"There is no layer {wrong} to repeat; the layers are 0 to {len(old) - 1}.")
        if not any(self.new):
            raise ParameterError("A grown model is deeper than the one it comes from.")

    @property
    def layers(self) -> int:
        """Return the number of layers of the shallow model."""
        return len(self.new) - sum(self.new)

    def __str__(self) -> str:
        """Return the layers with the added ones in brackets.

        >>> print(repeated(6, 3, index=1, block=1))
        0 1 (1) 2 (2) 3 (3) 4 5
        """
        pairs = zip(self.sources, self.new, strict=True)
        return " ".join(f"({source})" if new else str(source) for source, new in pairs)


def repeated(layers: int, added: int, index: int, block: int) -> LayerMap:
    """Return a map of the thesis' design space: `added` layers in blocks, each followed by its new ones.

    Args:
        layers: L, of the shallow model.
        added: k, so that the grown one has L + k.
        index: i, the first of the k layers, from 0.
        block: b, how many layers stand together before their new ones.

    Raises:
        ParameterError: in one sentence, with what is valid.

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
        together = range(first, first + block)
        pairs += [(source, False) for source in together] + [(source, True) for source in together]
    pairs += [(source, False) for source in range(index + added, layers)]
    return LayerMap(*map(tuple, zip(*pairs, strict=True)))


def grid(layers: int, added: int, every: int = 1) -> dict[tuple[int, int], LayerMap]:
    """Return all maps of the design space by index and block size, at every so many-th index.

    >>> len(grid(12, 4, every=2)), list(grid(2, 2))
    (15, [(0, 1), (0, 2)])
    """
    blocks = [block for block in range(1, added + 1) if added % block == 0]
    places = [(i, b) for i in range(0, layers - added + 1, every) for b in blocks]
    return {(index, block): repeated(layers, added, index, block) for index, block in places}


def stacked(layers: int, added: int) -> LayerMap:
    """Return the map of gradual stacking (Reddi et al. 2023): the last layers once more, on top.

    >>> print(stacked(4, 2))
    0 1 2 3 (2) (3)
    """
    return repeated(layers, added, layers - added, added)


# Growing a model in depth (Karp 2024, Section 5.2): which layers, and what the new ones begin with.

Filling = Literal["duplicate", "random", "silent", "muted"]
"""What a new layer begins with.

- duplicate: a copy of the layer that it repeats (the thesis);
- random: as drawn before any training (the thesis);
- silent: random, with output matrices of zeros, so that it adds nothing to the residuals;
- muted: a copy with output matrices of zeros (LLaMA-Pro).

The last two preserve the function of a pre-LN model. Their other matrices are not zero, or no gradient would
ever move them.
"""

PRESERVING: tuple[Filling, ...] = ("silent", "muted")


BLOCK = re.compile(r"blocks\.(\d+)\.(.+)")
"""The name of a parameter of a layer: the layer's number, and the name within it."""

OUTPUTS = ("attention.out", "mlp_out")
"""The matrices of a layer that write to the residuals."""


def grow(
    model: Encoder, layers: LayerMap, filling: Filling, generator: torch.Generator | None = None
) -> Encoder:
    """Return a deeper encoder, as the map says.

    Args:
        model: the shallow one.
        layers: where each layer comes from.
        filling: what new layers begin with.
        generator: of random ones, on the CPU.

    Raises:
        ParameterError: for a map of another number of layers, an unknown filling, a random one without a
            generator, or one that preserves the function asked of a post-LN encoder, where it would not.

    """
    if filling not in get_args(Filling):
        raise ParameterError(f"Unknown filling {filling!r}; choose one of {', '.join(get_args(Filling))}.")
    if filling in ("random", "silent") and generator is None:
        raise ParameterError(f"Filling {filling} draws weights; give it a generator.")
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
    """Return what a deeper model has for each parameter: of kept layers a copy, of added ones something new.

    Args:
        tensors: of the shallow model, by the parameter's name.
        layers: where each layer comes from.
        new: makes it for a parameter of an added layer, from the name within the layer and from what the
            layer that is repeated has.

    """
    places = {name: BLOCK.fullmatch(name) for name in tensors}
    depth = 1 + max(int(place[1]) for place in places.values() if place)
    if depth != layers.layers:
        raise ParameterError(f"The map grows a model of {layers.layers} layers; this one has {depth}.")
    grown = {name: value.clone() for name, value in tensors.items() if places[name] is None}
    for at, (source, added) in enumerate(zip(layers.sources, layers.new, strict=True)):
        for name, place in places.items():
            if place and int(place[1]) == source:
                value = new(place[2], tensors[name]) if added else tensors[name].clone()
                grown[f"blocks.{at}.{place[2]}"] = value
    return grown


def begins_as_copy(name: str, filling: str) -> bool:
    """Tell whether a parameter of a new layer, by its name there, is that of the layer it repeats."""
    return filling in ("duplicate", "muted") and not _is_silenced(name, filling)


def _is_silenced(name: str, filling: str) -> bool:
    return filling in PRESERVING and name.rpartition(".")[0] in OUTPUTS
