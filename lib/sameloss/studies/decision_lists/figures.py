"""Figures of the chapter on decision lists: what was found in, Axes out."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from matplotlib import colormaps
from matplotlib.axes import Axes
from torch import Tensor

from sameloss.studies.decision_lists.tables import Tables, needed
from sameloss.studies.decision_lists.theory import DecisionLists
from sameloss.studies.drawing import MARKERS, Style

COARSE = colormaps["vlag"].resampled(7)
"""Few colours, so that an image of noise is not large."""

DRAWN_TOKENS = 14
"""Rows of the drawing of one sequence."""


def one_sequence(task: DecisionLists, sequence: Int[Tensor, " seq"], ax: Axes) -> Axes:
    """Draw the list of every token of a sequence: what occurs is filled, what decides is blue."""
    present = set(sequence.tolist())
    decides = task.determining(sequence[None])[0].tolist()
    rows = list(zip(sequence.tolist(), decides, strict=True))[:DRAWN_TOKENS]
    for row, (token, decider) in enumerate(rows):
        for place, listed in enumerate(task.lists[token]):
            colour = "#9fd0ee" if listed == decider else "0.88" if listed in present else "none"
            box = {"boxstyle": "round", "fc": colour, "ec": "0.5" if listed in present else "0.85"}
            ink = "0.1" if listed in present else "0.55"
            ax.text(place, -row, str(listed), ha="center", va="center", color=ink, bbox=box, fontsize="small")
        ax.text(task.longest + 0.3, -row, f"label {task.permutation[decider]}", va="center", fontsize="small")
    ax.set_yticks(range(0, -len(rows), -1), [f"token {token}" for token, _ in rows])
    ax.set_xticks(range(task.longest), [f"{place + 1}." for place in range(task.longest)])
    ax.set(xlim=(-0.7, task.longest + 1.6), ylim=(0.7 - len(rows), 0.7), xlabel="place in the token's list")
    ax.grid(visible=False)
    return ax


def scores_along(tables: Tables, name: str, ax: Axes) -> Axes:
    """Draw a column's scores along the flow at one read-out, with the times at which their order changes."""
    curve = tables.curves[tables.curves["name"] == name]
    for at, entry in enumerate(tables.entries):
        style: Style = {"color": "0.4", "ls": "--"} if entry == "wo" else {"color": f"C{at}"}
        ax.plot(curve.natural, curve[entry], label=_entry_name(entry, tables), **style)
    changes = tables.flows[
        (tables.flows.family == "readout") & np.isclose(tables.flows.readout, curve.readout.iloc[0])
    ]
    for time in changes.natural.iloc[1:]:
        ax.axvline(time, color="0.8", lw=1, zorder=0)
    title = "Theorem 4.3's c" if name == "theorem" else f"c = {name}"
    ax.set(xscale="log", xlabel="time", ylabel="score w", title=title)
    ax.minorticks_off()
    return ax


def _entry_name(entry: str, tables: Tables) -> str:
    last = f"w{tables.settings.task.rules}"
    names = {"w1": "1st of the list", last: "the token itself", "wo": "all others"}
    return names.get(entry, f"{entry[1:]}.")


def attention_along(tables: Tables, ax: Axes) -> Axes:
    """Draw the mean attention on the label-determining token along the flow, one line a read-out."""
    for (name, curve), marker in zip(tables.curves.groupby("name", sort=False), MARKERS, strict=False):
        label = "Theorem 4.3's c" if name == "theorem" else f"c = {name}"
        line = ax.plot(curve.time, curve.attention, label=label, marker=marker, markevery=12, ms=4)
        reached = curve[curve.accuracy == 1]
        if len(reached):
            ax.plot(reached.time.iloc[0], reached.attention.iloc[0], "|", ms=16, color=line[0].get_color())
    ax.axhline(1 / tables.settings.task.length, color="0.5", lw=1, ls=":")
    ax.set(xscale="log", xlabel="scaled time (c/n)² t", ylabel="attention on the deciding token", ylim=(0, 1))
    ax.legend(fontsize="small")
    ax.minorticks_off()
    return ax


def accuracy_along(tables: Tables, ax: Axes) -> Axes:
    """Draw the accuracy along the flow, one line a read-out."""
    for (name, curve), marker in zip(tables.curves.groupby("name", sort=False), MARKERS, strict=False):
        label = "Theorem 4.3's c" if name == "theorem" else f"c = {name}"
        ax.plot(curve.time, 100 * curve.accuracy, label=label, marker=marker, markevery=12, ms=4)
    ax.set(xscale="log", xlabel="scaled time (c/n)² t", ylabel="accuracy (%)", ylim=(0, 104))
    ax.minorticks_off()
    return ax


