"""Every page in a browser, wide and narrow, light and dark: all of it can be read, and nothing is fetched."""

import re
from pathlib import Path
from urllib.request import urlopen

import pytest
from browser import in_a_browser, launched

pytestmark = [pytest.mark.book, in_a_browser]

AXE = (Path(__file__).parents[1] / "assets" / "axe.min.js").read_text()

CHECK = """() => axe.run(document, {preload: false, resultTypes: ["violations"]}).then(found =>
    found.violations.filter(rule => ["serious", "critical"].includes(rule.impact))
        .flatMap(rule => rule.nodes.map(node => [rule.id, node.html])))"""

OF_THE_THEME = {
    ("label-content-name-mismatch", 'aria-label="Search"'),  # its button says the keys too
    ("label-content-name-mismatch", 'aria-label="Color mode"'),
    ("label-content-name-mismatch", 'aria-label="Toggle hidden content"'),  # folded code, which has a label
    ("aria-required-children", 'class="citation-list"'),  # a list of entries with a role of their own
}
"""Violations that are not the book's: the rule, and what the element has in it."""

UNTYPESET = "() => document.querySelectorAll('.math:not(:has(mjx-container)), mjx-merror').length"
SHOWN_FIGURES = """() => Promise.all([...document.querySelectorAll("figure img")].map(image =>
    new Promise(done => {
        const probe = new Image();
        probe.onload = () => done([image.clientWidth / probe.naturalWidth, image.currentSrc]);
        probe.src = image.currentSrc;
    })))"""
"""For each figure: by what it is scaled, and where it is."""

BRIGHT = """() => [...document.querySelectorAll("figure img")]
    .filter(image => !getComputedStyle(image).filter.includes("invert")).length"""
"""Figures that are bright in the dark."""

BARS = """() => [...document.querySelectorAll("span.math")]
    .filter(formula => getComputedStyle(formula).overflowY === "auto").length"""

CUT_CODE = """() => [...document.querySelectorAll("div.cell_input pre")]
    .filter(code => !code.closest("details:not([open])") && code.scrollWidth > code.clientWidth)
    .map(code => code.innerText.split("\\n")[0])"""
"""First lines of the open listings that are wider than the page."""

WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def chromium():
    with launched() as browser:
        yield browser


def pages(html):
    """Return the pages that have text of their own."""
    found = [*html.glob("*.html"), *(html / "chapters").glob("*.html")]
    return sorted(page for page in found if page.stem not in ("genindex", "search", "index"))


def smallest_letters(source):
    """Return the size of the smallest letters of an SVG, in pixels, as it is of itself."""
    with urlopen(source) as file:  # of a file, or data in the page
        svg = file.read().decode()
    points = min(float(size) for size in re.findall(r"font(?:-size)?: ?[^;\"]*?([\d.]+)px", svg))
    return points * 96 / 72


def faults_of(tab):
    """Return what is wrong with the page that a tab shows, in words."""
    for rule, element in tab.evaluate(CHECK):
        if not any(rule == known and part in element for known, part in OF_THE_THEME):
            yield f"{rule}: {element[:150]}"
    if tab.evaluate(WIDER) > 0:
        yield f"wider than the screen by {tab.evaluate(WIDER)} pixels"
    for scale, source in tab.evaluate(SHOWN_FIGURES):
        least = 8 if tab.viewport_size["width"] < 640 else 7  # wide ones have exponents beside larger labels
        if (pixels := scale * smallest_letters(source)) < least:
            yield f"letters of {pixels:.1f} pixels in {source[-30:]}"
    if tab.viewport_size["width"] >= 1400:
        yield from (f"code is cut: {begins}" for begins in tab.evaluate(CUT_CODE))
    if tab.evaluate(UNTYPESET):
        yield "an equation is not typeset"
    if tab.evaluate(BARS):
        yield f"{tab.evaluate(BARS)} formulas in the text have scrollbars"


SCROLLBAR = 15
"""Its width in pixels, which telephones do not lose."""


@pytest.mark.parametrize("width", [1400, 390 + SCROLLBAR])
def test_every_page_can_be_read(html, chromium, width):
    tab = chromium.new_page(viewport={"width": width, "height": 900})
    heard, faults = [], []
    tab.on("console", lambda said: said.type == "error" and heard.append(said.text))
    tab.on("pageerror", lambda error: heard.append(str(error)))
    tab.on("request", lambda asked: asked.url.startswith("http") and heard.append(f"asked for {asked.url}"))
    for page in pages(html):
        tab.emulate_media(color_scheme="light")
        tab.goto(page.as_uri())
        tab.wait_for_function("() => !window.MathJax || window.MathJax.startup?.promise")
        tab.evaluate("() => window.MathJax?.startup?.promise")
        tab.evaluate(AXE)
        tab.add_style_tag(content="* { transition: none !important; }")  # colours change at once
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            tab.wait_for_function(f"() => document.documentElement.dataset.theme === '{scheme}'")
            found = list(faults_of(tab))
            if scheme == "dark" and tab.evaluate(BRIGHT):
                found.append("a figure is bright")
            faults += [f"{page.name}, {scheme}: {fault}" for fault in found]
        faults += [f"{page.name}: {text}" for text in heard]
        heard.clear()
    assert not faults, "\n".join(faults)


def test_the_line_of_equal_loss_follows_keys_and_the_mouse(html, chromium):
    tab = chromium.new_page(viewport={"width": 1400, "height": 900})
    tab.goto((html / "chapters" / "01_introduction.html").as_uri())
    said, slider, drawing = (tab.locator(f".equal-loss {part}") for part in ("output", "input", "svg"))
    told = [said.inner_text()]
    slider.focus()
    tab.keyboard.press("PageUp")
    told.append(said.inner_text())
    box = drawing.bounding_box()
    tab.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 50)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 50)
    tab.mouse.up()
    told.append(said.inner_text())
    assert len(set(told)) == 3


def test_the_line_of_equal_loss_follows_a_finger(html, chromium):
    with chromium.new_context(viewport={"width": 390, "height": 800}, has_touch=True) as phone:
        tab = phone.new_page()
        tab.goto((html / "chapters" / "01_introduction.html").as_uri())
        said, drawing = tab.locator(".equal-loss output"), tab.locator(".equal-loss svg")
        before = said.inner_text()
        drawing.scroll_into_view_if_needed()
        box = drawing.bounding_box()
        tab.touchscreen.tap(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
        assert said.inner_text() != before


def test_sgd_on_the_landscape_follows_keys(html, chromium):
    tab = chromium.new_page()
    tab.goto((html / "chapters" / "03_implicit_bias.html").as_uri())
    said = tab.locator(".sgd-landscape output")
    noisy = said.inner_text()
    tab.locator(".sgd-landscape [name=noise]").focus()
    tab.keyboard.press("Space")
    assert said.inner_text() != noisy
    assert "KL" in said.inner_text()


@pytest.mark.parametrize("width", [1400, 390 + SCROLLBAR])
def test_a_word_is_explained_where_a_page_first_uses_it(html, chromium, width):
    tab = chromium.new_page(viewport={"width": width, "height": 900})
    tab.goto((html / "chapters" / "02_confirmation.html").as_uri())
    words = tab.locator("abbr[data-means]")
    said = [word.inner_text().removesuffix("s") for word in words.all()]
    assert "probe" in said
    assert len(set(said)) == len(said)
    for word in words.all():
        word.focus()
        shown = word.evaluate("word => getComputedStyle(word, '::after').content")
        assert word.get_attribute("data-means")[:20] in shown
        assert tab.evaluate(WIDER) <= 0
