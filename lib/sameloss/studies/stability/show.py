"""Tables, figures and sentences on stability."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from sameloss.statistics.intervals import seed_interval
from sameloss.studies.drawing import MARKERS
from sameloss.studies.stability.claims import BETA, GAP, POINTS, Stability
from sameloss.studies.stability.experiment import Kind

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

Variants = Mapping[str, tuple[Any, ...]]
"""Variants of β by name: the arguments of `Stability.slower`."""

LOSSES = {
    "cross-entropy": (BETA, GAP),
    "without z": ("others cross-entropy", GAP),
    "clipped": ("beta clipped", "gap clipped"),
    "Brier": ("beta Brier", "gap Brier"),
    "total variation": ("beta total variation", "gap Brier"),
}
"""Variants of β, and the gap that each is compared with."""

STOPS = {
    "half of the steps": (BETA, GAP, 0),
    "all": (BETA, GAP, 1),
    "half as many again": (BETA, GAP, 2),
}
"""The cross-entropy at the three stops."""

# Tables.


def exponent_table(results: Stability) -> pd.DataFrame:
    """Exponent of every measure and kind, as means over seeds with 95 % intervals."""
    rows = {
        name: {kind.name: f"{seed_interval(results.exponents(kind, measure)):.2f}" for kind in results.kinds}
        for name, measure in MEASURES.items()
    }
    return pd.DataFrame(rows).T.rename_axis("exponent of").reset_index()


def by_seed(results: Stability) -> pd.DataFrame:
    """Largest values over each seed's pairs, by model and size."""
    pairs = pd.concat(map(results.at, results.kinds))
    return pairs.groupby(["kind", "size", "seed"], sort=False)[[*MEASURES.values()]].max().reset_index()


def level_table(results: Stability) -> pd.DataFrame:
    """Errors and main measures at the smallest and the largest size, means over seeds and pairs."""
    columns = {"error": "test error", "trained error": "own error", GAP: "gap", BETA: "β"}
    pairs = pd.concat(map(results.at, results.kinds))
    pairs = pairs[pairs["size"].isin([results.sizes[0], results.sizes[-1]])]
    means = pairs.groupby(["kind", "size"], sort=False)[[*columns, "distance"]].mean()
    return means.rename(columns=columns).rename_axis(["model", "m"]).reset_index()


# Sentences. "Clearly" is where an interval excludes zero.


def networks(results: Stability) -> list[Kind]:
    """Kinds of training that are not convex; all kinds if every one is convex."""
    return [kind for kind in results.kinds if not kind.network.convex] or list(results.kinds)


def noun(results: Stability) -> str:
    """Noun for `networks` in sentences."""
    return "convex models" if networks(results)[0].network.convex else "networks"


def summary_finding(results: Stability) -> str:
    """In how many kinds of training the three main measures fall."""
    gap, beta, distance = (
        sum(seed_interval(results.exponents(kind, MEASURES[name])).high < 0 for kind in results.kinds)
        for name in MAIN
    )
    return (
        f"With more data the gap clearly falls in {gap} of {len(results.kinds)} kinds of training, β in "
        f"{beta}, and the distance between twins in {distance}."
    )


def decay_finding(results: Stability) -> str:
    """How much of the gap and of β networks keep from the smallest sample to the largest."""

    def kept(measure: str) -> str:
        means = np.array([results.values(kind, measure).mean(0) for kind in networks(results)])
        shares = 100 * means[:, -1] / means[:, 0]
        return f"{shares.min():.0f} to {shares.max():.0f} %"

    first, *_, last = results.sizes
    gap, beta = kept(GAP), kept(BETA)
    return f"At m = {last}, {noun(results)} have {gap} of their gap at m = {first}, and {beta} of their β."


def differences_finding(results: Stability, variants: Variants) -> str:
    """In how many variants, and where in all of them, β falls more slowly than the gap in networks."""
    clear = {
        kind.name: [seed_interval(results.slower(kind, *of)).low > 0 for of in variants.values()]
        for kind in networks(results)
    }
    always = " and ".join(name.replace(", ", " with ") for name, of_kind in clear.items() if all(of_kind))
    count = sum(map(sum, clear.values()))
    return (
        f"For {noun(results)}, β falls clearly more slowly than the gap in {count} of "
        f"{len(clear) * len(variants)} comparisons{f', and in every one for {always}' if always else ''}."
    )


