"""The convolutional tangent kernel of m filters on patches (Section 3.5, B.2), with its best W.

k_W(X) = Σ_i Σ_j ⟨W_j, X_i⟩ 1{|⟨w_j⁰, X_i⟩| ≥ θ_j} is linear in W: an image is a sum over its rows of m gated
copies of the row. The noise rows' sum is taken as Gaussian, whose covariance is exact; then the least error
over W is Φ(-√(μᵀΣ⁻¹μ)), with μ the features of the row w*. Lengths are in units of σ throughout, filters have
length 1, and d = 1/σ².
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property
from math import ceil, exp, log, sqrt

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import beta, norm

from sameloss.checks import check_count
from sameloss.errors import ParameterError
from sameloss.statistics.bootstrap import Estimate
from sameloss.studies.local_signal.theory import Patches

NODES = 64
"""Points of Gauss and Legendre for the second moments of a pair of filters."""

REACH = 9.0
"""Standard deviations beyond which a Gaussian is taken to have no mass."""

RIDGE = 1e-11
"""Added to Σ, over its mean eigenvalue: features can be linearly dependent, as they are at b = 0."""

IMAGES_AT_ONCE = 100


@dataclass(frozen=True)
class TangentKernel:
    """Gates of m filters, in coordinates of the space they span with the signal; its first axis is w*.

    Raises:
        ParameterError: for no filter, filters that are not of length 1, or thresholds below zero.

    """

    patches: Patches
    filters: Float[np.ndarray, "m r"]
    thresholds: Float[np.ndarray, " m"]  # θ_j/σ = |b_j|/(‖w_j⁰‖σ); 0 where b_j ≥ 0
    sees_signal: Float[np.ndarray, " m"]  # 1 where the gate is open at the signal, else 0
    biased: bool = False  # with the gradient by b, too

    def __post_init__(self) -> None:
        """Refuse what are no such filters."""
        check_count("m, the number of filters,", len(self.filters))
        if not np.allclose((self.filters**2).sum(1), 1, atol=1e-9):
            raise ParameterError("Filters of a tangent kernel have length 1; scale them and their biases.")
        if not (self.thresholds >= 0).all():
            raise ParameterError(f"Thresholds must not be negative; got {self.thresholds.min():g}.")

    @property
    def signal(self) -> Float[np.ndarray, " features"]:
        """Return μ, the features of the row w*: a copy of w*/σ a filter, and the signs of biases."""
        axis = np.eye(self.filters.shape[1])[0] / self.patches.sigma
        copies = np.outer(self.sees_signal, axis).ravel()
        signs = np.sign(self.filters[:, 0]) * self.sees_signal
        return np.concatenate([copies, signs]) if self.biased else copies

    @cached_property
    def factor(self) -> tuple[np.ndarray, bool]:
        """Return Cholesky's factor of Σ: the slowest step, and several things are asked of one kernel."""
        found = covariance(self)
        return cho_factor(found + RIDGE * np.trace(found) / len(found) * np.eye(len(found)))


def threshold_at_signal(
    patches: Patches, filters: Float[np.ndarray, "m r"], biased: bool = False
) -> TangentKernel:
    """Return the kernel whose gates just let the signal through: the best threshold of one filter."""
    at = abs(filters[:, 0]) / patches.sigma
    return TangentKernel(patches, filters, at, np.ones(len(filters)), biased)


def without_threshold(
    patches: Patches, filters: Float[np.ndarray, "m r"], biased: bool = False
) -> TangentKernel:
    """Return the kernel at the thesis' own start b = 0: every gate is open."""
    ones = np.ones(len(filters))
    return TangentKernel(patches, filters, 0 * ones, ones, biased)


def initial_filters(patches: Patches, count: int, generator: torch.Generator) -> Float[np.ndarray, "m r"]:
    """Draw m directions in R^d, d = 1/σ², in coordinates of their span with the signal.

    Raises:
        ParameterError: for no filter, or so much noise that d is less than 2.

    """
    check_count("m, the number of filters,", count)
    d = dimension(patches)
    drawn = torch.randn(count, d, generator=generator, dtype=torch.float64).numpy()
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    spanning = np.vstack([np.eye(d)[:1], drawn]).T
    _, coordinates = np.linalg.qr(spanning)
    return coordinates[:, 1:].T * np.sign(coordinates[0, 0])


def dimension(patches: Patches) -> int:
    """Return d = 1/σ², which the proof of Theorem 3.2 needs: filters and noise overlap the signal alike."""
    d = round(patches.sigma**-2)
    if d < 2:
        raise ParameterError(f"d = 1/σ² must be at least 2; σ = {patches.sigma:.3g} is too large.")
    return d


def best_error(kernel: TangentKernel) -> float:
    """Return the least error over all W, rows' sums taken as Gaussian."""
    return float(ndtr(-sqrt(max(0.0, kernel.signal @ best_weights(kernel)))))


