"""Tables and figures of the chapter on decision lists."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes

from sameloss.seeds import generator_for
from sameloss.studies.decision_lists import theory
from sameloss.studies.decision_lists.experiment import THEOREM, ListConfig
from sameloss.studies.decision_lists.statements import Tables, logarithmic_growth, samples_needed
from sameloss.studies.drawing import MARKERS, legend, panels

# Tables.


def event_table(tables: Tables) -> pd.DataFrame:
    """Scaled time from which scores have each order, by read-out; and the unscaled time to perfection.

    In the limit c → ∞ the latter goes to 0, and the one that is stored, at c = 1, means nothing.
    """
    flows = tables.flows[tables.flows.family.isin(["readout", "luce"])]
    flows = flows.assign(c=flows.readout.where(flows.family == "readout", np.inf))
    table = flows.pivot(index="c", columns="order", values="time").sort_index(ascending=False)
    table = table[flows.order.drop_duplicates()].iloc[:, 1:].map("{:,.0f}".format)
    finite = flows[(flows.accuracy == 1) & (flows.family == "readout")]
    perfect = finite.groupby("c").natural.min().map("{:.3g}".format)
    table["perfect at time"] = perfect.reindex(table.index, fill_value="–")
    names = {c: "c → ∞" if c == np.inf else f"{c:.3g}" for c in table.index}
    return table.rename(names).rename_axis("read-out").reset_index().replace("nan", "–")


def descent_table(tables: Tables) -> pd.DataFrame:
    """Gradient descent as in Theorem 4.3, by task."""
    table = tables.everywhere[["words", "length", "rules", "readout", "steps", "promised", "attention"]]
    for column, form in {"readout": "{:.3g}", "steps": "{:,.0f}", "promised": "{:.3g}"}.items():
        table = table.assign(**{column: table[column].map(form.format).replace("nan", "–")})
    names = {"words": "L", "length": "n", "rules": "m", "readout": "read-out"}
    return table.assign(**{"1/n": 1 / table.length}).rename(columns=names)


# Figures.

COARSE = colormaps["vlag"].resampled(7)  # few colours, so that an image of noise is a small file


SHOWN = 60
"""Tokens and labels in an image of V: of more, a diagonal would be less than a pixel wide."""


def _label(ax: Axes, x: str, y: str, log: str = "", **options: Any) -> None:
    """Label both axes, with a logarithmic scale for those in `log`."""
    ax.set(**{f"{axis}scale": "log" for axis in log}, xlabel=x, ylabel=y, **options)
    ax.minorticks_off()
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize="small")


def _lines(ax: Axes, table: pd.DataFrame, by: str, x: str, y: str, label: str = "{}", **style: Any) -> None:
    """Draw one line per value of a column."""
    for (name, part), marker in zip(table.groupby(by, sort=False), MARKERS, strict=False):
        ax.plot(part[x], part[y], marker=marker, label=label.format(name), **style)


def _name(readout: str) -> str:
    return "Theorem 4.3's c" if readout == THEOREM else f"c = {readout}"


def one_sequence(settings: ListConfig) -> None:
    """Draw the lists of a sequence's first tokens: present ones filled, the label-determining one blue."""
    task, length, (ax,) = settings.task.build(), settings.task.length, panels(1, width=6.5)
    sequence = theory.draw_sequences(task.words, length, 1, generator_for("lists shown", 0))
    deciders, longest = task.determining(sequence)[0].tolist()[:14], settings.task.rules
    tokens, present = sequence[0].tolist()[:14], set(sequence[0].tolist())
    for row, (token, decider) in enumerate(zip(tokens, deciders, strict=True)):
        for place, listed in enumerate(task.lists[token]):
            colour = "#9fd0ee" if listed == decider else "0.88" if listed in present else "none"
            box = {"boxstyle": "round", "fc": colour, "ec": "0.5" if listed in present else "0.85"}
            ink = "0.1" if listed in present else "0.55"
            ax.text(place, -row, str(listed), ha="center", va="center", color=ink, bbox=box, fontsize="small")
        ax.text(longest + 0.3, -row, f"label {task.permutation[decider]}", va="center", fontsize="small")
    ax.set_yticks(range(0, -len(tokens), -1), [f"token {token}" for token in tokens])
    ax.set_xticks(range(longest), [f"{place + 1}." for place in range(longest)])
    ax.set(xlim=(-0.7, longest + 1.6), ylim=(0.7 - len(tokens), 0.7), xlabel="place in the token's list")
    ax.grid(visible=False)


