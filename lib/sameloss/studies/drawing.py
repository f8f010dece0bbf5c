"""Figures: style, panels, legends, download links; wide and narrow SVG for any screen."""

import base64
import os
import pickle
import re
import textwrap
from html import escape
from io import StringIO
from operator import itemgetter
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from IPython import get_ipython
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.scale import LogScale, register_scale
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter
from matplotlib_inline.config import InlineBackend
from scipy.optimize import isotonic_regression

from sameloss.studies.names import NARROW, NARROW_SCREEN, NARROW_WANTED, WIDE

KL_LABEL = "KL to the truth (nats per masked token)"
LINE_HEIGHT = 0.06
"""Of a label, as a fraction of a panel's height."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

RAISED = frozenset("⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
"""Superscripts of exponents."""

_RAISE = str.maketrans("-\N{MINUS SIGN}0123456789", "⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Style = dict[str, Any]
"""Keyword arguments shared by several calls of matplotlib."""


class PowersOfTen(LogFormatterSciNotation):
    """Labels of a logarithmic axis in Unicode: parsing mathtext took half of the drawing time."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Format a tick.

        >>> [PowersOfTen()(number) for number in (0.01, 1000)]
        ['10⁻²', '10³']
        """
        formula = super().__call__(x, pos)
        formula = re.sub(r"\^\{(.*?)\}", lambda exponent: exponent[1].translate(_RAISE), formula)
        return re.sub(r"\\mathdefault|[${}]", "", formula).replace(r"\times", "×")


class PlainLogScale(LogScale):
    """The logarithmic scale, with labels in Unicode."""

    def __init__(self, **given: Any) -> None:  # matplotlib requires a signature without `axis`
        super().__init__(**given)

    def set_default_locators_and_formatters(self, axis: Axis) -> None:
        super().set_default_locators_and_formatters(axis)
        axis.set_major_formatter(PowersOfTen(self.base))
        axis.set_minor_formatter(PowersOfTen(self.base, labelOnlyBase=self.subs is not None))


def use_style() -> None:
    """Set the style of all figures: colour-blind palette, light grid, text of the page's size."""
    register_scale(PlainLogScale)
    sns.set_theme("notebook", style="ticks", palette="colorblind", font_scale=0.85)
    plt.rcParams.update(
        {
            "figure.constrained_layout.use": True,
            "figure.constrained_layout.hspace": 0.07,  # keeps a title near its own panel
            "figure.constrained_layout.wspace": 0.04,
            "figure.dpi": 110,
            "axes.grid": True,
            "grid.alpha": 0.3,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
        }
    )


WIDEST_IN = 8.8
"""Width in inches: scaled to the column of a page, no label is smaller than 10 pixels."""


