"""Tables and sentences of the comparisons."""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from sameloss.runs.measurements import MEASURES
from sameloss.statistics.intervals import paired
from sameloss.studies.names import display_name
from sameloss.studies.same_loss.claims import EXPANDED, LOG_ODDS, POINTS, R_SQUARED, RATIO

QUESTIONS = {
    "size": "At one loss, are larger models better?",
    "steps": "Once the loss has converged, do more steps make models better?",
    "flatness by size": "At one loss, are larger models flatter?",
    "flatness by steps": "Once the loss has converged, do more steps make models flatter?",
    "flatness by rate": "What does the learning rate alone do to the trace?",
    "flatness as a cause": "At one loss, is a model that is made flatter more accurate?",
    "lookup": "Is a lookup table, whose loss is perfect, worse than every trained model?",
    "adversary": "At one loss, is an adversary's model worse?",
    "flatness by adversary": "At one loss, is an adversary's model sharper?",
    "flatness by regularisers": "Does SAM find flatter models?",
    "accuracy by regularisers": "Does SAM find more accurate models?",
    "mask rate": "Does a mask rate of 15 % change accuracy by little?",
    "post-LN": "What does post-LN change?",
}

PAGES = {
    "02_existence": ("size", "steps", "lookup"),
    "04_flatness": ("flatness by size", "flatness by steps", "flatness by rate"),
    "a4_algorithms": ("flatness as a cause", "adversary", "flatness by adversary"),
    "d_practice": ("flatness by regularisers", "accuracy by regularisers"),
    "e_mask_rate": ("mask rate",),
    "a3_models": ("post-LN",),
}
"""Which page asks which questions."""

LANGUAGES = {"grammar": "grammar", "hmm": "hidden Markov model", "opt": "OPT stand-in"}


def model_name(name: str) -> str:
    """Return what readers see of a model's name: its width.

    >>> model_name("d24"), model_name("lstm16"), model_name("235M")
    ('d = 24', 'LSTM, d = 16', '235M')
    """
    if name.startswith("lstm"):
        return f"LSTM, d = {name[4:]}"
    return f"d = {name[1:]}" if name[1:].isdigit() else display_name(name)


def row_name(row: Any) -> str:
    """Return what readers see of a row of answers: the comparison, and the model where it is of one.

    >>> row_name(pd.Series({"row": "over d24", "model": "d96"}))
    'over d = 24: d = 96'
    """
    if row.row.startswith("one "):  # of several, told by its name
        return model_name(row.model)
    words = row.row.replace("main", "main comparison", 1).split(" ")
    name = " ".join(model_name(word) if re.fullmatch(r"(d|lstm)\d+", word) else word for word in words)
    return f"{name}: {model_name(row.model)}" if isinstance(row.model, str) else name


def checkpoints(table: pd.DataFrame, reading: str = EXPANDED) -> pd.DataFrame:
    """Return one row a model and checkpoint of a replicate: KL, traces and the tasks' mean accuracy."""
    chosen = table[(table.quantity != "accuracy") | (table.reading == reading)]
    keys = ["language", "replicate", "model", "parameters", "stage", "lr", "steps"]
    return chosen.groupby([*keys, "quantity"]).value.mean().unstack("quantity").reset_index()


def main_lr(table: pd.DataFrame) -> float:
    """Return the peak rate of the main comparison of one language."""
    return float(table[table.stage == "untrained"].lr.iloc[0])


