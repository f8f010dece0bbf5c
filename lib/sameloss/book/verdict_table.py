"""HTML of verdicts: badges, sentences, and tables with a forest plot in their rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd
from matplotlib.ticker import MaxNLocator

from sameloss.studies.statement import Judgement
from sameloss.studies.verdict import Direction, Size, Topic, in_unit, in_words

WIDTH, LINE, MARGIN = 150, 14, 8  # pixels: of a drawing, of one interval in it, at its sides


@dataclass(frozen=True)
class Scale:
    """Horizontal axis of a forest plot."""

    low: float
    high: float

    @classmethod
    def of(cls, numbers: Iterable[float]) -> "Scale":
        """Scale that covers zero and all numbers, ignoring NaN.

        >>> Scale.of([2.0, float("nan"), -1.0])
        Scale(low=-1.0, high=2.0)
        """
        known = [0.0, *(float(number) for number in numbers if pd.notna(number))]
        low, high = min(known), max(known)
        return cls(low, high if high > low else low + 1)

    def __call__(self, number: float) -> float:
        """Position of a number, in pixels."""
        fraction = (number - self.low) / (self.high - self.low)
        return round(MARGIN + (WIDTH - 2 * MARGIN) * fraction, 1)


def axis(scale: Scale) -> str:
    """SVG of a scale with tick labels."""
    marks = "".join(
        f'<line x1="{scale(tick)}" x2="{scale(tick)}" y1="14" y2="18"/>'
        f'<text x="{scale(tick)}" y="10">{tick:g}</text>'
        for tick in MaxNLocator(4).tick_values(scale.low, scale.high)
        if scale.low <= tick <= scale.high
    )
    base = f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="18" y2="18"/>'
    return _drawing(19, base + marks, 'class="forest axis" aria-hidden="true"')


def intervals(scale: Scale, rows: pd.DataFrame, published: float, label: str) -> str:
    """Forest plot of one claim as SVG: one interval per source, and the published value.

    Args:
        scale: shared by claims of one unit.
        rows: `ours`, `low`, `high` and `source`; filled points for records, open ones for a page.
        published: NaN if there is none.
        label: alternative text.

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
    Direction.SUPPORTED: ("for", "✓"),
    Direction.AGAINST: ("against", "✗"),
    Direction.OPEN: ("open", "?"),
    Direction.NOT_REACHED: ("open", "–"),
    Direction.NOT_TESTABLE: ("open", "–"),
    Judgement.HOLDS: ("for", "✓"),
    Judgement.CORRECTED: ("partly", "✎"),
    Judgement.FAILS: ("against", "✗"),
}
"""CSS class and icon of a verdict's badge: meaning never depends on colour alone."""


def badge(verdict: str, remark: str = "") -> str:
    """HTML of a direction or judgement with its icon and colour, and what is said of its size."""
    kind, icon = LOOKS[verdict]
    mark = f'<span class="badge-verdict {kind}"><span aria-hidden="true">{icon}</span> {verdict}</span>'
    return in_words(mark, escape(remark))


def verdict_in_words(row: Any, unit: str) -> str:
    """Badge, size and effect."""
    return f"{badge(row.direction, row.size)} {effect_in_words(row, unit)}".rstrip()


def effect_in_words(row: Any, unit: str) -> str:
    """Effect with its interval; empty if NaN.

    >>> effect_in_words(pd.Series({"ours": 1.0, "low": -0.5, "high": 2.0}), "accuracy points")
    '+1.00 (-0.50 to 2.00)'
    """
    if pd.isna(row.low):
        return ""
    return f"{in_unit(row.ours, unit, '+')} ({in_unit(row.low, unit)} to {in_unit(row.high, unit)})"


def table(verdicts: pd.DataFrame, evidence: pd.DataFrame, topics: Sequence[Topic], home: bool) -> str:
    """Table of verdicts by question: one row per claim, one column per source, and a forest plot.

    Args:
        verdicts: from `verdict.verdict_table`.
        evidence: the same claims, from `verdict.side_by_side`.
        topics: questions with their claims.
        home: whether this is the page of all verdicts, whose rows link to chapters instead of vice versa.

    """
    sources = list(dict.fromkeys(evidence.source))
    heads = ["claim", "effect", "paper", *map(str, sources)]
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = []
    for topic in topics:
        group = verdicts[verdicts.id.isin([claim.id for claim in topic.claims])]
        wide = f'<th colspan="{len(heads)}" scope="colgroup">{escape(topic.question)}</th>'
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
    """Row of one claim: text, forest plot, published value, and verdict of each source."""
    there = f"{row.page if home else 'verdicts'}.html#claim-{row.id}"
    paper, by_source = in_unit(row.paper, row.unit), {own.source: own for own in rows.itertuples()}
    told = [
        f"{source} {effect_in_words(own, row.unit) or own.direction}" for source, own in by_source.items()
    ]
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


def findings(answers: pd.DataFrame) -> str:
    """Table of findings: one row per question, and a column per language with badge and effect.

    Args:
        answers: `question`, `page`, `language`, `direction`, `size`, `effect` and `published`.

    """
    languages = list(dict.fromkeys(answers.language))
    rows = []
    for (question, page), asked in answers.groupby(["question", "page"], sort=False):
        cells = dict.fromkeys(languages, "not run")
        for row in asked.itertuples():
            published = "" if row.published == "–" else f"; the paper: {row.published}"
            effect = f"<small>{escape(row.effect + published)}</small>"
            cells[row.language] = f"{badge(row.direction, row.size)} {effect}"
        link = f'<a href="{page}.html">{escape(question)}</a>'
        told = "".join(f'<td data-label="{escape(name)}">{cell}</td>' for name, cell in cells.items())
        rows.append(f'<tr><th scope="row">{link}</th>{told}</tr>')
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in ["question", *languages])
    start = f'<table class="dataframe findings"><thead><tr>{heads}</tr></thead>'
    return f"{start}<tbody>{''.join(rows)}</tbody></table>"


def counted(verdicts: pd.Series) -> str:
    """Count of each word of verdicts.

    >>> counted(pd.Series(["holds", "holds", "holds as corrected"]))
    'holds 2, holds as corrected 1'
    """
    counts = verdicts.value_counts()
    return ", ".join(f"{word} {counts[word]}" for word in (*LOOKS, *Size) if word in counts.index)
