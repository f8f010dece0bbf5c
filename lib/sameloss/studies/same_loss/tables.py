"""Tables and sentences about the comparisons."""

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

STATEMENTS = {
    "size": "larger models are better",
    "steps": "more steps make a converged model better",
    "flatness by size": "larger models are flatter",
    "flatness by steps": "more steps make a converged model flatter",
    "flatness as a cause": "making a model flatter makes it more accurate",
    "lookup": "a lookup table with a perfect loss is worse than every trained model",
    "adversary": "an adversary makes models worse",
    "flatness by adversary": "an adversary makes models sharper",
    "flatness by regularisers": "SAM finds flatter models",
    "accuracy by regularisers": "SAM finds more accurate models",
    "mask rate": "masking 15 % of the tokens changes little",
}
"""What a question's answer supports, all at one pre-training loss."""

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
    """Return a model's name as readers see it: its width.

    >>> model_name("d24"), model_name("lstm16"), model_name("235M")
    ('d = 24', 'LSTM, d = 16', '235M')
    """
    if name.startswith("lstm"):
        return f"LSTM, d = {name[4:]}"
    return f"d = {name[1:]}" if name[1:].isdigit() else display_name(name)


def row_name(row: Any) -> str:
    """Return the name of a row of answers: the comparison, and the model if it is of one.

    >>> row_name(pd.Series({"row": "over d24", "model": "d96"}))
    'over d = 24: d = 96'
    """
    if row.row.startswith("one "):  # of several rows, which differ by the model
        return model_name(row.model)
    words = row.row.replace("main", "main comparison", 1)
    name = re.sub(r"\b(d|lstm)\d+\b", lambda model: model_name(model[0]), words)
    return f"{name}: {model_name(row.model)}" if isinstance(row.model, str) else name


def checkpoints(table: pd.DataFrame, reading: str = EXPANDED) -> pd.DataFrame:
    """Return one row per checkpoint of a replicate: KL, traces and the tasks' mean accuracy."""
    chosen = table[(table.quantity != "accuracy") | (table.reading == reading)]
    keys = ["language", "replicate", "model", "parameters", "stage", "lr", "steps"]
    return chosen.groupby([*keys, "quantity"]).value.mean().unstack("quantity").reset_index()


def main_lr(table: pd.DataFrame) -> float:
    """Return the peak rate of the main comparison on one language."""
    return float(table[table.stage == "untrained"].lr.iloc[0])


def main_descents(table: pd.DataFrame, reading: str = EXPANDED) -> pd.DataFrame:
    """Return the `checkpoints` of complete descents at the main rate on one language."""
    rows = checkpoints(table, reading)
    return rows[(rows.stage == "descent") & (rows.lr == main_lr(table))]


def effect_in_words(row: pd.Series) -> str:
    """Return an effect with its interval in its unit.

    >>> row = pd.Series({"mean": 3.1, "low": 2.0, "high": 4.2, "unit": "points", "replicates": 8})
    >>> effect_in_words(row)
    '+3.1 points (2.0 to 4.2; 8 draws)'
    """
    if row.unit == R_SQUARED:
        return f"{row['mean']:.2f}"
    if np.isnan(row["mean"]):
        return "not computed"
    digits, sign = (1 if row.unit == POINTS else 2), ("+" if row.unit in (POINTS, LOG_ODDS) else "")
    ends = f"{row.low:.{digits}f} to {row.high:.{digits}f}; " if np.isfinite(row.low) else ""
    unit, draws = "times" if row.unit == RATIO else row.unit, "draw" if row.replicates == 1 else "draws"
    return f"{row['mean']:{sign}.{digits}f} {unit} ({ends}{int(row.replicates)} {draws})"


def published_in_words(row: pd.Series) -> str:
    """Return a published effect in its unit, or a dash."""
    if pd.isna(row.published):
        return "–"
    return f"{row.published:.2f}" if row.unit == RATIO else f"{row.published:+.1f}"


def remark(row: pd.Series) -> str:
    """Return what follows a direction: the size or the reason, and which other conditions disagree."""
    words = [word for word in (row["size"], row.reason) if isinstance(word, str)]
    return "; but ".join([*words[:1], *([row.note] if isinstance(row.note, str) else [])])


def _in_words(answers: pd.DataFrame) -> pd.DataFrame:
    """Rows of answers, with their columns as readers see them."""
    rows = [row for _, row in answers.iterrows()]
    writers = {
        "comparison": row_name,
        "effect": effect_in_words,
        "published": published_in_words,
        "size": remark,
    }
    columns = {name: [write(row) for row in rows] for name, write in writers.items()}
    words = answers.assign(language=answers.language.map(LANGUAGES), **columns)
    verdicts = zip(words.direction, words["size"], strict=True)
    return words.assign(verdict=[": ".join(filter(None, verdict)) for verdict in verdicts])


def findings(answers: pd.DataFrame, questions: Iterable[str] = tuple(QUESTIONS)) -> pd.DataFrame:
    """Return the main answer to each question on each language in words, with the page that has it."""
    page_of = {question: page for page, asked in PAGES.items() for question in asked}
    words = _in_words(answers[(answers.row == "main") & answers.question.isin(list(questions))])
    words = words.assign(
        page=words.question.map(page_of),
        statement=words.question.map(STATEMENTS),
        question=words.question.map(QUESTIONS),
    )
    columns = ["question", "statement", "page", "language"]
    return words[[*columns, "effect", "published", "direction", "size", "verdict"]]


