"""Figures and tables of the pages on training and on the proofs."""

from collections.abc import Sequence
from math import log

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from scipy.stats import norm

from sameloss.seeds import stream_seed
from sameloss.statistics.intervals import seed_interval
from sameloss.studies.drawing import MARKERS, Style, plain_log_axis
from sameloss.studies.local_signal import proofs, tangent, theory
from sameloss.studies.local_signal.experiment import FIGURE_STEPS
from sameloss.studies.local_signal.statements import (
    FEW,
    PROOFS,
    ProofResults,
    TrainingResults,
    curve,
    steps_to,
)
from sameloss.studies.local_signal.theory import Filter, Patches
from sameloss.studies.statement import Judgement

# Training

LEVEL = 0.99
"""Accuracy of Theorem 3.1."""


def image_rows() -> tuple[np.ndarray, int]:
    """Entries along w* of the rows of one image with k = 1,000, and which row is the signal."""
    random = np.random.default_rng(stream_seed("one image", 0))
    x, y = Patches(1000).draw(np.array([1.0]), 1, random)
    rows = x[0, :, 0]
    return rows, int(np.argmax(rows == y[0]))


def image_finding(b: float) -> str:
    """How many rows of noise of this image a threshold removes, and what it leaves of the signal."""
    rows, signal = image_rows()
    output = theory.soft_threshold(rows, b)
    zero = (np.delete(output, signal) == 0).sum()
    return (
        f"A threshold of {-b:g} sets {zero} of {len(rows) - 1:,} rows of noise to zero, and leaves "
        f"{100 * output[signal] / rows[signal]:.0f} % of the signal."
    )


def one_image(b: float, ax: Axes) -> None:
    """Draw the output of a filter along w* on each row of one image."""
    rows, signal = image_rows()
    output = theory.soft_threshold(rows, b)
    spikes = np.stack([np.zeros_like(output), output, np.full_like(output, np.nan)], 1)
    ax.plot(np.repeat(np.arange(len(rows)), 3), spikes.ravel(), color="0.6", lw=0.8)  # a single path
    ax.plot([signal, signal], [0, output[signal]], color="C3", lw=3)
    ax.plot(signal, output[signal], MARKERS[0], color="C3", label=f"signal, label {rows[signal]:+.0f}")
    ax.axhline(0, color="0.3", lw=0.8)
    ax.set(xlabel="row", ylabel="answer to the row", title=f"b = {b:g}: the sum is {output.sum():+.2f}")


def thresholds(rows_of_noise: tuple[int, ...], ax: Axes) -> None:
    """Draw accuracy against the threshold of a filter along w*, and mark the best threshold."""
    ratios = np.linspace(0, 0.995, 80)
    for at, k in enumerate(rows_of_noise):
        right = [theory.accuracy(Patches(k), Filter(1.0, 0.0, -ratio)) for ratio in ratios]
        best = int(np.argmax(right))
        ax.plot(ratios, right, color=f"C{at}", label=f"k = {k:,}")
        ax.plot(ratios[best], right[best], MARKERS[at], color=f"C{at}")
    ax.set(xlabel="threshold |b|/c", ylabel="accuracy")


def training(found: TrainingResults, axes: list[Axes]) -> None:
    """Draw c and b, |b|/c, and accuracy of the exact flow (thick) and every seed (thin) (Figure 3.3)."""
    seeds = found.sgd.pivot(index="step", columns="seed")
    flow = found.flow[found.flow.step <= max(FIGURE_STEPS, seeds.index.max())]
    left, middle, right = axes
    curves = [
        (left, "w along w*", flow.c, seeds["c"]),
        (left, "bias b", flow.b, seeds["b"]),
        (middle, "|b|/c", flow.b.abs() / flow.c, seeds["b"].abs() / seeds["c"].abs()),
        (right, "accuracy", flow.accuracy, seeds["accuracy"]),
    ]
    for at, (ax, name, exact, sampled) in enumerate(curves):
        ax.plot(sampled.index, sampled, color=f"C{at}", lw=0.7, alpha=0.5)
        ax.plot(flow.step, exact, color=f"C{at}", lw=2, label=name)
        ax.set(xlabel="step", ylabel=name)
    left.set(ylabel="value")
    left.legend()
    middle.set_ylim(0, None)
    right.set_ylim(0.5, 1.0)


