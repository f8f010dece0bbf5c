"""Every chapter as it reads: limited length, a finding for each figure, no markup of the book's own."""

import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

from sameloss.book.site import FOLDED_WHOLE

PAGES = sorted((Path(__file__).parents[2] / "chapters").glob("*.ipynb"))
BY_NAME = pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])

MOST_WORDS, MOST_FIGURES = 2500, 8

EXPLANATORY = {"fig-tree", "fig-images-examples"}
"""Figures that explain what is done, and have no finding."""


@cache
def cells_of(page):
    return nbformat.read(page, as_version=4).cells


def figures(cells):
    """Return the place and the name of each cell that draws a figure."""
    for place, cell in enumerate(cells):
        if figure := cell.metadata.get("mystnb", {}).get("figure"):
            yield place, figure["name"]


def says(cell):
    """Return whether a reader sees a text here: one that was written or one that was computed."""
    return cell.cell_type == "markdown" or any(
        "text/markdown" in output.get("data", {}) for output in cell.get("outputs", [])
    )


@BY_NAME
def test_every_figure_has_a_finding_above_and_a_text_below(page):
    cells = cells_of(page)
    for place, name in figures(cells):
        if name not in EXPLANATORY:
            first, *_ = cells[place].outputs
            assert re.fullmatch(r"\*\*[^*]+[.?]\*\*", first.data.get("text/markdown", "")), name
        assert says(cells[place + 1]), name
        assert not cells[place + 1].source.startswith("#"), f"after {name} comes a heading"


@BY_NAME
def test_every_caption_is_shown_by_any_viewer(page):
    cells = cells_of(page)
    for place, name in figures(cells):
        caption = cells[place].metadata.mystnb.figure.caption
        assert cells[place].outputs[-1].data["text/markdown"] == f"*{caption}*", name


@BY_NAME
def test_texts_have_no_roles_that_only_the_book_knows(page):
    for cell in cells_of(page):
        texts = [
            output.data.get("text/markdown", "") for output in cell.get("outputs", []) if "data" in output
        ]
        for text in [cell.source] if cell.cell_type == "markdown" else texts:
            assert not re.search(r"{[a-z:]+}`", text), text


def test_the_page_of_verdicts_has_no_more_rows_than_can_be_seen():
    (page,) = (page for page in PAGES if page.stem == "verdicts")
    rows = 0
    for cell in cells_of(page):
        if not any(text in cell.source for text in FOLDED_WHOLE):
            outputs = [
                output.data.get("text/html", "") for output in cell.get("outputs", []) if "data" in output
            ]
            rows += sum(html.count("<tr") for html in outputs)
    assert 20 < rows <= 160


RETIRED = re.compile(
    r"\b(by lot|from nothing|solved probe|slips?|bare tokens|after all steps|turns round|(is|are) told)\b"
)
"""Once said for at random, from scratch, converged, errata, one-hot tokens, reverses, reported."""

ROOT = Path(__file__).parents[2]
TEXTS = [*ROOT.glob("chapters/*.py"), *ROOT.glob("chapters/*.md"), ROOT / "intro.md", ROOT / "README.md"]


def test_retired_words_are_not_used():
    """But in the protocol, which stays as it was committed before the runs."""
    texts = [path for path in TEXTS if path.name != "protocol.md"]
    used = {path.name: found for path in texts if (found := RETIRED.findall(path.read_text()))}
    assert not used


@BY_NAME
def test_a_page_is_no_longer_than_a_reader_stays(page):
    cells = cells_of(page)
    words = sum(len(cell.source.split()) for cell in cells if cell.cell_type == "markdown")
    assert words <= MOST_WORDS
    assert len(list(figures(cells))) <= MOST_FIGURES


COLUMN_PX, LEAST_PX = 768, 10
"""Width of a page's column on a screen of 1400 pixels; smallest text of a figure shown there."""

RAISED = 0.7
"""Size of exponents and indices, beside that of their line."""


@BY_NAME
def test_text_in_figures_is_legible(page):
    cells = cells_of(page)
    for place, name in figures(cells):
        (svg,) = (
            output.data["image/svg+xml"] for output in cells[place].outputs if "image/svg+xml" in output.data
        )
        width = float(re.search(r'width="([\d.]+)pt"', svg)[1])
        sizes = {float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", svg)}
        raised = [pytest.approx(RAISED * size, rel=1e-3) for size in sizes]
        points_in_px = min(4 / 3, COLUMN_PX / width)
        assert min(size for size in sizes if size not in raised) * points_in_px >= LEAST_PX, name