def scores_along(tables: Tables) -> None:
    """Draw a column's scores along the flow and the times at which their order changes, by read-out."""
    curves = list(tables.curves.groupby("name", sort=False))[:4]
    axes, names = panels(len(curves), width=4.5), {"w1": "1st of the list", "wo": "all others"}
    names[tables.entries[-2]] = "the token itself"
    for (name, curve), ax in zip(curves, axes, strict=True):
        for at, entry in enumerate(tables.entries):
            style: dict[str, Any] = {"color": "0.4", "ls": "--"} if entry == "wo" else {"color": f"C{at}"}
            ax.plot(curve.natural, curve[entry], label=names.get(entry, f"{entry[1:]}."), **style)
        for time in tables.events(curve.readout.iloc[0]).natural.iloc[1:]:
            ax.axvline(time, color="0.8", lw=1, zorder=0)
        ax.set(xscale="log", xlabel="time", ylabel="score w", title=_name(name))
        ax.minorticks_off()
    legend(axes[0])


def attention_along(tables: Tables) -> None:
    """Draw attention on the label-determining token and accuracy along the flow, by read-out."""
    left, right = panels(2, width=4.5)
    curves = tables.curves.assign(name=tables.curves.name.map(_name), accuracy=100 * tables.curves.accuracy)
    for ax, y in ((left, "attention"), (right, "accuracy")):
        _lines(ax, curves, "name", "time", y, markevery=12, ms=4)
    for at, (_, curve) in enumerate(curves.groupby("name", sort=False)):
        reached = curve[curve.accuracy == 100].head(1)
        left.plot(reached.time, reached.attention, "|", ms=16, color=f"C{at}")
    left.axhline(1 / tables.settings.task.length, color="0.5", lw=1, ls=":")
    _label(left, "scaled time (c/n)² t", "attention on the deciding token", log="x", ylim=(0, 1))
    _label(right, "scaled time (c/n)² t", "accuracy (%)", log="x", ylim=(0, 104))


def critical(tables: Tables) -> None:
    """Draw c* against log L + log 2, and the time to perfection around it."""
    left, right = panels(2, width=4.5)
    sweep = tables.sweep("critical")
    stars, words = sweep[sweep.family == "critical +0"], sorted(sweep.words.unique())
    left.plot(stars.words, stars.readout, "o-", label="c*")
    left.plot(stars.words, np.log(2 * stars.words), "--", color="0.4", label="log L + log 2")
    names = {"critical +0": "c*", "critical -0.5": "c* − ½", "critical +0.5": "c* + ½"}
    _lines(right, sweep.assign(family=sweep.family.map(names)), "family", "words", "natural")
    _label(left, "vocabulary L", "read-out c", log="x")
    _label(right, "vocabulary L", "time to perfection", log="xy")
    for ax in (left, right):
        ax.set_xticks(words, map(str, words))


def one_step(settings: ListConfig) -> None:
    """Draw a corner of V after one step as images: exact, and on sampled sequences."""
    task, length, rate = settings.task.build(), settings.task.length, float(settings.task.words**2)
    images = {"exactly": theory.exact_step(task, length, rate)}
    for count in settings.drawn[:3:2]:
        draws = generator_for("lists shown step", count)
        images[f"{count:,} sequences"] = theory.sampled_step(task, length, rate, count, draws)
    for (title, whole), ax in zip(images.items(), panels(len(images), width=4.2), strict=True):
        image = whole[:SHOWN, :SHOWN]
        largest = float(image.abs().max())
        drawn = ax.imshow(image.numpy(), cmap=COARSE, vmin=-largest, vmax=largest, interpolation="nearest")
        ax.set(title=title, xlabel="attended token", ylabel="label")
        ax.grid(visible=False)
        ax.figure.colorbar(drawn, ax=ax, shrink=0.85)


def _seeds(ax: Axes, runs: pd.DataFrame, y: str, label: str, rate: float = 1, **style: Any) -> None:
    """Draw one thin line per seed."""
    for at, (_, run) in enumerate(runs.groupby("seed")):
        ax.plot(rate * run.step, run[y], lw=1, alpha=0.6, label="" if at else label, **style)


def along_sgd(tables: Tables) -> None:
    """Draw SGD on W over the exact flow, and both matrices from scratch with their read-out; all seeds."""
    (left, middle, right), column = panels(3), tables.settings.task.column(1.0)
    alone, both = (runs.assign(accuracy=100 * runs.accuracy) for runs in (tables.alone, tables.both))
    both = both[both.task == 0].assign(listed_accuracy=100 * both.listed_accuracy)
    exact, last = tables.events(tables.settings.readout), float((alone.rate * alone.step).max())
    accuracies = 100 * np.array([*exact.accuracy, exact.accuracy.iloc[-1]])
    times = np.minimum([*exact.natural, last], last)
    left.step(times, accuracies, where="post", color="0.2", lw=2, label="exact flow")
    for at, (rate, runs) in enumerate(alone.groupby("rate")):
        _seeds(left, runs, "accuracy", f"SGD, η = {rate:g}", rate, color=f"C{at}")
    _seeds(middle, both, "accuracy", "all tokens", color="C0")
    _seeds(middle, both, "listed_accuracy", "other deciders", color="C1", ls="--")
    for ax in (left, middle):
        ax.axhline(100 * column.plateau, color="0.5", lw=1, ls=":")
    _seeds(right, both, "readout", "mean of V[π(k), k]", color="C0")
    right.axhline(column.critical_readout, color="0.4", ls="--", label="c*")
    _label(left, "time (steps × η)", "accuracy (%)", ylim=(-3, 104))
    _label(middle, "steps of SGD on W and V", "accuracy (%)", ylim=(-3, 104))
    _label(right, "steps of SGD on W and V", "read-out")


