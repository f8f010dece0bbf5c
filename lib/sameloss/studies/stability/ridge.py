"""Ridge regression of a kernel: every swap of an example in closed form, against its stability bound.

The kernel machine f(x) = k(x)ᵀ(K + λ m)⁻¹ y minimises the mean of (f(xᵢ) - yᵢ)² plus λ‖f‖².
"""

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from sameloss.errors import ParameterError

Matrix = Float[np.ndarray, "row column"]
Column = Float[np.ndarray, " row"]


def solved(kernel: Matrix, y: Column, ridge: float) -> Column:
    """Return the coefficients of a kernel machine.

    Args:
        kernel: of the sample with itself, positive semi-definite.
        y: what is to be predicted.
        ridge: λ.

    Raises:
        ParameterError: for a λ that is not positive, or a kernel that is not positive semi-definite.

    """
    if not ridge > 0:
        raise ParameterError(f"Ridge regression needs a positive λ; got {ridge:g}.")
    try:
        return np.asarray(cho_solve(cho_factor(_regular(kernel, ridge)), y))
    except np.linalg.LinAlgError:
        raise ParameterError("The kernel is not positive semi-definite; choose another one.") from None


def _regular(kernel: Matrix, ridge: float) -> Matrix:
    return kernel + ridge * len(kernel) * np.eye(len(kernel))


def swap_changes(
    kernel: Float[np.ndarray, "row row"],
    y: Float[np.ndarray, " row"],
    sample: int,
    ridge: float,
) -> Float[np.ndarray, "position candidate tested"]:
    """Return by how much every swap changes every prediction, without a second fit.

    A sample without its example i has the inverse A = B - b bᵀ/bᵢᵢ, B without row and column i, of which b is
    the column. With another example in its place the machine is that of a bordered matrix, whose new
    coefficient is (y_z - k_zᵀ A y)/(k_zz + λm - k_zᵀ A k_z).

    Args:
        kernel: of sample and candidates with themselves, the sample first.
        y: of both.
        sample: m, the size of the sample.
        ridge: λ, times m as in the fit.

    Returns:
        f' - f for position i of the sample, the candidate z that replaces it, and each candidate as x.

    """
    inverse = cho_solve(cho_factor(_regular(kernel[:sample, :sample], ridge)), np.eye(sample))
    own, others = y[:sample], y[sample:]
    across, among = kernel[:sample, sample:], kernel[sample:, sample:]  # sample by candidate; candidates
    weights = across.T @ inverse  # candidate by sample
    before, reached = weights @ own, weights @ across
    changes = np.empty((sample, len(others), len(others)))
    for i, column in enumerate(inverse.T):
        lost = weights[:, i] / column[i]
        without = before - lost * (column @ own)
        left = reached - np.outer(lost, weights[:, i])  # kᵀ A k of all candidates
        new = (others - without) / (np.diag(among) + ridge * sample - np.diag(left))
        changes[i] = without - before + new[:, None] * (among - left)
    return changes


def stability_bound(ridge: float, size: int, largest: float, spread: float) -> float:
    """Return a bound on how much a swap changes the squared loss anywhere (Bousquet and Elisseeff 2002).

    Their Theorem 22 for one example left out, with a loss of slope L in f, is L²κ²/(2λm); a swap is at most
    twice that. |f| is at most κY/√λ, as the machine is not worse than zero, so L = 2(Y + κY/√λ).

    Args:
        ridge: λ.
        size: m.
        largest: κ², of k(x, x).
        spread: Y, of |y|.

    """
    slope = 2 * spread * (1 + np.sqrt(largest / ridge))
    return float(slope**2 * largest / (ridge * size))
