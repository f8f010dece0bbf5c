"""Tables, figures and sentences on stability."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from sameloss.statistics.intervals import Interval
from sameloss.studies.drawing import MARKERS, Style
from sameloss.studies.stability.claims import BETA, GAP, POINTS, Stability, over_seeds
from sameloss.studies.stability.experiment import Kind
from sameloss.studies.stability.theory import fitted

MEASURES = {
    "gap": GAP,
    "0-1 gap": "gap 0-1",
    "β": BETA,
    "β without z": "others cross-entropy",
    "β, clipped": "beta clipped",
    "β, Brier": "beta Brier",
    "total variation": "beta total variation",
    "distance": "distance",
    "norm": "norm",
    "distance over norm": "normalised",
}
"""Measures by their names in tables and figures."""

MAIN = ("gap", "β", "distance")
"""Measures of Figures 2.1 to 2.3."""

# Tables.


def written(interval: Interval) -> str:
    """Format an exponent with its interval.

    >>> written(Interval(-1.0, -1.25, -0.755)), written(Interval(float("nan"), 0, 0))
    ('-1.00 (-1.25 to -0.76)', '–')
    """
    value, low, high = interval
    return "–" if np.isnan(value) else f"{value:.2f} ({low:.2f} to {high:.2f})"


def exponent_table(results: Stability) -> pd.DataFrame:
    """Exponent of every measure and kind, as means over seeds with 95 % intervals."""
    rows = {
        name: {kind.name: written(over_seeds(results.exponents(kind, measure))) for kind in results.kinds}
        for name, measure in MEASURES.items()
    }
    return pd.DataFrame(rows).T.rename_axis("exponent of").reset_index()


def other_exponents(results: Stability) -> pd.DataFrame:
    """Exponents of the mean over a seed's pairs, and the thesis' fit to the largest of all pairs."""
    rows = []
    for kind, name in product(results.kinds, MAIN):
        of_mean = written(over_seeds(results.exponents(kind, MEASURES[name], "mean")))
        a, b = fitted(results.sizes, results.values(kind, MEASURES[name]).max(0))
        rows.append((kind.name, name, of_mean, f"{a:.3g} m^{b:.2f}"))
    return pd.DataFrame(rows, columns=["model", "of", "exponent of the mean of pairs", "thesis' fit"])


def by_seed(results: Stability) -> pd.DataFrame:
    """Largest values over each seed's pairs, by model and size."""
    pairs = pd.concat(map(results.at, results.kinds))
    return pairs.groupby(["kind", "size", "seed"], sort=False)[[*MEASURES.values()]].max().reset_index()


def level_table(results: Stability) -> pd.DataFrame:
    """Errors (%) and measures at the smallest and the largest size, means over seeds and pairs."""
    pairs = pd.concat(map(results.at, results.kinds))
    pairs = pairs[pairs["size"].isin([results.sizes[0], results.sizes[-1]])]
    columns = {
        "model": pairs.kind,
        "m": pairs["size"],
        "test error (%)": 100 * pairs.error,
        "own error (%)": 100 * pairs["trained error"],
        "gap": pairs[GAP],
        "β": pairs[BETA],
        "z is worst (%)": 100.0 * (pairs["others cross-entropy"] < pairs[BETA]),
        "distance": pairs.distance,
    }
    by_size = pd.DataFrame(columns).groupby(["model", "m"], sort=False)
    return by_size.mean().assign(**{"largest β": by_size["β"].max()}).reset_index()


def in_words(swaps: pd.DataFrame, judged: pd.DataFrame) -> str:
    """Summary of the chapter in a few sentences, contradicted claims first."""
    against = "; ".join(judged[judged.verdict == "contradicted"].claim)
    first = f"Contradicted: {against}." if against else "No claim is contradicted here."
    counts = ", ".join(f"{verdict} ({count})" for verdict, count in judged.verdict.value_counts().items())
    drawn = swaps[(swaps["loss"] == "cross-entropy") & (swaps.drawn == swaps.drawn.median())]
    ratios = " and ".join(f"{100 * ratio:.0f} %" for ratio in drawn["median"] / drawn.exact)
    last = f"{drawn.drawn.iloc[0]:.0f} random swaps see {ratios} of the largest change that a swap can make."
    return f"{first} The claims, by verdict: {counts}. {last}"


# Figures.


def decay(results: Stability, kind: Kind, ax: Axes) -> Axes:
    """Draw gap, β and distance against the sample size, each over its mean at the smallest size."""
    sizes = np.array(results.sizes)
    for at, name in enumerate(MAIN):
        values = results.values(kind, MEASURES[name])
        values = values / values[:, 0].mean()
        style: Style = {"marker": MARKERS[at], "color": f"C{at}"}
        ax.plot(sizes, values.T, ls="none", ms=3, alpha=0.4, **style)
        ax.plot(sizes, values.mean(0), ms=5, label=name, **style)
    ax.plot(sizes, sizes[0] / sizes, color="0.5", ls="--", lw=1, label="1/m")
    ax.set(xscale="log", yscale="log", title=kind.name)
    ax.set(xlabel="examples, m", ylabel="over its mean at the least m")
    ax.set_xticks(sizes, [f"{size:g}" for size in sizes])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter("{x:g}")
    return ax


SUMMARY = {
    "generalisation\n(gap)": GAP,
    "loss at an image\n(β)": BETA,
    "predictions\n(total variation)": "beta total variation",
    "parameters\n(distance)": "distance",
}
"""Measures by column of the summary."""


