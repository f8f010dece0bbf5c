"""Figures of the comparisons: the table of measurements, or answers, in, Axes out."""

from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from sameloss.studies.comparison.claims import EXPANDED, RATIO
from sameloss.studies.comparison.tables import checkpoints, main_lr, model_name
from sameloss.studies.drawing import KL_LABEL, MARKERS, plain_log_axis

ACCURACY = "probe accuracy, mean of the tasks (%)"

TRACE = "Fisher trace"


def _styles(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Give each model a colour and a marker, smallest first."""
    models = table[table.model != "none"].drop_duplicates("model").sort_values("parameters").model
    colours = sns.color_palette("viridis", len(models) + 1)
    return {m: {"color": colours[i], "marker": MARKERS[i % len(MARKERS)]} for i, m in enumerate(models)}


def accuracy_against_kl(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw accuracy against KL over complete descents at the main rate, means over replicates.

    Horizontal lines are what needs no model: bare tokens and the lookup table, both with random features.
    """
    wide, styles = checkpoints(table), _styles(table)
    descents = wide[(wide.stage == "descent") & (wide.lr == main_lr(table))]
    for model, part in descents.groupby("model", sort=False):
        mean = part.groupby("steps")[["kl", "accuracy"]].mean()
        ax.plot(mean.kl, mean.accuracy, label=model_name(str(model)), lw=1.3, **styles[str(model)])
    for name, style in {"tokens": ":", "lookup": "--"}.items():
        value = table[table.reading == f"{name}, {EXPANDED}"].value.mean()
        label = {"tokens": "bare tokens", "lookup": "lookup table"}[name]
        ax.axhline(value, color="0.35", ls=style, lw=1.3, label=label)
    ax.set(xscale="log", xlabel=KL_LABEL, ylabel=ACCURACY)
    plain_log_axis(ax.xaxis, descents.kl)
    ax.invert_xaxis()
    return ax


def trace_against_kl(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the trace against KL, one line a model and peak rate: the main rate solid, others dotted."""
    wide, styles = checkpoints(table), _styles(table)
    descents = wide[wide.stage == "descent"]
    for (model, lr), part in descents.groupby(["model", "lr"], sort=False):
        mean = np.exp(np.log(part.set_index("steps")[["kl", "trace"]]).groupby("steps").mean())
        main = lr == main_lr(table)
        label = model_name(str(model)) if main else None
        ax.plot(mean.kl, mean.trace, ls="-" if main else ":", lw=1.3, label=label, **styles[str(model)])
    ax.set(xscale="log", yscale="log", xlabel=KL_LABEL, ylabel=TRACE)
    plain_log_axis(ax.xaxis, descents.kl)
    plain_log_axis(ax.yaxis, descents.trace)
    ax.invert_xaxis()
    return ax


def along_plateau(table: pd.DataFrame, quantity: str, label: str, ax: Axes) -> Axes:
    """Draw a quantity along the plateau, means over replicates; on exact labels dashed."""
    wide, styles = checkpoints(table), _styles(table)
    for stage, look in {"plateau": "-", "plateau, exact labels": "--"}.items():
        for model, part in wide[wide.stage == stage].groupby("model", sort=False):
            mean = part.groupby("steps")[quantity].mean()
            shown = model_name(str(model)) + (", exact labels" if look == "--" else "")
            ax.plot(mean.index, mean, ls=look, lw=1.3, label=shown, **styles[str(model)])
    ax.set(xlabel="steps on the plateau", ylabel=label, yscale="linear" if quantity == "accuracy" else "log")
    if quantity != "accuracy":
        plain_log_axis(ax.yaxis, wide[wide.stage.str.startswith("plateau")][quantity])
    return ax


def accuracy_against_trace(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw accuracy against trace of the longest descents at one rate, one point a replicate."""
    wide, styles = checkpoints(table), _styles(table)
    longest = wide[wide.stage == "descent"].steps.max()
    ends = wide[(wide.stage == "descent") & (wide.lr == main_lr(table)) & (wide.steps == longest)]
    for model, part in ends.groupby("model", sort=False):
        ax.plot(part.trace, part.accuracy, ls="none", label=model_name(str(model)), **styles[str(model)])
    ax.set(xscale="log", xlabel=TRACE, ylabel=ACCURACY)
    plain_log_axis(ax.xaxis, ends.trace)
    return ax


COLOURS = {"supported": "#1b7837", "against": "#b2182b", "unclear": "0.35", "not testable": "0.7"}
"""Of intervals, by the direction that they support."""


def effects(rows: pd.DataFrame, ax: Axes, title: str = "") -> Axes:
    """Draw effects with their intervals, one below the other; their zero is the dashed line."""
    ratio = (rows.unit == RATIO).all()
    for at, row in enumerate(rows.itertuples()):
        ends = [[row.mean - row.low], [row.high - row.mean]]
        colour = COLOURS[row.direction]
        ax.errorbar(row.mean, -at, xerr=ends, fmt="o", color=colour, capsize=3)
    names = [
        row.row if not isinstance(row.model, str) else f"{row.row}: {model_name(row.model)}"
        for row in rows.itertuples()
    ]
    ax.set_yticks(range(0, -len(rows), -1), names)
    ax.axvline(1.0 if ratio else 0.0, color="0.35", ls="--", lw=1)
    ax.set(title=title, xlabel="ratio of traces" if ratio else "points of accuracy")
    if ratio:
        ax.set_xscale("log")
        plain_log_axis(ax.xaxis, pd.concat([rows.low, rows.high, pd.Series([1.0])]).dropna())
    return ax