def samples(tables: Tables) -> None:
    """Draw the error on new sequences by sample size, and the sample size for an error by L."""
    left, right = panels(2, width=4.5)
    means = 100 * tables.samples.groupby(["words", "size"])[["error"]].mean()
    _lines(left, means.reset_index(), "words", "size", "error", "L = {}", ms=4)
    for at, error in enumerate(tables.settings.samples.errors):
        sizes = samples_needed(tables, error)
        labels = [f"{100 * error:g} % error", *[""] * (sizes.shape[1] - 1)]
        right.plot(sizes.index, sizes, MARKERS[at], color=f"C{at}", alpha=0.6, label=labels)
    mass = tables.samples.groupby("words").mass.first()
    right.plot(mass.index, 1 / mass, "--", color="0.4", label="1/δ")
    _label(left, "sequences trained on", "error on new ones (%)", log="xy")
    _label(right, "vocabulary L", "sequences", log="xy")
    right.set_xticks(mass.index, map(str, mass.index))


def departures(tables: Tables) -> None:
    """Draw the effect of dropping each assumption: repeated tokens, other starts and read-outs, rare sets."""
    axes = panels(4, width=4.5)
    dropped = tables.departures.query("what in ('start', 'radius')").astype({"value": float})
    repeats = tables.dropped("repeats").query("name == 'time'")
    starts = dropped[dropped.what == "start"]
    radius = dropped[dropped.what == "radius"].groupby(["readout", "value"])[["number"]].mean() * 100
    rarity = tables.sweep("rarity").sort_values("rarity")
    _lines(axes[0], repeats, "value", "readout", "number", "{} tokens")
    axes[1].plot(starts.value, starts.number, "o-")
    axes[1].axhline(1, color="0.4", ls="--")
    _lines(axes[2], radius.reset_index(), "readout", "value", "number", "c = {:g}")
    axes[3].plot(rarity.rarity, rarity.time, "o-")
    inverse = rarity.time.iloc[0] * rarity.rarity.iloc[0] / rarity.rarity
    axes[3].plot(rarity.rarity, inverse, ":", color="0.4", label="1/κ")
    _label(axes[0], "read-out c", "time to perfection", log="xy", title="Assumption 4.1: no token twice")
    _label(axes[1], "spread of the first scores", "time over the promised", log="y", title="W₀ = 0")
    _label(axes[2], "largest |V − cP| over c", "accuracy at the end (%)", ylim=(0, 104), title="V near cP")
    title = "Assumption 4.3: no set too rare"
    _label(axes[3], "rarity κ of heads", "scaled time to perfection", log="xy", title=title)


# Sentences.


def in_tex(number: float, decimals: int = 1) -> str:
    r"""A large number for a sentence: 1.39e12 as $1.4 \times 10^{12}$."""
    digits, power = f"{number:.{decimals}e}".split("e")
    return rf"${digits} \times 10^{{{int(power)}}}$"


def scores_finding(tables: Tables) -> str:
    """Which score leads at first, and where the scores end in the list's order, at the read-outs drawn."""
    drawn = [curve[tables.entries] for _, curve in tables.curves.groupby("name", sort=False)][:4]
    first = sum(scores.iloc[0].idxmax() == tables.entries[-2] for scores in drawn)
    listed = sum(scores.iloc[-1].is_monotonic_decreasing for scores in drawn)
    return (
        f"At {first} of the {len(drawn)} read-outs shown the token's own score leads at first; "
        f"at {listed} the scores end in the order of the list."
    )


def attention_finding(tables: Tables) -> str:
    """How much attention the deciding token gets at the theorem's read-out, and at the best other one."""
    most = tables.curves.groupby("name").attention.max()
    share, others = most[THEOREM] * tables.settings.task.length, most.drop(THEOREM)
    return (
        f"At the theorem's read-out the deciding token gets at most {100 * (share - 1):.2g} % more than "
        f"uniform attention at any time shown; at c = {others.idxmax()}, {100 * others.max():.0f} % of the "
        "attention."
    )