def paths_finding(results: Stability) -> str:
    """The largest fall of accuracy on a line between networks of the largest size."""
    names = [kind.name for kind in networks(results)]
    falls = results.falls[(results.falls["size"] == results.sizes[-1]) & results.falls.kind.isin(names)]
    return (
        f"Between {noun(results)} trained on {results.sizes[-1]} images, accuracy falls by at most "
        f"{falls.barrier.max():.1f} points; {POINTS:g} would count as a barrier."
    )


def slower_in_words(results: Stability) -> str:
    """How much less steeply β falls than the gap, by kind of training."""
    slower = {kind.name: seed_interval(results.slower(kind, BETA)) for kind in results.kinds}
    return "; ".join(f"{name} {interval:+.2f}" for name, interval in slower.items())


# Figures.


def decay(results: Stability, name: str, ax: Axes) -> Axes:
    """Draw a measure's mean by sample size, relative to that at the smallest size, one line per kind."""
    sizes = np.array(results.sizes)
    for at, kind in enumerate(results.kinds):
        values = results.values(kind, MEASURES[name]).mean(0)
        ax.plot(sizes, values / values[0], MARKERS[at], color=f"C{at}", ls="-", ms=4, label=kind.name)
    ax.plot(sizes, sizes[0] / sizes, color="0.5", ls="--", lw=1, label="1/m")
    ax.set(xscale="log", yscale="log", title=name)
    ax.set(xlabel="examples, m", ylabel=f"relative to m = {sizes[0]}")
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
        exponents = [seed_interval(results.exponents(kind, measure)) for kind in results.kinds]
        colours[column] = [np.nan_to_num(value).clip(-1, 1) for value, _, _ in exponents]
        texts[column] = [f"{value:.2f}" + "?" * (low <= 0 <= high) for value, low, high in exponents]
    worst = [results.worst_barrier(kind).max() for kind in results.kinds]
    colours["path\n(points lost)"] = [-0.4 if lost <= POINTS else 0.7 for lost in worst]
    texts["path\n(points lost)"] = [f"{lost:.1f}" for lost in worst]
    pale = {"cmap": "RdBu_r", "vmin": -1.4, "vmax": 1.4, "alpha": 0.55, "linewidths": 3, "cbar": False}
    sns.heatmap(colours, annot=texts, fmt="", annot_kws={"color": "black", "size": "small"}, ax=ax, **pale)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    return ax


def differences(results: Stability, variants: Variants, ax: Axes) -> Axes:
    """Draw how much less steeply each variant of β falls than its gap."""
    rows = -np.arange(len(results.kinds))
    for at, (name, of) in enumerate(variants.items()):
        value, low, high = np.transpose([seed_interval(results.slower(kind, *of)) for kind in results.kinds])
        y = rows + 0.15 * ((len(variants) - 1) / 2 - at)
        ax.hlines(y, low, high, color=f"C{at}", lw=1.5)
        ax.plot(value, y, MARKERS[at], color=f"C{at}", ms=5, label=name)
    ax.axvline(0, color="0.5", lw=1)
    ax.set_yticks(rows, [kind.name for kind in results.kinds])
    ax.set(xlabel="exponent of β minus that of the gap")
    return ax


def paths(table: pd.DataFrame, kinds: Sequence[Kind], seen: str, ax: Axes) -> Axes:
    """Draw the accuracy along lines through twins of the largest size: mean and range over all pairs."""
    table = table[table.alpha.between(-0.5, 1.5)]  # further out it falls by much more
    for at, kind in enumerate(kinds):
        of_kind = table[(table.kind == kind.name) & (table["size"] == table["size"].max())]
        lines = 100 * of_kind.pivot_table(index="alpha", columns=["seed", "pair"], values=seen)
        ax.fill_between(lines.index, lines.min(axis=1), lines.max(axis=1), color=f"C{at}", lw=0, alpha=0.2)
        ax.plot(lines.index, lines.mean(axis=1), color=f"C{at}", lw=2, label=kind.name)
    for end in (0, 1):
        ax.axvline(end, color="0.5", lw=1, ls=":")
    ax.set(xlabel="α: 0 at S', 1 at S", ylabel=f"accuracy on {seen} images (%)")
    return ax
