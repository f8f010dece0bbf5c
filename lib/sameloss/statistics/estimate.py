"""Numbers with their error."""

from typing import NamedTuple

import torch
from jaxtyping import Float


class Estimate(NamedTuple):
    """A mean with its standard error over `count` independent draws.

    The standard error of an exact value is 0, that of one draw is unknown (NaN).
    """

    mean: float
    standard_error: float
    count: int  # type: ignore[assignment]  # of draws, as statisticians say; not the method of tuples

    @classmethod
    def of(cls, values: Float[torch.Tensor, " draw"]) -> "Estimate":
        r"""Estimate the mean of independent draws, with the error $s / \sqrt n$.

        >>> Estimate.of(torch.tensor([1.0, 2.0, 3.0, 6.0]))
        Estimate(mean=3.0, standard_error=1.0801234497346435, count=4)

        """
        count = len(values)
        spread = float(values.double().std()) if count > 1 else float("nan")
        return cls(float(values.double().mean()), spread / count**0.5, count)

    @classmethod
    def weighted(
        cls, values: Float[torch.Tensor, " sentence"], weights: Float[torch.Tensor, " sentence"]
    ) -> "Estimate":
        """Return the exact expectation over a whole enumerated population.

        Args:
            values: the quantity in each sentence.
            weights: the probabilities of the sentences; they sum to one.

        >>> Estimate.weighted(torch.tensor([1.0, 4.0]), torch.tensor([0.25, 0.75]))
        Estimate(mean=3.25, standard_error=0.0, count=2)

        """
        return cls(float((values * weights).sum()), 0.0, len(values))
