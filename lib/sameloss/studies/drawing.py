"""Figures as SVG: style, panels, legends, axes, download links."""

import base64
import gzip
from collections.abc import Mapping, Sequence
from html import escape
from operator import itemgetter
from typing import Any
from warnings import catch_warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from IPython import get_ipython
from IPython.core.pylabtools import print_figure
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib_inline.config import InlineBackend
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from sameloss.statistics.intervals import seed_interval

KL_LABEL = "KL to the truth (nats per masked token)"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

Style = dict[str, Any]
"""Keyword arguments shared by several calls of matplotlib."""

PRINTED: Style = {"bbox_inches": "tight", "metadata": {"Date": None}}
"""How figures are printed: without a date, an SVG depends on the figure alone."""


def use_style() -> None:
    """Draw all figures as SVG: colour-blind palette, light grid, text as text of the page's size."""
    sns.set_theme("notebook", style="ticks", palette="colorblind", font_scale=0.85)
    plt.rcParams.update(
        {
            "figure.constrained_layout.use": True,
            "figure.constrained_layout.hspace": 0.07,  # keeps a title near its own panel
            "figure.constrained_layout.wspace": 0.04,
            "figure.dpi": 110,
            "font.size": 11,  # of which "small" is 12 pixels on a page
            "axes.grid": True,
            "grid.alpha": 0.3,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
            "svg.fonttype": "none",
            "svg.hashsalt": "same loss",
        }
    )
    if shell := get_ipython():
        backend = InlineBackend.instance(parent=shell)
        with catch_warnings(action="ignore", category=DeprecationWarning):  # of the backend's own observers
            backend.print_figure_kwargs, backend.figure_formats = PRINTED, {"svg"}


WIDEST_IN = 8.8
"""Width in inches: scaled to the column of a page, no label is smaller than 10 pixels."""


def panels(count: int, width: float = 3.5) -> list[Axes]:
    """Axes of at most `width` inches each: up to three in a row, four in a square."""
    if not count:
        return []
    columns = 2 if count == 4 else min(count, 3)
    rows, width = -(-count // columns), min(width * columns, WIDEST_IN)
    _, axes = plt.subplots(rows, columns, figsize=(width, 3.1 * rows), squeeze=False)
    for ax in list(axes.flat)[count:]:
        ax.remove()
    return list(axes.flat)[:count]


def legend(ax: Axes) -> None:
    """Draw one legend above all panels of a figure, in rows of at most 100 characters."""
    panels = [other.get_legend_handles_labels() for other in ax.figure.axes]
    handles = {label: handle for pair in panels for handle, label in zip(*pair, strict=True)}
    if handles:
        columns = max(1, min(len(handles), 100 // max(map(len, handles))))
        ax.figure.legend(
            handles.values(), handles, loc="outside upper center", ncols=columns, fontsize="small"
        )


LINE_HEIGHT = 0.06
"""Of a label, as a fraction of a panel's height."""


CONTRAST = 4.5
"""Least contrast of text to its white background (WCAG 2, level AA)."""


def readable(color: Any) -> str:
    """Darken a colour until text in it has the least contrast.

    >>> readable("black"), readable("#de8f05")
    ('#000000', '#a46a04')
    """
    rgb = np.array(to_rgb(color))
    while 1.05 / (0.05 + _luminance(rgb)) < CONTRAST:
        rgb = 0.98 * rgb
    return to_hex((rgb[0], rgb[1], rgb[2]))


def _luminance(rgb: np.ndarray) -> float:
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def label_ends(ax: Axes) -> None:
    """Label each line at its right end, in its colour, instead of a legend; close labels move apart."""
    lines = [line for line in ax.lines if not str(line.get_label()).startswith("_")]
    ax.autoscale_view()
    ends = [line.get_transform().transform(line.get_xydata()) for line in lines]
    heights = [ax.transAxes.inverted().transform(max(end, key=itemgetter(0)))[1] for end in ends]
    order, spaced = np.argsort(heights, kind="stable"), LINE_HEIGHT * np.arange(len(lines))
    apart = isotonic_regression(np.sort(heights) - spaced).x + spaced  # moved as little as possible
    for at, height in zip(order, apart, strict=True):
        ax.annotate(
            str(lines[at].get_label()), (1, height), (4, 0), "axes fraction", "offset points",
            va="center", fontsize="small", color=readable(lines[at].get_color()), annotation_clip=False,
        )  # fmt: skip


def interval_line(ax: Axes, x: ArrayLike, intervals: ArrayLike, at: int, label: str, **style: Any) -> None:
    """Draw values as a line in the colour and with the marker of index `at`, their intervals as bars.

    `intervals` has a row (value, low, high) per x.
    """
    value, low, high = np.transpose(intervals)
    ax.vlines(x, low, high, color=f"C{at}", lw=1)
    ax.plot(x, value, label=label, **({"color": f"C{at}", "marker": MARKERS[at]} | style))


def strips(ax: Axes, values: Mapping[str, pd.Series], colors: Sequence[str]) -> None:
    """Draw a row of points for each name, one for each draw, and their mean with its 95 % interval."""
    tall = pd.DataFrame(values).melt().dropna()
    points: dict[str, Any] = {"alpha": 0.5, "size": 5, "jitter": 0.2, "palette": colors, "legend": False}
    sns.stripplot(tall, x="value", y="variable", hue="variable", ax=ax, **points)
    for at, of_draws in enumerate(values.values()):
        mean, low, high = seed_interval(of_draws.dropna())
        bars: dict[str, Any] = {"xerr": [[mean - low], [high - mean]], "fmt": "|", "ms": 12, "capsize": 3}
        ax.errorbar(mean, at, **bars, color="black", zorder=5)
    ax.axvline(0, color="0.35", ls="--", lw=1)
    ax.set(ylabel="")


def plain_log_axis(axis: Axis, values: pd.Series) -> None:
    """Label a logarithmic axis with plain numbers, with minor ones only on a short axis."""
    span = values.max() / values.min()
    labelled = (1, 1.5, 2, 3, 5, 7) if span < 10 else (1, 3) if span < 100 else (1,)
    axis.set_major_locator(LogLocator(subs=labelled))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
    axis.set_tick_params(which="both", labelsize="small")


def download(table: pd.DataFrame, name: str) -> HTML:
    """Link to download a table as CSV of six digits, embedded in the page; gzipped if it is large."""
    data, kind, file = table.to_csv(index=False, float_format="%.6g").encode(), "text/csv", f"{name}.csv"
    if len(data) > 100_000:
        data, kind, file = gzip.compress(data, mtime=0), "application/gzip", f"{file}.gz"
    return HTML(
        f'<a download="{file}" href="data:{kind};base64,{base64.b64encode(data).decode()}">'
        f"Download the data of this page: {file}</a> ({len(table)} rows)"
    )


def picture(figure: Figure, alternative: str) -> HTML:
    """A figure as an HTML image with alternative text, for use on other pages."""
    svg = print_figure(figure, "svg", **PRINTED)
    data = base64.b64encode(svg.encode()).decode()
    return HTML(f'<figure><img alt="{escape(alternative)}" src="data:image/svg+xml;base64,{data}"/></figure>')
