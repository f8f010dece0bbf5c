"""What all figures share: their look, panels, legends, the data behind them; and their forms for any screen.

Figures are vector graphics, and beside each is a form with its panels one below the other.
"""

import base64
import os
import pickle
import re
import textwrap
from html import escape
from io import StringIO
from typing import Any

import matplotlib.pyplot as plt
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

KL_LABEL = "KL to the truth (nats a masked token)"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

RAISED = frozenset("⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
"""The letters that an exponent is written in."""

_RAISE = str.maketrans("-\N{MINUS SIGN}0123456789", "⁻⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Style = dict[str, Any]
"""What several calls of matplotlib share: colour, marker and the like, by keyword."""


class PowersOfTen(LogFormatterSciNotation):
    """Labels of a logarithmic axis in plain letters: to parse formulas took half of a figure's time."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return a label.

        >>> [PowersOfTen()(number) for number in (0.01, 1000)]
        ['10⁻²', '10³']
        """
        formula = super().__call__(x, pos)
        formula = re.sub(r"\^\{(.*?)\}", lambda exponent: exponent[1].translate(_RAISE), formula)
        return re.sub(r"\\mathdefault|[${}]", "", formula).replace(r"\times", "×")


class PlainLogScale(LogScale):
    """The logarithmic scale of all figures."""

    def __init__(self, **given: Any) -> None:  # matplotlib asks for one without its old parameter `axis`
        super().__init__(**given)

    def set_default_locators_and_formatters(self, axis: Axis) -> None:
        """Label an axis in plain letters."""
        super().set_default_locators_and_formatters(axis)
        axis.set_major_formatter(PowersOfTen(self.base))
        axis.set_minor_formatter(PowersOfTen(self.base, labelOnlyBase=self.subs is not None))


def use_style() -> None:
    """Set the look of all figures: colour-blind palette, light grid, text of the page's size."""
    register_scale(PlainLogScale)
    sns.set_theme("notebook", style="ticks", palette="colorblind", font_scale=0.85)
    plt.rcParams.update(
        {
            "figure.constrained_layout.use": True,
            "figure.constrained_layout.hspace": 0.07,  # a title is nearer to its panel than to the one above
            "figure.constrained_layout.wspace": 0.04,
            "figure.dpi": 110,
            "axes.grid": True,
            "grid.alpha": 0.3,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "legend.frameon": False,
        }
    )


def panels(count: int, width: float = 3.5) -> list[Axes]:
    """Return axes, each `width` inches wide: up to three in a row, four in a square."""
    columns = 2 if count == 4 else min(count, 3)
    rows = -(-count // columns)
    _, axes = plt.subplots(rows, columns, figsize=(width * columns, 3.1 * rows), squeeze=False)
    for ax in list(axes.flat)[count:]:
        ax.remove()
    return list(axes.flat)[:count]


def legend(ax: Axes, letters: int = 100) -> None:
    """Explain the colours and markers of all panels, above them, in rows of so many letters at most."""
    handles, labels = ax.get_legend_handles_labels()
    fitting = max(1, letters // max(map(len, labels), default=1))
    if labels:
        columns = min(len(labels), fitting)
        ax.figure.legend(handles, labels, loc="outside upper center", ncols=columns, fontsize="small")


def plain_log_axis(axis: Axis, values: pd.Series) -> None:
    """Label a logarithmic axis with plain numbers, between powers of ten only where it is short."""
    span = values.max() / values.min()
    labelled = (1, 1.5, 2, 3, 5, 7) if span < 10 else (1, 3) if span < 100 else (1,)
    axis.set_major_locator(LogLocator(subs=labelled))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())
    axis.set_tick_params(which="both", labelsize="small")


def download(table: pd.DataFrame, name: str) -> HTML:
    """Return a link that saves a table as CSV; the data travel inside the page."""
    data = base64.b64encode(table.to_csv(index=False).encode()).decode()
    return HTML(
        f'<a download="{name}.csv" href="data:text/csv;base64,{data}">'
        f"Download the data of this page: {name}.csv</a> ({len(table)} rows)"
    )


# For any screen

WIDE = "image/svg+xml"

NARROW = "application/vnd.sameloss.narrow+svg"
"""What a notebook keeps beside a figure, for the book's page on a narrow screen."""

NARROW_WANTED = "SAMELOSS_NARROW"
"""The variable of the environment in which the book asks for narrow forms; they take as long as the wide."""

NARROW_SCREEN = "(max-width: 40rem)"
"""Where the narrow form is shown, as CSS says it."""

NARROW_IN = 3.7
"""Inches; a telephone of 390 pixels shows it so large that no label has less than 8 pixels."""


LETTERS = 40
"""So many fit a row of it."""


def show_for_any_screen() -> None:
    """Let notebooks show every figure as vector graphics, for the book in both forms."""
    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return
    InlineBackend.instance(parent=shell).figure_formats = set()
    plt.uninstall_repl_displayhook()  # it draws what is new after every cell, and `both_forms` again
    shell.display_formatter.mimebundle_formatter.for_type(Figure, forms)


def forms(figure: Figure, **_: object) -> dict[str, str]:
    """Return what a notebook keeps of a figure, by MIME type."""
    return both_forms(figure) if NARROW_WANTED in os.environ else {WIDE: as_svg(figure)}


def both_forms(figure: Figure) -> dict[str, str]:
    """Return a figure as SVG by MIME type, wide and narrow."""
    return {WIDE: as_svg(figure), NARROW: as_svg(stacked(figure))}


def picture(figure: Figure, alternative: str) -> HTML:
    """Return a figure as another page shows it too, with what a reader who does not see it is told."""
    forms = {
        kind: f"data:{WIDE};base64,{base64.b64encode(svg.encode()).decode()}"
        for kind, svg in both_forms(figure).items()
    }
    return HTML(
        f'<picture><source media="{NARROW_SCREEN}" srcset="{forms[NARROW]}">'
        f'<img alt="{escape(alternative)}" src="{forms[WIDE]}"/></picture>'
    )


def as_svg(figure: Figure) -> str:
    """Return a figure as SVG, the same one always alike; its text stays text.

    Without what nobody sees: comments, line ends, coordinates beyond a tenth of a point.
    """
    file = StringIO()
    with plt.rc_context({"svg.hashsalt": "same loss", "svg.fonttype": "none"}):
        figure.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
    figure.set_layout_engine("none")  # or the next drawing would move a little
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", file.getvalue(), flags=re.DOTALL)
    svg = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d)\d{3,}", r"\1", tag[0]), svg)  # not in words
    svg = re.sub(r"\s+", " ", svg).replace("base64, ", "base64,")
    return re.sub(r"<g(?P<of>[^>]*)>(?P<markers>( <use [^>]*/>){2,}) </g>", _said_once, svg)


def _said_once(group: re.Match[str]) -> str:
    """Let a group say what its markers look like, where they all look alike."""
    styles = set(re.findall(r'style="[^"]*"', group["markers"]))
    if len(styles) != 1 or "style=" in group["of"]:
        return group[0]
    (style,) = styles
    return f"<g{group['of']} {style}>{group['markers'].replace(' ' + style, '')} </g>"


def stacked(figure: Figure) -> Figure:
    """Return a copy of a figure with its panels one below the other, and its words in short rows."""
    copy = pickle.loads(pickle.dumps(figure))
    plt.close(copy)  # pyplot keeps a copy, too, to be shown
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
    """Break the words of a panel that stands alone on a narrow screen; turn those that would overlap."""
    ax.set_title(textwrap.fill(ax.get_title(), LETTERS))
    ax.tick_params(labelleft=True)
    for axis, together in ((ax.yaxis, 2), (ax.xaxis, len(ax.get_xticks()))):
        names = [label.get_text().replace("\n", " ") for label in axis.get_ticklabels()]
        if any(RAISED & set(name) for name in names):  # powers of ten: short, and no words to break
            continue
        too_long = max(map(len, names), default=0) * together > LETTERS
        if too_long and axis.get_ticklabels()[0].get_rotation() == 0:
            axis.set_ticks(axis.get_ticklocs(), [textwrap.fill(name, LETTERS // 2) for name in names])
            axis.set_tick_params(rotation=90 if axis is ax.xaxis else 0)
