"""Figures, tables and sentences of the comparisons."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from sameloss.studies.comparison.answers import EXPANDED, LOG_ODDS, POINTS, RATIO
from sameloss.studies.drawing import KL_LABEL, MARKERS, plain_log_axis

ACCURACY = "probe accuracy, mean of the tasks (%)"
TRACE = "Fisher trace"

QUESTIONS = {
    "size": "At one loss, are larger models better?",
    "steps": "Once the loss has converged, do more steps make models better?",
    "flatness by size": "At one loss, are larger models flatter?",
    "flatness by steps": "Once the loss has converged, do more steps make models flatter?",
    "flatness by rate": "What does the learning rate alone do to the trace?",
    "lookup": "Is a lookup table, whose loss is perfect, worse than every trained model?",
}
LANGUAGES = {"grammar": "grammar", "hmm": "hidden Markov model"}


def model_name(name: str) -> str:
    """Return what readers see of a model's name: its width.

    >>> model_name("d24"), model_name("lstm16"), model_name("235M")
    ('d = 24', 'LSTM, d = 16', '235M')
    """
    if name.startswith("lstm"):
        return f"LSTM, d = {name[4:]}"
    return f"d = {name[1:]}" if name[1:].isdigit() else name


def _styles(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Give each model a colour and a marker, smallest first."""
    models = table[table.model != "none"].drop_duplicates("model").sort_values("parameters").model
    colours = sns.color_palette("viridis", len(models) + 1)
    return {m: {"color": colours[i], "marker": MARKERS[i % len(MARKERS)]} for i, m in enumerate(models)}


def _wide(table: pd.DataFrame, reading: str = EXPANDED) -> pd.DataFrame:
    """Return one row a model and checkpoint of a replicate: KL, traces and the tasks' mean accuracy."""
    chosen = table[(table.quantity != "accuracy") | (table.reading == reading)]
    keys = ["language", "replicate", "model", "parameters", "stage", "lr", "steps"]
    return chosen.groupby([*keys, "quantity"]).value.mean().unstack("quantity").reset_index()


def accuracy_against_kl(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw accuracy against KL over complete descents at the main rate, means over replicates.

    Horizontal lines are what needs no model: bare tokens and the lookup table, both with random features.
    """
    wide, styles = _wide(table), _styles(table)
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


def main_lr(table: pd.DataFrame) -> float:
    """Return the peak rate of the main comparison of one language."""
    return float(table[table.stage == "untrained"].lr.iloc[0])


def trace_against_kl(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the trace against KL, one line a model and peak rate: the main rate solid, others dotted."""
    wide, styles = _wide(table), _styles(table)
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
    wide, styles = _wide(table), _styles(table)
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
    wide, styles = _wide(table), _styles(table)
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


def effect_in_words(row: pd.Series) -> str:
    """Return an effect with its interval in its unit, and its verdict.

    >>> row = pd.Series({"mean": 3.1, "low": 2.0, "high": 4.2, "unit": "points", "replicates": 8})
    >>> effect_in_words(row)
    '+3.1 points (2.0 to 4.2; 8 replicates)'
    """
    forms = {POINTS: "{:+.1f}", RATIO: "{:.2f}", LOG_ODDS: "{:+.2f}"}
    form, unit = forms.get(row.unit, "{:.2f}"), {RATIO: "times", POINTS: "points"}.get(row.unit, row.unit)
    plain = form.replace("+", "")
    ends = f"{plain.format(row.low)} to {plain.format(row.high)}; " if np.isfinite(row.low) else ""
    return f"{form.format(row['mean'])} {unit} ({ends}{int(row.replicates)} replicates)"


def verdict_in_words(row: pd.Series) -> str:
    """Return the two words of a verdict, or why there is none."""
    if row.direction == "not testable":
        return f"not testable: {row.reason}"
    return row.direction if not isinstance(row["size"], str) else f"{row.direction}, {row['size']}"


def answer_table(
    answers: pd.DataFrame, questions: Iterable[str], rows: Sequence[str] = ("main",)
) -> pd.DataFrame:
    """Return the answers to some questions as readers see them, one line an effect."""
    chosen = answers[answers.question.isin(list(questions)) & answers.row.isin(rows)]
    return pd.DataFrame(
        {
            "question": chosen.question.map(QUESTIONS),
            "language": chosen.language.map(LANGUAGES),
            "effect": [effect_in_words(row) for _, row in chosen.iterrows()],
            "published": [
                "–"
                if pd.isna(row.published)
                else f"{row.published:.2f}"
                if row.unit == RATIO
                else f"{row.published:+.1f}"
                for _, row in chosen.iterrows()
            ],
            "verdict": [verdict_in_words(row) for _, row in chosen.iterrows()],
        }
    )


def control_table(answers: pd.DataFrame, question: str, language: str) -> pd.DataFrame:
    """Return every effect of a question on one language, the main one first."""
    chosen = answers[(answers.question == question) & (answers.language == language)]
    return pd.DataFrame(
        {
            "comparison": [
                row.row if not isinstance(row.model, str) else f"{row.row}: {model_name(row.model)}"
                for row in chosen.itertuples()
            ],
            "effect": [effect_in_words(row) for _, row in chosen.iterrows()],
            "KL": chosen.kl.to_numpy(),
            "verdict": [verdict_in_words(row) for _, row in chosen.iterrows()],
        }
    )


def model_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return the models after their longest descent at the main rate, means over replicates.

    `of the bag's` is the KL over that of a bag of words; accuracies are the tasks' mean, read as the features
    are, and with as many for all models.
    """
    as_is, expanded = _wide(table, "features"), _wide(table)
    rows = []
    for language, own in table.groupby("language", sort=False):
        bag = own[own.quantity == "bag-of-words kl"].value.mean()
        longest = own[own.stage == "descent"].steps.max()
        for model, part in expanded[expanded.language == language].groupby("model", sort=False):
            end = part[(part.stage == "descent") & (part.lr == main_lr(own)) & (part.steps == longest)]
            if end.empty:
                continue
            same = as_is.loc[end.index]
            rows.append(
                {
                    "language": LANGUAGES[str(language)],
                    "model": model_name(str(model)),
                    "parameters": int(end.parameters.iloc[0]),
                    "KL": end.kl.mean(),
                    "of the bag's (%)": 100 * end.kl.mean() / bag,
                    "trace": end.trace.mean(),
                    "accuracy as is": same.accuracy.mean(),
                    "with as many features": end.accuracy.mean(),
                }
            )
    return pd.DataFrame(rows).sort_values(["language", "parameters"], kind="stable")