def how_large(found: TrainingResults, ax: Axes) -> None:
    """Draw accuracies of the best filter and the linear model against k."""
    best = found.best[found.best.multiplier == 1]
    for at, (column, name) in enumerate({"network": "best filter", "linear": "linear model"}.items()):
        ax.plot(best.noise, best[column], marker=MARKERS[at], color=f"C{at}", label=name)
    ax.axhline(0.99, color="0.4", ls="--", lw=1, label="99 %")
    ax.set(xscale="log", xlabel="rows of noise, k", ylabel="accuracy")
    plain_log_axis(ax.xaxis, best.noise)
    ax.legend(fontsize="small")


def how_long(found: TrainingResults, ax: Axes) -> None:
    """Draw accuracy along the exact flow against steps, one line per k."""
    flows = found.phase[(found.phase.multiplier == 1) & (found.phase.step > 0)]
    colors = sns.color_palette("viridis", flows.noise.nunique())
    for color, (k, flow) in zip(colors, flows.groupby("noise"), strict=True):
        ax.plot(flow.step, flow.accuracy, color=color, label=f"{k:,}")
    ax.axhline(0.99, color="0.4", ls="--", lw=1)
    ax.axvline(FIGURE_STEPS, color="0.4", ls=":", lw=1)
    ax.set(xscale="log", xlabel="step", ylabel="accuracy")
    ax.legend(title="k", fontsize="x-small", title_fontsize="small")


def steps_table(found: TrainingResults) -> pd.DataFrame:
    """Number of steps of the flow until each accuracy, by k, for the thesis' σ."""
    rows = []
    for k, flow in found.phase[found.phase.multiplier == 1].groupby("noise"):
        steps = {f"{level:.0%}": steps_to(flow, level) for level in (0.7, 0.8, 0.9, 0.95, 0.99)}
        words = {name: "–" if np.isnan(count) else f"{count:,.0f}" for name, count in steps.items()}
        rows.append({"k": k, **words, "at the end": flow.accuracy.iloc[-1]})
    return pd.DataFrame(rows)


def reached_at(flows: pd.DataFrame, step: float) -> pd.DataFrame:
    """Accuracy of every flow after some steps: multipliers of σ in rows, k in columns."""
    by_setting = flows.groupby(["multiplier", "noise"])[["step", "accuracy"]]
    return by_setting.apply(lambda flow: float(curve(flow, "accuracy")(np.log(step)))).unstack()


def phase(table: pd.DataFrame, title: str, ax: Axes) -> None:
    """Draw accuracies as a heat map, from a table with multipliers of σ in rows and k in columns."""
    percent = 100 * table.sort_index(ascending=False)
    style: Style = {"cmap": "viridis", "cbar": False, "annot_kws": {"size": 8}}
    sns.heatmap(percent, annot=True, fmt=".0f", vmin=50, vmax=100, ax=ax, **style)
    ax.set(title=title, xlabel="rows of noise, k", ylabel="σ over log k/√k")
    ax.set_xticklabels([f"{k:g}" for k in percent.columns], rotation=45)
    ax.set_yticklabels([f"{m:g}" for m in percent.index], rotation=0)


def feature_table() -> pd.DataFrame:
    """Accuracies of one filter and of one per feature, by k and number of features up to 1/σ²."""
    rows = [
        (patches.noise, r, theory.one_filter(patches, r), theory.filter_each(patches, r))
        for patches in map(Patches, (1000, 10_000, 10**6))
        for r in (1, 2, 10, patches.dimension)
    ]
    return pd.DataFrame(rows, columns=["k", "features", "one filter", "a filter each"])


def dead_table(found: TrainingResults) -> pd.DataFrame:
    """Percentage of starts that end in the dead zone, by start and learning rate over |c|/k."""
    table = 100 * found.dead.pivot_table(index="start", columns="multiple", values="dead")
    table = table.rename("{:g}".format).rename("{:g}".format, axis=1)
    return table.rename_axis("c at the start").rename_axis(None, axis=1).reset_index()


