"""Verdicts as readers meet them: a badge, a sentence's words, one table with its picture, the answers."""

from collections.abc import Sequence
from html import escape
from typing import Any

import pandas as pd

from sameloss.book import forest
from sameloss.studies.evidence import strongest
from sameloss.studies.names import display_name
from sameloss.studies.statement import Judgement
from sameloss.studies.verdict import Topic, Verdict, in_unit

LOOKS: dict[str, tuple[str, str]] = {
    Verdict.REPRODUCED: ("for", "✓"),
    Verdict.DIRECTION: ("for", "✓"),
    Verdict.SMALLER: ("partly", "↓"),
    Verdict.LARGER: ("partly", "↑"),
    Verdict.NOT_DECIDED: ("open", "?"),
    Verdict.CONTRADICTED: ("against", "✗"),
    Verdict.NOT_TESTABLE: ("open", "–"),
    "supported": ("for", "✓"),
    "unclear": ("open", "?"),
    "against": ("against", "✗"),
    "not testable": ("open", "–"),
    Judgement.HOLDS: ("for", "✓"),
    Judgement.CORRECTED: ("partly", "✎"),
    Judgement.FAILS: ("against", "✗"),
    Judgement.UNTESTED: ("open", "–"),
}
"""The class of a verdict's badge in `book.css`, and its icon: colour is never alone."""


def badge(verdict: str) -> str:
    """Return a verdict as icon and word."""
    kind, icon = LOOKS[verdict]
    return f'<span class="badge-verdict {kind}"><span aria-hidden="true">{icon}</span> {verdict}</span>'


def verdict_in_words(row: Any, unit: str) -> str:
    """Return a badge, whether what is not decided is at least above zero, and the effect."""
    undecided = " (above zero)" if row.verdict == Verdict.NOT_DECIDED and row.low > 0 else ""
    return f"{badge(row.verdict)}{undecided} {effect_in_words(row, unit)}".rstrip()


def effect_in_words(row: Any, unit: str) -> str:
    """Return an effect with its interval; nothing where there is none.

    >>> effect_in_words(pd.Series({"ours": 1.0, "low": -0.5, "high": 2.0}), "accuracy points")
    '+1.00 (-0.50 to 2.00)'
    """
    if pd.isna(row.low):
        return ""
    return f"{in_unit(row.ours, unit, '+')} ({in_unit(row.low, unit)} to {in_unit(row.high, unit)})"


def sentence(rows: pd.DataFrame, unit: str) -> str:
    """Return what all sources say of one claim, for the prose: the strongest with its numbers.

    Args:
        rows: of one claim, from `evidence.side_by_side`.
        unit: of the effect.

    """
    best = strongest(rows).iloc[0]
    said = verdict_in_words(best, unit) + _unit(best, unit)
    others = [
        f"{row.source}: {row.verdict}"
        for row in rows.itertuples()
        if row.source != best.source and row.verdict != best.verdict
    ]
    where = "; ".join([str(best.source), *others]) if len(rows) > 1 else ""
    return said + (f" <small>[{where}]</small>" if where else "")


def _unit(row: Any, unit: str) -> str:
    return "" if pd.isna(row.low) else f" {unit}"


def table(verdicts: pd.DataFrame, evidence: pd.DataFrame, topics: Sequence[Topic[Any]], home: bool) -> str:
    """Return paper beside ours: grouped by question, one row a claim, a column a source, and a picture.

    Args:
        verdicts: from `verdict.verdict_table`.
        evidence: the same claims, from `evidence.side_by_side`.
        topics: questions with their claims; claims of none of them stand at the end.
        home: whether this is the page of all verdicts; rows lead there, or from there to their chapter.

    """
    sources = list(dict.fromkeys(evidence.source))
    heads = ["claim", "effect", "paper", *map(str, sources)]
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = []
    for question, group in _grouped(verdicts, topics):
        body.append(_wide_row("topic", question, len(heads)))
        for unit, same in group.groupby("unit", sort=False):
            scale = _scale(same, evidence)
            body.append(_scale_row(scale, str(unit), len(sources)))
            rows = ((row, evidence[evidence.id == row.id]) for row in same.itertuples())
            body += [_row(row, found, scale, sources, home) for row, found in rows]
    start = f'<table class="dataframe verdicts"><thead><tr>{head}</tr></thead>'
    return f"{start}<tbody>{''.join(body)}</tbody></table>"


def _wide_row(kind: str, text: str, columns: int) -> str:
    return f'<tr class="{kind}"><th colspan="{columns}" scope="colgroup">{escape(text)}</th></tr>'