def best_weights(kernel: TangentKernel) -> Float[np.ndarray, " features"]:
    """Return Σ⁻¹μ, the direction of linear discriminant analysis."""
    return cho_solve(kernel.factor, kernel.signal)


def covariance(kernel: TangentKernel) -> Float[np.ndarray, "features features"]:
    """Return the covariance of the features' sum over all noise rows, in units of σ²."""
    m, r = kernel.filters.shape
    blocks = _second_moments(kernel)
    found = blocks.rows.transpose(0, 2, 1, 3).reshape(m * r, m * r)
    if kernel.biased:
        mixed = blocks.mixed.transpose(0, 2, 1).reshape(m * r, m)
        found = np.block([[found, mixed], [mixed.T, blocks.signs]])
    return kernel.patches.noise * (found + found.T) / 2


@dataclass(frozen=True)
class SecondMoments:
    """Of gated standard Gaussian rows x, for every pair of filters."""

    rows: Float[np.ndarray, "m m r r"]  # E[x xᵀ 1_j 1_l]
    mixed: Float[np.ndarray, "m m r"]  # E[x 1_j s_l], s_l the sign of ⟨ŵ_l, x⟩ times its gate
    signs: Float[np.ndarray, "m m"]  # E[s_j s_l]


def _second_moments(kernel: TangentKernel) -> SecondMoments:
    """Return all of them: only a row's part in the plane of ŵ_j and ŵ_l is not an independent Gaussian.

    In the plane the axes are z₁ = ⟨ŵ_j, x⟩ and z₂ across it. Over z₂ the integrals are closed, over z₁ ≥ θ_j
    they are sums; z₁ ≤ -θ_j is their mirror image.
    """
    w, theta = kernel.filters, kernel.thresholds
    cosine = np.clip(w @ w.T, -1, 1)
    across = w[None] - cosine[..., None] * w[:, None]  # [j, l]: of ŵ_l across ŵ_j
    length = np.linalg.norm(across, axis=2)
    parallel = length < 1e-7
    across = np.where(parallel[..., None], 0, across / np.where(parallel, 1, length)[..., None])
    z, weights = _upper_rule(np.maximum(theta[:, None], np.where(parallel, theta[None], 0)))
    gate = _Gate.of(z, cosine[..., None], np.where(parallel, np.nan, length)[..., None], theta[None, :, None])
    mean = lambda values: (weights * values).sum(2)[..., None]  # noqa: E731
    both, first = mean(gate.mass), w[:, None]
    square, product, other = mean(z**2 * gate.mass), mean(z * gate.tilt), mean(gate.square)
    outer = lambda a, b: a[..., :, None] * b[..., None, :]  # noqa: E731
    mixed = outer(first, across)
    rows = both[..., None] * np.eye(w.shape[1]) + (square - both)[..., None] * outer(first, first)
    rows += product[..., None] * (mixed + mixed.swapaxes(2, 3))
    rows += np.where(parallel[..., None], 0, other - both)[..., None] * outer(across, across)
    by_sign = mean(z * gate.signed) * first + mean(gate.signed_tilt) * across
    return SecondMoments(rows, by_sign, mean(gate.signed)[..., 0])


def _upper_rule(start: Float[np.ndarray, "m m"]) -> tuple[np.ndarray, np.ndarray]:
    """Return points z₁ from `start` on and weights, with the Gaussian's density and both signs of z₁."""
    nodes, weights = _legendre()
    z = start[..., None] + REACH * (nodes + 1) / 2
    return z, REACH * weights * norm.pdf(z)


@cache
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(NODES)  # the slowest step, were it taken for every kernel


@dataclass(frozen=True)
class _Gate:
    """What is left, given z₁, of 1, z₂ and z₂² where |ρz₁ + √(1 - ρ²)z₂| ≥ θ; and signed by that sum."""

    mass: np.ndarray
    tilt: np.ndarray
    square: np.ndarray
    signed: np.ndarray
    signed_tilt: np.ndarray

    @classmethod
    def of(cls, z: np.ndarray, cosine: np.ndarray, length: np.ndarray, theta: np.ndarray) -> "_Gate":
        """Return the integrals over z₂; where the filters are parallel z₁ decides alone."""
        up, down = (theta - cosine * z) / length, (theta + cosine * z) / length
        parallel = np.isnan(up)
        above, below = (
            np.where(parallel, side, ndtr(-x)) for side, x in ((cosine > 0, up), (cosine < 0, down))
        )
        at_up, at_down = (np.where(parallel, 0, norm.pdf(x)) for x in (up, down))
        square = np.where(parallel, 1, above + below + np.nan_to_num(up * at_up + down * at_down))
        return cls(above + below, at_up - at_down, square, above - below, at_up + at_down)


