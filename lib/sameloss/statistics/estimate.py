"""Numbers with their error."""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor


class Estimate(NamedTuple):
    """A mean with its standard error over `count` independent draws (0 for an exact value)."""

    mean: float
    standard_error: float
    count: int

    @classmethod
    def of(cls, values: Float[Tensor, " draw"]) -> "Estimate":
        """Estimate the mean of independent draws."""
        count = len(values)
        spread = float(values.double().std()) if count > 1 else float("nan")
        return cls(float(values.double().mean()), spread / count**0.5, count)

    @classmethod
    def weighted(cls, values: Float[Tensor, " sentence"], weights: Float[Tensor, " sentence"]) -> "Estimate":
        """Return an exact expectation over a whole enumerated population."""
        return cls(float((values * weights).sum()), 0.0, len(values))