def escape_times(tables: Tables, ax: Axes) -> Axes:
    """Draw the time of perfection around c*, by L."""
    own = tables.perfect[tables.perfect.family.str.startswith("critical")]
    for (family, part), marker in zip(own.groupby("family", sort=False), MARKERS, strict=False):
        shift = family.split()[1]
        label = {"+0": "c*", "-0.5": "c* − ½", "+0.5": "c* + ½"}[shift]
        ax.plot(part.words, part.natural, marker=marker, label=label)
    ax.set(xscale="log", yscale="log", xlabel="vocabulary L", ylabel="time to perfection")
    _plain(ax, own.words)
    ax.legend(fontsize="small", title="read-out")
    return ax


def critical_readouts(tables: Tables, ax: Axes) -> Axes:
    """Draw c* against log L + log 2."""
    own = tables.perfect[tables.perfect.family == "critical +0"]
    ax.plot(own.words, own.readout, "o-", label="c*")
    ax.plot(own.words, np.log(2 * own.words), "--", color="0.4", label="log L + log 2")
    ax.set(xscale="log", xlabel="vocabulary L", ylabel="read-out c")
    _plain(ax, own.words)
    ax.legend(fontsize="small")
    return ax


def _plain(ax: Axes, words: pd.Series) -> None:
    places = sorted(words.unique())
    ax.set_xticks(places, [str(place) for place in places])
    ax.minorticks_off()


def scaling(tables: Tables, ax: Axes) -> Axes:
    """Draw the scaled time of perfection by L, one line a sweep."""
    own = tables.perfect[tables.perfect.family.str.startswith("words")]
    for (family, part), marker in zip(own.groupby("family"), MARKERS, strict=False):
        ax.plot(part.words, part.time, marker=marker, ms=4, label=family.removeprefix("words at "))
    ax.set(xscale="log", yscale="log", xlabel="vocabulary L", ylabel="scaled time to perfection")
    ax.legend(fontsize="small")
    ax.minorticks_off()
    return ax


def by_rules(tables: Tables, ax: Axes) -> Axes:
    """Draw the same by the length of lists."""
    own = tables.perfect[tables.perfect.family == "rules"]
    ax.plot(own.rules, own.time, "o-")
    ax.set(xlabel="tokens of a list, m", ylabel="scaled time to perfection", ylim=(0, None))
    return ax


def by_rarity(tables: Tables, ax: Axes) -> Axes:
    """Draw the same by how rare sets with the head of the list are."""
    own = tables.perfect[tables.perfect.family == "rarity"]
    ax.plot(own.rarity, own.time, "o-")
    rarest = own.sort_values("rarity").iloc[0]
    ax.plot(own.rarity, rarest.time * rarest.rarity / own.rarity, ":", color="0.4", label="1/κ")
    ax.set(xscale="log", yscale="log", xlabel="rarity κ of heads", ylabel="scaled time to perfection")
    ax.legend(fontsize="small")
    ax.minorticks_off()
    return ax


def one_step_map(read_out: Float[Tensor, "words words"], title: str, ax: Axes) -> Axes:
    """Draw V as an image, on one scale of colours."""
    largest = float(read_out.abs().max())
    drawn = ax.imshow(read_out.numpy(), cmap=COARSE, vmin=-largest, vmax=largest, interpolation="nearest")
    ax.set(title=title, xlabel="attended token", ylabel="label")
    ax.grid(visible=False)
    ax.figure.colorbar(drawn, ax=ax, shrink=0.85)
    return ax


def sgd_beside_flow(tables: Tables, ax: Axes) -> Axes:
    """Draw the accuracy of SGD on W at each rate, every seed, over the exact flow."""
    exact, last = tables.sgd_flow, float((tables.alone.rate * tables.alone.step).max())
    times, accuracies = [*exact.natural, last], [*exact.accuracy, exact.accuracy.iloc[-1]]
    shown = [min(time, last) for time in times]
    ax.step(shown, 100 * np.array(accuracies), where="post", color="0.2", lw=2, label="exact flow")
    for at, (rate, own) in enumerate(tables.alone.groupby("rate")):
        for number, (_, found) in enumerate(own.groupby("seed")):
            label = f"SGD, η = {rate:g}" if number == 0 else None
            ax.plot(rate * found.step, 100 * found.accuracy, color=f"C{at}", lw=1, alpha=0.6, label=label)
    ax.axhline(100 * tables.settings.task.column(1.0).plateau, color="0.5", lw=1, ls=":")
    ax.set(xlabel="time (steps × η)", ylabel="accuracy (%)", ylim=(-3, 104))
    ax.legend(fontsize="small")
    return ax


