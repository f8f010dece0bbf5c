"""What Chapter 3 and Appendix B say, and what this book adds, each with what is checked of it.

A lemma "for k > k₀" is not refuted by a smaller k: its checks ask that it holds from some k on. A state at
which its conclusion is false although its hypotheses are true, whatever k, refutes it as printed. Tolerances
were fixed after a pilot with other seeds and before the book's runs.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import floor, log, sqrt
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Shaped
from scipy.interpolate import CubicSpline
from scipy.special import ndtr
from scipy.stats import norm, truncnorm

from sameloss.seeds import stream_seed
from sameloss.studies.local_signal import proofs, tangent, theory
from sameloss.studies.local_signal.experiment import CARRIED, FIRST, SignalConfig
from sameloss.studies.local_signal.theory import Filter, Patches, accuracy, best_threshold
from sameloss.studies.statement import Check, Statement, check_table


def _read(text: str) -> dict[str, Statement]:
    """Read statements: of each its name and place, below the text, and the correction where it has one."""
    blocks = [block.splitlines() for block in re.split(r"\n(?=\S)", text.strip())]
    named = [(title.split(": ", 1), map(str.strip, about)) for title, *about in blocks]
    return {name: Statement(place, *about) for (name, place), about in named}


TRAINING = _read("""
linear: Section 3.3
    A sum over all rows is right with probability Φ(1/log k).
grows: Figure 3.3
    c, |b|/c and accuracy grow in training, and b falls.
first-b: Section 3.4, actual dynamics
    At the beginning b grows for a short time.
    Where c begins above zero; where it begins below, b falls at once.
first-b-sampled: Section 3.4, actual dynamics (ours)
    A first stochastic step makes b positive with probability Φ(√(n/k)) if c > 0, else 1 - that.
small-b: Section 3.4, actual dynamics
    While b is positive, b/c stays of the order 1/k.
across: Lemma 3.2, in training
    w's part across w* stays small.
sampled: Algorithm 3.1 (ours)
    Stochastic descent follows the exact flow: c and b, and accuracy.
literal: Figure 3.3 (ours)
    With σ = 1, as its caption says, no filter is right in more than 51.4 %.
reached: Figure 3.3 (ours)
    After its 10,000 steps 78 % are right; the 99 % of Theorem 3.1 take above two million.
smallest: Theorem 3.1 (ours)
    k₀ lies above 700: below, no filter at all is right in 99 %. With 800 rows one is.
above-linear: Theorem 3.1 (ours)
    The best filter is never worse than the linear model, whatever k and σ.
features: Section 3.3, remark
    The result extends to r orthogonal features, as many as d.
    With a filter for each; one that answers alike to d = 1/σ² of them, one an image, has σ = 1.
dead: Lemma B.3 (ours)
    If c begins below zero and η_w < 4|c|/k, descent ends where the signal has no gradient.
alive: Lemma B.3 (ours)
    At larger rates it ends so from some starts only, and from fewer the larger they are.
""")

PROOFS = _read("""
b123: (B.1) to (B.3)
    Moments of Z given Z ≥ -b, with α = |b|/s.
    With -b/s; α is that for b ≤ 0 only.
b45: (B.4), (B.5)
    E[cA | Z] = Z c²/(c² + v²), and the same for vB.
b6: (B.6)
    Mills' ratio lies between 2/(√(x² + 4) + x) and 2/(√(x² + 2) + x).
lemB1: Lemma B.1
    P[max X_i > 2σ√log n] ≤ 1/n.
lemB2: Lemma B.2
    P[max |X_i| > 2σ√log n] ≤ 2/n.
lemB3: Lemma B.3
    w⁰ ~ N(0, δ²/(kd)) is no longer than δ, but for a probability e^-Ω(k).
lemB4: Lemma B.4, its event
    No entry of the noise in a batch is above 1.
lemB5: Lemma B.5
    α ≤ 2√log k while the error is above 0.01.
    While the signal passes the threshold, c + b > 0, and b ≤ 0.
lemB6: Lemma B.6, Corollary B.1
    Var S_i ≥ β(c + b)²/k while the error is above 0.01.
    While the signal passes the threshold, c + b > 0: β = 0.08.
