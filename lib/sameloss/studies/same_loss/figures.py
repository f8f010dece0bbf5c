"""Figures: a table of measurements, of answers or of a language in, Axes out."""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from sameloss.studies.drawing import KL_LABEL, MARKERS, Style, plain_log_axis
from sameloss.studies.names import display_name
from sameloss.studies.same_loss.claims import EXPANDED, RATIO
from sameloss.studies.same_loss.tables import checkpoints, main_lr, model_name, row_name

if TYPE_CHECKING:
    from nltk import Tree

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


def by_algorithm(table: pd.DataFrame, quantity: str, ax: Axes) -> Axes:
    """Draw a quantity against KL over complete trainings of one size, one line an algorithm."""
    wide = checkpoints(table)
    others = wide[wide.stage.str.startswith("descent: ")]
    ordinary = wide[(wide.stage == "descent") & wide.model.isin(others.model) & wide.lr.isin(others.lr)]
    drawn = pd.concat([ordinary.assign(stage="descent: adamw"), others])
    for at, (stage, part) in enumerate(drawn.groupby("stage", sort=False)):
        mean = part.groupby("steps")[["kl", quantity]].mean()
        name = display_name(str(stage).removeprefix("descent: "))
        ax.plot(mean.kl, mean[quantity], label=name, lw=1.3, color=f"C{at}", marker=MARKERS[at % 9])
    ax.set(xscale="log", xlabel=KL_LABEL, ylabel=ACCURACY if quantity == "accuracy" else TRACE)
    plain_log_axis(ax.xaxis, drawn.kl)
    ax.invert_xaxis()
    return ax


COLOURS = {"supported": "#1b7837", "against": "#b2182b", "unclear": "0.35", "not testable": "0.7"}
"""Interval colours, by verdict."""


def effects(rows: pd.DataFrame, ax: Axes, title: str = "") -> Axes:
    """Draw effects with their intervals, one below the other; their zero is the dashed line."""
    ratio = (rows.unit == RATIO).all()
    for at, row in enumerate(rows.itertuples()):
        ends = [[row.mean - row.low], [row.high - row.mean]]
        colour = COLOURS.get(row.direction, "0.35")
        ax.errorbar(row.mean, -at, xerr=ends, fmt="o", color=colour, capsize=3)
    names = [row_name(row) for row in rows.itertuples()]
    ax.set_yticks(range(0, -len(rows), -1), names)
    if isinstance(ax.figure, Figure):
        ax.figure.set_figheight(max(ax.figure.get_figheight(), 0.8 + 0.24 * len(rows)))
    ax.axvline(1.0 if ratio else 0.0, color="0.35", ls="--", lw=1)
    ax.set(title=title, xlabel="ratio of traces" if ratio else "points of accuracy")
    if ratio:
        ax.set_xscale("log")
        plain_log_axis(ax.xaxis, pd.concat([rows.low, rows.high, pd.Series([1.0])]).dropna())
    return ax


def treatments(answers: pd.DataFrame, ax: Axes) -> Axes:
    """Draw what treatments of one model do to its accuracy and its trace, relative to none; a marker each.

    Args:
        answers: of one language, from `claims.answers`.
        ax: where to draw.

    """
    bought = {}
    for part in ("flatter by", "gained by"):
        rows = answers[answers.row.str.startswith(f"{part}: ")]
        names = rows.row.str.removeprefix(f"{part}: ")
        bought[part] = rows.set_index(pd.MultiIndex.from_arrays([rows.model, names]))
    models = list(dict.fromkeys(bought["flatter by"].index.get_level_values(0)))
    for (model, treatment), flatter in bought["flatter by"].iterrows():
        gained = bought["gained by"].loc[(model, treatment)]
        across = [[1 / flatter["mean"] - 1 / flatter.high], [1 / flatter.low - 1 / flatter["mean"]]]
        up = [[gained["mean"] - gained.low], [gained.high - gained["mean"]]]
        at = models.index(model)
        ax.errorbar(1 / flatter["mean"], gained["mean"], np.nan_to_num(up), np.nan_to_num(across), capsize=2,
                    ls="none", marker=MARKERS[at], color=f"C{_ORDER.index(treatment.partition(',')[0])}",
                    label=f"{display_name(treatment)}, {model_name(model)}")  # fmt: skip
    ax.axhline(0, color="0.5", lw=1)
    ax.axvline(1, color="0.5", lw=1)
    ax.set(xscale="log", xlabel="trace, relative to no treatment", ylabel="accuracy gained (points)")
    if len(models):
        plain_log_axis(ax.xaxis, pd.concat([1 / bought["flatter by"]["mean"], pd.Series([1.0])]))
    return ax


_ORDER = ("sgd-noise", "penalty-after", "sharpen-after")


# Figures of Appendix B.