def answer_in_words(answers: pd.DataFrame, question: str) -> str:
    """Return the main answer to a question on each language, as Markdown."""
    sentences = [
        f"{row.language}, {row.effect}"
        + (f", the paper {row.published}" if row.published != "–" else "")
        + f": *{row.direction}*"
        + (f" ({row.size})" if row.size else "")
        for row in findings(answers, [question]).itertuples()
    ]
    missing = "nothing yet, for no model of the record was trained for it"
    return f"**Found**: {'; '.join(sentences) or missing}."


def answer_table(answers: pd.DataFrame, questions: Iterable[str] = tuple(QUESTIONS)) -> pd.DataFrame:
    """Return the main answers to some questions, one row per question and language."""
    table = findings(answers, questions).rename(columns={"published": "paper"})
    return table[["question", "language", "effect", "paper", "verdict"]]


def chance_in_words(answers: pd.DataFrame) -> str:
    """Return how many judged intervals exclude no effect, and how many would by chance."""
    judged = answers[(answers.direction != "not judged") & answers.low.notna()]
    none = (judged.unit == RATIO).astype(float)  # a ratio of one
    beyond = int(((judged.low > none) | (judged.high < none)).sum())
    return (
        f"Of {len(judged)} judged intervals, main comparisons and controls, {beyond} lie wholly to one "
        f"side of no effect; were there none anywhere, about {0.05 * len(judged):.1f} would. Rows of the "
        "same models are not independent."
    )


def control_table(answers: pd.DataFrame, question: str) -> pd.DataFrame:
    """Return every computed effect of a question."""
    table = _in_words(answers[(answers.question == question) & answers["mean"].notna()])
    table = table.assign(steps=table.steps.fillna("")).rename(columns={"kl": "KL"})
    table = table[["language", "comparison", "effect", "KL", "steps", "verdict"]]
    empty = [name for name in ("KL", "steps") if table[name].isin(["", np.nan]).all()]
    return table.drop(columns=empty + (["language"] if table.language.nunique() == 1 else []))


def model_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return the models after their longest descent at the main rate, means over replicates.

    Accuracies are the tasks' mean, on the models' own features and on as many for all models.
    """
    parts = []
    for language, part in table.groupby("language", sort=False):
        descents = main_descents(part).assign(as_is=main_descents(part, "features").accuracy)
        ends = descents[descents.steps == descents.steps.max()]
        means = (
            ends.groupby(["parameters", "model"])[["kl", "trace", "as_is", "accuracy"]].mean().reset_index()
        )
        bag = part[part.quantity == "bag-of-words kl"].value.mean()
        columns = {
            "language": LANGUAGES[str(language)],
            "model": means.model.map(model_name),
            "parameters": means.parameters,
            "KL": means.kl,
            "KL over bag of words (%)": 100 * means.kl / bag,
            "trace": means.trace,
            "accuracy as is": means.as_is,
            "with as many features": means.accuracy,
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def descents_by_task(table: pd.DataFrame) -> pd.DataFrame:
    """Return the complete descents at the main rate on one language, with the accuracy on each task.

    Returns:
        size, seed, step, kl_mean (nats per masked token), trace, and the tasks' accuracies (%).

    """
    rows = table[(table.stage == "descent") & (table.lr == main_lr(table))]
    rows = rows[(rows.quantity != "accuracy") | (rows.reading == EXPANDED)]
    name = rows.task.where(rows.quantity == "accuracy", rows.quantity)
    keys = ["model", "replicate", "steps", "parameters"]
    wide = rows.assign(name=name).pivot_table(index=keys, columns="name", values="value").reset_index()
    wide = wide.sort_values(["parameters", "replicate", "steps"]).assign(size=wide.model.map(model_name))
    return wide.rename(columns={"replicate": "seed", "steps": "step", "kl": "kl_mean"})


def algorithm_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return KL, trace and accuracy at the end of each algorithm's training, means over replicates."""
    means = _ends_by_algorithm(table).groupby(["language", "algorithm"], sort=False)[
        ["kl", "trace", "accuracy"]
    ]
    return means.mean().reset_index().replace({"language": LANGUAGES}).rename(columns={"kl": "KL"})


def _ends_by_algorithm(table: pd.DataFrame) -> pd.DataFrame:
    """The last `checkpoints` of the model that several algorithms train, with a column `algorithm`."""
    rows = checkpoints(table)
    (model,) = rows[rows.stage.str.startswith("descent: ")].model.unique()
    lr = rows.language.map({name: main_lr(part) for name, part in table.groupby("language")})
    ends = rows[(rows.model == model) & (rows.lr == lr) & rows.stage.str.startswith("descent")]
    ends = ends[ends.steps == ends.steps.max()]
    return ends.assign(algorithm=ends.stage.str.removeprefix("descent: ").replace("descent", "adamw"))


def predictor_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return how well candidate predictors rank the accuracies of the models of all algorithms.

    Returns:
        One row per language and predictor: minus the rank correlation within a replicate, its mean over
        replicates with the 95 % interval. Positive: *less* of the predictor goes with *more* accuracy.

    """
    ends, rows = _ends_by_algorithm(table), []
    measures = [name for name in ends if name in ("kl", *MEASURES.values()) and ends[name].notna().any()]
    for language, part in ends.groupby("language", sort=False):
        for name in measures:
            replicates = part.groupby("replicate")[[name, "accuracy"]]
            correlations = -replicates.apply(lambda pair: pair.corr("spearman").iloc[0, 1])
            mean, low, high, *_ = paired(correlations.dropna().to_numpy())
            row = {"language": LANGUAGES[str(language)], "predictor": name.replace("kl", "KL")}
            rows.append({**row, "correlation": mean, "low": low, "high": high})
    return pd.DataFrame(rows)