lemB7: Lemma B.7
    c is bounded, as the loss is at most 1.
    While the error is above 0.01, as its proof has it.
lemB8: Lemma B.8
    P[|S| ≤ c + b + 10] ≥ 4/5 where the loss is at most 1.
    With φ_b(c) in the place of c + b.
noise-bound: Proof of Lemma 3.1
    The noise's part is at most |c| log²k (Φᶜ(α) + 1.5αφ(α)).
    For b ≤ 0 it is at most |c| log²k Φᶜ(α)/2, and |c| log²k for any b.
lem31: Lemma 3.1
    ∂L/∂c ≤ -A where |c| ≤ H/log⁴k.
    If the signal passes: |c| > |b|, or b ≥ 0.
lem31-sharper: Lemma 3.1 (ours)
    For b ≤ 0 noise holds c back by at most |c| log²k/4: c grows up to o(1/log²k).
lem32: Lemma 3.2
    The gradient across w* lies between 0 and O(v log³k); log²k suffices.
lemB9: Lemma B.9
    E|S_i| ≥ C k^-⅜ √Var S_i where b < 0.
    While the signal passes the threshold, c + b > 0, and the error is above 0.01.
lemB9-sharper: Lemma B.9 (ours)
    At an error of 1 % it is even E|S_i| ≥ 0.2 √Var S_i/log k, from k = 1,000 on.
lem33: Lemma 3.3
    ∇_b ≥ C where c ≥ C₂/log⁴k.
    While the error is above 0.01, from the k of the next table on.
lem33-sharper: Lemma 3.3 (ours)
    At an error of 1 % and k ≥ 10⁵, ∇_b > 0 from c = 10σ = 10 log k/√k on.
thm31: Theorem 3.1, what it needs
    From some k₀ on a filter has an error below 0.01.
lemB10: Lemma B.10
    P[Σ ε_i a_i ∈ B] ≤ (s√(2/π) + o(1))/√n for s - 1 < Δ ≤ s.
    For s - 1 ≤ Δ < s; then o(1) is not needed.
lemB11: Lemma B.11
    P[A ∧ E] ≥ P[A] P[E] for two slabs (Šidák).
lemB12: Lemma B.12
    With m filters P[|g(ε)| ≥ Cσ|g(w*)|] ≥ p for all W, b; p = q/2, q: noise opens the same gates.
thmB1: Theorem B.1
    One filter: error above 0.1 for all w and b, in .999 of starts.
thm32: Theorem 3.2
    O(1) filters: error above 0.1; here in 95 % of starts, m ≤ 4, k = 1,000.
kernel-moments: Theorem 3.2 (ours)
    Sums of rows are Gaussian enough: held-out errors are those by moments.
kernel-linear: Section 3.5 (ours)
    At the start b = 0 the kernel is linear for every m.
kernel-closed: Section 3.5 (ours)
    Of many filters, thresholds at the signal are not best: some just above it are better.
linear: Section 3.3
    A linear classifier fails with probability at least 0.49.
""")

THEIRS = 10_000
"""Steps of Figure 3.3."""


@dataclass(frozen=True)
class Found:
    """Everything that the page on dynamics reads."""

    settings: SignalConfig
    flow: pd.DataFrame  # a row a look of the exact flow
    phase: pd.DataFrame  # the same by k and strength of noise
    best: pd.DataFrame  # by k and strength
    dead: pd.DataFrame  # by start and rate
    sgd: pd.DataFrame  # by seed and look
    tangent: pd.DataFrame  # best errors of tangent kernels

    def flow_at(self, steps: Shaped[np.ndarray, " look"], column: str) -> Float[np.ndarray, " look"]:
        """Return a column of the flow at other steps."""
        return curve(self.flow, column)(np.log(steps))

    def by_seed(self, column: str) -> pd.DataFrame:
        """Return a column of stochastic descent: a row a look, a column a seed."""
        return self.sgd.pivot(index="step", columns="seed", values=column)


@dataclass(frozen=True)
class Proofs:
    """Everything that the page on the proofs reads."""

    states: pd.DataFrame
    rows: pd.DataFrame  # along k, at an error of 1 %
    examples: pd.DataFrame  # counter-examples
    turns: pd.DataFrame  # from which k on
    several: pd.DataFrame  # both sides of Lemma B.12
    tangent: pd.DataFrame

    def example(self, of: str, column: str) -> list[float]:
        """Return a number of a lemma's counter-examples."""
        return [*self.examples[self.examples.of == of][column]]

    def at(self, k: int) -> pd.Series:
        """Return the row of one k."""
        return self.rows[self.rows.k == k].iloc[0]


