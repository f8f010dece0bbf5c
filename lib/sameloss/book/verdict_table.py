"""Verdicts as readers meet them: a badge, a sentence's words, one table with its picture, the answers.

The picture is a forest plot in the rows of the table: effects and intervals on one scale, the paper's number
as a tick.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd
from matplotlib.ticker import MaxNLocator

from sameloss.studies.statement import Judgement
from sameloss.studies.verdict import Topic, Verdict, in_unit, strongest

WIDTH, LINE, MARGIN = 150, 14, 8  # of a row's drawing, of one interval in it, at its sides, in pixels


@dataclass(frozen=True)
class Scale:
    """What is drawn from the left to the right."""

    low: float
    high: float

    @classmethod
    def of(cls, numbers: Iterable[float]) -> "Scale":
        """Return a scale with zero and all the numbers on it; gaps are passed over.

        >>> Scale.of([2.0, float("nan"), -1.0])
        Scale(low=-1.0, high=2.0)
        """
        known = [0.0, *(float(number) for number in numbers if pd.notna(number))]
        low, high = min(known), max(known)
        return cls(low, high if high > low else low + 1)

    def __call__(self, number: float) -> float:
        """Return where a number is, in pixels."""
        share = (number - self.low) / (self.high - self.low)
        return round(MARGIN + (WIDTH - 2 * MARGIN) * share, 1)

    def ticks(self) -> list[float]:
        """Return a few round numbers on the scale."""
        ticks = MaxNLocator(4).tick_values(self.low, self.high)
        return [float(tick) for tick in ticks if self.low <= tick <= self.high]


def axis(scale: Scale) -> str:
    """Return the drawing of a scale with its numbers."""
    marks = "".join(
        f'<line x1="{scale(tick)}" x2="{scale(tick)}" y1="14" y2="18"/>'
        f'<text x="{scale(tick)}" y="10">{tick:g}</text>'
        for tick in scale.ticks()
    )
    base = f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="18" y2="18"/>'
    return _drawing(19, base + marks, 'class="forest axis" aria-hidden="true"')


def intervals(scale: Scale, rows: pd.DataFrame, published: float, label: str) -> str:
    """Return the drawing of one claim: an interval a row, and the paper's number.

    Args:
        scale: shared by claims of one unit.
        rows: `ours`, `low`, `high` and `source`; recorded ones are full points, those of a page open.
        published: the paper's number; a gap where it has none.
        label: what a reader who does not see it is told.

    """
    height = LINE * len(rows) + 2
    drawn = [f'<line class="zero" x1="{scale(0)}" x2="{scale(0)}" y1="0" y2="{height}"/>']
    if pd.notna(published):
        at = scale(published)
        drawn.append(f'<line class="paper" x1="{at}" x2="{at}" y1="0" y2="{height}"/>')
    for number, row in enumerate(rows.itertuples()):
        if pd.notna(row.low):
            y, kind = LINE * number + 8, "recorded" if row.source.recorded else "own"
            line = f'<line x1="{scale(row.low)}" x2="{scale(row.high)}" y1="{y}" y2="{y}"/>'
            drawn.append(f'<g class="{kind}">{line}<circle cx="{scale(row.ours)}" cy="{y}" r="3.5"/></g>')
    return _drawing(height, "".join(drawn), f'class="forest" role="img" aria-label="{escape(label)}"')


def _drawing(height: int, content: str, attributes: str) -> str:
    return f'<svg {attributes} viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">{content}</svg>'


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
        rows: of one claim, from `verdict.side_by_side`.
        unit: of the effect.

    """
    best = strongest(rows).iloc[0]
    said = verdict_in_words(best, unit) + ("" if pd.isna(best.low) else f" {unit}")
    if len(rows) == 1:
        return said
    others = (row for row in rows.itertuples() if row.source != best.source)
    differ = [f"{row.source}: {row.verdict}" for row in others if row.verdict != best.verdict]
    return f"{said} <small>[{'; '.join([str(best.source), *differ])}]</small>"


