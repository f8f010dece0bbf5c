"""Figures: they draw a table of measurements, of answers or of a language into axes."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sameloss.studies.drawing import KL_LABEL, MARKERS, Style, panels, plain_log_axis
from sameloss.studies.names import display_name
from sameloss.studies.same_loss.claims import (
    EXACT_LABELS,
    FLATTER,
    GAINED,
    MAIN,
    PLATEAU,
    RATIO,
)
from sameloss.studies.same_loss.experiment import LADDER, LSTMS
from sameloss.studies.same_loss.tables import (
    checkpoints,
    language_name,
    row_name,
)
from sameloss.studies.verdict import Direction

ACCURACY = "probe accuracy (%)"

TRACE = "Fisher trace"


def model_styles(table: pd.DataFrame) -> dict[Any, Style]:
    """Label, colour and marker of each model, smallest first; a recorded size has the same everywhere."""
    models = table[table.model != "none"].drop_duplicates("model").sort_values("parameters").model.tolist()
    recorded = {"viridis": list(LADDER), "flare": list(LSTMS)}
    palettes = recorded if {*models} <= {*LADDER, *LSTMS} else {"viridis": models}
    colours = {
        model: colour
        for palette, names in palettes.items()
        for model, colour in zip(names, sns.color_palette(palette, len(names) + 1), strict=False)
    }
    markers = dict(zip(colours, itertools.cycle(MARKERS), strict=False))
    return {
        m: {"label": display_name(m), "color": colours[m], "marker": markers[m], "lw": 1.3} for m in models
    }


def kl_axis(ax: Axes, kls: pd.Series, **labels: str) -> Axes:
    """Let KL fall to the right on a logarithmic scale."""
    ax.set(xscale="log", xlabel=KL_LABEL, **labels)
    plain_log_axis(ax.xaxis, kls)
    ax.invert_xaxis()
    return ax


def by_language(table: pd.DataFrame, draw: Callable[[pd.DataFrame, Axes], Axes]) -> list[Axes]:
    """Draw a table in a panel for each language, and one for its LSTMs; returns the panels."""
    parts = {}
    for name, part in table.groupby("language", sort=False):
        lstm, none = part.model.isin(list(LSTMS)), part.model == "none"
        for kind, models in {"": ~lstm & ~none, ", LSTMs": lstm}.items():
            if models.any():
                parts[language_name(str(name)) + kind] = part[models | none]
    axes = panels(len(parts), width=5)
    for (title, part), ax in zip(parts.items(), axes, strict=True):
        draw(part, ax).set_title(title)
    return axes


def along_plateau(table: pd.DataFrame, quantity: str, label: str, ax: Axes) -> Axes:
    """Draw a quantity along the plateau, means over replicates; on exact labels dashed."""
    rows, styles = checkpoints(table), model_styles(table)
    for stage, line, remark in ((PLATEAU, "-", ""), (EXACT_LABELS, "--", ", exact labels")):
        for model, part in rows[rows.stage == stage].groupby("model", sort=False):
            mean = part.groupby("steps")[quantity].mean()
            ax.plot(mean.index, mean, ls=line, **styles[model] | {"label": styles[model]["label"] + remark})
    ax.set(xlabel="steps, constant rate", ylabel=label, yscale="linear" if quantity == "accuracy" else "log")
    if quantity != "accuracy":
        plain_log_axis(ax.yaxis, rows[rows.stage.isin([PLATEAU, EXACT_LABELS])][quantity])
    return ax


COLOURS = {
    Direction.SUPPORTED: "#1b7837",
    Direction.AGAINST: "#b2182b",
    Direction.OPEN: "0.35",
    Direction.NOT_TESTABLE: "0.7",
    "": "black",
}
"""Colours of intervals, by verdict."""

PAPER = "#8250df"
"""Colour of the published effect, as in the tables of verdicts."""


def effects(rows: pd.DataFrame, ax: Axes, names: Sequence[str] = ()) -> Axes:
    """Draw effects with their intervals, one below the other.

    The dashed line is no effect, the dotted one the published effect, if there is one.

    Args:
        rows: from `claims.answers`.
        ax: where to draw.
        names: of all rows, from top to bottom; default: these rows'.

    """
    names = names or list(dict.fromkeys(map(row_name, rows.itertuples())))
    ratio = (rows.unit == RATIO).all()
    for row in rows.itertuples():
        ends, y = [[row.mean - row.low], [row.high - row.mean]], -names.index(row_name(row))
        ax.errorbar(row.mean, y, xerr=ends, fmt="o", color=COLOURS[row.direction], capsize=3)
    ax.set_yticks(range(0, -len(names), -1), names)
    if isinstance(ax.figure, Figure):
        ax.figure.set_figheight(max(ax.figure.get_figheight(), 0.8 + 0.24 * len(names)))
    ax.axvline(1.0 if ratio else 0.0, color="0.35", ls="--", lw=1)
    for effect in rows[rows.row == MAIN].published.dropna():
        ax.axvline(effect, color=PAPER, ls=":", lw=1.5)
        ax.annotate(
            "the paper", (effect, 0.6), (4, 0), textcoords="offset points", color=PAPER, fontsize="small"
        )
    ax.set(xlabel="ratio of traces" if ratio else "points of accuracy")
    ax.set_ylim(0.5 - len(names), 1.1)
    if ratio:
        ax.set_xscale("log")
        plain_log_axis(ax.xaxis, pd.concat([rows.low, rows.high, pd.Series([1.0])]).dropna())
    return ax


def effects_by_language(rows: pd.DataFrame) -> None:
    """Draw `effects` in a panel for each language, side by side; nothing if there are none."""
    groups, names = dict(list(rows.groupby("language", sort=False))), list[str]()
    for part in sorted(groups.values(), key=len, reverse=True):  # the fullest sets the order
        below = 0
        for name in map(row_name, part.itertuples()):
            if name not in names:
                names.insert(below, name)
            below = names.index(name) + 1
    axes = panels(len(groups), width=6)
    for (language, part), ax in zip(groups.items(), axes, strict=True):
        effects(part, ax, names).set_title(language_name(language))
    for ax in axes[1:]:
        ax.tick_params(labelleft=False)


def treatments(answers: pd.DataFrame, ax: Axes) -> Axes:
    """Draw what treatments do to accuracy and trace: a colour a treatment, a marker a model.

    Args:
        answers: on one language, from `claims.answers`.
        ax: where to draw.

    """
    flatter, gained = (answers[answers.row == row] for row in (FLATTER, GAINED))
    models, kinds = list(flatter.model.unique()), list(flatter.treatment.unique())
    for x, y in zip(flatter.itertuples(), gained.itertuples(), strict=True):
        across = np.nan_to_num([[1 / x.mean - 1 / x.high], [1 / x.low - 1 / x.mean]])
        up = np.nan_to_num([[y.mean - y.low], [y.high - y.mean]])
        colour = f"C{kinds.index(x.treatment)}"
        ax.errorbar(1 / x.mean, y.mean, up, across, fmt="none", ecolor=colour, capsize=2)
        name = (
            f"{display_name(x.treatment)}, {display_name(x.model)}"  # in a legend bars would hide the marker
        )
        ax.plot(1 / x.mean, y.mean, MARKERS[models.index(x.model)], color=colour, label=name)
    ax.axhline(0, color="0.5", lw=1)
    ax.axvline(1, color="0.5", lw=1)
    ax.set(xscale="log", xlabel="trace, relative to no treatment", ylabel="accuracy gained (points)")
    if models:
        plain_log_axis(ax.xaxis, pd.concat([1 / flatter["mean"], pd.Series([1.0])]))
    return ax