def curve(flow: pd.DataFrame, column: str) -> CubicSpline:
    """Return a column of a flow as a function of the logarithm of steps.

    Between a dozen looks a decade it is off by 1e-6; a straight line would be by 1e-3.
    """
    own = flow[flow.step > 0]
    return CubicSpline(np.log(own.step), own[column])


def steps_to(flow: pd.DataFrame, level: float) -> float:
    """Return after how many steps a flow is right so often; NaN: it never is.

    >>> flow = pd.DataFrame({"step": [0, 1, 10, 100], "accuracy": [0.5, 0.6, 0.7, 0.8]})
    >>> round(steps_to(flow, 0.7), 9), steps_to(flow, 0.9)
    (10.0, nan)
    """
    own = flow[flow.step > 0]
    if own.accuracy.max() < level:
        return float("nan")
    after = int(np.argmax(own.accuracy >= level))
    last, end = np.log(own.step.iloc[[max(after - 1, 0), after]])
    steps = np.linspace(last, end, 200)
    return float(np.exp(np.interp(level, curve(flow, "accuracy")(steps), steps)))


# Checks.

EXACT = 1e-9
"""Difference that counts as none."""


def _true(of: str, text: str, condition: bool | np.bool_, printed: bool = True) -> Check:
    return Check(of, text, float(condition), 1, 0, printed)


def _at_most(of: str, text: str, value: float, bound: float, printed: bool = True) -> Check:
    """Return a check that a number which is not negative does not exceed a bound."""
    return Check(of, text, float(value), bound / 2, bound / 2 + EXACT, printed)


def _none(of: str, text: str, values: Any, printed: bool = True) -> Check:
    """Return a check that the largest of all excesses over a bound is none."""
    return Check(of, text, max(0.0, float(np.max(values))), 0.0, EXACT, printed)


def training_checks(found: Found) -> pd.DataFrame:
    """Return everything that is checked of training, one row each."""
    parts = (_grows, _first_steps, _sampled, _figure, _features, _dead)
    return check_table([check for part in parts for check in part(found)])


def grown(table: pd.DataFrame) -> pd.DataFrame:
    """Return what should grow in training."""
    size = table.b.abs() / table.c.abs()
    return pd.DataFrame({"c": table.c.abs(), "-b": -table.b, "|b|/c": size, "accuracy": table.accuracy})


def _grows(found: Found) -> Iterator[Check]:
    """Check growth look by look in the flow, and from its 50th step to its end in stochastic descent."""
    rows = [Patches(k) for k in found.settings.rows_of_noise]
    apart = [
        abs(accuracy(patches, Filter(1.0, 0.0, 0.0)) + tangent.linear_error(patches) - 1) for patches in rows
    ]
    yield Check("linear", "all k: exact accuracy of b = 0 less Φ(1/log k), at most", max(apart), 0, 1e-9)
    flow = grown(found.flow[found.flow.step.between(FIRST, THEIRS)])
    late = found.sgd[found.sgd.step >= FIRST].groupby("seed")
    ends = pd.DataFrame(grown(own).iloc[[0, -1]].diff().iloc[1] > 0 for _, own in late)
    for name, share in (flow.diff().iloc[1:] > 0).mean().items():
        yield Check("grows", f"exact flow: share of looks at which {name} grows", share, 1, 0)
    for name, share in ends.mean().items():
        yield Check("grows", f"stochastic: share of seeds in which {name} has grown", share, 1, 0)


FIRST_STEPS = 2000
"""First steps that are drawn for the sign of b."""


