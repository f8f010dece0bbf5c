"""Figures of stability: what was found in, Axes out."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from matplotlib.pyplot import get_cmap

from sameloss.statistics.bootstrap import Interval
from sameloss.studies.drawing import MARKERS
from sameloss.studies.stability.claims import BETA, GAP, Stability, over_seeds
from sameloss.studies.stability.experiment import Kind

RGBA = tuple[float, float, float, float]

SHOWN = {"gap": GAP, "β": BETA, "distance": "distance"}
"""The three that Figures 2.1 to 2.3 are about."""

GUIDE = "1/m"


def decay(found: Stability, kind: Kind, ax: Axes) -> Axes:
    """Draw gap, β and distance against the size of the sample, each over its mean at the smallest size."""
    sizes = np.array(found.sizes)
    for at, (name, measure) in enumerate(SHOWN.items()):
        values = found.values(kind, measure)
        values = values / values[:, 0].mean()
        colour = f"C{at}"
        ax.plot(sizes, values.T, ls="none", marker=MARKERS[at], ms=3, alpha=0.4, color=colour)
        ax.plot(sizes, values.mean(0), marker=MARKERS[at], ms=5, color=colour, label=name)
    ax.plot(sizes, sizes[0] / sizes, color="0.5", ls="--", lw=1, label=GUIDE)
    ax.set(
        xscale="log",
        yscale="log",
        title=kind.name,
        xlabel="examples, m",
        ylabel="over its mean at the least m",
    )
    ax.set_xticks(sizes, [f"{size:g}" for size in sizes])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter("{x:g}")
    return ax


COLUMNS = {
    "generalisation\n(gap)": GAP,
    "loss at an image\n(β)": BETA,
    "predictions\n(total variation)": "beta total variation",
    "parameters\n(distance)": "distance",
}
"""Of the summary: what is stable or not."""

PATH = "path\n(points lost)"

FALLS, GROWS = -1.0, 1.0


def summary(found: Stability, ax: Axes) -> Axes:
    """Draw how each thing goes with m: its exponent, blue where it falls, red where it does not."""
    colours, scale = get_cmap("RdBu_r"), Normalize(FALLS, GROWS)
    for row, kind in enumerate(found.kinds):
        for column, measure in enumerate(COLUMNS.values()):
            own = over_seeds(found.exponents(kind, measure))
            _cell(
                ax,
                column,
                -row,
                colours(0.15 + 0.7 * scale(np.clip(own.value, FALLS, GROWS))),
                _exponent(own),
            )
        worst = found.barriers(kind).barrier.max()
        lost = "–" if np.isnan(worst) else f"{worst:.1f}"
        connected = np.isnan(worst) or worst <= 2
        _cell(ax, len(COLUMNS), -row, colours(0.35 if connected else 0.75), lost)
    ax.set(xlim=(-0.5, len(COLUMNS) + 0.5), ylim=(0.5 - len(found.kinds), 0.5))
    ax.set_xticks(range(len(COLUMNS) + 1), [*COLUMNS, PATH])
    ax.set_yticks(range(0, -len(found.kinds), -1), [kind.name for kind in found.kinds])
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.grid(visible=False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax


def _cell(ax: Axes, column: float, row: float, colour: RGBA, text: str) -> None:
    ax.add_patch(Rectangle((column - 0.48, row - 0.46), 0.96, 0.92, fc=colour, ec="none", alpha=0.55))
    ax.text(column, row, text, ha="center", va="center", color="black", fontsize="small")


def _exponent(found: Interval) -> str:
    """Write an exponent, with a question mark where its interval holds zero."""
    if np.isnan(found.value):
        return "–"
    return f"{found.value:.2f}" + "?" * (found.low <= 0 <= found.high)


def losses(found: Stability, ax: Axes) -> Axes:
    """Draw by how much each kind of β falls less steeply than its gap, z counted and left out."""
    versions = {
        "cross-entropy": (BETA, GAP),
        "without z": ("others cross-entropy", GAP),
        "clipped": ("beta clipped", "gap clipped"),
        "Brier": ("beta Brier", "gap Brier"),
        "total variation": ("beta total variation", "gap Brier"),
    }
    for at, (name, pair) in enumerate(versions.items()):
        for row, kind in enumerate(found.kinds):
            own = over_seeds(found.slower(kind, *pair))
            y = -row + 0.3 - 0.15 * at
            ax.plot([own.low, own.high], [y, y], color=f"C{at}", lw=1.5)
            ax.plot(own.value, y, MARKERS[at], color=f"C{at}", ms=5, label=name if row == 0 else None)
    ax.axvline(0, color="0.5", lw=1)
    ax.set_yticks(range(0, -len(found.kinds), -1), [kind.name for kind in found.kinds])
    ax.set(xlabel="exponent of β above that of the gap")
    return ax


def stops(found: Stability, ax: Axes) -> Axes:
    """Draw the same for cross-entropy at the three stops."""
    for at, kind in enumerate(found.kinds):
        steps = np.array(kind.stops) / kind.descent.steps
        own = [over_seeds(found.slower(kind, BETA, GAP, stop=stop)) for stop in range(len(steps))]
        shifted = steps * (1 + 0.02 * (at - len(found.kinds) / 2))
        ax.vlines(shifted, [i.low for i in own], [i.high for i in own], color=f"C{at}", lw=1)
        ax.plot(shifted, [i.value for i in own], marker=MARKERS[at], color=f"C{at}", label=kind.name)
    ax.axhline(0, color="0.5", lw=1)
    ax.set(xlabel="steps over those of the page", ylabel="β's exponent above the gap's")
    ax.set_xticks([0.5, 1, 1.5])
    return ax


def paths(table: pd.DataFrame, kinds: Sequence[Kind], seen: str, ax: Axes) -> Axes:
    """Draw the accuracy on the lines between twins of the largest size: the mean of all, and their range."""
    for at, kind in enumerate(kinds):
        own = table[(table.kind == kind.name) & (table["size"] == table["size"].max())]
        lines = 100 * own.pivot_table(index="alpha", columns=["seed", "pair"], values=seen)
        ax.fill_between(lines.index, lines.min(axis=1), lines.max(axis=1), color=f"C{at}", lw=0, alpha=0.2)
        ax.plot(lines.index, lines.mean(axis=1), color=f"C{at}", lw=2, label=kind.name)
    for end in (0, 1):
        ax.axvline(end, color="0.5", lw=1, ls=":")
    ax.set(xlabel="α: S' at 0, S at 1", ylabel=f"accuracy on {seen} images (%)")
    return ax


def sampled_suprema(swaps: pd.DataFrame, ax: Axes) -> Axes:
    """Draw what the largest of some random swaps is of the largest of all, median and 95 % of draws."""
    for at, (size, own) in enumerate(swaps[swaps["loss"] == "cross-entropy"].groupby("size")):
        x = own.drawn * 1.03**at
        ax.vlines(x, 100 * own.low / own.exact, 100 * own.high / own.exact, color=f"C{at}", lw=2, alpha=0.5)
        ax.plot(x, 100 * own["median"] / own.exact, marker=MARKERS[at], color=f"C{at}", label=f"m = {size}")
    ax.axhline(100, color="0.5", lw=1, ls="--")
    ax.set(xscale="log", xlabel="random swaps drawn", ylabel="of the largest of all swaps (%)", ylim=(0, 105))
    ax.set_xticks(sorted(set(swaps.drawn)), [f"{count:g}" for count in sorted(set(swaps.drawn))])
    ax.minorticks_off()
    return ax


def ridge_bounds(ridge: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the largest change of the squared loss by any swap against its bound."""
    for at, (name, own) in enumerate(ridge.groupby("kernel")):
        ax.plot(own.bound, own.change, ls="none", marker=MARKERS[at], ms=5, label=f"{name} kernel")
    ends = np.array([ridge.change.min(), ridge.bound.max()])
    ax.plot(ends, ends, color="0.5", lw=1, ls="--", label="equal")
    ax.set(xscale="log", yscale="log", xlabel="bound", ylabel="largest change by a swap")
    return ax