def both_along(tables: Tables, ax: Axes) -> Axes:
    """Draw the accuracy of both matrices trained from nothing, every seed, beside the plateau."""
    for seed, own in tables.both.groupby("seed"):
        ax.plot(
            own.step, 100 * own.accuracy, color="C0", lw=1, alpha=0.7, label=_once("all tokens", seed, tables)
        )
        listed = 100 * own.listed_accuracy
        ax.plot(
            own.step,
            listed,
            color="C1",
            lw=1,
            ls="--",
            alpha=0.7,
            label=_once("other deciders", seed, tables),
        )
    ax.axhline(100 * tables.settings.task.column(1.0).plateau, color="0.5", lw=1, ls=":")
    ax.set(xlabel="steps of SGD on W and V", ylabel="accuracy (%)", ylim=(-3, 104))
    ax.legend(fontsize="small", loc="center left")
    return ax


def readout_along(tables: Tables, ax: Axes) -> Axes:
    """Draw the strength of the read-out meanwhile, with c*."""
    for seed, own in tables.both.groupby("seed"):
        ax.plot(
            own.step,
            own.readout,
            color="C0",
            lw=1,
            alpha=0.7,
            label=_once("mean of V[π(k), k]", seed, tables),
        )
    ax.axhline(tables.settings.task.column(1.0).critical_readout, color="0.4", ls="--", label="c*")
    ax.set(xlabel="steps of SGD on W and V", ylabel="read-out")
    ax.legend(fontsize="small")
    return ax


def _once(label: str, seed: int, tables: Tables) -> str | None:
    return label if seed == tables.both.seed.iloc[0] else None


def departures(tables: Tables, axes: Sequence[Axes]) -> None:
    """Draw what happens without each assumption: repeated tokens, other starts, other read-outs."""
    repeats = tables.dropped("repeats").query("name == 'time'")
    for (tokens, own), marker in zip(repeats.groupby("value"), MARKERS, strict=False):
        axes[0].plot(own.readout, own.number, marker=marker, label=f"{tokens} tokens")
    axes[0].set(xscale="log", yscale="log", xlabel="read-out c", ylabel="time to perfection")
    axes[0].set_title("4.1: no token twice")
    axes[0].legend(fontsize="small")
    starts = tables.dropped("start")
    spread = starts.value.astype(float)
    axes[1].plot(spread, starts.number, "o-")
    axes[1].axhline(1, color="0.4", ls="--")
    axes[1].set(yscale="log", xlabel="spread of the first scores", ylabel="time over the promised")
    axes[1].set_title("W₀ = 0")
    radius = tables.dropped("radius").assign(value=lambda found: found.value.astype(float))
    for (readout, own), marker in zip(radius.groupby("readout"), MARKERS, strict=False):
        mean = 100 * own.groupby("value").number.mean()
        axes[2].plot(mean.index, mean, marker=marker, label=f"c = {readout:g}")
    axes[2].set(xlabel="largest |V − cP| over c", ylabel="accuracy at the end (%)", ylim=(0, 104))
    axes[2].set_title("V near cP")
    axes[2].legend(fontsize="small")
    for ax in axes[:2]:
        ax.minorticks_off()
    by_rarity(tables, axes[3])
    axes[3].set_title("4.3: no set too rare")


def sample_errors(tables: Tables, ax: Axes) -> Axes:
    """Draw the error on new sequences by the size of the fixed sample, mean over seeds, one line an L."""
    for (words, own), marker in zip(tables.samples.groupby("words"), MARKERS, strict=False):
        mean = own.groupby("size").error.mean()
        ax.plot(mean.index, 100 * mean, marker=marker, ms=4, label=f"L = {words}")
    ax.set(xscale="log", yscale="log", xlabel="sequences trained on", ylabel="error on new ones (%)")
    ax.legend(fontsize="small")
    ax.minorticks_off()
    return ax


def samples_needed(tables: Tables, ax: Axes) -> Axes:
    """Draw the sample size for each error by L, every seed, beside 1/δ."""
    for at, error in enumerate(tables.settings.samples.errors):
        sizes = pd.DataFrame(
            [
                {"words": words, "size": needed(part, error)}
                for (words, _), part in tables.samples.groupby(["words", "seed"])
            ]
        )
        ax.plot(
            sizes.words,
            sizes["size"],
            MARKERS[at],
            color=f"C{at}",
            alpha=0.6,
            label=f"{100 * error:g} % error",
        )
    mass = tables.samples.groupby("words").mass.first()
    ax.plot(mass.index, 1 / mass, "--", color="0.4", label="1/δ")
    ax.set(xscale="log", yscale="log", xlabel="vocabulary L", ylabel="sequences")
    _plain(ax, tables.samples.words)
    ax.legend(fontsize="small")
    return ax
