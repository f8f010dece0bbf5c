"""Which layer of a shallow model each layer of a grown one comes from (Karp 2024, Section 5.2.1).

Layers are counted from 0, as the thesis' experiments do; its text counts them from 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sameloss.errors import ParameterError


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