def thresholds_finding(few: int, many: int) -> str:
    """What the best threshold gains with few and with many rows of noise."""
    gains = []
    for k in (few, many):
        without, best = 1 - tangent.linear_error(Patches(k)), theory.best_threshold(Patches(k))[1]
        gains.append(f"from {100 * without:.1f} to {100 * best:.1f} % at k = {k:,}")
    return f"The best threshold raises accuracy {' and '.join(gains)}."


def _after(flow: pd.DataFrame, steps: float) -> float:
    """Accuracy of a flow after some steps."""
    return float(curve(flow, "accuracy")(np.log(steps)))


def _rounded(steps: float) -> str:
    """Format a number of steps with two digits.

    >>> _rounded(2_046_269.3)
    '2,000,000'
    """
    return f"{float(f'{steps:.2g}'):,.0f}"


def training_finding(found: TrainingResults) -> str:
    """How c and b move in the steps of Figure 3.3, and the accuracy after them."""
    flow = found.flow[found.flow.step <= FIGURE_STEPS]
    c, b = ("rises" if flow[name].iloc[-1] > flow[name].iloc[0] else "falls" for name in "cb")
    after = 100 * _after(found.flow, FIGURE_STEPS)
    return f"In the exact flow c {c}, b {b}, and accuracy is {after:.1f} % after {FIGURE_STEPS:,} steps."


def descent_in_words(found: TrainingResults) -> str:
    """Accuracies of stochastic descent and of the flow after as many steps, and at the flow's end."""
    last, end = found.sgd[found.sgd.step == found.sgd.step.max()], found.flow.iloc[-1]
    steps = int(last.step.iloc[0])
    return (
        f"After {steps:,} steps, the {len(last)} stochastic descents have a mean accuracy of "
        f"{100 * last.accuracy.mean():.1f} %, the exact flow {100 * _after(found.flow, steps):.1f} %. Figure "
        f"3.3 ends at {FIGURE_STEPS:,} steps; the flow has {100 * end.accuracy:.1f} % after {end.step:,.0f}."
    )


def too_few(found: TrainingResults) -> int:
    """The largest k that was tried with which no filter reaches 99 %."""
    best = found.best[found.best.multiplier == 1]
    return int(best[best.network < LEVEL].noise.max())


def rows_finding(found: TrainingResults) -> str:
    """Up to which k no filter reaches 99 %, and how long training takes at the least k where it does."""
    flows = found.phase[found.phase.multiplier == 1].groupby("noise")
    steps = {k: steps_to(flow, LEVEL) for k, flow in flows}
    needed = [
        f"at k = {k:,} training needs some {_rounded(count)} steps for it"
        for k, count in steps.items()
        if not np.isnan(count)
    ]
    return (
        f"Up to k = {too_few(found):,} no filter reaches {100 * LEVEL:.0f} % accuracy; "
        f"{needed[0] if needed else 'training reaches it nowhere'}."
    )


def best_finding(found: TrainingResults) -> str:
    """In how many settings the best filter reaches 99 %, and the most that the linear model does."""
    reached, linear = (found.best.network >= LEVEL).sum(), found.best.linear.max()
    return (
        f"The best filter reaches {100 * LEVEL:.0f} % accuracy in {reached} of {len(found.best)} settings, "
        f"the linear model never more than {100 * linear:.0f} %."
    )


def phase_finding(found: TrainingResults, looks: Sequence[float]) -> str:
    """In how many settings the flow has reached 90 % at each look."""
    tables = [reached_at(found.phase, steps) for steps in looks]
    (first, *later), settings = [(table >= 0.9).sum().sum() for table in tables], tables[0].size
    parts = [f", in {count} after {steps:,.0f}" for count, steps in zip(later, looks[1:], strict=True)]
    return (
        f"Training reaches 90 % accuracy in {first} of {settings} settings after {looks[0]:,.0f} steps"
        f"{''.join(parts)}."
    )


def phase_in_words(found: TrainingResults) -> str:
    """How far the flow ends below the best filter."""
    ends = found.phase.groupby(["multiplier", "noise"]).accuracy.last()
    best = found.best.set_index(["multiplier", "noise"]).network
    missing = (100 * (best - ends)).dropna().max()
    return f"At its end the flow is at most {missing:.1f} points below the best filter of the same setting."


