"""Growing a model in depth (Karp 2024, Section 5.2): which layers, and what the new ones begin with.

Functions of weights by name, so that they work on every model whose layers are numbered in the names of its
parameters: this library's encoders, and checkpoints that `transformers` opens.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from sameloss.errors import ModelError, ParameterError
from sameloss.models.encoder import Encoder
from sameloss.models.enlarge import built
from sameloss.models.layer_maps import LayerMap
from sameloss.models.masked_model import INITIAL_SCALE

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
