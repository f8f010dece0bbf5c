"""Both sides of the lemmas of Appendix B, at states (k, c, v, b) and along k.

Everything is of the whole distribution. "At an error of 1 %" is about a filter along w* whose threshold is
the least one with that error: the last state at which the lemmas' hypothesis, an error above 0.01, is true.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import exp, expm1, log, log1p, nan, sqrt
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from scipy.stats import chi2, norm

from sameloss.checks import check_choice, check_count
from sameloss.errors import ParameterError
from sameloss.runs.frames import TABLE, Tabled
from sameloss.store.store import Report, Store
from sameloss.studies.local_signal.proofs.bounds import (
    noise_share,
    proof_log_k,
    several_filters,
    soft_moments,
    thresholded_share,
)
from sameloss.studies.local_signal.tangent.rows import rows_for_linear_error, rows_for_share
from sameloss.studies.local_signal.theory import (
    Filter,
    Patches,
    accuracy,
    best_threshold,
    population,
    row_sum,
    share_above,
    soft_threshold,
)

ERROR = 0.01
"""The error that Theorem 3.1 ends below, and above which its lemmas speak."""

TINY = 1e-6
"""Part of a filter across w* that makes no difference, over c; with it, its gradient is told apart."""

STATE_ROWS = (100, 1000, 10_000)
STATE_SIGNALS = (-0.1, 0.003, 0.1, 1.0, 10.0)
STATE_ACROSS = (0.1, 1.0)  # v over |c|
STATE_BIASES = (-1.5, -0.9, -0.5, -0.2, 0.0, 0.2, 2.0)  # b over |c|

ROWS = (800, 1000, 2000, 5000, 10_000, 100_000, 1_000_000, 100_000_000)
"""k along which lemmas are evaluated exactly; the first has states with an error of 1 %."""

TRIED_THRESHOLDS = 40

FAR = 9.0
"""Deviations beyond which there is less than 1e-16."""


def states() -> pd.DataFrame:
    """Return all states of the grid, one row each: see `at_state` for the columns."""
    grid = product(STATE_ROWS, STATE_SIGNALS, STATE_ACROSS, STATE_BIASES)
    return pd.DataFrame(at_state(k, Filter(c, across * abs(c), bias * abs(c))) for k, c, across, bias in grid)


def at_state(k: int, filter: Filter) -> dict[str, float]:
    """Return what the lemmas are about at one state.

    Returns:
        `k`, `c`, `v`, `b`, `alpha`, `loss` (nats) and `error`; `by_c` and `by_b`; `noise`, the noise rows'
        part of the gradient along w* over c, which is that across it over v, in units of log²k; its bounds
        `printed` and `ours`; `spread`, k Var[S_i | |S_i| ≤ s log²k]/(c + b)²; `width`, E|S_i|/√Var S_i; and
        `within` and `within_g`, P[|S| ≤ c + b + 10] and P[|S| ≤ φ_b(c) + 10].

    """
    patches = Patches(k)
    found, noise = population(patches, filter), row_sum(patches, filter)
    moments = soft_moments(filter.b, noise.s)
    cut = soft_moments(filter.b, noise.s, noise.s * log(k) ** 2)
    share = found.by_v / filter.v / log(k) ** 2
    return {
        "k": k,
        "c": filter.c,
        "v": filter.v,
        "b": filter.b,
        "alpha": noise.alpha,
        "loss": found.loss,
        "error": 1 - found.accuracy,
        "by_c": found.by_c,
        "by_b": found.by_b,
        "noise": share,
        "printed": noise_share(noise.alpha),
        "ours": thresholded_share(noise.alpha) if filter.b <= 0 else 1.0,
        "spread": k * cut.variance / (filter.c + filter.b) ** 2 if filter.c + filter.b else nan,
        "width": moments.absolute / sqrt(moments.variance) if moments.variance else nan,
        "within": _within(patches, filter, filter.c + filter.b + 10),
        "within_g": _within(patches, filter, soft_threshold(abs(filter.c), filter.b) + 10),
    }


def _within(patches: Patches, filter: Filter, reach: float) -> float:
    """Return P[|S| ≤ reach], S the noise's sum, for a reach that is no atom of S.

    S is a Lipschitz function of Gaussians, so that P[|S| > reach] ≤ 2 exp(-reach²/2D²): far out it is 1.
    """
    noise = row_sum(patches, filter)
    if reach <= 0:
        return 0.0
    return 1.0 if reach > FAR * noise.deviation else 2 * share_above(noise, reach) - 1


def alive(found: pd.DataFrame) -> pd.DataFrame:
    """Return the states with c + b > 0: the signal passes the threshold, as the proofs take for granted."""
    return found[(found.c > 0) & (found.c + found.b > 0)]


def erring(found: pd.DataFrame) -> pd.DataFrame:
    """Return the states with an error above 0.01."""
    return found[found.error > ERROR]


def error_ratio(patches: Patches, error: float = ERROR) -> float:
    """Return the least |b|/c of a filter along w* with no more than that error; NaN: there is none."""
    excess = lambda ratio: 1 - accuracy(patches, Filter(1.0, 0.0, -ratio)) - error  # noqa: E731
    tried = np.linspace(0, 1, TRIED_THRESHOLDS, endpoint=False)
    enough = next((at for at, ratio in enumerate(tried) if excess(ratio) <= 0), None)
    return float(brentq(excess, tried[enough - 1], tried[enough])) if enough else nan


def along_rows() -> pd.DataFrame:
    """Return one row for each k of `ROWS`: see `at_error` for the columns."""
    return pd.DataFrame(at_error(k) for k in ROWS)


def at_error(k: int) -> dict[str, float]:
    """Return what the lemmas are about at an error of 1 %, for filters along w*.

    Returns:
        `k`; `alpha` there; `limit`, 2√log k; `error_at_limit`, if the signal passes it, else NaN;
        `spread` and `width` as of `at_state`; and `by_b_…`, the loss's derivative by b at several c;
        `lowest` is 1/log⁴k, at which `by_c_lowest` is the largest derivative by c over several thresholds.

    """
    patches = Patches(k)
    ratio, sigma = error_ratio(patches), patches.sigma
    if ratio != ratio:
        raise ParameterError(f"No filter has an error of 1 % at k = {k}; it takes k >= 800.")
    limit = 2 * sqrt(log(k))
    by_b = {f"by_b_{c:g}": population(patches, Filter(c, 0.0, -ratio * c)).by_b for c in (1.0, 0.3, 0.03)}
    lowest = 1 / log(k) ** 4
    row = at_state(k, Filter(1.0, TINY, -ratio))
    return {
        "k": k,
        "alpha": ratio / sigma,
        "limit": limit,
        "error_at_limit": 1 - accuracy(patches, Filter(1.0, 0.0, -limit * sigma))
        if limit * sigma < 1
        else nan,
        "spread": row["spread"],
        "width": row["width"],
        **by_b,
        "by_b_lowest": population(patches, Filter(lowest, 0.0, -ratio * lowest)).by_b,
        "by_c_lowest": max(
            population(patches, Filter(lowest, 0.0, -b * lowest)).by_c for b in (0.0, 0.5, 0.9)
        ),
    }


def gaussian_alpha(log_k: float, error: float = ERROR) -> float:
    """Return α at an error, the noise's sum taken as Gaussian: for k beyond all grids.

    P[S > c + b] = Φᶜ((1 - ασ)/√(k E S_i²)), with E S_i² = 2s²[(1 + α²)Φᶜ(α) - αφ(α)].
    """
    sigma = log_k * exp(-log_k / 2)
    quantile = norm.isf(error)

    def excess(alpha: float) -> float:
        spread = 2 * log_k**2 * ((1 + alpha**2) * ndtr(-alpha) - alpha * norm.pdf(alpha))
        return sqrt(max(spread, 0.0)) * quantile - (1 - alpha * sigma)

    return float(brentq(excess, 0, min(8.0, 0.9 / sigma)))


def small_signal_gradient(log_k: float, c: float) -> float:
    """Return ∇_b at an error of 1 %, for c so small that ς is linear, up to terms of order f.

    There it is ½[√k log k · c · (φ(α) - αΦᶜ(α)) - 1].
    """
    alpha = gaussian_alpha(log_k)
    left = norm.pdf(alpha) - alpha * ndtr(-alpha)
    return float((exp(log_k / 2) * log_k * c * left - 1) / 2)


def small_signal_turn(c_of: Callable[[float], float]) -> float:
    """Return log k from which that is positive.

    Args:
        c_of: c by log k.

    """
    return float(brentq(lambda log_k: small_signal_gradient(log_k, c_of(log_k)), log(2000), 100))


def bias_turn(c: float) -> float:
    """Return k from which ∇_b > 0 at an error of 1 % and that c, by the exact gradient."""

    def gradient(log_k: float) -> float:
        patches = Patches(round(exp(log_k)))
        return population(patches, Filter(c, 0.0, -c * error_ratio(patches))).by_b

    return exp(brentq(gradient, log(1000), log(2e6), xtol=1e-3))


def error_where_bias_turns(k: int, c: float = 1.0) -> float:
    """Return the error at which ∇_b changes its sign along the threshold: below it b rises again."""
    patches = Patches(k)
    gradient = lambda ratio: population(patches, Filter(c, 0.0, -ratio * c)).by_b  # noqa: E731
    ratio = brentq(gradient, 0.0, 0.99)
    return 1 - accuracy(patches, Filter(c, 0.0, -ratio * c))


def loss_bound_on_c(k: int, rounds: int = 3) -> float:
    """Return the c at which the loss is 1 nat along an error of 1 %: what Lemma B.7's proof bounds c by.

    There loss grows as c, so that a few steps of c/loss find it.
    """
    patches = Patches(k)
    ratio, c = error_ratio(patches), 500.0
    for _ in range(rounds):
        c /= population(patches, Filter(c, 0.0, -ratio * c)).loss
    return c


def least_rows(error: float = ERROR, low: int = 500, high: int = 2000) -> int:
    """Return the least k at which some filter has at most that error: k₀ of Theorem 3.1 is no smaller."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if 1 - best_threshold(Patches(middle))[1] <= error else (middle, high)
    return high


