"""Figures, tables and sentences of the pages on training and on the proofs."""

from math import log

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from scipy.stats import norm

from sameloss.statistics.intervals import seed_interval
from sameloss.studies.drawing import MARKERS, Style, interval_line, label_ends, plain_log_axis
from sameloss.studies.local_signal import proofs, tangent, theory
from sameloss.studies.local_signal.experiment import FIGURE_STEPS
from sameloss.studies.local_signal.statements import (
    PRINTED,
    PROOFS,
    ProofResults,
    TrainingResults,
    accuracy_after,
    steps_to,
)
from sameloss.studies.local_signal.theory import Filter, Patches
from sameloss.studies.statement import Judgement

# Training

LEVEL = 0.99
"""Accuracy of Theorem 3.1."""


def thresholds_finding(few: int, many: int) -> str:
    """What the best threshold gains with few and with many rows of noise."""
    gains = []
    for k in (few, many):
        without, best = 1 - tangent.linear_error(Patches(k)), theory.best_threshold(Patches(k))[1]
        gains.append(f"from {100 * without:.1f} to {100 * best:.1f} % at k = {k:,}")
    return f"The best threshold raises accuracy {' and '.join(gains)}."


def thresholds(rows_of_noise: tuple[int, ...], ax: Axes) -> None:
    """Draw accuracy against the threshold of a filter along w*, and mark the best threshold."""
    ratios = np.linspace(0, 0.995, 80)
    for at, k in enumerate(rows_of_noise):
        right = [theory.accuracy(Patches(k), Filter(1.0, 0.0, -ratio)) for ratio in ratios]
        best = int(np.argmax(right))
        ax.plot(ratios, right, color=f"C{at}", label=f"k = {k:,}")
        ax.plot(ratios[best], right[best], MARKERS[at], color=f"C{at}")
    ax.set(xlabel="threshold |b|/c", ylabel="accuracy")


def training_finding(found: TrainingResults) -> str:
    """How c and b move in the steps of Figure 3.3, and the accuracy after them."""
    flow = found.flow[found.flow.step <= FIGURE_STEPS]
    c, b = ("rises" if flow[name].iloc[-1] > flow[name].iloc[0] else "falls" for name in "cb")
    after = 100 * accuracy_after(found.flow, FIGURE_STEPS)
    return f"In the exact flow c {c}, b {b}, and accuracy is {after:.1f} % after {FIGURE_STEPS:,} steps."


def training(found: TrainingResults, axes: list[Axes]) -> None:
    """Draw c and b, |b|/c, and accuracy of the exact flow (thick) and every seed (thin) (Figure 3.3)."""
    flow, sgd = (table.assign(**{"|b|/c": (table.b / table.c).abs()}) for table in (found.flow, found.sgd))
    flow = flow[flow.step <= max(FIGURE_STEPS, sgd.step.max())]
    seeds = sgd.pivot(index="step", columns="seed")
    left, middle, right = axes
    for at, (ax, name) in enumerate(zip((left, *axes), ("c", "b", "|b|/c", "accuracy"), strict=True)):
        ax.plot(seeds.index, seeds[name], color=f"C{at}", lw=0.7, alpha=0.5)
        ax.plot(flow.step, flow[name], color=f"C{at}", lw=2, label=name)
        ax.set(xlabel="step", ylabel=name)
    left.set(ylabel="c and b")
    label_ends(left)
    middle.set_ylim(0, None)
    right.set_ylim(0.5, 1.0)


def rows_finding(found: TrainingResults) -> str:
    """Up to which k no filter reaches 99 %, and how long training takes at the least k where it does."""
    flows = found.phase[found.phase.multiplier == 1].groupby("noise")
    steps = pd.Series({k: steps_to(flow, LEVEL) for k, flow in flows}).dropna()
    reached = "nowhere"
    if len(steps):
        reached = f"after some {float(f'{steps.iloc[0]:.2g}'):,.0f} steps at k = {steps.index[0]:,}"
    return f"Below k = {proofs.least_rows()} no filter reaches 99 % accuracy; training does {reached}."


def how_long(found: TrainingResults, ax: Axes) -> None:
    """Draw accuracy along the exact flow against steps, one line per k."""
    flows = found.phase[(found.phase.multiplier == 1) & (found.phase.step > 0)]
    colors = sns.color_palette("viridis", flows.noise.nunique())
    for color, (k, flow) in zip(colors, flows.groupby("noise"), strict=True):
        ax.plot(flow.step, flow.accuracy, color=color, label=f"k = {k:,}")
    ax.axhline(LEVEL, color="0.4", ls="--", lw=1)
    ax.axvline(FIGURE_STEPS, color="0.4", ls=":", lw=1)
    ax.set(xscale="log", xlabel="step", ylabel="accuracy")
    label_ends(ax)


