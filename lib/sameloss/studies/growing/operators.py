"""The growth operators of this study, and what stands beside them."""

from dataclasses import dataclass

from sameloss.models.grow import Filling
from sameloss.models.layer_maps import LayerMap, repeated


@dataclass(frozen=True)
class Operator:
    """One way to grow a model: a growth operator of the thesis, or one of the field beside them."""

    index: int  # i, from 0
    block: int  # b
    filling: Filling

    def layers(self, shallow: int, added: int) -> LayerMap:
        """Return where each layer comes from."""
        return repeated(shallow, added, self.index, self.block)

    @property
    def name(self) -> str:
        """Return what tables call it.

        >>> Operator(2, 1, "duplicate").name
        'duplicate, i = 2, b = 1'
        """
        return f"{self.filling}, i = {self.index}, b = {self.block}"


NOT_GROWN = "not grown"
"""The name of a model that goes on as it is."""

PUBLISHED: tuple[Filling, ...] = ("duplicate", "random")
"""The thesis' two ways to begin new layers; the others are a control."""