def _grouped(verdicts: pd.DataFrame, topics: Sequence[Topic[Any]]) -> list[tuple[str, pd.DataFrame]]:
    """Return the claims by question, in the questions' order; what belongs to none under `Claims`."""
    question_of = {claim.id: topic.question for topic in topics for claim in topic.claims}
    asked = verdicts.id.map(question_of).fillna("Claims")
    order = dict.fromkeys([*question_of.values(), "Claims"])
    return [(question, verdicts[asked == question]) for question in order if (asked == question).any()]


def _scale(group: pd.DataFrame, evidence: pd.DataFrame) -> forest.Scale:
    """Return a scale for all intervals of some claims and all that the paper has of them."""
    drawn = evidence[evidence.id.isin(group.id)]
    return forest.Scale.of([*drawn.ours, *drawn.low, *drawn.high, *group.paper])


def _scale_row(scale: forest.Scale, unit: str, sources: int) -> str:
    label = f'<th scope="rowgroup">{escape(unit)}</th>'
    return f'<tr class="scale">{label}<td>{forest.axis(scale)}</td><td colspan="{1 + sources}"></td></tr>'


def _row(row: Any, rows: pd.DataFrame, scale: forest.Scale, sources: Sequence[Any], home: bool) -> str:
    by_source = {found.source: found for found in rows.itertuples()}
    paper = in_unit(row.paper, row.unit)
    cells = [
        f'<th scope="row">{_claim(row, home)}</th>',
        f"<td>{forest.intervals(scale, rows, row.paper, _told(rows, row.unit, paper))}</td>",
        f'<td data-label="paper">{paper}</td>',
        *(_said(source, by_source.get(source), row.unit) for source in sources),
    ]
    return f'<tr id="claim-{row.id}">{"".join(cells)}</tr>'


def _claim(row: Any, home: bool) -> str:
    there = f"{row.page if home else 'verdicts'}.html#claim-{row.id}"
    task = "" if pd.isna(row.task) else f" · {display_name(row.task)}"
    return f'<a href="{there}">{escape(row.claim)}</a> <small>{escape(row.place + task)}</small>'


def _said(source: Any, row: Any, unit: str) -> str:
    words = "–" if row is None else verdict_in_words(row, unit)
    return f'<td data-label="{escape(str(source))}">{words}</td>'


def _told(rows: pd.DataFrame, unit: str, paper: str) -> str:
    said = [f"{row.source} {effect_in_words(row, unit) or row.verdict}" for row in rows.itertuples()]
    return "; ".join([*said, f"paper {paper}"])


def findings(answers: pd.DataFrame, folder: str = "") -> str:
    """Return what was found as a table: question, language, badge, and the effect that answers it.

    Args:
        answers: one row a question and language, with `question`, `page`, `language`, `direction`, `size`,
            `effect` and `published`.
        folder: where the chapters are, seen from the page that shows it, such as `chapters/`.

    """
    rows = "".join(_finding(row, folder) for row in answers.itertuples())
    head = '<thead><tr><th scope="col">question</th><th scope="col">found</th></tr></thead>'
    return f'<table class="dataframe findings">{head}<tbody>{rows}</tbody></table>'


def _finding(row: Any, folder: str) -> str:
    published = "" if row.published == "–" else f"; the paper: {row.published}"
    why = f", {row.size}" if row.size else ""
    return (
        f'<tr><th scope="row"><a href="{folder}{row.page}.html">{escape(row.question)}</a></th>'
        f"<td>{badge(row.direction)}{escape(why)} <small>{escape(row.language)}: {escape(row.effect)}"
        f"{escape(published)}</small></td></tr>"
    )


def counts(evidence: pd.DataFrame) -> pd.DataFrame:
    """Return how many claims have each verdict, a column a source; the words in their order."""
    words = pd.crosstab(evidence.verdict, evidence.source.map(str))
    order = [verdict for verdict in Verdict if verdict in words.index]
    ordered = words.loc[order, list(dict.fromkeys(evidence.source.map(str)))]
    return ordered.rename_axis(columns=None).reset_index()


def counted(verdicts: pd.Series) -> str:
    """Return how often each verdict was given, as a sentence's words.

    >>> counted(pd.Series(["holds", "holds", "holds as corrected"]))
    'holds 2, holds as corrected 1'
    """
    found = verdicts.value_counts()
    return ", ".join(f"{word} {found[word]}" for word in LOOKS if word in found.index)