def _first_steps(found: Found) -> Iterator[Check]:
    """Take exact steps from both signs of c, and many first stochastic steps."""
    s, start = found.settings, found.settings.length
    up, down = (theory.descend(s.patches, Filter(sign * start, start, 0.0), s.lr, FIRST) for sign in (1, -1))
    yield _true(
        "first-b", "exact steps from c > 0: whether b is ever positive", up.b.max() > 0, printed=False
    )
    yield _true("first-b", "exact steps from c < 0: whether it is", down.b.max() > 0)
    yield _true("first-b", "and that it is not", down.b.max() <= 0, printed=False)
    random = np.random.default_rng(stream_seed("first signs", s.first_seed))
    share = float(norm.cdf(sqrt(50 / 100)))
    for sign, target in ((1, share), (-1, 1 - share)):
        about = (Patches(100), np.array([sign * start, 0.0]), 0.0, 50, random)
        grows = np.mean([theory.gradient(*about)[1] < 0 for _ in range(FIRST_STEPS)])
        text = f"k = 100, n = 50, c {'>' if sign > 0 else '<'} 0: share of {FIRST_STEPS:,} first steps"
        error = 4 * sqrt(share * (1 - share) / FIRST_STEPS)
        yield Check("first-b-sampled", text, float(grows), target, error)
    positive = up[up.b > 0]
    largest = s.noise * (positive.b / positive.c).max()
    yield Check("small-b", "exact steps: k b/c at most, while b > 0", largest, 1, 1)


LATE = 1000
"""Steps after which stochastic descent is compared with the flow."""


def _sampled(found: Found) -> Iterator[Check]:
    """Compare means over seeds with the flow, from step 1,000 on."""
    late = found.sgd[found.sgd.step >= LATE]
    text = "stochastic: v/c at most, from step 1,000 on, over all seeds"
    yield Check("across", text, (late.v / late.c).max(), 0.1, 0.1)
    means = late.groupby("step")[["c", "b", "accuracy"]].mean()
    exact = pd.DataFrame({name: found.flow_at(means.index.to_numpy(), name) for name in means}, means.index)
    apart = (means - exact).abs()
    text = f"mean of seeds and flow, c: relative difference from step {LATE:,} on"
    yield Check("sampled", text, (apart.c / exact.c.abs()).max(), 0, 0.1)
    yield Check("sampled", "the same of b", (apart.b / exact.b.abs()).max(), 0, 0.1)
    yield Check("sampled", "accuracy: difference", apart.accuracy.max(), 0, 0.02)


def _figure(found: Found) -> Iterator[Check]:
    """Check what the figure's own settings give, of which others say nothing; and both sides of k₀."""
    figure = Patches(1000)
    theirs = found.settings.patches == figure and found.settings.lr == 0.1
    after = found.flow_at(np.array([THEIRS]), "accuracy")[0] if theirs else np.nan
    late = steps_to(found.flow, 0.99) if theirs else np.nan
    _, literal = best_threshold(Patches(1000, 1 / figure.sigma))  # σ = 1
    yield Check("literal", "k = 1,000: best accuracy where σ = 1", literal, 0.5, 0.014)
    yield Check("reached", "exact flow: accuracy after 10,000 steps", after, 0.7825, 0.005)
    text = "millions of steps to 99 %, as a logarithm to base 10"
    yield Check("reached", text, np.log10(late / 1e6), 0.5, 0.2)
    yield _true("smallest", "k = 700: best accuracy below 0.99", best_threshold(Patches(700))[1] < 0.99)
    yield _true("smallest", "k = 800: above", best_threshold(Patches(800))[1] > 0.99)
    worse = (found.best.network - found.best.linear).min() < -1e-9
    yield Check("above-linear", "whether the least advantage is negative", float(worse), 0, 0)


def _features(found: Found) -> Iterator[Check]:
    """Compare one filter and one a feature where there are as many features as dimensions."""
    patches = Patches(10**6)
    r = patches.dimension
    about = f"k = 10⁶, r = d = {r:,}"
    few, many = (theory.one_filter(Patches(k), 10) for k in (10_000, 10**6))
    yield Check("features", f"{about}: best accuracy of one filter", theory.one_filter(patches, r), 1, 0.01)
    yield Check(
        "features", f"{about}: of a filter each", theory.filter_each(patches, r), 1, 0.01, printed=False
    )
    yield Check("features", "r = 10, k = 10⁶: of one filter", many, 1, 0.01, printed=False)
    yield _true("features", "k = 10⁴: whether that is below 0.99", few < 0.99, printed=False)


