"""Dirichlet draws that move continuously with their concentration, as a calibration needs them."""

import numpy as np
from jaxtyping import Float
from scipy.special import gammaincinv, gammaln, softmax

SMALL = -40.0
"""Logarithm below which a Gamma quantile is its power law to the last digit."""


def dirichlet(
    rng: np.random.Generator, shape: tuple[int, ...], concentration: float
) -> Float[np.ndarray, "*row column"]:
    """Draw rows from the symmetric Dirichlet distribution: normalised quantiles of the Gamma.

    A generator's own draws reject, so that a small change of the concentration changes all later
    numbers. Here the uniform numbers do not depend on the concentration. The logarithm of a small
    quantile, that of (u Γ(a + 1))^(1/a), cannot underflow.

    >>> dirichlet(np.random.default_rng(0), (2, 3), 0.01).sum(1)
    array([1., 1.])
    """
    uniform = np.maximum(rng.random(shape), 2.0**-54)  # zero has no logarithm
    small = (np.log(uniform) + gammaln(concentration + 1)) / concentration
    quantile = np.maximum(gammaincinv(concentration, uniform), np.exp(SMALL - 1))
    return softmax(np.where(small < SMALL, small, np.log(quantile)), axis=-1)