def open_and_closed(kernel: TangentKernel) -> TangentKernel:
    """Return the kernel with some gates closed to the signal, where that lowers the best error.

    A threshold just above the signal's own passes the same noise, so that Σ stays: with a the open gates the
    exponent is aᵀMa, whose entries are flipped one by one while that raises it.
    """
    m, r = kernel.filters.shape
    if kernel.biased:
        raise ParameterError("Gates are closed to the signal for the kernel by w alone; got biased = True.")
    copies = np.kron(np.eye(m), np.eye(r)[:1])  # of w*, the first axis: a row a gate
    form = copies @ cho_solve(kernel.factor, copies.T) / kernel.patches.sigma**2
    chosen = kernel.sees_signal
    while True:
        flipped = np.abs(chosen - np.eye(m))  # a row for every gate that could be turned
        gains = np.einsum("aj,jl,al->a", flipped, form, flipped) - chosen @ form @ chosen
        if gains.max() <= 1e-12:
            return replace(kernel, sees_signal=chosen)
        chosen = flipped[gains.argmax()]


def held_out_error(kernel: TangentKernel, images: int, generator: torch.Generator) -> Estimate:
    """Return the error of the best W on drawn images, whose rows' sum is what it is.

    The noise's sum S is symmetric, so that P[S ≥ g] = P[|S| ≥ g]/2, g the answer to the signal.
    """
    check_count("images", images, least=2)
    weights = best_weights(kernel)
    answer = float(weights @ kernel.signal)
    sums = torch.cat([_noise_sums(kernel, weights, part, generator) for part in _parts(images)])
    wrong = (sums.abs() >= answer).double()
    share = float(wrong.mean())
    return Estimate(share / 2, sqrt(share * (1 - share) / (images - 1)) / 2, images)


def _parts(images: int) -> list[int]:
    whole, rest = divmod(images, IMAGES_AT_ONCE)
    return [IMAGES_AT_ONCE] * whole + [rest] * (rest > 0)


def _noise_sums(
    kernel: TangentKernel, weights: Float[np.ndarray, " features"], images: int, generator: torch.Generator
) -> torch.Tensor:
    m, r = kernel.filters.shape
    x = torch.randn(images * kernel.patches.noise, r, generator=generator)
    seen = x @ torch.from_numpy(kernel.filters.T).float()
    answer = x @ torch.from_numpy(weights[: m * r].reshape(m, r).T).float()
    if kernel.biased:
        answer = answer + seen.sign() * torch.from_numpy(weights[m * r :]).float()
    gated = answer * (seen.abs() >= torch.from_numpy(kernel.thresholds).float())
    return gated.sum(1).view(images, -1).double().sum(1)


def linear_error(patches: Patches) -> float:
    """Return the error of the best linear convolution, Φ(-1/(σ√k)), exactly.

    >>> round(linear_error(Patches(1000)), 4)
    0.4424
    """
    return float(ndtr(-1 / (patches.sigma * sqrt(patches.noise))))


def rows_for_linear_error(error: float) -> int:
    """Return the least k at which the linear error is at least so large (Section 3.3: 0.49).

    >>> f"{rows_for_linear_error(0.49):.2e}"
    '2.11e+17'
    """
    if not 0 < error < 0.5:
        raise ParameterError(f"The linear error lies between 0 and 1/2; got {error}.")
    return ceil(exp(1 / norm.isf(error)))


def one_filter_error(log_k: float, overlap: float) -> float:
    """Return the least error over w and b of one filter, Φ(-√ρ), rows' sums taken as Gaussian.

    ρ = [(1 - t²)/p + t²/q]/log²k with t = Dσ the filter's overlap with the signal; p and q are the mass and
    the second moment of |N(0, 1)| beyond D.

    Args:
        log_k: log of the number of noise rows.
        overlap: D = |⟨ŵ⁰, w*⟩|/σ, |N(0, 1)| as d = 1/σ² grows.

    """
    t = min(1.0, overlap * log_k * exp(-log_k / 2))
    p = 2 * norm.sf(overlap)
    q = 2 * (overlap * norm.pdf(overlap) + norm.sf(overlap))
    return float(ndtr(-sqrt((1 - t**2) / p + t**2 / q) / log_k))


def overlap_for(log_k: float, error: float = 0.1) -> float:
    """Return D from which on the error of one filter is below `error`: larger D pass less noise."""
    return float(brentq(lambda d: one_filter_error(log_k, d) - error, 0, 30))


def one_filter_share(log_k: float, error: float = 0.1, finite: bool = False) -> float:
    """Return the share of starts of one filter whose best error is below `error`.

    Args:
        log_k: log of the number of noise rows.
        error: what Theorem B.1 says is exceeded with probability .999: 0.1.
        finite: with the overlap's law in d = 1/σ² dimensions, in the place of its limit.

    """
    overlap = overlap_for(log_k, error)
    if not finite:
        return float(2 * norm.sf(overlap))
    d = exp(log_k) / log_k**2
    return float(beta.sf(overlap**2 / d, 0.5, (d - 1) / 2)) if overlap**2 < d else 0.0


def rows_for_share(share: float = 0.001, error: float = 0.1) -> float:
    """Return log k from which the share of good starts is at most `share`."""
    return float(brentq(lambda log_k: one_filter_share(log_k, error) - share, log(1000), log(1e30)))
