"""What the book's pages are told beyond Sphinx' configuration."""

import hashlib
import re

import nbformat
import pytest

from sameloss.book.extension import FOLDER, FRONT_TITLE, take_narrow_forms
from sameloss.studies.screens import NARROW, WIDE


def test_narrow_forms_are_taken_out_and_named_as_the_wide_ones():
    outputs = [nbformat.v4.new_output("display_data", {WIDE: "<svg>wide</svg>", NARROW: "<svg/>"})]
    cells = [nbformat.v4.new_code_cell("1", outputs=outputs), nbformat.v4.new_code_cell("2")]
    name = hashlib.sha256(b"<svg>wide</svg>").hexdigest()
    made = nbformat.v4.new_notebook(cells=cells)
    assert take_narrow_forms(made) == {FOLDER / f"{name}.svg": b"<svg/>"}
    assert list(outputs[0].data) == [WIDE]


@pytest.mark.book
def test_every_figure_has_a_narrow_form_that_is_there(html):
    for page in (html / "chapters").glob("*.html"):
        text = page.read_text()
        narrow = re.findall(r'srcset="\.\./(_static/narrow/[^"]+)"', text)
        assert len(narrow) == text.count("<figcaption>"), page.name
        assert all((html / name).exists() for name in narrow), page.name


@pytest.mark.book
def test_no_page_asks_for_a_server_and_all_say_what_they_are_about(html):
    for page in [*(html / "chapters").glob("*.html"), html / "intro.html"]:
        text = page.read_text()
        assert "thebe_selector" not in text, page.name
        assert "x-thebe-config" not in text, page.name
        assert re.search(r'<meta name="description" content="\w', text), page.name
    assert f"<title>{FRONT_TITLE} &#8212; Same pre" in (html / "intro.html").read_text()
