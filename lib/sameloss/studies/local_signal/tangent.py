"""The convolutional tangent kernel of m filters on patches (Section 3.5, B.2) with its optimal weights W.

k_W(X) = Σ_i Σ_j ⟨W_j, X_i⟩ 1{|⟨w_j⁰, X_i⟩| ≥ θ_j} is linear in W: the features of an image are sums over its
rows of m gated copies of the row. The sum over noise rows is approximated as Gaussian with its exact
covariance Σ, so that the smallest error over W is Φ(-√(μᵀΣ⁻¹μ)), with μ the features of the row w*. Filters
have norm 1, d = 1/σ², and lengths are in units of σ throughout.
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
"""Distribution of the book's kernels; with fewer rows, d = 1/σ² would be too small."""

NODES = 64
"""Gauss-Legendre nodes for the second moments of a pair of filters."""

REACH = 9.0
"""Standard deviations at which Gaussian tails are cut off."""

RIDGE = 1e-11
"""Added to Σ, relative to its mean eigenvalue: features may be linearly dependent, as at b = 0."""

IMAGES_AT_ONCE = 100

ERROR = 0.1
"""Lower bound of Theorems 3.2 and B.1 on the error of few filters, and of one."""

AT_SIGNAL = "thresholds at the signal"
SOME_CLOSED = "some just above it"
BY_BIAS = "and gradients by b"
OPEN = "b = 0"
OPEN_BY_BIAS = "b = 0, and gradients by b"
HELD_OUT = "thresholds at the signal, held out"

KINDS = (AT_SIGNAL, SOME_CLOSED, BY_BIAS, OPEN, OPEN_BY_BIAS, HELD_OUT)
"""Kinds of kernels, each with its optimal W."""

Filters = Float[np.ndarray, "m r"]
PerFilter = Float[np.ndarray, " m"]
Features = Float[np.ndarray, " features"]


@dataclass(frozen=True)
class TangentKernel:
    """Gates of m filters, in coordinates of the span of filters and signal, whose first axis is w*."""

    patches: Patches
    filters: Filters  # of norm 1
    thresholds: PerFilter  # θ_j/σ = |b_j|/(‖w_j⁰‖σ); 0 where b_j ≥ 0
    sees_signal: PerFilter  # 1 where the gate is open at the signal, else 0
    biased: bool = False  # whether the features include the gradient with respect to b

    @property
    def signal(self) -> Features:
        """Features μ of the row w*: one copy of w*/σ per open gate, and the signs for the biases."""
        axis = np.eye(self.filters.shape[1])[0] / self.patches.sigma
        copies = np.outer(self.sees_signal, axis).ravel()
        signs = np.sign(self.filters[:, 0]) * self.sees_signal
        return np.concatenate([copies, signs]) if self.biased else copies

    @cached_property
    def factor(self) -> tuple[np.ndarray, bool]:
        """Cholesky factor of Σ: the slowest step, cached because several quantities need it."""
        sigma = covariance(self)
        return cho_factor(sigma + RIDGE * np.trace(sigma) / len(sigma) * np.eye(len(sigma)))


def threshold_at_signal(patches: Patches, filters: Filters) -> TangentKernel:
    """The kernel whose gates just let the signal pass: for one filter, the optimal threshold."""
    thresholds = abs(filters[:, 0]) / patches.sigma
    return TangentKernel(patches, filters, thresholds, np.ones(len(filters)))


def initial_filters(patches: Patches, count: int, generator: torch.Generator) -> Filters:
    """Draw m directions in R^d, d = 1/σ², in coordinates of their span with the signal."""
    d = patches.dimension
    drawn = torch.randn(count, d, generator=generator, dtype=torch.float64).numpy()
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    _, coordinates = np.linalg.qr(np.vstack([np.eye(d)[:1], drawn]).T)
    return coordinates[:, 1:].T * np.sign(coordinates[0, 0])


def best_error(kernel: TangentKernel) -> float:
    """Smallest error over all W, in the Gaussian approximation."""
    return float(ndtr(-sqrt(max(0.0, kernel.signal @ best_weights(kernel)))))


def best_weights(kernel: TangentKernel) -> Features:
    """Optimal weights Σ⁻¹μ, the direction of linear discriminant analysis."""
    return cho_solve(kernel.factor, kernel.signal)


def covariance(kernel: TangentKernel) -> Float[np.ndarray, "features features"]:
    """Covariance Σ of the features' sum over all noise rows, in units of σ².

    For a pair of filters, only the projection of a row on the plane of ŵ_j and ŵ_l is not an independent
    Gaussian. In that plane let z₁ = ⟨ŵ_j, x⟩ and z₂ be orthogonal to it: integrals over z₂ are closed, those
    over z₁ ≥ θ_j are sums, and z₁ ≤ -θ_j is the mirror image. For parallel filters everything depends on z₁.
    """
    w, theta = kernel.filters, kernel.thresholds
    m, r = w.shape
    cosine = np.clip(w @ w.T, -1, 1)
    across = w[None] - cosine[..., None] * w[:, None]  # [j, l]: part of ŵ_l orthogonal to ŵ_j
    length = np.linalg.norm(across, axis=2)[..., None]
    parallel = length < 1e-7
    across = np.where(parallel, 0, across / np.where(parallel, 1, length))
    nodes, weights = legendre(NODES)
    start = np.maximum(theta[:, None], np.where(parallel[..., 0], theta[None], 0))
    z = start[..., None] + REACH * (nodes + 1) / 2
    weights = REACH * weights * norm.pdf(z)  # both signs of z₁

    # Given z₁ and where |ρz₁ + √(1 - ρ²)z₂| ≥ θ_l: expectations of 1 (`mass`), z₂ (`at_up - at_down`), z₂².
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
    sigma = rows.transpose(0, 2, 1, 3).reshape(m * r, m * r)  # E[x xᵀ 1_j 1_l]
    if kernel.biased:
        signed = mean(above - below)  # E[s_j s_l], s_l the sign of ⟨ŵ_l, x⟩ times its gate
        by_sign = mean(z * (above - below)) * first + mean(at_up + at_down) * across  # E[x 1_j s_l]
        copies = by_sign.transpose(0, 2, 1).reshape(m * r, m)
        sigma = np.block([[sigma, copies], [copies.T, signed[..., 0]]])
    return kernel.patches.noise * (sigma + sigma.T) / 2


