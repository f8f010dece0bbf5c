"""Both sides of the lemmas of Appendix B, at states (k, c, v, b) and along k, and tools of their proofs.

All quantities are of the population. "At an error of 1 %" refers to a filter along w* with the smallest
threshold that reaches this error: the last state at which the lemmas' hypothesis, an error above 0.01, holds.
"""

from bisect import bisect_left
from collections.abc import Callable
from itertools import product
from math import exp, log, nan, pi, sqrt

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from sameloss.studies.local_signal import tangent, theory
from sameloss.studies.local_signal.theory import Filter, Numbers, Patches, population, threshold_error

# Truncated Gaussians (Section B.1.2).


def moments(b: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Mean, variance and second moment of Z ~ N(0, 1) given Z ≥ -b.

    These are (B.1) to (B.3) for s = 1, with -b/s in place of the printed α = |b|/s.

    >>> round(float(moments(0.0)[0]), 6)  # √(2/π)
    0.797885
    """
    rate = np.exp(norm.logpdf(b) - log_ndtr(b))  # φ/Φᶜ at -b, without underflow
    return rate, 1 - b * rate - rate**2, 1 - b * rate


NOWHERE = 40.0
"""Standard deviations beyond which a Gaussian's mass underflows."""


def soft_moments(b: float, s: float, cut: float = np.inf) -> tuple[float, float]:
    """E|S| and E[S²] of S = φ_b(Z), Z ~ N(0, s²), given |S| ≤ cut (Lemmas B.6 and B.9).

    For b > 0, S is 2Z where |Z| < b and Z ± b elsewhere; for b < 0 the threshold is -b.

    >>> [round(x, 6) for x in soft_moments(0.0, 1.0)]  # of Z itself: √(2/π) and 1
    [0.797885, 1.0]

    """
    offset, start = b / s, abs(b) / s
    end = min(max(start, cut / s - offset), NOWHERE)  # |S| ≤ cut is |Z| ≤ end
    total = _upper_moments(offset, start) - _upper_moments(offset, end)
    if b > 0:
        x = min(start, cut / (2 * s))
        inner, density = 1 - 2 * ndtr(-x), norm.pdf(x)
        total += np.array([inner, 4 * (1 / sqrt(2 * pi) - density), 4 * (inner - 2 * x * density)])
    mass = total[0] + (1 - 2 * ndtr(-start) if b < 0 else 0.0)
    return float(s * total[1] / mass), float(s**2 * total[2] / mass)


def _upper_moments(a: float, x: float) -> Float[np.ndarray, "3"]:
    """E[(|z| + a)^power; |z| ≥ x] for z ~ N(0, 1) and powers 0 to 2."""
    tail, density = 2 * ndtr(-x), 2 * norm.pdf(x)
    return np.array([tail, density + a * tail, tail + (x + 2 * a) * density + a**2 * tail])


def noise_bound(alpha: Numbers) -> Numbers:
    """Φᶜ(α) + 1.5αφ(α): the bound on the noise term in the proof of Lemma 3.1, over |c| k σ².

    The thesis bounds it by α² ~ log k on the way to log³k; it never exceeds 0.575. For b ≤ 0, with
    |S_i| = |Z_i| - |b| in place of 2|Z_i| + |b|, it becomes Φᶜ(α)/2.
    """
    return norm.sf(alpha) + 1.5 * alpha * norm.pdf(alpha)


def proof_log_k() -> float:
    """Smallest log k for which the proof of Theorem B.1 yields an error of 0.1, with the best C.

    Error ≥ ¼(1 - P) with P ≤ exp(-kp/8) + s√(2/π)/√(kp/2), s - 1 ≤ 1/Cσ < s and p = 4Φᶜ(C)Φᶜ(D), where
    P[|N(0, 1)| ≤ D] = .999. For large k, P tends to √(4/π)/(C√p log k), so the largest C√p decides.
    """
    mass = 4 * ndtr(-norm.isf((1 - 0.999) / 2))
    best = minimize_scalar(lambda c: -c * sqrt(mass * ndtr(-c)), bounds=(0.1, 4), method="bounded")
    return float(sqrt(4 / pi) / (-best.fun * (1 - 4 * tangent.ERROR)))


# The lemmas at single states.

ERROR = 0.01
"""The error that Theorem 3.1 reaches, and above which its lemmas apply."""

TINY = 1e-6
"""A negligible v/c, from which the gradient by v can still be computed."""


def states() -> pd.DataFrame:
    """Evaluate `at_state` on a grid of states, one row each."""
    signals, across = (-0.1, 0.003, 0.1, 1.0, 10.0), (0.1, 1.0)
    biases = (-1.5, -0.9, -0.5, -0.2, 0.0, 0.2, 2.0)
    grid = product((100, 1000, 10_000), signals, across, biases)  # v and b are relative to |c|
    return pd.DataFrame(at_state(k, Filter(c, v * abs(c), b * abs(c))) for k, c, v, b in grid)


def at_state(k: int, filter: Filter) -> dict[str, float]:
    """Evaluate the quantities of the lemmas at one state.

    Returns:
        `k`, `c`, `v`, `b`, `alpha`, `loss` (nats) and `error`; `by_c` and `by_b`; `noise`, the noise term of
        the gradient along w* over c, equal to that across it over v, in units of log²k; its bounds
        `printed` and `ours`; `spread`, k Var[S_i | |S_i| ≤ s log²k]/(c + b)²; `width`, E|S_i|/√Var S_i; and
        `within` and `within_g`, P[|S| ≤ c + b + 10] and P[|S| ≤ φ_b(c) + 10].

    """
    patches, (c, _, b) = Patches(k), filter
    (loss, by_c, by_v, by_b), noise = population(patches, filter), theory.row_sum(patches, filter)
    absolute, variance = soft_moments(b, noise.s)
    _, cut_variance = soft_moments(b, noise.s, noise.s * log(k) ** 2)

    def within(reach: float) -> float:
        """P[|S| ≤ reach], which is 1 far out: P[|S| > reach] ≤ 2 exp(-reach²/2D²), as S is Lipschitz."""
        if reach <= 0:
            return 0.0
        far = reach > tangent.REACH * noise.deviation
        return 1.0 if far else 2 * theory.positive_probability(noise, reach) - 1

    state = {"k": k, **filter._asdict(), "alpha": noise.alpha}
    training = {"loss": loss, "error": 1 - theory.accuracy(patches, filter)}
    gradients = {"by_c": by_c, "by_b": by_b, "noise": by_v / filter.v / log(k) ** 2}
    bounds = {"printed": float(noise_bound(noise.alpha)), "ours": norm.sf(noise.alpha) / 2 if b <= 0 else 1.0}
    spread = k * cut_variance / (c + b) ** 2 if c + b else nan
    sums = {"spread": spread, "width": absolute / sqrt(variance) if variance else nan}
    masses = {"within": within(c + b + 10), "within_g": within(theory.soft_threshold(abs(c), b) + 10)}
    return state | training | gradients | bounds | sums | masses


def counter_examples() -> pd.DataFrame:
    """States at which a lemma is false as printed: each shows a missing hypothesis."""
    h, c = 0.5 / log(1000) ** 4, 0.003
    bias = 2 * sqrt(2) * c * Patches(1000).sigma
    cases = [
        ("lemB5", 1000, Filter(1, TINY, -1.2), "k = 1,000, c = 1, b = -1.2: f is 0"),
        ("lemB8", 1000, Filter(1, TINY, -12.0), "k = 1,000, c = 1, b = -12: f is 0"),
        ("lem31", 1000, Filter(h, 0.01, -2 * h), "k = 1,000, |c| < |b|, b < 0: the signal has no gradient"),
        ("lemB9", 10_000, Filter(1, TINY, -1.2), "k = 10,000, c = 1, b = -1.2: hardly a row survives"),
        ("lem33", 10_000, Filter(1, TINY, -0.5), "k = 10,000, c = 1, b = -0.5: noise is thresholded"),
        ("lem33", 10**6, Filter(1, TINY, -0.5), "k = 1,000,000, c = 1, b = -0.5: noise is thresholded"),
        ("lemB7", 10_000, Filter(1000.0, TINY, -500.0), "k = 10,000, c = 1,000, b = -500: loss below 1"),
        ("noise-bound", 1000, Filter(c, c, bias), "k = 1,000, c = v = 0.003, b = 2s > 0: |S_i| is 2|Z_i|"),
    ]
    return pd.DataFrame({"of": of, "what": what, **at_state(k, filter)} for of, k, filter, what in cases)


# The lemmas along k.

ROWS = (800, 1000, 2000, 5000, 10_000, 100_000, 1_000_000, 100_000_000)
"""k at which the lemmas are evaluated; from the first on, an error of 1 % can be reached."""


def error_ratio(patches: Patches) -> float:
    """Smallest |b|/c at which a filter along w* has an error of 1 %; some filter must reach it."""
    ratios = np.linspace(0, 1, 40, endpoint=False)
    end = next(at for at, ratio in enumerate(ratios) if threshold_error(patches, ratio) <= ERROR)
    return float(brentq(lambda ratio: threshold_error(patches, ratio) - ERROR, ratios[end - 1], ratios[end]))


def at_error(k: int) -> dict[str, float]:
    """Evaluate the quantities of the lemmas for filters along w* at an error of 1 %.

    Returns:
        `k`; `alpha`; `limit`, 2√log k; `error_at_limit`, the error at this α if the signal passes it, else
        NaN; `spread` and `width` as in `at_state`; `by_b_…`, the derivative by b at several c, of which
        `lowest` is 1/log⁴k; and `by_c_lowest`, there the largest derivative by c over several thresholds.

    """
    patches = Patches(k)
    ratio, sigma, limit, lowest = error_ratio(patches), patches.sigma, 2 * sqrt(log(k)), 1 / log(k) ** 4
    state = at_state(k, Filter(1.0, TINY, -ratio))
    by_c = [population(patches, Filter(lowest, 0.0, -b * lowest)).by_c for b in (0.0, 0.5, 0.9)]
    signals = {"1": 1.0, "0.3": 0.3, "0.03": 0.03, "lowest": lowest}
    error = threshold_error(patches, limit * sigma) if limit * sigma < 1 else nan
    row = {"k": k, "alpha": ratio / sigma, "limit": limit, "error_at_limit": error}
    row |= {"spread": state["spread"], "width": state["width"]}
    row |= {f"by_b_{name}": bias_gradient(patches, c, ratio) for name, c in signals.items()}
    return {**row, "by_c_lowest": max(by_c)}


def bias_gradient(patches: Patches, c: float, ratio: float) -> float:
    """∇_b for a filter along w* with threshold |b| = ratio · c."""
    return population(patches, Filter(c, 0.0, -ratio * c)).by_b


def gaussian_alpha(log_k: float) -> float:
    """α at an error of 1 % in the Gaussian approximation of the noise's sum, for very large k.

    P[S > c + b] = Φᶜ((1 - ασ)/√(k E S_i²)), with E S_i² = 2s²[(1 + α²)Φᶜ(α) - αφ(α)].
    """
    sigma = log_k * exp(-log_k / 2)

    def excess(alpha: float) -> float:
        spread = 2 * log_k**2 * ((1 + alpha**2) * ndtr(-alpha) - alpha * norm.pdf(alpha))
        return sqrt(max(spread, 0.0)) * norm.isf(ERROR) - (1 - alpha * sigma)

    return float(brentq(excess, 0, min(8.0, 0.9 / sigma)))


def small_signal_gradient(log_k: float, c: float) -> float:
    """∇_b at an error of 1 % for small c, with the logistic function linearised.

    It is ½[√k log k · c · (φ(α) - αΦᶜ(α)) - 1], up to terms of the order of f.
    """
    alpha = gaussian_alpha(log_k)
    left = norm.pdf(alpha) - alpha * ndtr(-alpha)
    return float((exp(log_k / 2) * log_k * c * left - 1) / 2)


def bias_turn(c: float) -> float:
    """The log k from which ∇_b > 0 at an error of 1 % and this c, by the exact gradient."""

    def gradient(log_k: float) -> float:
        patches = Patches(round(exp(log_k)))
        return bias_gradient(patches, c, error_ratio(patches))

    return float(brentq(gradient, log(1000), log(2e6), xtol=1e-3))


def loss_bound_on_c(k: int) -> float:
    """The c at which the loss is 1 nat at an error of 1 %, the bound on c in the proof of Lemma B.7.

    The loss is nearly proportional to c, so a few steps of c/loss suffice.
    """
    ratio, c = error_ratio(Patches(k)), 500.0
    for _ in range(3):
        c /= population(Patches(k), Filter(c, 0.0, -ratio * c)).loss
    return c


def least_rows() -> int:
    """Smallest k at which some filter has an error of 1 %, a lower bound on k₀ of Theorem 3.1."""
    rows = range(501, 2001)
    return rows[bisect_left(rows, True, key=lambda k: 1 - theory.best_threshold(Patches(k))[1] <= ERROR)]


def log_large_entries(log_k: float) -> float:
    """Log of the expected number of noise entries above 1 in 500 images with d = 10 (Lemma B.4)."""
    sigma = log_k * exp(-log_k / 2)
    return float(log(2 * 500 * 10) + log_k + log_ndtr(-1 / sigma))


def turns() -> pd.DataFrame:
    """Where statements begin to hold, and where inequalities "for sufficiently large k" of their proofs do.

    Returns:
        Columns `of` (the statement), `step` (what holds from there on), `decades` (log₁₀ k) and `exact`:
        whether the statement itself begins there, or only a step of its proof.

    """

    def few_survivors(x: float) -> float:
        lost = 2 * x**1.5 * exp(-x / 2)
        return x / 4 - log(2) - 1.5 * log(x) + log(max(1 - lost, 1e-9))

    no_large = brentq(lambda x: log_large_entries(x) - log(0.01), log(100), log(1e9))
    small = brentq(lambda x: small_signal_gradient(x, x**-4), log(2000), 100)
    signal_passes = brentq(lambda x: x / 2 - log(2) - 1.5 * log(x), 5, 1000)
    expected = brentq(lambda x: x / 8 - 4 * log(x), 60, 1000)
    large_enough = brentq(lambda x: x / 2 - log(4) - 5.5 * log(x), 20, 1000)
    few = brentq(few_survivors, 12, 1000)
    rows = [
        ("lemB4", "a batch of 500 images, d = 10, has no entry above 1, in 99 %", no_large, True),
        # by our bound on the noise term of ∂L/∂c, ¼H/log²k < ½
        *(("lem31", f"∂L/∂c < 0 for |c| ≤ {h}/log⁴k, by our bound", sqrt(h / 2), True) for h in (10, 100)),
        *(("lem33", f"∇_b > 0 at c = {c:g}", bias_turn(c), True) for c in (1.0, 0.3)),
        ("lem33", "∇_b > 0 at c = 1/log⁴k", small, True),
        ("thm31", "some filter has an error of 1 %", log(least_rows()), True),
        ("thmB1", "one filter: error above 0.1 in .999 of starts", log(tangent.rows_for_theorem()), True),
        ("linear", "the linear error is .49", log(tangent.rows_for_linear_error(0.49)), True),
        ("lemB5", "2σ√log k < 1: a threshold at α = 2√log k lets the signal through", signal_passes, False),
        ("lemB9", "2 log^1.5 k < k^¼ (1 - 2 log^1.5 k/√k): few survivors cannot err", few, False),
        ("lem33", "k^⅛ > log⁴k, for Σ E|S_i| > 1 from c = 1/log⁴k on", expected, False),
        ("thm31", "4 log^1.5 k/√k < 1/log⁴k: |b| large enough", large_enough, False),
        ("thmB1", "its proof, with the best constant C", proof_log_k(), False),
    ]
    table = pd.DataFrame(rows, columns=["of", "step", "decades", "exact"])
    return table.assign(decades=table.decades / log(10))


PARTS: dict[str, Callable[[], pd.DataFrame]] = {
    "states": states,
    "along rows": lambda: pd.DataFrame(map(at_error, ROWS)),
    "counter-examples": counter_examples,
    "turns": turns,
}
"""The tables of the page on proofs."""
