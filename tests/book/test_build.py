"""The built book: no warning, every internal link resolves, no error, no path of this machine."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse

import nbformat
import pytest

from sameloss.book.build import notebooks, toc_files, twin_differences

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.book


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def html():
    """Build the committed notebooks; warnings are errors."""
    command = [sys.executable, "-m", "sameloss.book.build", "html", "--committed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    assert done.stdout.strip().endswith("index.html")
    return ROOT / "_build" / "html"


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.targets, self.names, self.sources = [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.names |= {attrs[key] for key in ("id", "name") if attrs.get(key)}
        if tag == "a" and attrs.get("href"):
            self.targets.append(attrs["href"])
        if tag in ("img", "script", "link"):
            self.sources.append(attrs.get("src") or attrs.get("href") or "")


def pages(html):
    return {page: Links(page.read_text()) for page in html.rglob("*.html") if "_static" not in page.parts}


def test_every_page_of_the_contents_is_there(html):
    for source in toc_files():
        assert (html / source.with_suffix(".html")).exists()


def test_every_internal_link_resolves(html):
    found = pages(html)
    count = 0
    for page, links in found.items():
        for target in links.targets:
            parts = urlparse(target)
            if parts.scheme or target.startswith("//"):
                continue
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert there.exists(), f"{page.name}: {target}"
            if parts.fragment and there in found:
                assert unquote(parts.fragment) in found[there].names, f"{page.name}: {target}"
            count += 1
    assert count > 50


def test_figures_equations_and_scripts_need_no_network(html):
    chapter = html / "chapters" / "02_existence.html"
    links = pages(html)[chapter]
    assert not [source for source in links.sources if source.startswith(("http:", "https:", "//"))]
    for source in links.sources:
        path = urlparse(source).path
        if path and not source.startswith("data:"):
            assert (chapter.parent / unquote(path)).resolve().exists(), source
    assert sum(source.endswith(".png") for source in links.sources) >= 3
    assert any("mathjax" in source for source in links.sources)


def test_figures_have_captions_and_alternative_texts(html):
    text = (html / "chapters" / "02_existence.html").read_text()
    assert len(re.findall(r"<figcaption>", text)) == 4
    assert len(re.findall(r'<img alt="(?!_images|\.\./)[A-Z][^"]{20,}"', text)) >= 3


def test_no_page_shows_an_error_or_a_path_of_this_machine(html):
    for page in html.rglob("*.html"):
        text = page.read_text()
        assert "Traceback (most recent call last)" not in text, page
        assert str(ROOT) not in text, page
        assert str(Path.home()) + "/" not in text, page


def test_notebooks_are_committed_executed_and_clean():
    for path in notebooks():
        notebook = nbformat.read(path, as_version=4)
        code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
        assert all(cell.execution_count for cell in code), path
        assert not [o for cell in code for o in cell.outputs if o.output_type == "error"]
        assert "parameters" in code[0].metadata.tags
        assert max(len(cell.source.splitlines()) for cell in code) <= 30
        outputs = json.dumps([cell.outputs for cell in code])
        assert not re.search(r"/(?:root|work|tmp|home)/", outputs), path
        assert path.stat().st_size < 1_000_000


def test_twins_are_in_step():
    assert twin_differences() == []