def traces_along_training(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw exact traces against KL as a tiny model comes to saturation."""
    names = {
        "fisher": "Fisher, labels from the model",
        "true_labels": "the same, labels from the language",
        "hessian": "Hessian",
    }
    for index, (column, name) in enumerate(names.items()):
        ax.plot(table.kl, table[column], marker=MARKERS[index], ms=5, color=f"C{index}", label=name)
    ax.set(xscale="log", xlabel=KL_LABEL, ylabel="trace")
    plain_log_axis(ax.xaxis, table.kl)
    ax.invert_xaxis()
    ax.legend()
    return ax


def estimators_at_equal_cost(table: pd.DataFrame, budget: float, ax: Axes) -> Axes:
    """Draw each estimate with the 95 % interval that `budget` seconds would buy, best on top."""
    table = table.sort_values("error_at_budget", ascending=False)
    places = range(len(table))
    ax.axvline(table.known.iloc[0], color="0.35", lw=1.2, ls="--")
    half = 1.96 * table.error_at_budget / 100 * table.known
    drawn = table.known + table.off * half / 1.96
    ax.errorbar(drawn, places, xerr=half, fmt="o", capsize=3, ms=4)
    ax.set_yticks(places, table.label)
    ax.set(xlabel=f"trace: exact (dashed), and 95 % interval of {budget:g} s", ylim=(-0.6, len(table) - 0.4))
    return ax


def ratios(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw a table of ratios as a map of colours: one row a form, one column a measure."""
    values = table.set_index("form")
    ax.imshow(np.log2(values), cmap="vlag", vmin=-2, vmax=2, aspect="auto")
    for (row, column), value in np.ndenumerate(values.to_numpy()):
        colour = "white" if abs(np.log2(value)) > 1.2 else "black"
        ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize="small")
    ax.set_xticks(range(values.shape[1]), values.columns, rotation=30, ha="right")
    ax.set_yticks(range(len(values)), values.index)
    ax.grid(visible=False)
    return ax


def predicted_inflation(ladder: pd.DataFrame, ax: Axes) -> Axes:
    """Draw, for each width of a ladder, by what its enlargement multiplies each kind of parameter's trace."""
    for index, (kind, part) in enumerate(ladder.groupby("parameters", sort=False)):
        ax.plot(part.d_model, part.factor, marker=MARKERS[index], ms=5, color=f"C{index}", label=kind)
    ax.set(
        xscale="log", yscale="log", xlabel="d_model of the small model", ylabel="factor of the Fisher trace"
    )
    widths = sorted(ladder.d_model.unique())
    ax.set_xticks(widths, widths, fontsize="small")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter("{x:g}")
    ax.legend()
    return ax


# Figures of the languages.

SIDE_BY_SIDE = 90
"""So many characters stand side by side on the width of a page."""

MOST_CHARACTERS = 16
"""Longer words and symbols are truncated."""


def parse_tree(tree: "Tree", ax: Axes) -> Axes:
    """Draw a derivation tree, words at the bottom in sentence order, upright where they are long."""
    places = itertools.count()
    upright = sum(len(_cut(word)) + 2 for word in tree.leaves()) > SIDE_BY_SIDE

    def draw(node: "Tree | str", depth: int) -> float:
        if isinstance(node, str):
            x = float(next(places))
            ax.text(x, -tree.height() + 1, _cut(node), ha="center", va="top" if upright else "center",
                    rotation=90 if upright else 0, color="C0", parse_math=False)  # fmt: skip
            ax.plot([x, x], [-depth + 1, -tree.height() + 1], color="0.8", lw=1, ls=":", zorder=0)
            return x
        below = [draw(child, depth + 1) for child in node]
        x = sum(below) / len(below)
        for child, at in zip(node, below, strict=True):
            if not isinstance(child, str):
                ax.plot([x, at], [-depth, -depth - 1], color="0.6", lw=1, zorder=0)
        ax.text(x, -depth, _cut(str(node.label())), ha="center", va="center", parse_math=False,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})  # fmt: skip
        return x

    draw(tree, 0)
    ax.autoscale_view()  # now: an axis that is off is scaled after room is made for the words, far outside
    ax.set_axis_off()
    return ax


def _cut(name: str) -> str:
    return name if len(name) <= MOST_CHARACTERS else f"{name[: MOST_CHARACTERS - 1]}…"


def sentence_lengths(table: pd.DataFrame, name: str, ax: Axes) -> Axes:
    """Draw sampled shares of sentence lengths as bars, exact probabilities as points."""
    ax.bar(table.length, table.sampled, color="C0", alpha=0.4, label="sampled")
    ax.plot(table.length, table.probability, "o", color="black", ms=3, label="exact")
    ax.set(xlabel="sentence length (tokens)", ylabel="probability", title=name)
    return ax


def word_frequencies(table: pd.DataFrame, name: str, ax: Axes) -> Axes:
    """Draw the share of each word, most frequent first."""
    shares = table.share.sort_values(ascending=False).to_numpy()
    ax.plot(range(1, len(shares) + 1), shares, ".-", ms=4, label=name)
    ax.set(xlabel="rank of the word", ylabel="share of tokens", xscale="log", yscale="log")
    return ax


def calibration_curve(tried: pd.DataFrame, published: float, chosen: float, name: str, ax: Axes) -> Axes:
    """Draw the entropy of everything a calibration tried, with the published one and our choice."""
    tried = tried.sort_values("concentration")
    ax.errorbar(tried.concentration, tried["mean"], 1.96 * tried.standard_error, fmt="o-", ms=4, capsize=2)
    ax.axhline(published, color="0.35", ls="--", lw=1.2, label=f"published: {published:g} nats")
    ax.axvline(chosen, color="0.35", ls=":", lw=1.2, label=f"chosen: {chosen:g}")
    ax.set(xscale="log", xlabel="concentration", ylabel="entropy (nats a masked token)", title=name)
    ax.legend(loc="lower right", fontsize="small")
    plain_log_axis(ax.xaxis, tried.concentration)
    return ax


def entropy_by_masks(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the entropy of one masked token against the number of masks, one line a language."""
    for index, (name, part) in enumerate(table.groupby("language", sort=False)):
        style: Style = {"color": f"C{index}", "marker": MARKERS[index]}
        ax.errorbar(part.masks, part.entropy, 1.96 * part.standard_error, capsize=2, label=name, **style)
        ax.axhline(np.log(part.words.iloc[0]), color=f"C{index}", ls=":", lw=1)
    ax.set(xlabel="masked tokens of the sentence", ylabel="entropy of one of them (nats)")
    return ax
