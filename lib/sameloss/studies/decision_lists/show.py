"""Tables and figures of the chapter on decision lists."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes

from sameloss.seeds import generator_for
from sameloss.studies.decision_lists import theory
from sameloss.studies.decision_lists.experiment import THEOREM, ListConfig
from sameloss.studies.decision_lists.statements import Tables, sampled_step
from sameloss.studies.drawing import MARKERS, label_ends, panels

# Tables.


def sequence_table(settings: ListConfig) -> pd.DataFrame:
    """The first ten tokens of a sequence, with their lists, the tokens of these that occur, and labels."""
    task = settings.task.build()
    sequences = theory.draw_sequences(task.words, settings.length, 1, generator_for("lists shown", 0))
    sequence, rows = sequences[0].tolist(), []
    for token, label in zip(sequence[:10], task.labels(sequences)[0].tolist(), strict=False):
        listed = task.lists[token]
        present = [other for other in listed if other in sequence]
        rows.append((token, ", ".join(map(str, listed)), ", ".join(map(str, present)), present[0], label))
    return pd.DataFrame(rows, columns=["token", "list", "those that occur", "label-determining", "label"])


def event_table(tables: Tables) -> pd.DataFrame:
    """Scaled time from which scores have each order, and from which every label is right, by read-out."""
    flows = tables.flows[tables.flows.family == "readout"]
    table = flows.pivot_table("time", "readout", "order", "min")
    table = table[flows.order.drop_duplicates().iloc[1:]]  # the first order is there from the start
    table = table.assign(perfect=flows[flows.accuracy == 1].groupby("readout").time.min())
    return table.sort_index(ascending=False).rename_axis("read-out").reset_index()


def descent_table(tables: Tables) -> pd.DataFrame:
    """Gradient descent as in Theorem 4.3, by task; attention is the percentage above uniform attention."""
    table = tables.everywhere[["words", "length", "rules", "readout", "steps", "promised", "attention"]]
    table = table.assign(attention=100 * (table.length * table.attention - 1))
    texts = {column: table[column].map("{:.3g}".format) for column in ("readout", "promised")}
    texts["attention"] = table.attention.map("{:+.2g} %".format)
    names = {"words": "L", "length": "n", "rules": "m", "readout": "read-out"}
    return table.assign(**texts).rename(columns=names)


# Figures.

COARSE = colormaps["vlag"].resampled(7)  # few colours, so that an image of noise is a small file
DRAWN = (25, 1000)  # sequences of Figure 4.1's step
SHOWN = 60  # tokens and labels in an image of V: of more, a diagonal would be less than a pixel wide


def _label(ax: Axes, x: str, y: str, log: str = "", **options: Any) -> None:
    """Label both axes, with a logarithmic scale for those in `log`."""
    ax.set(**{f"{axis}scale": "log" for axis in log}, xlabel=x, ylabel=y, **options)
    ax.minorticks_off()


def _lines(ax: Axes, table: pd.DataFrame, by: str, x: str, y: str, **style: Any) -> None:
    """Draw one line per value of a column."""
    for (name, part), marker in zip(table.groupby(by, sort=False), MARKERS, strict=False):
        ax.plot(part[x], part[y], marker=marker, label=name, **style)


def _name(readout: str) -> str:
    return "Theorem 4.3's c" if readout == THEOREM else f"c = {readout}"


def scores_along(tables: Tables) -> None:
    """Draw a column's scores along the flow and the times at which their order changes, by read-out."""
    curves = list(tables.curves.groupby("name", sort=False))[:3]
    axes, names = panels(len(curves)), {"wo": "all others", tables.entries[-2]: "the token itself"}
    for (name, curve), ax in zip(curves, axes, strict=True):
        for at, entry in enumerate(tables.entries):
            style: dict[str, Any] = {"color": "0.4", "ls": "--"} if entry == "wo" else {"color": f"C{at}"}
            ax.plot(curve.natural, curve[entry], label=names.get(entry, f"place {entry[1:]}"), **style)
        for time in tables.events(curve.readout.iloc[0]).natural.iloc[1:]:
            ax.axvline(time, color="0.8", lw=1, zorder=0)
        _label(ax, "time", "score w", log="x", title=_name(name))
    label_ends(axes[-1])


def attention_along(tables: Tables) -> None:
    """Draw attention on the label-determining token along the flow, by read-out."""
    (ax,) = panels(1, width=6)
    curves = tables.curves.assign(name=tables.curves.name.map(_name))
    _lines(ax, curves, "name", "time", "attention", markevery=12, ms=4)
    for at, (_, curve) in enumerate(curves.groupby("name", sort=False)):
        reached = curve[curve.accuracy == 1].head(1)
        ax.plot(reached.time, reached.attention, "|", ms=16, color=f"C{at}")
    ax.axhline(1 / tables.settings.task.length, color="0.5", lw=1, ls=":")
    _label(ax, "scaled time (c/n)² t", "attention on the label-determining token", log="x", ylim=(0, 1))
    label_ends(ax)


