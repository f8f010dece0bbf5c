"""Tables and sentences about the comparisons."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from sameloss.studies.names import display_name
from sameloss.studies.same_loss.claims import (
    EACH,
    EXPANDED,
    LOG_ODDS,
    MAIN,
    POINTS,
    R_SQUARED,
    RATE_SLOPE,
    RATIO,
    SLOPE,
)
from sameloss.studies.verdict import in_words

QUESTIONS = {
    "size": "At equal KL, are larger models better?",
    "steps": "At equal KL, do more steps make models better?",
    "flatness by size": "At equal KL, are larger models flatter?",
    "flatness by steps": "At equal KL, do more steps make models flatter?",
    "flatness by rate": "What does the learning rate alone do to the trace?",
    "flatness as a cause": "At equal KL, is a model that is made flatter more accurate?",
    "lookup": "Is a lookup table, whose loss is optimal, worse than every size after its longest training?",
    "adversary": "At equal KL, is an adversarially trained model worse?",
    "flatness by adversary": "At equal KL, is an adversarially trained model sharper?",
    "flatness by regularisers": "At equal KL, does SAM find flatter models?",
    "accuracy by regularisers": "At equal KL, does SAM find more accurate models?",
    "mask rate": "Does a mask rate of 15 % change accuracy by less than two points?",
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

PAGE_OF = {question: page for page, asked in PAGES.items() for question in asked}


def language_name(name: str) -> str:
    """A language in words; a new one has its own name."""
    words = {"hmm": "hidden Markov model", "opt": "OPT stand-in", "pretrained": "generated text"}
    return words.get(name, name)


def row_name(row: Any) -> str:
    """Return the name of a row of answers: the comparison, and the model if it is of one.

    >>> row_name(pd.Series({"row": "neighbouring sizes", "over": "d24", "treatment": None, "model": "d96"}))
    'd = 24 to d = 96'
    >>> row_name(pd.Series({"row": "flatter", "over": None, "treatment": "sgd-noise, s = 1", "model": "d32"}))
    'flatter: label noise, s = 1: d = 32'
    """
    treatment, over, model = (
        display_name(name) if isinstance(name, str) else "" for name in (row.treatment, row.over, row.model)
    )
    if over:
        return f"{over} to {model}"
    compared = {MAIN: "main comparison", EACH: ""}.get(row.row, row.row)
    return ": ".join(filter(None, (compared, treatment, model)))


def checkpoints(table: pd.DataFrame, reading: str = EXPANDED) -> pd.DataFrame:
    """Return one row per checkpoint of a replicate: KL, traces and the tasks' mean accuracy."""
    chosen = table[(table.quantity != "accuracy") | (table.reading == reading)]
    keys = ["language", "replicate", "model", "parameters", "stage", "variant", "lr", "steps"]
    return chosen.groupby([*keys, "quantity"]).value.mean().unstack("quantity").reset_index()


def main_lr(table: pd.DataFrame) -> float:
    """Return the peak rate of the main comparison on one language, which labels its untrained models."""
    return float(table[table.stage == "untrained"].lr.iloc[0])


UNITS = {
    RATIO: "times",
    LOG_ODDS: "log-odds per doubling",
    SLOPE: "points for each factor e by which the trace falls",
    RATE_SLOPE: "log trace per log rate",
}
"""Units as readers see them; the rest keep their names."""


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
    digits += any(0 < abs(end) < 0.5 * 10.0**-digits for end in (row.low, row.high))  # its sign matters
    ends = f"{row.low:z.{digits}f} to {row.high:z.{digits}f}; " if np.isfinite(row.low) else ""
    unit, draws = UNITS.get(row.unit, row.unit), "draw" if row.replicates == 1 else "draws"
    return f"{row['mean']:{sign}z.{digits}f} {unit} ({ends}{int(row.replicates)} {draws})"


def published_in_words(row: pd.Series) -> str:
    """Return a published effect in its unit, or a dash."""
    if pd.isna(row.published):
        return "–"
    return f"{row.published:.2f}" if row.unit == RATIO else f"{row.published:+.1f}"


def remark(row: pd.Series) -> str:
    """Return what follows a direction: the size or the reason, and which other conditions disagree."""
    *most, last = row.note or [""]
    turned = f"reversed {' and '.join(filter(None, [', '.join(most), last]))}" if last else ""
    return "; ".join(filter(None, (row["size"] or row.reason, turned)))


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
    directions = answers.direction.replace("", "not judged")
    words = answers.assign(language=answers.language.map(language_name), direction=directions, **columns)
    return words.assign(verdict=list(map(in_words, directions, words["size"])))


def findings(answers: pd.DataFrame, questions: Iterable[str] = tuple(QUESTIONS)) -> pd.DataFrame:
    """Return the main answer to each question on each language in words, with the page that has it."""
    words = _in_words(answers[(answers.row == MAIN) & answers.question.isin(list(questions))])
    words = words.assign(page=words.question.map(PAGE_OF), question=words.question.map(QUESTIONS))
    return words[["question", "page", "language", "effect", "published", "direction", "size", "verdict"]]


def answer_table(answers: pd.DataFrame, questions: Iterable[str] = tuple(QUESTIONS)) -> pd.DataFrame:
    """Return the main answers to some questions, one row per question and language."""
    table = findings(answers, questions).rename(columns={"published": "paper"})
    return table[["question", "language", "effect", "paper", "verdict"]]


def control_table(answers: pd.DataFrame, question: str) -> pd.DataFrame:
    """Return every computed effect of a question."""
    table = _in_words(answers[(answers.question == question) & answers["mean"].notna()])
    unlearnt = table.unlearnt.map(lambda share: f"{share:.0f} %" if np.isfinite(share) else "")
    texts = ["KL", "unlearnt", "rate", "steps"]
    table = table.assign(unlearnt=unlearnt).rename(columns={"kl": "KL"})
    table = table[["language", "comparison", "effect", *texts, "verdict"]].fillna(dict.fromkeys(texts, ""))
    empty = [name for name in texts if not table[name].any()]
    return table.drop(columns=empty + (["language"] if table.language.nunique() == 1 else []))


def main_answer(answers: pd.DataFrame, question: str) -> Any:
    """Return the first computed main answer to a question; None if there is none."""
    rows = answers[(answers.question == question) & (answers.row == MAIN) & answers["mean"].notna()]
    return None if rows.empty else rows.iloc[0]