def panels(count: int, width: float = 3.5) -> list[Axes]:
    """Axes of at most `width` inches each: up to three in a row, four in a square."""
    columns = 2 if count == 4 else min(count, 3)
    rows, width = -(-count // columns), min(width * columns, WIDEST_IN)
    _, axes = plt.subplots(rows, columns, figsize=(width, 3.1 * rows), squeeze=False)
    for ax in list(axes.flat)[count:]:
        ax.remove()
    return list(axes.flat)[:count]


def legend(ax: Axes, letters: int = 100) -> None:
    """Draw one legend above all panels, in rows of at most `letters` characters."""
    handles, labels = ax.get_legend_handles_labels()
    fitting = max(1, letters // max(map(len, labels), default=1))
    if labels:
        columns = min(len(labels), fitting)
        ax.figure.legend(handles, labels, loc="outside upper center", ncols=columns, fontsize="small")


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
            va="center", fontsize="small", color=lines[at].get_color(), annotation_clip=False,
        )  # fmt: skip


def plain_log_axis(axis: Axis, values: pd.Series) -> None:
    """Label a logarithmic axis with plain numbers, with minor ones only on a short axis."""
    span = values.max() / values.min()
    labelled = (1, 1.5, 2, 3, 5, 7) if span < 10 else (1, 3) if span < 100 else (1,)
    axis.set_major_locator(LogLocator(subs=labelled))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
    axis.set_tick_params(which="both", labelsize="small")


def download(table: pd.DataFrame, name: str) -> HTML:
    """Download link for a table as CSV, embedded in the page."""
    data = base64.b64encode(table.to_csv(index=False).encode()).decode()
    return HTML(
        f'<a download="{name}.csv" href="data:text/csv;base64,{data}">'
        f"Download the data of this page: {name}.csv</a> ({len(table)} rows)"
    )


# Wide and narrow forms

NARROW_IN = 3.7
"""Width in inches: on a telephone of 390 pixels no label is smaller than 8 pixels."""


LETTERS = 40
"""Characters per row of the narrow form."""


def show_for_any_screen() -> None:
    """Display every figure of a notebook as SVG."""
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return
    InlineBackend.instance(parent=shell).figure_formats = set()
    plt.uninstall_repl_displayhook()  # avoids drawing figures twice
    shell.display_formatter.mimebundle_formatter.for_type(Figure, forms)


def forms(figure: Figure, **_: object) -> dict[str, str]:
    """A figure as SVG by MIME type; the narrow form only if asked for."""
    return both_forms(figure) if NARROW_WANTED in os.environ else {WIDE: as_svg(figure)}


def both_forms(figure: Figure) -> dict[str, str]:
    """Wide and narrow SVG of a figure by MIME type."""
    return {WIDE: as_svg(figure), NARROW: as_svg(stacked(figure))}


def picture(figure: Figure, alternative: str) -> HTML:
    """A figure as an HTML picture with alternative text, for use on other pages."""
    forms = {
        kind: f"data:{WIDE};base64,{base64.b64encode(svg.encode()).decode()}"
        for kind, svg in both_forms(figure).items()
    }
    return HTML(
        f'<picture><source media="{NARROW_SCREEN}" srcset="{forms[NARROW]}">'
        f'<img alt="{escape(alternative)}" src="{forms[WIDE]}"/></picture>'
    )


def as_svg(figure: Figure) -> str:
    """Deterministic, minified SVG of a figure, with text as text and coordinates to 0.1 points."""
    file = StringIO()
    with plt.rc_context({"svg.hashsalt": "same loss", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
    figure.set_layout_engine("none")  # or drawing it again would shift the layout
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", file.getvalue(), flags=re.DOTALL)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d)\d{3,}", r"\1", tag[0]), svg)  # only inside tags
    svg = re.sub(r"\s+", " ", svg).replace("base64, ", "base64,")
    return re.sub(r"<g(?P<of>[^>]*)>(?P<markers>( <use [^>]*/>){2,}) </g>", _style_once, svg)


def _style_once(group: re.Match[str]) -> str:
    """Move the common style of a group's markers to the group."""
    styles = set(re.findall(r'style="[^"]*"', group["markers"]))
    if len(styles) != 1 or "style=" in group["of"]:
        return group[0]
    (style,) = styles
    return f"<g{group['of']} {style}>{group['markers'].replace(' ' + style, '')} </g>"


def stacked(figure: Figure) -> Figure:
    """Copy of a figure with its panels stacked and its labels wrapped."""
    copy = pickle.loads(pickle.dumps(figure))
    plt.close(copy)  # unpickling registers it with pyplot
    copy.set_layout_engine("constrained")
    panels = [ax for ax in copy.axes if ax.get_subplotspec() is not None]
    rows = panels[0].get_gridspec().nrows if panels else 1
    copy.set_size_inches(NARROW_IN, copy.get_figheight() / rows * max(len(panels), 1))
    for ax, place in zip(panels, copy.add_gridspec(max(len(panels), 1), 1), strict=False):
        ax.set_subplotspec(place)
        _shorten_words(ax)
    for words in copy.legends:
        words.remove()
        legend(panels[0], LETTERS)
    return copy


def _shorten_words(ax: Axes) -> None:
    """Wrap the labels of a stacked panel; rotate tick labels that would overlap."""
    ax.set_title(textwrap.fill(ax.get_title(), LETTERS))
    ax.tick_params(labelleft=True)
    for axis, together in ((ax.yaxis, 2), (ax.xaxis, len(ax.get_xticks()))):
        names = [label.get_text().replace("\n", " ") for label in axis.get_ticklabels()]
        if any(RAISED & set(name) for name in names):  # powers of ten are short
            continue
        too_long = max(map(len, names), default=0) * together > LETTERS
        if too_long and axis.get_ticklabels()[0].get_rotation() == 0:
            axis.set_ticks(axis.get_ticklocs(), [textwrap.fill(name, LETTERS // 2) for name in names])
            axis.set_tick_params(rotation=90 if axis is ax.xaxis else 0)
