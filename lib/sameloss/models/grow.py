"""The same function with more layers, and which layer of the old model each new one is."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from sameloss.errors import ModelError, ParameterError
from sameloss.models.encoder import Encoder
from sameloss.models.enlarge import built
from sameloss.models.masked_model import INITIAL_SCALE

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


def explicit(layers: int, sources: Sequence[int]) -> LayerMap:
    """Return the map of a list of layers, in which the first of each is the kept one.

    >>> print(explicit(3, [0, 1, 1, 1, 2]))
    0 1 (1) (1) 2

    Raises:
        ParameterError: where a layer is lost, reordered or unknown.

    """
    new = [source in sources[:at] for at, source in enumerate(sources)]
    lost = sorted(set(range(layers)) - set(sources))
    if lost:
        raise ParameterError(f"Layer {lost[0]} of {layers} is missing among {list(sources)}.")
    return LayerMap(tuple(sources), tuple(new))


# Growing a model in depth (Karp 2024, Section 5.2): which layers, and what the new ones begin with.
#
# Functions of weights by name, so that they work on every model whose layers are numbered in the names of its
# parameters: this library's encoders, and checkpoints that `transformers` opens.

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


class Place(NamedTuple):
    """Where a parameter stands in a model of numbered layers."""

    before: str  # what the name begins with
    layer: int
    name: str  # within the layer


class LayerNames(NamedTuple):
    """How a family of models names the parameters of its layers."""

    prefix: str  # before the number
    outputs: tuple[str, ...]  # the matrices that write to the residuals
    norm: str = "norm"  # what the name of a LayerNorm contains

    def split(self, name: str) -> Place | None:
        """Return where a parameter stands; None outside the layers.

        >>> ENCODER.split("blocks.2.attention.out.weight")
        Place(before='', layer=2, name='attention.out.weight')
        """
        found = re.fullmatch(rf"(|.*\.){re.escape(self.prefix)}\.(\d+)\.(.+)", name)
        return Place(found[1], int(found[2]), found[3]) if found else None


ENCODER = LayerNames("blocks", ("attention.out", "mlp_out"))

PRE_LN_ROBERTA = LayerNames("encoder.layer", ("attention.output.dense", "output.dense"), "LayerNorm")
"""HuggingFace's `RobertaPreLayerNormForMaskedLM`."""


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
    if filling in PRESERVING and model.norm == "post":
        raise ParameterError(
            f"Filling {filling} preserves the function of a pre-LN encoder only: a post-LN block without "
            "outputs still normalises once more; choose duplicate or random."
        )
    state = grow_weights(model.state_dict(), layers, filling, generator)
    return built(model, replace(model.shape, layers=len(layers.sources)), state)


def grow_weights(
    weights: Mapping[str, Tensor],
    layers: LayerMap,
    filling: Filling,
    generator: torch.Generator | None = None,
    names: LayerNames = ENCODER,
) -> dict[str, Tensor]:
    """Return the weights of a deeper model by name, none of which shares memory with another.

    Raises:
        ParameterError: see `grow`.
        ModelError: where no parameter is named as the family names its layers.

    """
    check_filling(filling, generator)
    new = partial(_new, filling=filling, names=names, generator=generator)
    return grow_tensors(weights, layers, new, names)


def grow_tensors(
    tensors: Mapping[str, Tensor],
    layers: LayerMap,
    new: Callable[[str, Tensor], Tensor],
    names: LayerNames = ENCODER,
) -> dict[str, Tensor]:
    """Return what a deeper model has for each parameter: of kept layers a copy, of added ones something new.

    Args:
        tensors: of the shallow model, by the parameter's name.
        layers: where each layer comes from.
        new: makes it for a parameter of an added layer, from the name within the layer and from what the
            layer that is repeated has.
        names: of the layers.

    """
    places = {name: names.split(name) for name in tensors}
    _check_depth(places, layers, names)
    grown = {name: value.clone() for name, value in tensors.items() if places[name] is None}
    for at, (source, added) in enumerate(zip(layers.sources, layers.new, strict=True)):
        own = {name: place for name, place in places.items() if place and place.layer == source}
        for name, place in own.items():
            there = f"{place.before}{names.prefix}.{at}.{place.name}"
            grown[there] = new(place.name, tensors[name]) if added else tensors[name].clone()
    return grown


def _check_depth(places: Mapping[str, "Place | None"], layers: LayerMap, names: LayerNames) -> None:
    depth = 1 + max((place.layer for place in places.values() if place), default=-1)
    if not depth:
        raise ModelError(f"No parameter is named {names.prefix}.<number>.<name>; name the layers otherwise.")
    if depth != layers.layers:
        raise ParameterError(f"The map grows a model of {layers.layers} layers; this one has {depth}.")


def check_filling(filling: str, generator: torch.Generator | None) -> None:
    """Refuse an unknown filling, and a random one without random numbers."""
    if filling not in get_args(Filling):
        raise ParameterError(f"Unknown filling {filling!r}; choose one of {', '.join(get_args(Filling))}.")
    if filling in ("random", "silent") and generator is None:
        raise ParameterError(f"Filling {filling} draws weights; give it a generator.")


def begins_as_copy(name: str, filling: Filling, names: LayerNames = ENCODER) -> bool:
    """Tell whether a parameter of a new layer, by its name there, is that of the layer it repeats."""
    return filling in ("duplicate", "muted") and not _is_silenced(name, filling, names)


def _is_silenced(name: str, filling: Filling, names: LayerNames) -> bool:
    return filling in PRESERVING and name.rpartition(".")[0] in names.outputs


def _new(
    name: str, source: Tensor, filling: Filling, names: LayerNames, generator: torch.Generator | None
) -> Tensor:
    """Return what a parameter of a new layer begins with."""
    if _is_silenced(name, filling, names):
        return torch.zeros_like(source)
    if begins_as_copy(name, filling, names):
        return source.clone()
    if names.norm in name:
        return torch.full_like(source, float(name.endswith("weight")))
    if name.endswith("bias"):
        return torch.zeros_like(source)
    return torch.empty(source.shape).normal_(0, INITIAL_SCALE, generator=generator).to(source)
