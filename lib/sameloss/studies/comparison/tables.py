"""Tables and sentences of the comparisons."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from sameloss.studies.comparison.claims import EXPANDED, LOG_ODDS, POINTS, RATIO

QUESTIONS = {
    "size": "At one loss, are larger models better?",
    "steps": "Once the loss has converged, do more steps make models better?",
    "flatness by size": "At one loss, are larger models flatter?",
    "flatness by steps": "Once the loss has converged, do more steps make models flatter?",
    "flatness by rate": "What does the learning rate alone do to the trace?",
    "flatness as a cause": "At one loss, is a model that is made flatter more accurate?",
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
    as_is, expanded = checkpoints(table, "features"), checkpoints(table)
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
