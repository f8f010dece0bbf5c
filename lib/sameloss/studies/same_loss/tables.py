"""Tables and sentences about the comparisons."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from sameloss.studies.names import display_name
from sameloss.studies.same_loss.claims import (
    EACH,
    EXPANDED,
    FLATTER,
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

LANGUAGES = {"grammar": "grammar", "hmm": "hidden Markov model", "opt": "OPT stand-in"}
LANGUAGES["pretrained"] = "generated text"


def row_name(row: Any) -> str:
    """Return the name of a row of answers: the comparison, and the model if it is of one.

    >>> row_name(pd.Series({"row": "neighbouring sizes", "over": "d24", "treatment": None, "model": "d96"}))
    'd = 24 to d = 96'
    >>> row_name(pd.Series({"row": FLATTER, "over": None, "treatment": "sgd-noise, s = 1", "model": "d32"}))
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


def main_descents(table: pd.DataFrame, reading: str = EXPANDED) -> pd.DataFrame:
    """Return the `checkpoints` of complete descents at the main rate on one language."""
    rows = checkpoints(table, reading)
    return rows[(rows.stage == "descent") & (rows.lr == main_lr(table))]


UNITS = {
    RATIO: "times",
    LOG_ODDS: "log-odds per doubling",
    SLOPE: "points per 2.7-fold drop in trace",
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
    words = answers.assign(language=answers.language.map(LANGUAGES), direction=directions, **columns)
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


# Sentences: what a page found, and the titles of figures.


def main_answer(answers: pd.DataFrame, question: str) -> Any:
    """Return the first computed main answer to a question; None if there is none."""
    rows = answers[(answers.question == question) & (answers.row == MAIN) & answers["mean"].notna()]
    return None if rows.empty else rows.iloc[0]


def fold_in_words(ratio: float) -> str:
    """Return how a trace moves that is divided by a ratio.

    >>> fold_in_words(1.47), fold_in_words(0.5)
    ('falls 1.47-fold', 'rises 2.00-fold')
    """
    return f"falls {ratio:.2f}-fold" if ratio > 1 else f"rises {1 / ratio:.2f}-fold"


def _where(row: Any, answers: pd.DataFrame, condition: str) -> str:
    """Begin a title: the language of a row, where there are several, and a condition."""
    several = answers.language.nunique() > 1
    return (
        f"On the {LANGUAGES[row.language]}, {condition}" if several else condition[0].upper() + condition[1:]
    )


def _doubt(row: Any) -> str:
    """End a title: what the interval of a row leaves open."""
    if np.isnan(row.low):
        return " (one draw)"
    zero_inside = row.low <= (1.0 if row.unit == RATIO else 0.0) <= row.high
    return f", within the error of {int(row.replicates)} draws" if zero_inside else ""


def _why_not(answers: pd.DataFrame, question: str) -> str:
    """Title of a figure whose comparison could not be made."""
    reasons = answers[(answers.question == question) & (answers.row == MAIN)].reason.dropna()
    return f"Nothing can be compared here: {[*reasons, 'these runs have no pair of models'][0]}."


def steps_finding(answers: pd.DataFrame, table: pd.DataFrame) -> str:
    """Return what more steps at equal KL do to trace and accuracy, as far as both were asked."""
    flatter, better = (main_answer(answers, question) for question in ("flatness by steps", "steps"))
    effects = []
    if flatter is not None:
        effects.append(f"the trace {fold_in_words(flatter['mean'])}{_doubt(flatter)}")
    if better is not None:
        effects.append(f"accuracy changes by {better['mean']:+z.1f} points{_doubt(better)}")
    if not effects:
        return "These runs have no plateau."
    main = flatter if flatter is not None else better
    steps = table[(table.stage == "plateau") & (table.language == main.language)].steps
    span = f"between steps {steps.min():,} and {steps.max():,} of the plateau"
    return f"{_where(main, answers, span)}, {' and '.join(effects)}."


def rate_factor(answers: pd.DataFrame, table: pd.DataFrame) -> tuple[float, float] | None:
    """Return by what the learning rate is divided, and the trace multiplied; None without two rates."""
    if (main := main_answer(answers, "flatness by rate")) is None:
        return None
    rates = table[(table.language == main.language) & (table.stage == "descent")].lr
    divided = rates.max() / rates.min()
    return float(divided), float(divided ** -main["mean"])


def rate_finding(answers: pd.DataFrame, table: pd.DataFrame) -> str:
    """Return what the learning rate alone does to the trace."""
    if (factor := rate_factor(answers, table)) is None:
        return "These runs have one learning rate."
    main = main_answer(answers, "flatness by rate")
    where = _where(main, answers, "at equal size and KL")
    of_sizes = answers.query("row == @EACH and question == @main.question and language == @main.language")
    ends = sorted(factor[0] ** -of_sizes["mean"].dropna())
    spread = f" ({ends[0]:.1f} to {ends[-1]:.1f} by size)" if len(ends) > 1 else ""
    change = f"dividing the learning rate by {factor[0]:g} multiplies the trace by {factor[1]:.1f}"
    return f"{where}, {change}{spread}."


def trace_finding(answers: pd.DataFrame, table: pd.DataFrame, control: str = "") -> str:
    """Return the effect of size on the trace, and under one control, or else of the learning rate."""
    if (main := main_answer(answers, "flatness by size")) is None:
        return _why_not(answers, "flatness by size")
    chosen = answers[(answers.question == "flatness by size") & (answers.language == main.language)]
    own = chosen[chosen.row == control]["mean"].dropna()
    more = ""
    if len(own):
        more = f"; {control}, {own.iloc[0]:.2f} times"
    elif not control and (factor := rate_factor(answers, table)):
        more = f"; dividing the learning rate by {factor[0]:g} multiplies traces by {factor[1]:.1f}"
    ratio = f"the smallest model's trace is {main['mean']:.2f} times the largest's"
    return f"{_where(main, answers, 'at equal KL')}, {ratio}{_doubt(main)}{more}."


def correlation_finding(answers: pd.DataFrame) -> str:
    """Return how accuracy goes with the trace across sizes, on each language."""
    rows = answers[(answers.question == "flatness as a cause") & answers["mean"].notna()]
    slopes = rows[rows.row == "between sizes"]
    fits = rows[rows.row == "between sizes, r²"].set_index("language")["mean"]
    if slopes.empty:
        return "These runs have too few sizes for a correlation."
    changes = " and ".join(
        f"{effect_in_words(row)} on the {LANGUAGES[row.language]} (mean r² within a draw: "
        f"{fits[row.language]:.2f})"
        for _, row in slopes.iterrows()
    )
    return f"Across sizes, accuracy changes by {changes}; the paper's r² on its grammar is 0.92."


def treatment_finding(answers: pd.DataFrame) -> str:
    """Return how far treatments of one model move its trace, and what that does to accuracy."""
    if (main := main_answer(answers, "flatness as a cause")) is None:
        return "These runs have no model that was made flatter or sharper."
    flatter = answers[(answers.row == FLATTER) & (answers.language == main.language)]
    most = float(np.exp(np.log(flatter["mean"]).abs().max()))
    return (
        f"{_where(main, answers, 'treatments')} change the trace up to {most:.1f}-fold; each 2.7-fold drop "
        f"of it changes accuracy by {main['mean']:+z.2f} points{_doubt(main)}."
    )