def summary(results: Stability, ax: Axes) -> Axes:
    """Draw exponents as a heat map, blue where a measure falls with m and red where it does not.

    A question mark is where the interval contains zero.
    """
    kinds = [kind.name for kind in results.kinds]
    colours, texts = pd.DataFrame(index=kinds), pd.DataFrame(index=kinds)
    for column, measure in SUMMARY.items():
        exponents = [over_seeds(results.exponents(kind, measure)) for kind in results.kinds]
        colours[column] = [np.nan_to_num(value).clip(-1, 1) for value, _, _ in exponents]
        texts[column] = [
            "–" if np.isnan(value) else f"{value:.2f}" + "?" * (low <= 0 <= high)
            for value, low, high in exponents
        ]
    worst = [results.worst_barrier(kind).max() for kind in results.kinds]
    colours["path\n(points lost)"] = [-0.4 if lost <= POINTS else 0.7 for lost in worst]
    texts["path\n(points lost)"] = [f"{lost:.1f}" for lost in worst]
    pale = {"cmap": "RdBu_r", "vmin": -1.4, "vmax": 1.4, "alpha": 0.55, "linewidths": 3, "cbar": False}
    sns.heatmap(colours, annot=texts, fmt="", annot_kws={"color": "black", "size": "small"}, ax=ax, **pale)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    return ax


LOSS_PAIRS = {
    "cross-entropy": (BETA, GAP),
    "without z": ("others cross-entropy", GAP),
    "clipped": ("beta clipped", "gap clipped"),
    "Brier": ("beta Brier", "gap Brier"),
    "total variation": ("beta total variation", "gap Brier"),
}
"""Variants of β, and the gap that each is compared with."""


def losses(results: Stability, ax: Axes) -> Axes:
    """Draw how much less steeply each variant of β falls than its gap."""
    rows = -np.arange(len(results.kinds))
    for at, (name, pair) in enumerate(LOSS_PAIRS.items()):
        value, low, high = np.transpose([over_seeds(results.slower(kind, *pair)) for kind in results.kinds])
        y = rows + 0.3 - 0.15 * at
        ax.hlines(y, low, high, color=f"C{at}", lw=1.5)
        ax.plot(value, y, MARKERS[at], color=f"C{at}", ms=5, label=name)
    ax.axvline(0, color="0.5", lw=1)
    ax.set_yticks(rows, [kind.name for kind in results.kinds])
    ax.set(xlabel="exponent of β above that of the gap")
    return ax


def stops(results: Stability, ax: Axes) -> Axes:
    """Draw how much less steeply β of the cross-entropy falls than the gap, at the three stops."""
    for at, kind in enumerate(results.kinds):
        slower = [over_seeds(results.slower(kind, BETA, stop=stop)) for stop in range(3)]
        value, low, high = np.transpose(slower)
        steps = np.array(kind.stops) / kind.descent.steps * (1 + 0.02 * (at - len(results.kinds) / 2))
        ax.vlines(steps, low, high, color=f"C{at}", lw=1)
        ax.plot(steps, value, marker=MARKERS[at], color=f"C{at}", label=kind.name)
    ax.axhline(0, color="0.5", lw=1)
    ax.set(xlabel="steps over those of the page", ylabel="β's exponent above the gap's")
    ax.set_xticks([0.5, 1, 1.5])
    return ax


def paths(table: pd.DataFrame, kinds: Sequence[Kind], seen: str, ax: Axes) -> Axes:
    """Draw the accuracy on lines between twins of the largest size: mean and range over all pairs."""
    for at, kind in enumerate(kinds):
        of_kind = table[(table.kind == kind.name) & (table["size"] == table["size"].max())]
        lines = 100 * of_kind.pivot_table(index="alpha", columns=["seed", "pair"], values=seen)
        ax.fill_between(lines.index, lines.min(axis=1), lines.max(axis=1), color=f"C{at}", lw=0, alpha=0.2)
        ax.plot(lines.index, lines.mean(axis=1), color=f"C{at}", lw=2, label=kind.name)
    for end in (0, 1):
        ax.axvline(end, color="0.5", lw=1, ls=":")
    ax.set(xlabel="α: S' at 0, S at 1", ylabel=f"accuracy on {seen} images (%)")
    return ax


def sampled_suprema(swaps: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the largest change by some random swaps over that by all: median and 95 % of draws."""
    for at, (size, rows) in enumerate(swaps[swaps["loss"] == "cross-entropy"].groupby("size")):
        low, median, high = (100 * rows[quantile] / rows.exact for quantile in ("low", "median", "high"))
        ax.vlines(rows.drawn * 1.03**at, low, high, color=f"C{at}", lw=2, alpha=0.5)
        ax.plot(rows.drawn * 1.03**at, median, marker=MARKERS[at], color=f"C{at}", label=f"m = {size}")
    ax.axhline(100, color="0.5", lw=1, ls="--")
    ax.set(xscale="log", xlabel="random swaps drawn", ylabel="of the largest of all swaps (%)", ylim=(0, 105))
    ax.set_xticks(counts := sorted(set(swaps.drawn)), [f"{count:g}" for count in counts])
    ax.minorticks_off()
    return ax


def ridge_bounds(ridge: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the largest change of the squared loss by any swap against its bound."""
    for at, (name, rows) in enumerate(ridge.groupby("kernel")):
        ax.plot(rows.bound, rows.change, ls="none", marker=MARKERS[at], ms=5, label=f"{name} kernel")
    ends = np.array([ridge.change.min(), ridge.bound.max()])
    ax.plot(ends, ends, color="0.5", lw=1, ls="--", label="equal")
    ax.set(xscale="log", yscale="log", xlabel="bound", ylabel="largest change by a swap")
    return ax
