"""Forest plots in the rows of a table: effects and intervals on one scale, the paper's number as a tick."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd
from matplotlib.ticker import MaxNLocator

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
    zero = f'<line class="zero" x1="{scale(0)}" x2="{scale(0)}" y1="0" y2="{height}"/>'
    drawn = [_interval(scale, row, LINE * at + 8) for at, row in enumerate(rows.itertuples())]
    tick = "" if pd.isna(published) else _published(scale(published), height)
    role = f'class="forest" role="img" aria-label="{escape(label)}"'
    return _drawing(height, zero + tick + "".join(drawn), role)


def _interval(scale: Scale, row: Any, y: int) -> str:
    if pd.isna(row.low):
        return ""
    kind = "recorded" if row.source.recorded else "own"
    line = f'<line x1="{scale(row.low)}" x2="{scale(row.high)}" y1="{y}" y2="{y}"/>'
    point = f'<circle cx="{scale(row.ours)}" cy="{y}" r="3.5"/>'
    return f'<g class="{kind}">{line}{point}</g>'


def _published(x: float, height: int) -> str:
    return f'<line class="paper" x1="{x}" x2="{x}" y1="0" y2="{height}"/>'


def _drawing(height: int, content: str, attributes: str) -> str:
    return f'<svg {attributes} viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">{content}</svg>'
