"""How something falls with the size of the sample: the exponent of a power law, with what it is worth.

A seed has an initialisation, an order and samples of its own, so exponents of seeds are independent, also
where they are of maxima over the seed's pairs; their interval is over seeds and counts pairs too. Resampling
the pairs of a maximum would not (the largest is in a resample with a probability of 63 %).
"""

import warnings
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.optimize import OptimizeWarning, curve_fit

from sameloss.errors import ParameterError

FEWEST = 3
"""Sizes below which a power law fits anything."""


def check_sizes(sizes: Sequence[int]) -> None:
    """Refuse to fit a power law to too few sizes.

    Raises:
        ParameterError: for fewer than three different ones.

    """
    if len(set(sizes)) < FEWEST:
        raise ParameterError(f"An exponent needs {FEWEST} sizes of samples at least; got {list(sizes)}.")


def exponent(sizes: Sequence[int], values: Float[np.ndarray, "*seed size"]) -> Float[np.ndarray, "*seed"]:
    """Return b of a·m^b by least squares of logarithms; NaN where a value is not positive.

    >>> exponent([10, 100, 1000], np.array([[1.0, 0.1, 0.01], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0]]))
    array([-1.,  0., nan])
    """
    check_sizes(sizes)
    m = np.log(sizes) - np.log(sizes).mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(values > 0, np.log(values), np.nan)
    return np.asarray(logs @ m / (m @ m))


def fitted(sizes: Sequence[int], values: Float[np.ndarray, " size"]) -> tuple[float, float]:
    """Return a and b by least squares of the values themselves, as the thesis fits them.

    >>> [round(number, 6) for number in fitted([10, 100, 1000], np.array([20.0, 2.0, 0.2]))]
    [200.0, -1.0]
    """
    check_sizes(sizes)
    start = (values[0] / sizes[0] ** -0.5, -0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptimizeWarning)  # of a perfect fit: that it has no covariance
        (a, b), _ = curve_fit(lambda m, a, b: a * m**b, np.array(sizes, float), values, start, maxfev=10_000)
    return float(a), float(b)
