"""Tables, figures and sentences on stability."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from sameloss.statistics.intervals import Interval
from sameloss.studies.drawing import MARKERS, Style
from sameloss.studies.stability.claims import BETA, GAP, POINTS, TOPICS, Stability, over_seeds
from sameloss.studies.stability.experiment import CNN, LR, MLP, Kind
from sameloss.studies.stability.theory import fitted
from sameloss.studies.verdict import Verdict, verdict_table

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


# Sentences: what figures show, and what the page found. "Clearly" is where an interval excludes zero.


def spoken(kind: Kind) -> str:
    """Name of a kind of training inside a sentence."""
    return ("the " if kind.name.startswith((MLP, CNN)) else "") + kind.name.replace(", ", " with ")


def listed(names: Sequence[str], none: str = "no kind of training") -> str:
    """Join names.

    >>> listed(["a", "b", "c"]), listed(["a"]), listed([])
    ('a, b and c', 'a', 'no kind of training')
    """
    *first, last = names or [none]
    return f"{', '.join(first)} and {last}" if first else last


def networks(results: Stability) -> list[Kind]:
    """The kinds of training that are not convex; all if there are no others."""
    return [kind for kind in results.kinds if not kind.network.convex] or list(results.kinds)


def noun(results: Stability) -> str:
    """What `networks` are."""
    return "convex models" if networks(results)[0].network.convex else "networks"


def falls_clearly(results: Stability, kind: Kind, *measures: str) -> bool:
    """Whether each of some measures falls with the sample size, by intervals over seeds."""
    return all(over_seeds(results.exponents(kind, measure)).high < 0 for measure in measures)


def summary_finding(results: Stability) -> str:
    """In how many kinds of training the three main measures fall."""
    gap, beta, distance = (
        sum(falls_clearly(results, kind, MEASURES[name]) for kind in results.kinds) for name in MAIN
    )
    return (
        f"With more data the gap clearly falls in {gap} of {len(results.kinds)} kinds of training, β in "
        f"{beta}, and the distance between twins in {distance}."
    )


def stable_in_words(results: Stability) -> str:
    """Where all measures of the summary fall, and where the distance grows."""
    stable = [spoken(kind) for kind in results.kinds if falls_clearly(results, kind, *SUMMARY.values())]
    apart = [
        spoken(kind) for kind in results.kinds if over_seeds(results.exponents(kind, "distance")).low > 0
    ]
    return (
        f"All four quantities clearly decrease for {listed(stable)}. The distance between twins clearly "
        f"grows for {listed(apart)}."
    )


def decay_finding(results: Stability) -> str:
    """How much of the gap and of β networks keep from the smallest sample to the largest."""
    by_measure = {}
    for name in ("gap", "β"):
        values = [results.values(kind, MEASURES[name]).mean(0) for kind in networks(results)]
        by_measure[name] = [100 * of_kind[-1] / of_kind[0] for of_kind in values]
    gap, beta = (f"{min(kept):.0f} to {max(kept):.0f} %" for kept in by_measure.values())
    joined = "but" if min(by_measure["β"]) > max(by_measure["gap"]) else "and"
    first, *_, last = results.sizes
    return (
        f"At m = {last}, {noun(results)} have {gap} of their gap at m = {first}, {joined} {beta} of their β."
    )


def losses_finding(results: Stability) -> str:
    """In how many variants of β networks' β falls more slowly or faster than the gap."""
    ends = [
        over_seeds(results.slower(kind, *pair)) for kind in networks(results) for pair in LOSS_PAIRS.values()
    ]
    slower, faster = sum(low > 0 for _, low, _ in ends), sum(high < 0 for _, _, high in ends)
    return (
        f"In {slower} of {len(ends)} comparisons for {noun(results)} β falls clearly more slowly than the "
        f"gap, clearly faster in {faster or 'none'}."
    )


def losses_in_words(results: Stability) -> str:
    """The networks whose β falls more slowly than the gap for every loss, and for none."""
    above = {
        spoken(kind): [over_seeds(results.slower(kind, *pair)).low > 0 for pair in LOSS_PAIRS.values()]
        for kind in networks(results)
    }
    always = [name for name, variants in above.items() if all(variants)]
    never = [name for name, variants in above.items() if not any(variants)]
    return (
        f"β falls clearly more slowly than the gap for every loss, with and without z, in "
        f"{listed(always, 'no network')}: there neither the unbounded loss nor z is the reason. For no loss "
        f"is this clear in {listed(never, 'any other')}."
    )


def _at_stops(results: Stability) -> list[list[Interval]]:
    """How much more slowly β falls than the gap in networks, at the three stops."""
    stops = range(3)
    return [
        [over_seeds(results.slower(kind, BETA, stop=stop)) for stop in stops] for kind in networks(results)
    ]


