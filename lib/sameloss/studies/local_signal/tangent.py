"""The convolutional tangent kernel of m filters on patches (Section 3.5, B.2), with its best W.

k_W(X) = Σ_i Σ_j ⟨W_j, X_i⟩ 1{|⟨w_j⁰, X_i⟩| ≥ θ_j} is linear in W: an image is a sum over its rows of m gated
copies of the row. The noise rows' sum is taken as Gaussian, whose covariance is exact; then the least error
over W is Φ(-√(μᵀΣ⁻¹μ)), with μ the features of the row w*. Lengths are in units of σ throughout, filters have
length 1, and d = 1/σ².
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, exp, log, sqrt

import numpy as np
import torch
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import beta, norm

from sameloss.statistics.intervals import Estimate
from sameloss.studies.local_signal.theory import Patches, legendre

PATCHES = Patches(1000)
"""Of the book's kernels: fewer rows have too few dimensions, d = 1/σ²."""

NODES = 64
"""Points of Gauss and Legendre for the second moments of a pair of filters."""

REACH = 9.0
"""Standard deviations beyond which a Gaussian is taken to have no mass."""

RIDGE = 1e-11
"""Added to Σ, over its mean eigenvalue: features can be linearly dependent, as they are at b = 0."""

IMAGES_AT_ONCE = 100

AT_SIGNAL = "thresholds at the signal"
SOME_CLOSED = "some just above it"
BY_BIAS = "and gradients by b"
OPEN = "b = 0"
OPEN_BY_BIAS = "b = 0, and gradients by b"
HELD_OUT = "thresholds at the signal, held out"

KINDS = (AT_SIGNAL, SOME_CLOSED, BY_BIAS, OPEN, OPEN_BY_BIAS, HELD_OUT)
"""What the kernel is made of; each with its best W."""

Filters = Float[np.ndarray, "m r"]
Numbers = Float[np.ndarray, " m"]
Features = Float[np.ndarray, " features"]


@dataclass(frozen=True)
class TangentKernel:
    """Gates of m filters, in coordinates of the space they span with the signal; its first axis is w*."""

    patches: Patches
    filters: Filters  # of length 1
    thresholds: Numbers  # θ_j/σ = |b_j|/(‖w_j⁰‖σ); 0 where b_j ≥ 0
    sees_signal: Numbers  # 1 where the gate is open at the signal, else 0
    biased: bool = False  # with the gradient by b, too

    @property
    def signal(self) -> Features:
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


def threshold_at_signal(patches: Patches, filters: Filters) -> TangentKernel:
    """Return the kernel whose gates just let the signal through: the best threshold of one filter."""
    at = abs(filters[:, 0]) / patches.sigma
    return TangentKernel(patches, filters, at, np.ones(len(filters)))


def without_threshold(patches: Patches, filters: Filters) -> TangentKernel:
    """Return the kernel at the thesis' own start b = 0: every gate is open."""
    return TangentKernel(patches, filters, np.zeros(len(filters)), np.ones(len(filters)))


def initial_filters(patches: Patches, count: int, generator: torch.Generator) -> Filters:
    """Draw m directions in R^d, d = 1/σ², in coordinates of their span with the signal."""
    d = patches.dimension
    drawn = torch.randn(count, d, generator=generator, dtype=torch.float64).numpy()
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    _, coordinates = np.linalg.qr(np.vstack([np.eye(d)[:1], drawn]).T)
    return coordinates[:, 1:].T * np.sign(coordinates[0, 0])


def best_error(kernel: TangentKernel) -> float:
    """Return the least error over all W, rows' sums taken as Gaussian."""
    return float(ndtr(-sqrt(max(0.0, kernel.signal @ best_weights(kernel)))))


def best_weights(kernel: TangentKernel) -> Features:
    """Return Σ⁻¹μ, the direction of linear discriminant analysis."""
    return cho_solve(kernel.factor, kernel.signal)


def covariance(kernel: TangentKernel) -> Float[np.ndarray, "features features"]:
    """Return the covariance of the features' sum over all noise rows, in units of σ².

    For a pair of filters only a row's part in the plane of ŵ_j and ŵ_l is not an independent Gaussian. There
    the axes are z₁ = ⟨ŵ_j, x⟩ and z₂ across it. Over z₂ the integrals are closed, over z₁ ≥ θ_j they are
    sums; z₁ ≤ -θ_j is their mirror image. Where the filters are parallel z₁ decides alone.
    """
    w, theta = kernel.filters, kernel.thresholds
    m, r = w.shape
    cosine = np.clip(w @ w.T, -1, 1)
    across = w[None] - cosine[..., None] * w[:, None]  # [j, l]: of ŵ_l across ŵ_j
    length = np.linalg.norm(across, axis=2)[..., None]
    parallel = length < 1e-7
    across = np.where(parallel, 0, across / np.where(parallel, 1, length))
    nodes, weights = legendre(NODES)
    start = np.maximum(theta[:, None], np.where(parallel[..., 0], theta[None], 0))
    z = start[..., None] + REACH * (nodes + 1) / 2
    weights = REACH * weights * norm.pdf(z)  # both signs of z₁

    # What is left, given z₁, of 1, z₂ and z₂² where |ρz₁ + √(1 - ρ²)z₂| ≥ θ_l; and signed by that sum.
    rho, scale = cosine[..., None], np.where(parallel, 1, length)
    up, down = (theta[:, None] - rho * z) / scale, (theta[:, None] + rho * z) / scale
    above, below = np.where(parallel, rho > 0, ndtr(-up)), np.where(parallel, rho < 0, ndtr(-down))
    at_up, at_down = (np.where(parallel, 0, norm.pdf(x)) for x in (up, down))
    mass, square = above + below, above + below + up * at_up + down * at_down

    def mean(values: np.ndarray) -> np.ndarray:
        return (weights * values).sum(2)[..., None]

    def outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a[..., :, None] * b[..., None, :]

    both, first = mean(mass)[..., None], w[:, None]  # E[1_j 1_l], and ŵ_j
    mixed = outer(first, across)
    rows = both * np.eye(r) + (mean(z**2 * mass)[..., None] - both) * outer(first, first)
    rows += mean(z * (at_up - at_down))[..., None] * (mixed + mixed.swapaxes(2, 3))
    rows += np.where(parallel[..., None], 0, mean(square)[..., None] - both) * outer(across, across)
    found = rows.transpose(0, 2, 1, 3).reshape(m * r, m * r)  # E[x xᵀ 1_j 1_l]
    if kernel.biased:
        signed = mean(above - below)  # E[s_j s_l], s_l the sign of ⟨ŵ_l, x⟩ times its gate
        by_sign = mean(z * (above - below)) * first + mean(at_up + at_down) * across  # E[x 1_j s_l]
        copies = by_sign.transpose(0, 2, 1).reshape(m * r, m)
        found = np.block([[found, copies], [copies.T, signed[..., 0]]])
    return kernel.patches.noise * (found + found.T) / 2


