"""The distribution of Section 3.3: one row holds the signal, all others are noise."""

from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from jaxtyping import Float, Int

from sameloss.checks import check_count, check_positive
from sameloss.errors import ParameterError


@dataclass(frozen=True)
class Patches:
    """Images of k + 1 rows: one is y·w*, in k there is noise of standard deviation σ.

    Raises:
        ParameterError: for fewer than two rows of noise, or no noise.

    """

    noise: int  # rows, k
    multiplier: float = 1.0  # of σ = log k/√k

    def __post_init__(self) -> None:
        """Refuse what is no such distribution."""
        check_count("noise", self.noise, least=2)
        check_positive(self, "multiplier")

    @property
    def sigma(self) -> float:
        """Return the standard deviation σ of every entry of the noise.

        >>> round(Patches(1000).sigma, 4)
        0.2184
        """
        return self.multiplier * log(self.noise) / sqrt(self.noise)

    def draw(
        self, signal: Float[np.ndarray, " d"], count: int, random: np.random.Generator
    ) -> tuple[Float[np.ndarray, "image row d"], Int[np.ndarray, " image"]]:
        """Return images and labels; the signal's row is anywhere.

        Raises:
            ParameterError: for a signal w* that is not of length 1.

        """
        if abs(np.linalg.norm(signal) - 1) > 1e-9:
            raise ParameterError(f"The signal w* has length 1; got {np.linalg.norm(signal):g}.")
        y = random.choice([-1, 1], count)
        x = random.normal(0, self.sigma, (count, self.noise + 1, len(signal)))
        x[np.arange(count), random.integers(self.noise + 1, size=count)] = y[:, None] * signal
        return x, y
