"""The network of Section 3.4: one filter, whose answer to a row is a soft threshold."""

from dataclasses import dataclass
from math import hypot
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from sameloss.errors import ParameterError


@dataclass(frozen=True)
class Filter:
    """A filter w with bias b, as all that its population quantities depend on.

    Raises:
        ParameterError: for a filter that is zero.

    """

    c: float  # ⟨w, w*⟩
    v: float  # length of w's part across w*
    b: float  # bias; below zero, -b is the threshold

    def __post_init__(self) -> None:
        """Refuse a filter that answers nothing."""
        if not 0 < self.length < np.inf or not np.isfinite(self.b):
            raise ParameterError(
                "A filter needs c² + v² > 0, and all of it finite; "
                f"got c = {self.c}, v = {self.v}, b = {self.b}."
            )

    @property
    def length(self) -> float:
        """Return ‖w‖."""
        return hypot(self.c, self.v)


Numbers = TypeVar("Numbers", float, np.ndarray)


def soft_threshold(x: Numbers, b: float) -> Numbers:
    """Return φ_b(x) = ReLU(x + b) - ReLU(-x + b) (Section 3.4).

    Below zero -b is a threshold; at zero nothing is changed; above zero the slope is 2 between -b and b.

    >>> soft_threshold(np.array([-3.0, 0.5, 3.0]), -1.0)
    array([-2.,  0.,  2.])
    """
    return np.maximum(x + b, 0) - np.maximum(-x + b, 0)


def slopes(x: float, b: float) -> tuple[float, float]:
    """Return the derivatives of φ_b(x) by x and by b; at a kink as the thesis' indicators have them.

    >>> slopes(1.0, -0.5), slopes(0.2, -0.5), slopes(0.2, 0.5)
    ((1.0, 1.0), (0.0, 0.0), (2.0, 0.0))
    """
    up, down = float(x >= -b), float(x <= b)
    return up + down, up - down


def answers(
    x: Float[np.ndarray, "image row d"], w: Float[np.ndarray, " d"], b: float
) -> Float[np.ndarray, " image"]:
    """Return f_{w,b}(X), the sum over rows."""
    return soft_threshold(x @ w, b).sum(1)