def _dead(found: Found) -> Iterator[Check]:
    """Compare the ends of descents with what is expected of their starts; at larger rates chance decides."""
    below = found.dead[found.dead.start < 0]
    text = "share of descents with that start and rate that end so"
    yield Check("dead", text, below[below.multiple < CARRIED].dead.mean(), 1, 0)
    larger = below[below.multiple >= CARRIED]
    shares = larger.groupby("multiple").dead.mean()
    mixed = 0 < larger.dead.mean() < 1
    yield _true("alive", "whether some of those starts end so, and some do not", mixed)
    less = shares.iloc[-1] < shares.iloc[0]
    yield _true("alive", "whether at the largest rate less end so than at the least", less)


def proof_checks(found: Proofs) -> pd.DataFrame:
    """Return everything that is checked of the proofs, one row each."""
    parts: tuple[Callable[[Proofs], Iterator[Check]], ...]
    parts = (_gaussians, _invariants, _growth, _bias, _begins, _small_balls, _kernel)
    return check_table([check for part in parts for check in part(found)])


def _gaussians(found: Proofs) -> Iterator[Check]:
    biases = np.linspace(-3, 3, 25)
    gaps = [abs(proofs.moments(b).mean - truncnorm.mean(-b, np.inf)) for b in biases]
    gaps += [abs(proofs.moments(b).variance - truncnorm.var(-b, np.inf)) for b in biases]
    printed, true = proofs.moments(-1.0), proofs.moments(1.0)
    yield Check("b123", "b = s: printed E[Z | Z ≥ -b]/s, beside the true one", printed.mean, true.mean, EXACT)
    yield Check("b123", "b = s: printed E[Z²|Z ≥ -b]/s², beside it", printed.second, true.second, EXACT)
    yield _none("b123", "with -b/s, |b| ≤ 3s: largest gap to truncated Gaussians", gaps, printed=False)
    cases = [(z, c, v) for z in (-2.0, 0.3) for c in (0.1, 1.0) for v in (0.05, 0.7, 3.0)]
    gaps = [abs(z * c**2 / (c**2 + v**2) - proofs.projected_by_integration(z, c, v)) for z, c, v in cases]
    yield _none("b45", "largest gap to integration", gaps)
    low, ratio, high = proofs.mills_bounds(np.linspace(0, 30, 3001))
    yield _none("b6", "largest excess over a bound, over the ratio, x ≤ 30", np.r_[low - ratio, ratio - high])
    one, both = np.transpose([proofs.maximum_excess(n) for n in (2, 3, 10, 100, 10**4, 10**8, 10**15)])
    yield _at_most("lemB1", "largest probability over 1/n, n ≤ 10¹⁵", one.max(), 1.0)
    yield _at_most("lemB2", "largest probability over 2/n, n ≤ 10¹⁵", both.max(), 1.0)
    excess = [proofs.log_start_excess(k, d) for k in (2, 10, 100, 300) for d in (2, 5, 20)]
    yield _none("lemB3", "log P less log 2d exp(-k/2): largest, k ≤ 300", excess)


def erring(states: pd.DataFrame) -> pd.DataFrame:
    """Return states with an error above 0.01 whose signal passes the threshold, as proofs assume."""
    return states[(states.c > 0) & (states.c + states.b > 0) & (states.error > proofs.ERROR)]