def maximum_excess(n: int) -> tuple[float, float]:
    """Return P[max X_i > 2σ√log n] and P[max |X_i| > 2σ√log n], over the 1/n and 2/n of Lemmas B.1 and B.2.

    >>> all(share <= 1 for n in (2, 10, 10**6) for share in maximum_excess(n))
    True
    """
    check_count("n", n)
    tail = ndtr(-2 * sqrt(log(n)))
    return -expm1(n * log1p(-tail)) * n, -expm1(n * log1p(-2 * tail)) * n / 2 if n > 1 else 0.5


def log_start_excess(k: int, d: int) -> float:
    """Return log P[‖w⁰‖ > δ] - log(2d exp(-k/2)) for w⁰ ~ N(0, δ²/(kd)): not positive if Lemma B.3 holds."""
    return float(chi2.logsf(k * d, d) - log(2 * d) + k / 2)


def log_large_entries(log_k: float, images: int, d: int) -> float:
    """Return the log of how many noise entries of a batch are above 1; Lemma B.4's proof takes none to be."""
    sigma = log_k * exp(-log_k / 2)
    return float(log(2 * images * d) + log_k + log_ndtr(-1 / sigma))


def rows_without_large_entries(images: int = 500, d: int = 10, most: float = 0.01) -> float:
    """Return k from which a batch has such an entry with probability below `most`."""
    excess = lambda log_k: log_large_entries(log_k, images, d) - log(most)  # noqa: E731
    return exp(brentq(excess, log(100), log(1e9)))