def critical_finding(tables: Tables) -> str:
    """How much longer training takes below the critical read-out, at the largest vocabulary that has both."""
    times = tables.sweep("critical").pivot(index="words", columns="family", values="natural").dropna()
    if times.empty:
        return "Half a unit below the critical read-out, training does not end within the horizon."
    ratio = times["critical -0.5"].iloc[-1] / times["critical +0.5"].iloc[-1]
    return (
        f"Half a unit below the critical read-out, training takes {ratio:,.3g} times as long as half a unit "
        f"above it (L = {times.index[-1]})."
    )


def critical_in_words(tables: Tables) -> str:
    """How near c* is to log 2L, and at which vocabularies the plateau is not left below it."""
    sweep = tables.sweep("critical")
    stars, below = (sweep[sweep.family == f"critical {shift}"] for shift in ("+0", "-0.5"))
    distance = (stars.readout - np.log(2 * stars.words)).abs().max()
    lost = " and ".join(f"{words:,}" for words in below[below.natural.isna()].words)
    horizon = f"; at $L$ = {lost} the flow does not leave it within the horizon" if lost else ""
    return (
        f"With sequences of $L/8$ tokens and lists of four, $c^*$ is within {distance:.2f} of "
        f"$\\log L + \\log 2$ (left). Below it the plateau takes ever longer to leave{horizon}."
    )


def scaling_in_words(tables: Tables) -> str:
    """How the time at the theorem's read-out changes with the vocabulary and with the length of lists."""
    ratios = [logarithmic_growth(sweep) - 1 for _, sweep in tables.sweep("words").groupby("family")]
    rules = tables.sweep("rules").sort_values("rules")
    return (
        f"At the theorem's read-out the scaled time tends to grow as $(L^2/n) \\log L$: over the last "
        f"doubling of $L$, at fixed $n$ or $n/L$, its ratio to this law changes by at most "
        f"{100 * max(map(abs, ratios)):.1f} %. With lists of {rules.rules.iloc[-1]} tokens it is "
        f"{rules.time.iloc[-1] / rules.time.iloc[0]:.1f} times that with lists of {rules.rules.iloc[0]}."
    )


def joint_in_words(tables: Tables) -> str:
    """Whether both matrices leave the plateau, and when their read-out passes c*."""
    column, both = tables.settings.task.column(1.0), tables.both[tables.both.task == 0]
    ends = both.sort_values("step").groupby("seed").accuracy.last()
    passed = both[both.readout > column.critical_readout].groupby("seed").step.min().median()
    when = "does not pass $c^*$" if np.isnan(passed) else f"is above $c^*$ from step {passed:,.0f} on"
    return (
        f"Trained together for {both.step.max():,} steps, {(ends > (1 + column.plateau) / 2).sum()} of "
        f"{len(ends)} runs end well above the plateau of {100 * column.plateau:.0f} %. "
        f"Their read-out {when}."
    )


def departures_finding(tables: Tables) -> str:
    """How much longer training takes with repeated tokens and with rare heads."""
    repeats = tables.dropped("repeats").query("name == 'time'")
    times = repeats.pivot(index="readout", columns="value", values="number").iloc[-1]
    rarity = tables.sweep("rarity").sort_values("rarity")
    slower = _rounded(times.repeated / times.different), _rounded(rarity.time.iloc[0] / rarity.time.iloc[-1])
    return (
        f"Training takes about {slower[0]} times as long with repeated tokens (c = {times.name:,.0f}), "
        f"about {slower[1]} times with heads {1 / rarity.rarity.iloc[0]:.0f} times rarer."
    )


def _rounded(ratio: float) -> str:
    """Two digits of a large number: 22049 as 22,000."""
    return f"{float(f'{ratio:.2g}'):,.0f}"


def departures_in_words(tables: Tables) -> str:
    """From which starts the promised time suffices, how far V may be from cP, and what rare heads cost."""
    starts, radius = tables.dropped("start").astype({"value": float}), tables.dropped("radius")
    late = starts[~(starts.number <= 1)].value.min()
    enough = starts[~(starts.value >= late)].value.max()
    but = "" if np.isnan(late) else f", but not of {late:g}"
    worst = radius.groupby(radius.value.astype(float)).number.min()
    near = worst.index[(worst == 1).cummin()].max()
    heads = tables.sweep("rarity").sort_values("rarity", ascending=False)
    exponents = np.diff(np.log(heads.time)) / np.diff(np.log(heads.rarity))
    return (
        f"The promised time suffices from first scores with a spread of up to {enough:g}{but}. The flow of "
        f"$W$ classifies every sequence if no entry of $V$ is further than {near:g} $c$ from $cP$; distances "
        f"are relative to $c$, as the theorem's read-outs are larger by orders of magnitude. As heads get "
        f"rare, the time's exponent of $\\kappa$ goes from ${exponents[0]:.1f}$ to ${exponents[-1]:.1f}$."
    )