def _invariants(found: Proofs) -> Iterator[Check]:
    rows, few = found.rows, erring(found.states)
    alpha = found.example("lemB5", "alpha")[0] / 2 / sqrt(log(1000))
    yield _at_most("lemB5", "c = 1, b = -1.2, k = 1,000: α/(2√log k)", alpha, 1.0)
    text = "c + b > 0: largest error at α = 2√log k, where that lets the signal through"
    yield _at_most("lemB5", text, rows.error_at_limit.max(), 0.01, printed=False)
    low_b = few[few.b <= 0]
    alpha = (low_b.alpha / 2 / np.log(low_b.k) ** 0.5).max()
    yield _at_most("lemB5", "and α/(2√log k) of states that err: largest", alpha, 1.0, printed=False)
    beta = found.example("lemB5", "spread")[0]
    yield _at_most("lemB6", "0.08 over k Var/(c + b)² at that state", 0.08 / beta, 1.0)
    beta = min(few.spread.min(), rows.spread.min())
    yield _at_most("lemB6", "c + b > 0: 0.08 over the least k Var/(c + b)²", 0.08 / beta, 1.0, printed=False)
    text = "its value at an error of 1 %, k = 10⁸, beside 1/Φ⁻¹(.99)²"
    yield Check("lemB6", text, found.at(10**8).spread, 0.18478, 1e-4, printed=False)
    bound = proofs.loss_bound_on_c(10_000)
    text = f"k = 10⁴, c = 1,000, b = -500, loss below 1: c over {bound:,.0f}"
    yield _at_most("lemB7", text, found.example("lemB7", "c")[0] / bound, 1.0)
    for k in (1000, 10_000):
        text = f"k = {k:,}: the c at which the loss is 1 and the error 1 %, over 1,500"
        yield _at_most("lemB7", text, proofs.loss_bound_on_c(k) / 1500, 1.0, printed=False)
    missing = 0.8 - found.example("lemB8", "within")[0]
    yield _none("lemB8", "c = 1, b = -12, k = 1,000, loss log 2: 4/5 less P", missing)
    missing = 0.8 - found.states[found.states.loss <= 1].within_g
    yield _none("lemB8", "φ_b(c): largest 4/5 - P of states with loss ≤ 1", missing, printed=False)


def _growth(found: Proofs) -> Iterator[Check]:
    states = found.states
    ratio = found.example("noise-bound", "noise")[0] / found.example("noise-bound", "printed")[0]
    yield _at_most("noise-bound", "b = 2s: the noise's part over its bound", ratio, 1.0)
    text = f"largest part over ours, {len(states)} states"
    yield _at_most("noise-bound", text, (states.noise / states.ours).max(), 1.0, printed=False)
    yield _none("lem31", "k = 1,000, |c| < |b|: ∂L/∂c + 0.4", found.example("lem31", "by_c")[0] + 0.4)
    text = "c = 1/log⁴k, the signal passes: largest ∂L/∂c + 0.4, k up to 10⁸"
    yield _none("lem31", text, found.rows.by_c_lowest + 0.4, printed=False)
    below = states[states.b <= 0]
    yield _at_most("lem31-sharper", "b ≤ 0: largest part over |c| log²k", below.noise.max(), 0.25)
    yield _none("lem32", "largest -∂L/∂v", -states.noise)
    yield _at_most("lem32", "largest ∂L/∂v over v log²k", states.noise.max(), 1.0)


def _bias(found: Proofs) -> Iterator[Check]:
    few, rows = erring(found.states), found.rows
    missing = 0.15 - found.example("lemB9", "width")[0] * 10_000**0.375
    yield _none("lemB9", "c = 1, b = -1.2, k = 10⁴: 0.15 less k^⅜ E|S|/√Var", missing)
    least = pd.concat([few[few.b < 0], rows]).eval("width * k**0.375").min()
    yield _none("lemB9", "error above 1 %, c + b > 0: the largest", 0.15 - least, printed=False)
    own = rows[rows.k >= 1000]
    yield _none("lemB9-sharper", "0.2 less log k E|S|/√Var: largest", 0.2 - own.width * np.log(own.k))
    for k, by_b in zip(found.example("lem33", "k"), found.example("lem33", "by_b"), strict=True):
        yield _none("lem33", f"k = {k:,}, c = 1, b = -0.5: -∇_b", -by_b)
    for c, k in (("1", 10**4), ("0.3", 10**5), ("0.03", 10**8)):
        text = f"error 1 %, c = {c}, k ≥ {k:,}: largest -∇_b"
        yield _none("lem33", text, -rows[rows.k >= k][f"by_b_{c}"], printed=False)
    gradients = [
        proofs.small_signal_gradient(x, 10 * x * np.exp(-x / 2)) for x in np.linspace(log(1e5), 60, 40)
    ]
    yield _none("lem33-sharper", "c = 10σ: largest -∇_b, k from 10⁵ to e⁶⁰", -np.array(gradients))
    text = "k = 1,000, c = 1: error at which ∇_b changes its sign"
    yield Check("lem33", text, proofs.error_where_bias_turns(1000), 0.1468, 1e-3, printed=False)