def critical(tables: Tables) -> None:
    """Draw the time to perfection at c* and half a unit around it."""
    (ax,), sweep = panels(1, width=5.5), tables.sweep("critical")
    names = {"critical +0": "c*", "critical -0.5": "c* − ½", "critical +0.5": "c* + ½"}
    _lines(ax, sweep.assign(family=sweep.family.map(names)), "family", "words", "natural")
    _label(ax, "vocabulary L", "time to perfection", log="xy")
    words = sorted(sweep.words.unique())
    ax.set_xticks(words, map(str, words))
    label_ends(ax)


def one_step(settings: ListConfig) -> None:
    """Draw a corner of V after one step as images: exact, and on drawn sequences."""
    task = settings.task.build()
    images = {"exactly": theory.exact_step(task, settings.length, float(task.words**2))}
    images |= {f"{count:,} sequences": sampled_step(settings, count) for count in DRAWN}
    for (title, whole), ax in zip(images.items(), panels(len(images), width=4.2), strict=True):
        image = whole[:SHOWN, :SHOWN]
        largest = float(image.abs().max())
        drawn = ax.imshow(image.numpy(), cmap=COARSE, vmin=-largest, vmax=largest, interpolation="nearest")
        ax.set(title=title, xlabel="attended token", ylabel="label")
        ax.grid(visible=False)
        ax.figure.colorbar(drawn, ax=ax, shrink=0.85)


def along_sgd(tables: Tables) -> None:
    """Draw the accuracy of SGD on W over that of the exact flow, and of both matrices from scratch."""
    left, right = panels(2, width=4.5)
    exact, last = tables.events(tables.settings.readout), (tables.alone.rate * tables.alone.step).max()
    times = np.minimum([*exact.natural, last], last)
    accuracies = 100 * exact.accuracy.iloc[[*range(len(exact)), -1]]
    left.step(times, accuracies, where="post", color="0.2", lw=2, label="exact flow")
    for at, (rate, runs) in enumerate(tables.alone.groupby("rate")):
        for seed, run in runs.groupby("seed"):
            label = f"SGD, η = {rate:g}" if seed == runs.seed.min() else ""
            left.plot(rate * run.step, 100 * run.accuracy, lw=1, alpha=0.6, color=f"C{at}", label=label)
    for _, run in tables.both.groupby("seed"):
        right.plot(run.step, 100 * run.accuracy, lw=1, alpha=0.6, color="C0")
    for ax in (left, right):
        ax.axhline(100 * tables.settings.task.column(1.0).plateau, color="0.5", lw=1, ls=":")
    _label(left, "time (steps × η)", "accuracy (%)", ylim=(-3, 104))
    left.legend(fontsize="small")
    _label(right, "steps of SGD on W and V", "accuracy (%)", ylim=(-3, 104))


# Sentences.


def step_finding(settings: ListConfig) -> str:
    """For how many tokens V is largest at the right label after one step, by number of sequences."""
    task = settings.task.build()
    few, many = (100 * theory.recall(task, sampled_step(settings, count)) for count in DRAWN)
    return (
        f"After one step, V is largest at the right label for {few:.0f} % of tokens on {DRAWN[0]} sequences, "
        f"and for {many:.0f} % on {DRAWN[1]:,}."
    )


def in_tex(number: float, decimals: int = 1) -> str:
    r"""A large number for a sentence: 1.39e12 as $1.4 \times 10^{12}$."""
    digits, power = f"{number:.{decimals}e}".split("e")
    return rf"${digits} \times 10^{{{int(power)}}}$"


def scores_finding(tables: Tables) -> str:
    """Which score leads at first, and where the scores end in the list's order, at the read-outs drawn."""
    drawn = [curve[tables.entries] for _, curve in tables.curves.groupby("name", sort=False)][:3]
    first = sum(scores.iloc[0].idxmax() == tables.entries[-2] for scores in drawn)
    listed = sum(scores.iloc[-1].is_monotonic_decreasing for scores in drawn)
    return (
        f"Of the {len(drawn)} read-outs shown, the token's own score leads at first at {first}, "
        f"and the scores end in the order of the list at {listed}."
    )


def attention_finding(tables: Tables) -> str:
    """How much attention the label-determining token gets at the theorem's read-out and at the best other."""
    most = tables.curves.groupby("name").attention.max()
    share, others = most[THEOREM] * tables.settings.task.length, most.drop(THEOREM)
    return (
        f"Along these curves the label-determining token gets at most {100 * (share - 1):.2g} % more than "
        f"uniform attention at the theorem's read-out; at c = {others.idxmax()}, {100 * others.max():.0f} % "
        "of the attention."
    )


def critical_finding(tables: Tables) -> str:
    """How much longer training takes below the critical read-out, at the largest vocabulary, at least."""
    times = tables.sweep("critical").pivot(index="words", columns="family", values="natural")
    horizon = tables.settings.horizon
    below, above = times["critical -0.5"].fillna(horizon), times["critical +0.5"].dropna()
    words = above.index[-1]
    ends = "takes" if below[words] < horizon else "does not end within"
    return (
        f"Half a unit below the critical read-out, training {ends} {below[words] / above[words]:,.0f} times "
        f"the time that it takes half a unit above it (L = {words})."
    )