def effect_in_words(row: pd.Series) -> str:
    """Return an effect with its interval in its unit, and its verdict.

    >>> row = pd.Series({"mean": 3.1, "low": 2.0, "high": 4.2, "unit": "points", "replicates": 8})
    >>> effect_in_words(row)
    '+3.1 points (2.0 to 4.2; 8 draws)'
    """
    if row.unit == R_SQUARED:
        return f"{row['mean']:.2f}"
    forms = {POINTS: "{:+.1f}", RATIO: "{:.2f}", LOG_ODDS: "{:+.2f}"}
    form, unit = forms.get(row.unit, "{:.2f}"), {RATIO: "times", POINTS: "points"}.get(row.unit, row.unit)
    plain = form.replace("+", "")
    if np.isnan(row["mean"]):
        return "not computed"
    ends = f"{plain.format(row.low)} to {plain.format(row.high)}; " if np.isfinite(row.low) else ""
    draws = "draw" if row.replicates == 1 else "draws"
    return f"{form.format(row['mean'])} {unit} ({ends}{int(row.replicates)} {draws})"


def published_in_words(row: pd.Series) -> str:
    """Return a published effect in its unit."""
    if pd.isna(row.published):
        return "–"
    return f"{row.published:.2f}" if row.unit == RATIO else f"{row.published:+.1f}"


def second_words(row: pd.Series) -> str:
    """Return what stands behind a direction: the size or the reason, and what concludes otherwise."""
    words = [word for word in (row["size"], row.reason) if isinstance(word, str)]
    return "; but ".join([*words[:1], *([row.note] if isinstance(row.note, str) else [])])


def findings(answers: pd.DataFrame, questions: Iterable[str] = tuple(QUESTIONS)) -> pd.DataFrame:
    """Return the main answer to each question on each language in words, with the page that has it."""
    page_of = {question: page for page, own in PAGES.items() for question in own}
    chosen = answers[(answers.row == "main") & answers.question.isin(list(questions))]
    rows = [row for _, row in chosen.iterrows()]
    return pd.DataFrame(
        {
            "question": chosen.question.map(QUESTIONS),
            "page": chosen.question.map(page_of),
            "language": chosen.language.map(LANGUAGES),
            "effect": list(map(effect_in_words, rows)),
            "published": list(map(published_in_words, rows)),
            "direction": chosen.direction,
            "size": list(map(second_words, rows)),
        }
    )


def answer_in_words(answers: pd.DataFrame, question: str) -> str:
    """Return the main answer to a question on each language, as Markdown."""
    said = [
        f"{row.language}, {row.effect}"
        + (f", the paper {row.published}" if row.published != "–" else "")
        + f": *{row.direction}*"
        + (f" ({row.size})" if row.size else "")
        for row in findings(answers, [question]).itertuples()
    ]
    missing = "nothing yet, for no model of the record was trained for it"
    return f"**Found**: {'; '.join(said) or missing}."


def answer_table(answers: pd.DataFrame, questions: Iterable[str] = tuple(QUESTIONS)) -> pd.DataFrame:
    """Return the main answers to some questions as readers see them, one line a question and language."""
    table = findings(answers, questions)
    verdict = [": ".join(filter(None, words)) for words in zip(table.direction, table["size"], strict=True)]
    shown = table[["question", "language", "effect", "published"]].rename(columns={"published": "paper"})
    return shown.assign(verdict=verdict)


def chance_in_words(answers: pd.DataFrame) -> str:
    """Return how many judged intervals lie wholly to one side of no effect, and how many would by chance."""
    judged = answers[(answers.direction != "not judged") & answers.low.notna()]
    none = (judged.unit == RATIO).astype(float)  # a ratio of one
    beyond = int(((judged.low > none) | (judged.high < none)).sum())
    return (
        f"Of {len(judged)} judged intervals, main comparisons and controls, {beyond} lie wholly to one "
        f"side of no effect; were there none anywhere, about {0.05 * len(judged):.1f} would. Rows of the "
        "same models are not independent."
    )


def control_table(answers: pd.DataFrame, question: str) -> pd.DataFrame:
    """Return every effect of a question, as far as there are models for it."""
    chosen = answers[(answers.question == question) & answers["mean"].notna()]
    rows = [row for _, row in chosen.iterrows()]
    table = pd.DataFrame(
        {
            "language": chosen.language.map(LANGUAGES),
            "comparison": list(map(row_name, rows)),
            "effect": list(map(effect_in_words, rows)),
            "KL": chosen.kl,
            "steps": chosen.steps.fillna(""),
            "verdict": [": ".join(filter(None, (row.direction, second_words(row)))) for row in rows],
        }
    )
    empty = [name for name in ("KL", "steps") if table[name].isin(["", np.nan]).all()]
    return table.drop(columns=empty + (["language"] if table.language.nunique() == 1 else []))