def kernel_finding(found: TrainingResults) -> str:
    """Up to how many filters every kernel's error is above 0.1, and the error of the best single filter."""
    exact = found.tangent[found.tangent.kind != tangent.HELD_OUT]
    errors = exact.groupby(["filters", "kind"]).error.mean().groupby("filters").min()
    above = errors[errors > ERROR].index.max()
    single = 1 - theory.best_threshold(tangent.PATCHES)[1]
    return (
        f"Up to {above} filters the mean error of every kernel is above {100 * ERROR:.0f} %; the best single "
        f"filter has {100 * single:.1f} %."
    )


def training_in_words(found: TrainingResults) -> str:
    """What the page on training found, what it did not, and how sure it is."""
    config, after = found.config, _after(found.flow, FIGURE_STEPS)
    late = steps_to(found.flow, LEVEL)
    best, linear = theory.best_threshold(config.patches)[1], 1 - tangent.linear_error(config.patches)
    when = "more steps than were followed" if np.isnan(late) else f"some {_rounded(late)} steps"
    means = found.tangent[found.tangent.kind == tangent.AT_SIGNAL].groupby("filters").error.mean()
    filters = means.index[means <= 1 - after].min()  # NaN if there is none
    comparable = config.patches == tangent.PATCHES and filters == filters
    beaten = (
        f"A kernel of {filters:.0f} filters with its best weights is as accurate as the filter after "
        f"{FIGURE_STEPS:,} steps. "
    )
    return (
        f"**Found.** At k = {config.noise:,} one filter with the best threshold has {100 * best:.1f} % "
        f"accuracy, the linear model {100 * linear:.1f} %. The exact flow has {100 * after:.1f} % after "
        f"{FIGURE_STEPS:,} steps; 99 % take {when}.\n\n"
        f"**Not found.** Up to k = {too_few(found):,} no filter reaches 99 %, so the k₀ of Theorem 3.1 is "
        f"larger. {beaten if comparable else ''}Whether gradient descent finds a filter for each of several "
        "features was not computed.\n\n"
        f"**How sure.** Flows and best filters are exact. Only the {config.seeds} stochastic descents of "
        f"{config.steps:,} steps and the tangent kernels, from {config.starts} initialisations, are samples. "
        "All of this is about the thesis' data distribution; [II.3c](ii3_images.ipynb) has images."
    )


# The proofs


def truncated_means(ax: Axes) -> None:
    """Draw (B.1) as printed and as corrected, against b."""
    biases = np.linspace(-2, 2, 81)
    ax.plot(biases, proofs.moments(biases).mean, label="true")
    ax.plot(biases, proofs.moments(-abs(biases)).mean, "--", label="printed, α = |b|/s")
    ax.set(xlabel="b/s", ylabel="E[Z | Z ≥ -b]/s", ylim=(0, None))
    ax.legend()


def noise_parts(found: ProofResults, ax: Axes) -> None:
    """Draw the noise term of the gradient at every state with b ≤ 0, and both of its bounds."""
    below, alphas = found.states[(found.states.b <= 0) & (found.states.alpha < 5)], np.linspace(0, 5, 101)
    ax.plot(alphas, proofs.noise_bound(alphas), "--", color="C1", label="the proof's bound")
    ax.plot(alphas, norm.sf(alphas) / 2, color="C0", label="Φᶜ(α)/2")
    ax.plot(below.alpha, below.noise, ".", color="0.3", label="states, b ≤ 0")
    ax.set(xlabel="α", ylabel="noise's part over |c| log²k")
    ax.legend()


def alphas_along(found: ProofResults, ax: Axes) -> None:
    """Draw α at an error of 1 % against k, the limit of Lemma B.5, and the α at which the signal is lost."""
    rows = found.rows
    ax.plot(rows.k, rows.alpha, marker=MARKERS[0], ms=4, label="error of 1 %")
    ax.plot(rows.k, rows.limit, "--", marker=MARKERS[1], ms=4, label="2√log k")
    ks = np.geomspace(rows.k.min(), rows.k.max(), 200)
    lost = np.sqrt(ks) / np.log(ks)
    ax.plot(ks[lost < 12], lost[lost < 12], color="0.5", label="1/σ: no signal above")
    ax.set(xscale="log", xlabel="rows of noise, k", ylabel="α", ylim=(0, 12))
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
    ax.legend()


