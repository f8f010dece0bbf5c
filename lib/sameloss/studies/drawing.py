"""What all figures share: their look, their panels, their legends, the data behind them."""

import base64
import re
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from IPython.display import HTML
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.scale import LogScale, register_scale
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter

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


LEGEND_ROW = 100
"""Letters that fit a row of a legend."""


def legend(ax: Axes, letters: int = LEGEND_ROW) -> None:
    """Explain the colours and markers of all panels of a figure, above them, in rows that fit a page."""
    handles, labels = ax.get_legend_handles_labels()
    fitting = max(1, letters // max(map(len, labels), default=1))
    if labels:
        columns = min(len(labels), fitting)
        ax.figure.legend(handles, labels, loc="outside upper center", ncols=columns, fontsize="small")


def plain_log_axis(axis: Axis, values: pd.Series) -> None:
    """Label a logarithmic axis with plain numbers, between powers of ten only where it is short."""
    span = values.max() / values.min()
    axis.set_major_locator(
        LogLocator(subs=(1, 1.5, 2, 3, 5, 7) if span < 10 else (1, 3) if span < 100 else (1,))
    )
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