def phases(found: TrainingResults) -> dict[str, pd.DataFrame]:
    """Accuracies by what has them: multipliers of σ in rows, k in columns."""
    flows = found.phase.groupby(["multiplier", "noise"])[["step", "accuracy"]]
    best = {at: theory.best_threshold(Patches(at[1], at[0]))[1] for at in flows.groups}
    tables = {"best filter": pd.Series(best).unstack()}
    for steps in sorted({min(FIGURE_STEPS, found.config.horizon), found.config.horizon}):
        tables[f"after {steps:,.0f} steps"] = flows.apply(accuracy_after, steps).unstack()
    return tables


def phase_finding(tables: dict[str, pd.DataFrame]) -> str:
    """In how many settings accuracy is at least 90 %."""
    counts = ", ".join(f"{(table >= 0.9).sum().sum()} ({name})" for name, table in tables.items())
    return f"Of {tables['best filter'].size} settings, accuracy reaches 90 % in {counts}."


def phase(table: pd.DataFrame, title: str, ax: Axes) -> None:
    """Draw accuracies as a heat map, from a table with multipliers of σ in rows and k in columns."""
    percent = 100 * table.sort_index(ascending=False)
    style: Style = {"cmap": "viridis", "cbar": False, "annot_kws": {"size": "small"}}
    sns.heatmap(percent, annot=True, fmt=".0f", vmin=50, vmax=100, ax=ax, **style)
    ax.set(title=title, xlabel="rows of noise, k", ylabel="σ over log k/√k")
    ax.set_xticklabels([f"{k:g}" for k in percent.columns], rotation=45)
    ax.set_yticklabels([f"{m:g}" for m in percent.index], rotation=0)


def dead_table() -> pd.DataFrame:
    """Percentage of starts at k = 100 that end in the dead zone, by start and learning rate over |c|/k."""
    starts, multiples = (-0.5, -0.1, 0.5), (2.0, 3.0, 5.0, 8.0, 16.0, 32.0)
    shares = {f"{at:g}": [100 * theory.dead_share(c, at) for c in starts] for at in multiples}
    return pd.DataFrame({"c at the start": map("{:g}".format, starts), **shares})


# The proofs


def noise_parts(found: ProofResults, ax: Axes) -> None:
    """Draw the noise term of the gradient at every state with b ≤ 0, and both of its bounds."""
    below, alphas = found.states[(found.states.b <= 0) & (found.states.alpha < 5)], np.linspace(0, 5, 101)
    ax.plot(alphas, proofs.noise_bound(alphas), "--", color="C1", label="the proof's bound")
    ax.plot(alphas, norm.sf(alphas) / 2, color="C0", label="Φᶜ(α)/2")
    ax.plot(below.alpha, below.noise, ".", color="0.3", label="states, b ≤ 0")
    ax.set(xlabel="α", ylabel="noise's part over |c| log²k")
    ax.legend()


def bias_gradients(found: ProofResults, ax: Axes) -> None:
    """Draw ∇_b at an error of 1 % against k; dotted: its approximation for small c."""
    rows = found.rows
    for at, c in enumerate((1.0, 0.3, 0.03)):
        ax.plot(rows.k, rows[f"by_b_{c:g}"], marker=MARKERS[at], ms=4, color=f"C{at}", label=f"c = {c:g}")
        ks = rows.k[rows.k >= 5000]
        ax.plot(ks, [proofs.small_signal_gradient(log(k), c) for k in ks], ":", color=f"C{at}")
    ax.plot(rows.k, rows.by_b_lowest, marker=MARKERS[3], ms=4, color="C3", label="c = 1/log⁴k")
    ax.axhline(0, color="0.5", lw=1)
    ax.set(xscale="log", xlabel="rows of noise, k", ylabel="∇_b at an error of 1 %")
    ax.set_yscale("symlog", linthresh=1)
    label_ends(ax)


def example_table(found: ProofResults) -> pd.DataFrame:
    """Counter-examples to lemmas as printed, each with the value that its lemma is about."""
    rows = []
    for state in found.examples.to_dict("records"):
        column, meaning, _ = PRINTED[state["of"]]
        rows.append((PROOFS[state["of"]].place, state["what"], state["error"], meaning, state[column]))
    return pd.DataFrame(rows, columns=["place", "state", "error", "what", "value"])