def invariant_table(found: ProofResults) -> pd.DataFrame:
    """Quantities of Lemmas B.5, B.6 and B.9 at an error of 1 %, by k."""
    rows = found.rows
    errors = ["no signal" if np.isnan(error) else f"{error:.1e}" for error in rows.error_at_limit]
    ks = rows.k.map("{:,.0f}".format)
    table = {"k": ks, "error at α = 2√log k": errors, "k Var S/(c + b)²": rows.spread}
    widths = {"k^⅜ E|S|/√Var S": rows.width * rows.k**0.375, "log k E|S|/√Var S": rows.width * np.log(rows.k)}
    return pd.DataFrame(table | widths)


MEANINGS = {
    "lemB5": ("alpha", "α, where 2√log k is said to be the most"),
    "lemB7": ("loss", "loss, which is said to bound c"),
    "lemB8": ("within", "P[|S| ≤ c + b + 10], at least 4/5"),
    "lemB9": ("width", "E|S|/√Var S, at least C k^-⅜"),
    "lem31": ("by_c", "∂L/∂c, at most -A"),
    "lem33": ("by_b", "∇_b, at least C"),
    "noise-bound": ("noise", "noise's part over |c| log²k; printed bound 0.185"),
}
"""The column of a counter-example that its lemma is about, and what it is."""


def example_table(found: ProofResults) -> pd.DataFrame:
    """Counter-examples to lemmas as printed, each with the value that its lemma is about."""
    rows = []
    for state in found.examples.to_dict("records"):
        column, meaning = MEANINGS[state["of"]]
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


def small_ball_table() -> pd.DataFrame:
    """Largest mass of Σ ε_i in an interval of length 2, and the bound of Lemma B.10."""
    rows = []
    for n in (1, 2, 3, 5, 9, 12, 15):
        closed, open_ = (proofs.largest_mass(np.ones(n), half) for half in (1.0, 1 - 1e-9))
        rows.append((n, closed, open_, proofs.erdos_bound(n, 1), proofs.leading_bound(n, 1)))
    return pd.DataFrame(rows, columns=["n", "Δ = 1, closed", "Δ just below 1", "Erdős, s = 1", "√(2/πn)"])


def several_table(found: ProofResults) -> pd.DataFrame:
    """Both sides of Lemma B.12 by number of filters: q, P, and P over its bound."""
    several = found.several.assign(over=2 * found.several.heard / found.several.same).groupby("filters")
    columns = {"least q": several.same.min(), "median q": several.same.median()}
    columns |= {"least P": several.heard.min(), "least P/(q/2)": several.over.min()}
    return pd.DataFrame(columns).reset_index(names="m")


def proofs_in_words(found: ProofResults, judged: pd.DataFrame) -> str:
    """What the page on the proofs found, what it did not find, and how sure this is."""
    counts = judged.verdict.value_counts()
    holds, corrected, fails = (
        counts.get(str(kind), 0) for kind in (Judgement.HOLDS, Judgement.CORRECTED, Judgement.FAILS)
    )
    blocked = judged.correction.str.contains("signal passes").sum()
    beyond = f"{fails} fail in every form tried here" if fails else "None is beyond repair"
    return (
        f"Of {len(judged)} statements {holds} hold as printed, and {corrected} hold with one more hypothesis "
        f"or another constant; in {blocked} of these the missing hypothesis is that the signal passes the "
        f"threshold. {beyond}, but the unstated $k_0$ can be large. At $k$ = 1,000, the setting of Figure "
        f"3.3, the bias rises at an error of 1 % and $c = 1$, against Lemma 3.3 (the gradient is "
        f"{found.rows.set_index('k').by_b_1[1000]:.2f}); Theorem B.1 takes $k$ = {_theorem_from(found)}. "
        f"Both sides of the lemmas are computed exactly, on a grid of states: this can refute a lemma but "
        f"cannot prove it. Only Lemma B.12 and the kernels of several filters rest on random draws, "
        f"the kernels on {_starts(found.tangent)} starts each."
    )


