"""One function a figure: a tidy frame in, Axes out."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter

from sameloss.studies.drawing import KL_LABEL, MARKERS, legend, panels, plain_log_axis
from sameloss.studies.names import display_name
from sameloss.studies.same_loss.effects import Compared
from sameloss.studies.same_loss.results import WAYS

BASELINE_STYLES = {"lookup table": "--", "one-hot tokens": ":"}


TRACE_LABEL = "Fisher trace, native parameters"


def accuracy_label(task: str) -> str:
    """Return what an axis of accuracies says."""
    return f"probe accuracy, {display_name(task)} (%)"


def _styles(table: pd.DataFrame, by: str = "size") -> dict[str, dict]:
    """Give each group a colour and a marker: sizes of a known number of parameters by it, others in order."""
    by_parameters = by == "size" and "parameters" in table
    ordered = table.sort_values("parameters", kind="stable") if by_parameters else table
    groups = ordered[by].unique()
    colours = sns.color_palette("colorblind", len(groups))
    return {name: {"color": colours[i], "marker": MARKERS[i % len(MARKERS)]} for i, name in enumerate(groups)}


def _averaged(part: pd.DataFrame, quantity: str) -> tuple[pd.Series, pd.Series]:
    by_step = part.groupby("step")[quantity]
    return by_step.mean(), by_step.std().fillna(0.0)


def along_training(
    table: pd.DataFrame, quantity: str, label: str, ax: Axes, log: bool, by: str = "size"
) -> Axes:
    """Draw a quantity against the step, mean and standard deviation over pre-training seeds."""
    for name, style in _styles(table, by).items():
        mean, spread = _averaged(table[table[by] == name], quantity)
        ax.errorbar(mean.index, mean, spread, label=display_name(name), capsize=2, **style)
    ax.set(xlabel="pre-training step", ylabel=label, xscale="log", yscale="log" if log else "linear")
    steps = sorted(table.step.unique())
    ax.set_xticks(steps, [f"{step:g}" for step in steps], rotation=45)
    ax.xaxis.set_minor_formatter(NullFormatter())
    if log:
        plain_log_axis(ax.yaxis, table[quantity])
    return ax


def accuracy_against_kl(
    table: pd.DataFrame, task: str, baselines: pd.DataFrame, saturated_kl: float, ax: Axes, by: str = "size"
) -> Axes:
    """Draw accuracy against KL: one point a checkpoint, one line a pre-training.

    Args:
        table: checkpoints, one row each.
        task: column of the accuracy in points.
        baselines: representation and accuracy of what has no KL of its own to plot.
        saturated_kl: the region below it is shaded.
        ax: where to draw.
        by: column whose values are drawn in colours of their own.

    """
    ax.axvspan(table.kl_mean.min() / 1.5, saturated_kl, color="0.93", zorder=0, lw=0)
    for name, style in _styles(table, by).items():
        for seed, run in table[table[by] == name].groupby("seed"):
            run = run.sort_values("step")
            ax.plot(run.kl_mean, run[task], alpha=0.5, lw=1, markersize=4, **style)
            last = run.iloc[-1]
            ax.plot(last.kl_mean, last[task], markersize=9, mec="black", ls="none", **style,
                    label=display_name(name) if seed == 0 else None)  # fmt: skip
    for _, row in baselines.iterrows():
        ax.axhline(row.accuracy, color="0.35", ls=BASELINE_STYLES[row.representation], lw=1.3,
                   label=row.representation)  # fmt: skip
    ax.set(xscale="log", xlabel=KL_LABEL, ylabel=accuracy_label(task))
    plain_log_axis(ax.xaxis, table.kl_mean)
    ax.invert_xaxis()
    ax.set_xlim(right=table.kl_mean.min() / 1.5)
    return ax


def accuracy_by_representation(table: pd.DataFrame, title: str, ax: Axes) -> Axes:
    """Draw accuracies with their intervals, one row a representation; what no training made is grey."""
    colours = sns.color_palette("colorblind", len(table))
    for at, row in enumerate(table.itertuples()):
        untrained = row.representation in BASELINE_STYLES or row.representation.endswith("untrained")
        colour = "0.35" if untrained else colours[at]
        ends = [[row.accuracy - row.low], [row.high - row.accuracy]]
        ax.errorbar(row.accuracy, -at, xerr=ends, fmt=MARKERS[at % len(MARKERS)], color=colour, capsize=3)
    ax.set_yticks(range(0, -len(table), -1), table.representation)
    ax.set(xlabel="probe accuracy (%)", title=title)
    return ax


def accuracy_by_size(table: pd.DataFrame) -> list[Axes]:
    """Draw accuracy against size, a panel a task: trained models filled, untrained ones open and dashed.

    Args:
        table: from `tables.comparison.trained_and_untrained`; each protocol has a colour. Where it has a
            `language`, each has panels of its own.

    """
    tasks = table.assign(language=table.get("language", "")).groupby(["language", "task"], sort=False)
    axes = panels(tasks.ngroups)
    for ((language, task), part), ax in zip(tasks, axes, strict=True):
        styles = _styles(part, "protocol")
        for (name, style), shift in zip(styles.items(), np.linspace(-0.1, 0.1, len(styles)), strict=True):
            for models, look in {"trained": {}, "untrained": {"mfc": "white", "ls": "--"}}.items():
                own = part[(part.protocol == name) & (part.models == models)]
                at, ends = np.arange(len(own)) + shift, [own.value - own.low, own.high - own.value]
                ax.errorbar(at, own.value, ends, capsize=2, label=f"{name}, {models}", **style | look)
        sizes = part["size"].unique()
        ax.set_xticks(range(len(sizes)), sizes)
        ax.set(xlabel="size", ylabel=accuracy_label(task), xlim=(-0.4, len(sizes) - 0.6), title=language)
    legend(axes[0])
    return axes


def accuracy_by_labels(table: pd.DataFrame, few: range) -> list[Axes]:
    """Draw accuracy against the number of labels, a panel a task: trained models solid, untrained dashed.

    Args:
        table: from `tables.labels.accuracy_by_labels`; the intervals of trained models are shaded.
        few: numbers of labels to be marked.

    """
    axes = panels(table.task.nunique())
    for (task, part), ax in zip(table.groupby("task", sort=False), axes, strict=True):
        ax.axvspan(few[0], few[-1], color="0.93", zorder=0, lw=0)
        pretrained = part[~part.models.isin(BASELINE_STYLES)]
        for size, style in _styles(pretrained).items():
            by_models = pretrained[pretrained["size"] == size].set_index("models")
            drawn, own = by_models.loc["untrained"], by_models.loc["trained"]
            ax.plot(drawn.sentences, drawn.value, ls="--", ms=4, lw=1.3, **style)
            ax.plot(own.sentences, own.value, ms=4, lw=1.3, label=size, **style)
            ax.fill_between(own.sentences, own.low, own.high, color=style["color"], alpha=0.1, lw=0)
        for name, line in BASELINE_STYLES.items():
            own = part[part.models == name]
            ax.plot(own.sentences, own.value, color="0.35", ls=line, lw=0.8, label=name)
        ax.set(xlabel="labelled sentences", ylabel=accuracy_label(task), xscale="log")
        ax.set_xticks(counts := sorted(part.sentences.unique()), counts, rotation=45)
        ax.minorticks_off()
    legend(axes[0])
    return axes


def effects(table: pd.DataFrame, label: str, ax: Axes) -> Axes:
    """Draw effects with their 95 % intervals, one row each; what could not be compared says so.

    Args:
        table: `effect` (its name), value, low, high.
        label: of the axis.
        ax: where to draw.

    """
    for at, row in enumerate(table.itertuples()):
        if np.isnan(row.low):
            ax.text(0, -at, " not comparable", va="center", fontsize="small", color="0.35")
        else:
            ends = [[row.value - row.low], [row.high - row.value]]
            ax.errorbar(row.value, -at, xerr=ends, fmt="o", color="C0", capsize=3)
    ax.axvline(0, color="0.5", lw=1)
    ax.set_yticks(range(0, -len(table), -1), table.effect.map(display_name), fontsize="small")
    ax.set(xlabel=label, ylim=(0.6 - len(table), 0.6))
    return ax


def accuracy_bought(table: pd.DataFrame) -> list[Axes]:
    """Draw what a change of the trace does to accuracy: a panel a task, a marker a way to change it.

    Args:
        table: from `tables.causal.bought_flatness`; ways whose KLs are not equal are left out.

    """
    shown = table.dropna(subset=["trace", "value"])
    colours = dict(zip(table.way.unique(), sns.color_palette("colorblind", table.way.nunique()), strict=True))
    axes = panels(table.task.nunique())
    for (task, part), ax in zip(shown.groupby("task", sort=False), axes, strict=False):
        for at, row in enumerate(part.itertuples()):
            across = [[row.trace - row.trace_low], [row.trace_high - row.trace]]
            up = [[row.value - row.low], [row.high - row.value]]
            name = display_name(row.way.removesuffix(", cooled"))
            ax.errorbar(1 + row.trace, row.value, up, across, marker=MARKERS[at % len(MARKERS)], capsize=2,
                        ls="none", color=colours[row.way], label=name)  # fmt: skip
        ax.axhline(0, color="0.5", lw=1)
        ax.axvline(1, color="0.5", lw=1)
        ax.set(
            xscale="log",
            xlabel="trace, relative to the reference",
            ylabel=f"accuracy, {display_name(task)} (points)",
        )
        plain_log_axis(ax.xaxis, 1 + part.trace)
    if len(shown):
        legend(axes[0])
    return axes


def error_by_labels(table: pd.DataFrame, few: range, ax: Axes) -> Axes:
    """Draw by what a treatment multiplies the error against the number of labels, a line a task.

    Args:
        table: from `tables.causal.errors_by_labels`.
        few: numbers of labels to be marked.
        ax: where to draw.

    """
    ax.axvspan(few[0], few[-1], color="0.93", zorder=0, lw=0)
    counted = table[table.labels.str.isdigit()].astype({"labels": int}).dropna()
    for task, style in _styles(counted, "task").items():
        own = counted[counted.task == task]
        apart = [own.factor - own.low, own.high - own.factor]
        ax.errorbar(own.labels, own.factor, apart, label=display_name(task), capsize=2, **style)
    ax.axhline(1, color="0.5", lw=1)
    ax.set(xlabel="labelled sentences", ylabel="error, noisy over untreated", xscale="log", yscale="log")
    if len(counted):
        ax.set_xticks(counts := sorted(counted.labels.unique()), counts, rotation=45)
        plain_log_axis(ax.yaxis, counted.factor)
    return ax


def differences_at_equal_kl(table: pd.DataFrame, reference: str = "AdamW") -> list[Axes]:
    """Draw a panel for the trace and for each task: every algorithm minus the reference.

    Args:
        table: from `tables.comparison.arm_differences`.
        reference: its name on the axes.

    """
    matched = table[table.compared == Compared.EQUAL_KL].rename(columns={"algorithm": "effect"})
    axes = panels(matched.quantity.nunique())
    for (name, part), ax in zip(matched.groupby("quantity", sort=False), axes, strict=True):
        unit = "relative excess" if name == "trace" else "points"
        effects(part, f"{display_name(name)}: {unit} over {reference}", ax)
        ax.tick_params(labelleft=ax is axes[0])
    return axes


def accuracy_against_trace(table: pd.DataFrame, task: str, ax: Axes, by: str = "size") -> Axes:
    """Draw accuracy against trace: open markers for checkpoints, filled for the last of each run."""
    for name, style in _styles(table, by).items():
        part = table[table[by] == name]
        end = part[part.step == part.step.max()]
        ax.plot(part.trace, part[task], ls="none", mfc="none", markersize=5, alpha=0.8, **style)
        ax.errorbar(end.trace, end[task], xerr=end.trace_se, ls="none", markersize=8, mec="black",
                    label=display_name(name), **style)  # fmt: skip
    ax.set(xlabel=TRACE_LABEL, ylabel=accuracy_label(task), xscale="log")
    plain_log_axis(ax.xaxis, table.trace)
    return ax


def gap_against_kl(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw (Hessian - Fisher) / Fisher in per cent against KL, one point a checkpoint, error of the gap."""
    for size, style in _styles(table).items():
        part = table[table["size"] == size]
        share, error = 100 * part.gap / part.trace, 100 * part.gap_se / part.trace
        ax.errorbar(part.kl_mean, share, 1.96 * error, ls="none", capsize=2, ms=5, lw=1, label=size, **style)
    ax.axhline(0, color="0.5", lw=1)
    ax.set(xscale="log", xlabel=KL_LABEL, ylabel="Hessian beyond Fisher trace (%)")
    plain_log_axis(ax.xaxis, table.kl_mean)
    ax.invert_xaxis()
    return ax


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