DECADES = 100.0
"""An asymptotic statement passes where it begins below k = 10¹⁰⁰."""


def _begins(found: Proofs) -> Iterator[Check]:
    """Check that asymptotic statements begin somewhere; a proof may begin later than its statement."""
    for row in found.turns.itertuples():
        if row.of in ("lemB4", "thm31", "thmB1", "linear") or (row.of == "lem33" and row.exact):
            text = f"log₁₀ k from which {row.step}"
            yield _at_most(row.of, text, row.decades, DECADES, printed=row.of != "lem33")


def _small_balls(found: Proofs) -> Iterator[Check]:
    for n in (3, 15):
        over = proofs.largest_mass(np.ones(n), 1.0) / proofs.leading_bound(n, 1)
        yield _at_most("lemB10", f"s = Δ = 1, n = {n}, a_i = 1: probability over s√(2/πn)", over, 1.05)
    over = max(
        proofs.largest_mass(weights, half) / proofs.leading_bound(n, floor(half) + 1)
        for n in range(1, 13)
        for half in (0.0, 0.5, 1.0, 1.7, 2.0)
        for weights in (np.ones(n), 1 + np.arange(n) % 3 / 2)
    )
    yield _at_most("lemB10", "s - 1 ≤ Δ < s: largest, n ≤ 12", over, 1.0, printed=False)
    exact = max(
        proofs.erdos_bound(n, s) / proofs.leading_bound(n, s)
        for n in (1, 2, 3, 10, 101, 1000)
        for s in (1, 2, 5)
    )
    yield _at_most("lemB10", "Erdős' exact maximum over it, n ≤ 1,000", exact, 1.0, printed=False)
    cases = [(x, y, r) for x in (0.1, 1, 2) for y in (0.2, 1.5, 3) for r in (-0.95, 0, 0.3, 0.99)]
    excess = [4 * ndtr(-x) * ndtr(-y) - proofs.joint_slabs(x, y, r) for x, y, r in cases]
    yield _none("lemB11", "largest P[A] P[E] - P[A ∧ E]", excess)
    for m, own in found.several.groupby("filters"):
        text = f"m = {m}, k = {tangent.PATCHES.noise:,}, {len(own)} starts, gates and W: largest q/2 over P"
        yield _at_most("lemB12", text, (own.same / 2 / own.heard).max(), 1.0)


FEW = 4
"""Filters that count as O(1) at k = 1,000."""


def _kernel(found: Proofs) -> Iterator[Check]:
    kernels, log_k = found.tangent, log(tangent.PATCHES.noise)
    text = f"k = {tangent.PATCHES.noise:,}: share of starts above 0.1, in closed form"
    yield Check("thmB1", text, 1 - tangent.one_filter_share(log_k, finite=True), 1.0, 0.01)
    for kind in (tangent.AT_SIGNAL, tangent.SOME_CLOSED):
        few = kernels[(kernels.kind == kind) & (kernels.filters <= FEW)]
        for m, errors in few.groupby("filters").error:
            text = f"m = {m}, {kind}: share of starts above 0.1"
            yield Check("thm32", text, (errors > 0.1).mean(), 1.0, 0.05)
    both = kernels.pivot(index=["filters", "start"], columns="kind", values="error")
    gaps = (both[tangent.HELD_OUT] - both[tangent.AT_SIGNAL]).groupby("filters").mean()  # of starts with both
    for m, gap in gaps.items():
        yield Check("kernel-moments", f"m = {m}: held-out error less that by moments", gap, 0.0, 0.02)
    gap = (kernels[kernels.kind == tangent.OPEN].error - tangent.linear_error(tangent.PATCHES)).abs().max()
    yield _at_most("kernel-linear", "b = 0: largest distance from the linear error", gap, 1e-6)
    most = kernels.filters.max()
    wide = kernels[kernels.filters == most].groupby("kind").error.mean()
    text = f"m = {most}: mean error with some above, over that at the signal"
    yield _at_most("kernel-closed", text, wide[tangent.SOME_CLOSED] / wide[tangent.AT_SIGNAL], 0.9)