def open_and_closed(kernel: TangentKernel) -> TangentKernel:
    """Return the kernel by w alone with some gates closed to the signal, where that lowers the best error.

    A threshold just above the signal's own passes the same noise, so that Σ stays: with a the open gates the
    exponent is aᵀMa, whose entries are flipped one by one while that raises it.
    """
    m, r = kernel.filters.shape
    copies = np.kron(np.eye(m), np.eye(r)[:1])  # of w*, the first axis: a row a gate
    form = copies @ cho_solve(kernel.factor, copies.T) / kernel.patches.sigma**2
    chosen = kernel.sees_signal
    while True:
        flipped = np.abs(chosen - np.eye(m))  # a row for every gate that could be turned
        gains = np.einsum("aj,jl,al->a", flipped, form, flipped) - chosen @ form @ chosen
        if gains.max() <= 1e-12:
            return replace(kernel, sees_signal=chosen)
        chosen = flipped[gains.argmax()]


def kernels_of(patches: Patches, filters: Filters, all_kinds: bool) -> dict[str, TangentKernel]:
    """Return the kernels of some filters by kind; those at b = 0 only where all kinds are asked for."""
    at_signal = threshold_at_signal(patches, filters)
    kernels = {
        AT_SIGNAL: at_signal,
        SOME_CLOSED: open_and_closed(at_signal),
        BY_BIAS: replace(at_signal, biased=True),
    }
    if all_kinds:
        kernels[OPEN] = without_threshold(patches, filters)
        kernels[OPEN_BY_BIAS] = replace(kernels[OPEN], biased=True)
    return kernels


def held_out_error(kernel: TangentKernel, images: int, generator: torch.Generator) -> Estimate:
    """Return the error of the best W on drawn images, whose rows' sum is what it is.

    The noise's sum S is symmetric, so that P[S ≥ g] = P[|S| ≥ g]/2, g the answer to the signal.
    """
    (m, r), best = kernel.filters.shape, best_weights(kernel)
    filters, weights, thresholds, signs = (
        torch.from_numpy(values).float()
        for values in (kernel.filters, best[: m * r].reshape(m, r), kernel.thresholds, best[m * r :])
    )
    sums = []
    for begin in range(0, images, IMAGES_AT_ONCE):
        count = min(IMAGES_AT_ONCE, images - begin)
        x = torch.randn(count * kernel.patches.noise, r, generator=generator)
        seen, answer = x @ filters.T, x @ weights.T
        if kernel.biased:
            answer = answer + seen.sign() * signs
        sums.append((answer * (seen.abs() >= thresholds)).sum(1).view(count, -1).double().sum(1))
    share = float((torch.cat(sums).abs() >= float(best @ kernel.signal)).double().mean())
    return Estimate(share / 2, sqrt(share * (1 - share) / (images - 1)) / 2, images)


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
    return ceil(exp(1 / norm.isf(error)))


# One filter in closed form, and Theorem B.1's .999.


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


def one_filter_share(log_k: float, error: float = 0.1, finite: bool = False) -> float:
    """Return the share of starts of one filter whose best error is below `error`: larger D pass less noise.

    Args:
        log_k: log of the number of noise rows.
        error: what Theorem B.1 says is exceeded with probability .999: 0.1.
        finite: with the overlap's law in d = 1/σ² dimensions, in the place of its limit.

    """
    overlap = brentq(lambda d: one_filter_error(log_k, d) - error, 0, 30)
    if not finite:
        return float(2 * norm.sf(overlap))
    d = exp(log_k) / log_k**2
    return float(beta.sf(overlap**2 / d, 0.5, (d - 1) / 2)) if overlap**2 < d else 0.0


def rows_for_theorem() -> float:
    """Return k from which one filter's share of good starts is at most .001, as Theorem B.1 says."""
    return exp(brentq(lambda log_k: one_filter_share(log_k) - 0.001, log(1000), log(1e30)))