def open_and_closed(kernel: TangentKernel) -> TangentKernel:
    """Close gates to the signal where that lowers the best error of a kernel without gradients by b.

    A threshold just above the signal passes the same noise, so that Σ stays. With a the indicator of open
    gates the exponent is aᵀMa, which is increased greedily by flipping one entry at a time.
    """
    m, r = kernel.filters.shape
    copies = np.kron(np.eye(m), np.eye(r)[:1])  # [gate, feature]: w*, the first axis, in each gate
    form = copies @ cho_solve(kernel.factor, copies.T) / kernel.patches.sigma**2
    gates = kernel.sees_signal
    while True:
        flipped = np.abs(gates - np.eye(m))  # [gate flipped, gate]
        gains = np.einsum("aj,jl,al->a", flipped, form, flipped) - gates @ form @ gates
        if gains.max() <= 1e-12:
            return replace(kernel, sees_signal=gates)
        gates = flipped[gains.argmax()]


def kernels_of(patches: Patches, filters: Filters, at_start: bool) -> dict[str, TangentKernel]:
    """Kernels of some filters by kind; those at the thesis' initialisation b = 0 only if `at_start`."""
    gated = threshold_at_signal(patches, filters)
    kernels = {AT_SIGNAL: gated, SOME_CLOSED: open_and_closed(gated), BY_BIAS: replace(gated, biased=True)}
    if at_start:
        kernels[OPEN] = replace(gated, thresholds=np.zeros(len(filters)))
        kernels[OPEN_BY_BIAS] = replace(kernels[OPEN], biased=True)
    return kernels


def held_out_error(kernel: TangentKernel, images: int, generator: torch.Generator) -> Estimate:
    """Error of the optimal W, without gradients by b, on sampled images: no Gaussian approximation.

    The noise's sum S is symmetric, so that P[S ≥ g] = P[|S| ≥ g]/2, with g the output for the signal.
    """
    (m, r), best = kernel.filters.shape, best_weights(kernel)
    filters, thresholds = (torch.from_numpy(x).float() for x in (kernel.filters, kernel.thresholds))
    weights = torch.from_numpy(best).float().view(m, r)
    sums = []
    for begin in range(0, images, IMAGES_AT_ONCE):
        count = min(IMAGES_AT_ONCE, images - begin)
        x = torch.randn(count * kernel.patches.noise, r, generator=generator)
        gated = (x @ weights.T) * ((x @ filters.T).abs() >= thresholds)
        sums.append(gated.sum(1).view(count, -1).double().sum(1))
    p = float((torch.cat(sums).abs() >= float(best @ kernel.signal)).double().mean())
    return Estimate(p / 2, sqrt(p * (1 - p) / (images - 1)) / 2, images)


def linear_error(patches: Patches) -> float:
    """Exact error of the best linear convolution, Φ(-1/(σ√k)).

    >>> round(linear_error(Patches(1000)), 4)
    0.4424
    """
    return float(ndtr(-1 / (patches.sigma * sqrt(patches.noise))))


def rows_for_linear_error(error: float) -> int:
    """Smallest k at which the linear error is at least `error` (0.49 in Section 3.3).

    >>> f"{rows_for_linear_error(0.49):.2e}"
    '2.11e+17'
    """
    return ceil(exp(1 / norm.isf(error)))


# One filter in closed form, and the probability .999 of Theorem B.1.


def one_filter_error(log_k: float, overlap: float) -> float:
    """Smallest error of one filter over w and b, Φ(-√ρ), in the Gaussian approximation.

    ρ = [(1 - t²)/p + t²/q]/log²k with t = Dσ the filter's overlap with the signal; p and q are the mass and
    the second moment of |N(0, 1)| beyond D.

    Args:
        log_k: log of the number of noise rows.
        overlap: D = |⟨ŵ⁰, w*⟩|/σ, which tends to |N(0, 1)| in law as d = 1/σ² grows.

    """
    t = min(1.0, overlap * log_k * exp(-log_k / 2))
    p = 2 * norm.sf(overlap)
    q = 2 * (overlap * norm.pdf(overlap) + norm.sf(overlap))
    return float(ndtr(-sqrt((1 - t**2) / p + t**2 / q) / log_k))


def good_start_probability(log_k: float, error: float = ERROR, finite: bool = False) -> float:
    """Probability that one filter starts where its best error is below `error`: a larger D passes less noise.

    Args:
        log_k: log of the number of noise rows.
        error: to stay below.
        finite: use the distribution of the overlap in d = 1/σ² dimensions instead of its limit.

    """
    overlap = brentq(lambda d: one_filter_error(log_k, d) - error, 0, 30)
    if not finite:
        return float(2 * norm.sf(overlap))
    d = exp(log_k) / log_k**2
    return float(beta.sf(overlap**2 / d, 0.5, (d - 1) / 2)) if overlap**2 < d else 0.0


def rows_for_theorem() -> float:
    """The k from which one filter has a good start with probability at most .001, as Theorem B.1 says."""
    return exp(brentq(lambda log_k: good_start_probability(log_k) - 0.001, log(1000), log(1e30)))