def _theorem_from(found: ProofResults) -> str:
    """The k from which Theorem B.1 is true of one filter."""
    turns = found.turns
    return rows_in_words(turns[(turns.of == "thmB1") & turns.exact].decades.iloc[0])


# Tangent kernels

ERROR = 0.1
"""Lower bound of Theorem 3.2 on the error of tangent kernels of few filters."""


def filters_finding(kernels: pd.DataFrame) -> str:
    """The mean error of the best kind of kernel with few and with the most filters."""
    means = kernels[kernels.kind != tangent.HELD_OUT].groupby(["filters", "kind"]).error.mean()
    best = means.groupby("filters").min()
    few, most = best.index[best.index <= FEW].max(), best.index.max()
    return (
        f"With {few} filters the best tangent kernel errs on {100 * best[few]:.0f} % of images on average, "
        f"with {most} filters on {100 * best[most]:.0f} %."
    )


def kernels_in_words(found: ProofResults) -> str:
    """How many filters half of the starts need, how Gaussian sums are, and when one filter fails."""
    by_kind = found.tangent.pivot(index=["filters", "start"], columns="kind", values="error")
    medians = by_kind.groupby("filters").median()
    at_signal, closed = (
        f"more filters than were tried ({medians.index.max()})" if np.isnan(count) else f"{count:.0f} filters"
        for kind in (tangent.AT_SIGNAL, tangent.SOME_CLOSED)
        for count in [medians.index[medians[kind] <= ERROR].min()]
    )
    gaps = (by_kind[tangent.HELD_OUT] - by_kind[tangent.AT_SIGNAL]).groupby("filters").mean().abs()
    return (
        f"Half of the starts reach an error of {ERROR} with {closed} if some thresholds are just above the "
        f"signal, and with {at_signal} if all are at it. These errors take sums over rows as Gaussian; mean "
        f"errors on sampled images differ by at most {100 * gaps.max():.1f} points. With one filter, good "
        f"starts become rarer than the .001 of Theorem B.1 only from $k$ = {_theorem_from(found)} on (right)."
    )


def _starts(kernels: pd.DataFrame) -> int:
    """Number of starts with thresholds at the signal, per number of filters."""
    return int(kernels[kernels.kind == tangent.AT_SIGNAL].start.nunique())


def errors_by_filters(kernels: pd.DataFrame, ax: Axes) -> None:
    """Draw mean errors over starts against m, one line per kind, with the linear error and the bound 0.1."""
    for at, kind in enumerate(tangent.KINDS):
        errors = kernels[kernels.kind == kind].groupby("filters").error
        means = errors.apply(lambda values: seed_interval(values.to_numpy()))
        value, low, high = np.transpose(means.to_list())
        ends, line = np.stack([value - low, high - value]).clip(0), "" if kind == tangent.HELD_OUT else "-"
        ax.errorbar(means.index, value, ends, label=kind, color=f"C{at}", marker=MARKERS[at], ms=4, ls=line)
    ax.axhline(tangent.linear_error(tangent.PATCHES), color="0.5", ls=":", lw=1)
    ax.axhline(ERROR, color="0.5", ls="--", lw=1)
    ax.set(xscale="log", xlabel="filters, m", ylabel="error of the best W", ylim=(0, 0.5))
    plain_log_axis(ax.xaxis, kernels.filters)


def shares_by_rows(ax: Axes) -> None:
    """Draw the probability of a start with an error below 0.1 for one filter against k, with .001."""
    ks = np.geomspace(1e3, 1e13, 60)
    for finite, style, label in ((False, "-", "as d grows"), (True, ":", "d = 1/σ²")):
        shares = [tangent.good_start_probability(log(k), ERROR, finite) for k in ks]
        ax.plot(ks, shares, style, label=label)
    ax.axhline(0.001, color="0.5", ls="--", lw=1)
    ax.set(xscale="log", yscale="log", xlabel="rows of noise, k", ylabel="share of starts with error < 0.1")
    ax.legend()