def stops_finding(results: Stability) -> str:
    """In how many networks β falls more slowly than the gap whenever training stops."""
    at_stops = _at_stops(results)
    always = sum(min(value for value, _, _ in kind) > 0 for kind in at_stops)
    return (
        f"Whenever training stops, β falls on average more slowly than the gap, in {always} of "
        f"{len(at_stops)} {noun(results)}."
    )


def stops_in_words(results: Stability) -> str:
    """How much the stop matters, and how many intervals decide."""
    at_stops = _at_stops(results)
    change = max(np.ptp([value for value, _, _ in kind]) for kind in at_stops)
    clear = sum(low > 0 for kind in at_stops for _, low, _ in kind)
    return (
        f"Between stops the difference of exponents changes by at most {change:.2f}; {clear} of these "
        f"{3 * len(at_stops)} intervals exclude zero."
    )


def paths_finding(results: Stability) -> str:
    """The largest fall of accuracy on a line between networks of the largest size."""
    names = [kind.name for kind in networks(results)]
    falls = results.falls[(results.falls["size"] == results.sizes[-1]) & results.falls.kind.isin(names)]
    return (
        f"Between {noun(results)} trained on {results.sizes[-1]} images, accuracy falls by at most "
        f"{falls.barrier.max():.1f} points; {POINTS:g} would count as a barrier."
    )


def paths_in_words(results: Stability) -> str:
    """The largest falls over all models and sizes."""
    test, own = (results.falls[results.falls.seen == seen] for seen in ("test", "trained"))
    worst = own.loc[own.barrier.idxmax()]
    return (
        f"accuracy falls by at most {test.barrier.max():.2f} points on test images and by "
        f"{worst.barrier:.2f} on a model's own sample ({worst.kind.replace(', ', ' with ')}, "
        f"m = {worst['size']})"
    )


def suprema_finding(swaps: pd.DataFrame) -> str:
    """The share of the largest change that a middle number of random swaps finds."""
    drawn = swaps[(swaps["loss"] == "cross-entropy") & (swaps.drawn == swaps.drawn.median())]
    ratios = zip(drawn["size"], 100 * drawn["median"] / drawn.exact, strict=True)
    shares = listed([f"{ratio:.0f} % at m = {size}" for size, ratio in ratios])
    return f"Of the largest change of all swaps, {drawn.drawn.iloc[0]} random ones find {shares} (median)."


def ridge_finding(ridge: pd.DataFrame) -> str:
    """Whether the bound on ridge regression holds, and how tight it is."""
    holds, ratio = (ridge.change <= ridge.bound).sum(), (ridge.bound / ridge.change).min()
    return (
        f"The bound on ridge regression holds in {holds} of {len(ridge)} cases; it is at least {ratio:.0f} "
        "times the largest change."
    )


def decided(results: Stability) -> str:
    """How many of the claims that can be tested have a direction."""
    verdicts = verdict_table(TOPICS, results).verdict
    known = verdicts[verdicts != Verdict.NOT_TESTABLE]
    return f"{(known != Verdict.NOT_DECIDED).sum()} of {len(known)}"


def in_words(results: Stability, record: Stability) -> str:
    """What the page found, what it did not, and how sure it is.

    Args:
        results: of the page.
        record: with more seeds.

    """
    slower = {kind: over_seeds(record.slower(kind, BETA)) for kind in record.kinds}
    logistic = [slower.pop(kind) for kind in record.kinds if kind.name == LR]
    clear = [f"{spoken(kind)} (by {value:.2f})" for kind, (value, low, _) in slower.items() if low > 0]
    unclear = [
        f"{spoken(kind)} ({value:.2f}, {low:.2f} to {high:.2f})"
        for kind, (value, low, high) in slower.items()
        if low <= 0
    ]
    falling = sum(falls_clearly(record, kind, GAP) for kind in record.kinds)
    lost = max(record.worst_barrier(kind).max() for kind in record.kinds if kind.descent.momentum)
    return (
        f"**Found.** Over the recorded seeds the gap clearly falls with more data in {falling} of "
        f"{len(record.kinds)} kinds of training, but the exponent of β is clearly higher than that of the "
        f"gap in {listed(clear, 'no network')}. In logistic regression they differ by "
        f"{written(logistic[0])}.\n\n"
        f"**Not found.** The seeds do not separate the two exponents for {listed(unclear, 'any other')}. "
        f"With momentum the accuracy on a line between twins falls by at most {lost:.1f} points, where the "
        f"thesis reports more than {POINTS:g}.\n\n"
        f"**How sure.** Of the claims that can be tested here, this page's seeds decide {decided(results)}, "
        f"the recorded ones {decided(record)}. All models are small and classify digits: nothing here "
        "measures the exponents of ResNet-20."
    )


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