def table(verdicts: pd.DataFrame, evidence: pd.DataFrame, topics: Sequence[Topic], home: bool) -> str:
    """Return paper beside ours: grouped by question, one row a claim, a column a source, and a picture.

    Args:
        verdicts: from `verdict.verdict_table`.
        evidence: the same claims, from `verdict.side_by_side`.
        topics: questions with their claims; claims of none of them stand at the end.
        home: whether this is the page of all verdicts; rows lead there, or from there to their chapter.

    """
    sources = list(dict.fromkeys(evidence.source))
    heads = ["claim", "effect", "paper", *map(str, sources)]
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    question_of = {claim.id: topic.question for topic in topics for claim in topic.claims}
    asked = verdicts.id.map(question_of).fillna("Claims")
    body = []
    for question in dict.fromkeys([*question_of.values(), "Claims"]):
        group = verdicts[asked == question]
        if len(group):
            wide = f'<th colspan="{len(heads)}" scope="colgroup">{escape(question)}</th>'
            body.append(f'<tr class="topic">{wide}</tr>')
        for unit, same in group.groupby("unit", sort=False):
            drawn = evidence[evidence.id.isin(same.id)]
            scale = Scale.of([*drawn.ours, *drawn.low, *drawn.high, *same.paper])
            label = f'<th scope="rowgroup">{escape(str(unit))}</th><td>{axis(scale)}</td>'
            body.append(f'<tr class="scale">{label}<td colspan="{1 + len(sources)}"></td></tr>')
            for row in same.itertuples():
                body.append(_row(row, drawn[drawn.id == row.id], scale, sources, home))
    start = f'<table class="dataframe verdicts"><thead><tr>{head}</tr></thead>'
    return f"{start}<tbody>{''.join(body)}</tbody></table>"


def _row(row: Any, rows: pd.DataFrame, scale: Scale, sources: Sequence[Any], home: bool) -> str:
    """Return one claim: what it says, its picture, the paper's number, and what each source says."""
    there = f"{row.page if home else 'verdicts'}.html#claim-{row.id}"
    paper, by_source = in_unit(row.paper, row.unit), {own.source: own for own in rows.itertuples()}
    told = [f"{source} {effect_in_words(own, row.unit) or own.verdict}" for source, own in by_source.items()]
    said = {
        str(source): verdict_in_words(by_source[source], row.unit) if source in by_source else "–"
        for source in sources
    }
    cells = [
        f'<th scope="row"><a href="{there}">{escape(row.claim)}</a> <small>{escape(row.place)}</small></th>',
        f"<td>{intervals(scale, rows, row.paper, '; '.join([*told, f'paper {paper}']))}</td>",
        *(f'<td data-label="{escape(name)}">{text}</td>' for name, text in ({"paper": paper} | said).items()),
    ]
    return f'<tr id="claim-{row.id}">{"".join(cells)}</tr>'


def findings(answers: pd.DataFrame, folder: str = "") -> str:
    """Return what was found as a table: question, language, badge, and the effect that answers it.

    Args:
        answers: one row a question and language, with `question`, `page`, `language`, `direction`, `size`,
            `effect` and `published`.
        folder: where the chapters are, seen from the page that shows it, such as `chapters/`.

    """
    rows = []
    for row in answers.itertuples():
        published = "" if row.published == "–" else f"; the paper: {row.published}"
        link = f'<a href="{folder}{row.page}.html">{escape(row.question)}</a>'
        why = escape(f", {row.size}" if row.size else "")
        effect = f"<small>{escape(f'{row.language}: {row.effect}{published}')}</small>"
        rows.append(f'<tr><th scope="row">{link}</th><td>{badge(row.direction)}{why} {effect}</td></tr>')
    head = '<thead><tr><th scope="col">question</th><th scope="col">found</th></tr></thead>'
    return f'<table class="dataframe findings">{head}<tbody>{"".join(rows)}</tbody></table>'


def counted(verdicts: pd.Series) -> str:
    """Return how often each verdict was given, as a sentence's words.

    >>> counted(pd.Series(["holds", "holds", "holds as corrected"]))
    'holds 2, holds as corrected 1'
    """
    found = verdicts.value_counts()
    return ", ".join(f"{word} {found[word]}" for word in LOOKS if word in found.index)