def chains() -> pd.DataFrame:
    """Return log₁₀ k from which inequalities "for sufficiently large k" of the proofs are true.

    Returns:
        Columns `of` (the statement), `step` and `decades`.

    """
    steps: list[tuple[str, str, Callable[[float], float], float]] = [
        ("lemB5", "2σ√log k < 1: a threshold at α = 2√log k lets the signal through", _signal_passes, 5.0),
        ("lemB9", "2 log^1.5 k < k^¼ (1 - 2 log^1.5 k/√k): few survivors cannot err", _few_survivors, 12.0),
        ("lem33", "k^⅛ > log⁴k, for Σ E|S_i| > 1 from c = 1/log⁴k on", lambda x: x / 8 - 4 * log(x), 60.0),
        (
            "thm31",
            "4 log^1.5 k/√k < 1/log⁴k: |b| large enough",
            lambda x: x / 2 - log(4) - 5.5 * log(x),
            20.0,
        ),
    ]
    rows = [(of, step, brentq(excess, low, 1000) / log(10)) for of, step, excess, low in steps]
    return pd.DataFrame(rows, columns=["of", "step", "decades"])


def _signal_passes(log_k: float) -> float:
    return log_k / 2 - log(2) - 1.5 * log(log_k)


def _few_survivors(log_k: float) -> float:
    lost = 2 * log_k**1.5 * exp(-log_k / 2)
    return log_k / 4 - log(2) - 1.5 * log(log_k) + log(max(1 - lost, 1e-9))