def traces_by_comparison(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw traces of all sizes in several ways to compare them, one point a pre-training."""
    styles = _styles(table)
    names = list(dict.fromkeys(table.way))
    for at, (size, style) in enumerate(styles.items()):
        part = table[table["size"] == size]
        places = np.array([names.index(name) for name in part.way]) + 0.18 * (at - (len(styles) - 1) / 2)
        ax.errorbar(places, part.trace, part.trace_se, ls="none", ms=5, label=size, **style)
    wrapped = [WAYS[name].label.replace(", ", ",\n").replace(" (", "\n(") for name in names]
    ax.set_xticks(range(len(names)), wrapped, fontsize="small")
    ax.set(ylabel="trace", yscale="log")
    plain_log_axis(ax.yaxis, table.trace)
    ax.legend(title="size", bbox_to_anchor=(1, 1), loc="upper left")
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


def trace_by_group(traces: pd.DataFrame, step: int, ax: Axes) -> Axes:
    """Draw the trace of the last checkpoint as stacked parameter groups, mean over seeds."""
    parts = traces[(traces.split == "kind") & (traces.step == step)]
    sizes = list(dict.fromkeys(parts["size"]))
    wide = parts.pivot_table(index="size", columns="part", values="mean").loc[sizes]
    wide = wide[wide.mean().sort_values(ascending=False).index]
    wide.plot.bar(stacked=True, ax=ax, width=0.65, rot=0, edgecolor="white")
    ax.set(xlabel="size", ylabel=TRACE_LABEL)
    ax.legend(title=None, bbox_to_anchor=(1, 1), loc="upper left")
    return ax