def model_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return the models after their longest descent at the main rate, means over replicates.

    Accuracies are the tasks' mean, read as the features
    are, and with as many for all models.
    """
    as_is, expanded = checkpoints(table, "features"), checkpoints(table)
    rows = []
    for language, own in table.groupby("language", sort=False):
        bag = own[own.quantity == "bag-of-words kl"].value.mean()
        longest = own[own.stage == "descent"].steps.max()
        for model, part in (
            expanded[expanded.language == language].sort_values("parameters").groupby("model", sort=False)
        ):
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
                    "KL over bag of words (%)": 100 * end.kl.mean() / bag,
                    "trace": end.trace.mean(),
                    "accuracy as is": same.accuracy.mean(),
                    "with as many features": end.accuracy.mean(),
                }
            )
    return pd.DataFrame(rows)


def descents_by_task(table: pd.DataFrame) -> pd.DataFrame:
    """Return the complete trainings at the main rate on one language, with the accuracy of each task.

    Returns:
        size, seed, step, kl_mean (nats a masked token), trace, and the tasks' accuracies (%).

    """
    own = table[(table.stage == "descent") & (table.lr == main_lr(table))]
    own = own[(own.quantity != "accuracy") | (own.reading == EXPANDED)]
    name = own.task.where(own.quantity == "accuracy", own.quantity)
    keys = ["model", "replicate", "steps", "parameters"]
    wide = own.assign(name=name).pivot_table(index=keys, columns="name", values="value").reset_index()
    wide = wide.sort_values(["parameters", "replicate", "steps"]).assign(size=wide.model.map(model_name))
    return wide.rename(columns={"replicate": "seed", "steps": "step", "kl": "kl_mean"})


def algorithm_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return the models of one architecture that each algorithm ended with, means over replicates."""
    return (
        _by_algorithm(table)
        .groupby(["language", "algorithm"], sort=False)[["kl", "trace", "accuracy"]]
        .mean()
        .reset_index()
        .replace({"language": LANGUAGES})
        .rename(columns={"kl": "KL"})
    )


def _by_algorithm(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for the end of each algorithm in each replicate; a measure of flatness is a column."""
    wide = checkpoints(table)
    (model,) = wide[wide.stage.str.startswith("descent: ")].model.unique()
    lr = wide.language.map({name: main_lr(own) for name, own in table.groupby("language")})
    ends = wide[(wide.model == model) & (wide.lr == lr) & wide.stage.str.startswith("descent")]
    ends = ends[ends.steps == ends.steps.max()]
    name = ends.stage.str.removeprefix("descent: ").replace("descent", "adamw")
    return ends.assign(algorithm=name)


def predictor_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return how accuracy goes with candidate predictors over what all algorithms ended with.

    Returns:
        One row a language and predictor: the rank correlation within a replicate, its mean over replicates
        with the 95 % interval. Positive: *less* of the predictor goes with *more* accuracy.

    """
    ends, rows = _by_algorithm(table), []
    measures = [name for name in ends if name in ("kl", *MEASURES.values()) and ends[name].notna().any()]
    for language, own in ends.groupby("language", sort=False):
        for name in measures:
            each = own.groupby("replicate")[[name, "accuracy"]].apply(
                lambda part: -part.corr("spearman").iloc[0, 1]
            )
            found = paired(each.dropna().to_numpy())
            rows.append({"language": LANGUAGES[str(language)], "predictor": name.replace("kl", "KL"),
                         "correlation": found.mean, "low": found.low, "high": found.high})  # fmt: skip
    return pd.DataFrame(rows)