def growth_rows(constant: float) -> float:
    """Return k from which ∂L/∂c < 0 for all |c| ≤ H/log⁴k, by our bound on the noise part: ¼H/log²k < ½."""
    return exp(sqrt(constant / 2))


def counter_examples() -> Iterator[dict[str, float | str]]:
    """Yield states at which a lemma as printed is false: each shows a hypothesis that is missing."""
    yield {
        "of": "lemB5",
        "what": "k = 1,000, c = 1, b = -1.2: f is 0",
        **at_state(1000, Filter(1, TINY, -1.2)),
    }
    yield {
        "of": "lemB8",
        "what": "k = 1,000, c = 1, b = -12: f is 0",
        **at_state(1000, Filter(1, TINY, -12.0)),
    }
    small = 0.5 / log(1000) ** 4
    dead = Filter(small, 0.01, -2 * small)
    yield {
        "of": "lem31",
        "what": "k = 1,000, |c| < |b|, b < 0: the signal has no gradient",
        **at_state(1000, dead),
    }
    overshot = {"of": "lemB9", "what": "k = 10,000, c = 1, b = -1.2: hardly a row survives"}
    yield {**overshot, **at_state(10_000, Filter(1, TINY, -1.2))}
    for k in (10_000, 1_000_000):
        what = f"k = {k:,}, c = 1, b = -0.5: noise is thresholded"
        yield {"of": "lem33", "what": what, **at_state(k, Filter(1, TINY, -0.5))}
    wide = {"of": "lemB7", "what": "k = 10,000, c = 1,000, b = -500: loss below 1"}
    yield {**wide, **at_state(10_000, Filter(1000.0, TINY, -500.0))}
    c, what = 0.003, "k = 1,000, c = v = 0.003, b = 2s > 0: |S_i| is 2|Z_i|"
    bias = 2 * sqrt(2) * c * Patches(1000).sigma
    yield {"of": "noise-bound", "what": what, **at_state(1000, Filter(c, c, bias))}


def turns() -> pd.DataFrame:
    """Return from which k on statements hold, where they are asymptotic.

    Returns:
        Columns `of` (the statement), `step` (what is true from there on), `decades` (log₁₀ k) and `exact`:
        whether it is where the statement itself begins, or only where its proof does.

    """
    exact = [
        (
            "lemB4",
            "a batch of 500 images, d = 10, has no entry above 1, in 99 %",
            log(rows_without_large_entries()),
        ),
        *(("lem31", f"∂L/∂c < 0 for |c| ≤ {h}/log⁴k, by our bound", log(growth_rows(h))) for h in (10, 100)),
        ("lem33", "∇_b > 0 at c = 1", log(bias_turn(1.0))),
        ("lem33", "∇_b > 0 at c = 0.3", log(bias_turn(0.3))),
        ("lem33", "∇_b > 0 at c = 1/log⁴k", small_signal_turn(lambda log_k: log_k**-4)),
        ("thm31", "some filter has an error of 1 %", log(least_rows())),
        ("thmB1", "one filter: error above 0.1 in .999 of starts", rows_for_share()),
        ("linear", "the linear error is .49", log(rows_for_linear_error(0.49))),
    ]
    own = pd.DataFrame([(of, step, log_k / log(10), True) for of, step, log_k in exact], columns=TURN_COLUMNS)
    proofs = chains()
    proofs.loc[len(proofs)] = ("thmB1", "its proof, with the best constant C", proof_log_k() / log(10))
    return pd.concat([own, proofs.assign(exact=False)], ignore_index=True)


TURN_COLUMNS = ["of", "step", "decades", "exact"]

PARTS: dict[str, Callable[[], pd.DataFrame]] = {
    "states": states,
    "along rows": along_rows,
    "counter-examples": lambda: pd.DataFrame(counter_examples()),
    "turns": turns,
    "several filters": several_filters,
}
"""What the page on proofs stores."""


@dataclass(frozen=True)
class ProofTable(Tabled):
    """One of `PARTS`; all are exact, but for shares of drawn rows with several filters.

    Raises:
        ParameterError: for another.

    """

    part: str

    def __post_init__(self) -> None:
        """Refuse what is no part."""
        check_choice(self, "part", tuple(PARTS))

    def compute(self, folder: Path, store: Store, report: Report) -> None:
        """Write the table."""
        PARTS[self.part]().to_csv(folder / TABLE, index=False)