def turn_table(found: ProofResults) -> pd.DataFrame:
    """The k from which statements, and steps of their proofs, hold."""
    turns, of = found.turns, {True: "the statement", False: "a step of its proof"}
    places = [PROOFS[name].place for name in turns.of]
    table = {"place": places, "what": turns.step, "of": turns.exact.map(of)}
    return pd.DataFrame(table | {"from k": turns.decades.map(rows_in_words)})


def rows_in_words(decades: float) -> str:
    """Format k, given its decimal logarithm.

    >>> rows_in_words(2.896526), rows_in_words(17.3)
    ('788', '10^17.3')
    """
    return f"{10**decades:,.0f}" if decades < 7 else f"10^{decades:.1f}"


def begins(found: ProofResults, of: str, step: str = "") -> str:
    """The k from which a statement holds, in words; `step` chooses among several."""
    turns = found.turns[(found.turns.of == of) & found.turns.exact]
    return rows_in_words(turns[turns.step.str.contains(step, regex=False)].decades.iloc[0])


def proofs_in_words(judged: pd.DataFrame) -> str:
    """How many statements hold, and in which form."""
    kinds = (Judgement.HOLDS, Judgement.CORRECTED, Judgement.FAILS)
    holds, corrected, fails = ((judged.verdict == str(kind)).sum() for kind in kinds)
    blocked = judged.correction.str.contains("signal passes").sum()
    return (
        f"Of {len(judged)} statements {holds} hold as printed, {corrected} hold with one more hypothesis or "
        f"another constant, and {fails or 'none'} failed in every form tried here; in {blocked} the missing "
        "hypothesis is that the signal passes the threshold."
    )


# Tangent kernels


def kernel_finding(kernels: pd.DataFrame) -> str:
    """Up to how many filters every kernel's error is above 0.1, and the error of the best single filter."""
    exact = kernels[kernels.kind != tangent.HELD_OUT]
    errors = exact.groupby(["filters", "kind"]).error.mean().groupby("filters").min()
    single = 1 - theory.best_threshold(tangent.PATCHES)[1]
    return (
        f"Up to {errors.index[errors > tangent.ERROR].max()} filters the mean error of every kernel is above "
        f"{100 * tangent.ERROR:.0f} %; the best single filter has {100 * single:.1f} %."
    )


def errors_by_filters(kernels: pd.DataFrame, ax: Axes) -> None:
    """Draw mean errors over starts against m, one line per kind, with other models' and the bound 0.1."""
    for at, kind in enumerate(tangent.KINDS):
        errors = kernels[kernels.kind == kind].groupby("filters").error
        means = errors.apply(lambda values: seed_interval(values.to_numpy()))
        line = "" if kind == tangent.HELD_OUT else "-"
        interval_line(ax, means.index, means.to_list(), at, kind, ms=4, ls=line)
    single = 1 - theory.best_threshold(tangent.PATCHES)[1]
    for error, line in ((tangent.linear_error(tangent.PATCHES), ":"), (tangent.ERROR, "--"), (single, "-.")):
        ax.axhline(error, color="0.4", ls=line, lw=1)
    ax.set(xscale="log", xlabel="filters, m", ylabel="error of the best W", ylim=(0, 0.5))
    plain_log_axis(ax.xaxis, kernels.filters)


def shares_finding(found: ProofResults) -> str:
    """How many starts of one filter are good, and from which k they are as rare as Theorem B.1 says."""
    good = tangent.good_start_probability(log(1000))
    return (
        f"One filter's kernel has an error below {tangent.ERROR:g} in {100 * good:.1f} % of starts at "
        f"k = 1,000, and in the theorem's 0.1 % only at k = {begins(found, 'thmB1')}."
    )


def shares_by_rows(ax: Axes) -> None:
    """Draw the probability of a start with an error below 0.1 for one filter against k, with .001."""
    ks = np.geomspace(1e3, 1e13, 60)
    for finite, style, label in ((False, "-", "as d grows"), (True, ":", "d = 1/σ²")):
        shares = [tangent.good_start_probability(log(k), tangent.ERROR, finite) for k in ks]
        ax.plot(ks, shares, style, label=label)
    ax.axhline(0.001, color="0.5", ls="--", lw=1)
    ax.set(xscale="log", yscale="log", xlabel="rows of noise, k", ylabel="share of starts with error < 0.1")
    ax.legend()
