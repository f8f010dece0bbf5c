"""The built book: no warning, every internal link resolves, no error, no path; rendered where it changed."""

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse

import nbformat
import pytest
import yaml
from browser import in_a_browser
from tiny_book import PAGE, build, notebook, write

from sameloss.book import site
from sameloss.book.notebooks import EXECUTED, show_captions, toc_files
from sameloss.book.part_one import recorded_answers
from sameloss.book.site import FRONT_TITLE, STAGE, folded_behind, presentable, stage
from sameloss.studies.growing import claims as growing
from sameloss.studies.local_signal_images import claims as images
from sameloss.studies.same_loss.tables import PAGES
from sameloss.studies.stability import claims as stability

ROOT = Path(__file__).parents[2]


# What Sphinx reads


def staged():
    """Return what is staged, with the time at which it was written."""
    return {path: path.stat().st_mtime_ns for path in STAGE.rglob("*") if path.is_file()}


def test_only_what_has_changed_is_staged_again(book):
    stage(committed=True)
    before = staged()
    assert {str(path.relative_to(STAGE)) for path in before} == {
        *site.PAGES,
        *("intro.md", "summary.md", str(PAGE)),
    }
    Path("intro.md").touch()
    stage(committed=True)
    assert staged() == before
    write(PAGE, notebook("43"))
    stage(committed=True)
    after = staged()
    assert [path for path in after if after[path] != before[path]] == [STAGE / PAGE]


def test_the_same_execution_at_another_time_is_not_staged_again(book):
    times = []
    for time in ("now", "then"):
        made = notebook()
        made.metadata.papermill = {"start_time": time}
        made.cells[1].metadata["papermill"] = {"start_time": time}
        write(EXECUTED / PAGE, made)
        stage(committed=False)
        times.append(staged())
    assert times[0] == times[1]
    assert "start_time" not in (STAGE / PAGE).read_text()


def test_a_page_that_is_no_more_goes(book):
    Path("other.md").write_text("# Other")
    contents = Path("_toc.yml").read_text()
    Path("_toc.yml").write_text(contents + "      - file: other\n")
    stage(committed=True)
    site.HTML.mkdir()
    Path("_toc.yml").write_text(contents)
    stage(committed=True)
    assert not (STAGE / "other.md").exists()
    assert not site.HTML.exists()  # of which Sphinx would leave the page


def test_what_was_not_executed_is_not_staged(book):
    with pytest.raises(SystemExit, match=f"{PAGE} was not executed; run `make book` first"):
        stage(committed=False)
    write(PAGE, notebook(executed=False))
    with pytest.raises(SystemExit, match=f"{PAGE}: a cell was not executed"):
        stage(committed=True)


def test_a_notebook_with_an_error_is_not_staged():
    made = notebook()
    made.cells[1].outputs = [nbformat.v4.new_output("error", ename="E", evalue="", traceback=[])]
    with pytest.raises(SystemExit, match="ended in an error"):
        presentable(made, PAGE)


def test_warnings_with_their_folders_are_not_staged():
    made = notebook()
    kept = list(made.cells[1].outputs)
    made.cells[1].outputs.append(nbformat.v4.new_output("stream", name="stderr", text="/home/me/lib/x.py:3"))
    assert presentable(made, PAGE).cells[1].outputs == kept


def test_parameters_are_folded_behind_their_name():
    cells = presentable(notebook(), PAGE).cells
    assert [cell.metadata.get("tags") for cell in cells[:3]] == [None, ["hide-input", "parameters"], None]
    assert cells[1].metadata["mystnb"] == {"code_prompt_show": "Parameters of this chapter"}


def test_a_finding_stands_above_its_figure_which_has_one_caption():
    made = notebook()
    figure = made.cells[3]
    figure.metadata["mystnb"]["figure"]["caption"] = "What is drawn."
    figure.outputs.insert(0, nbformat.v4.new_output("display_data", {"text/markdown": "**It falls.**"}))
    show_captions(made)
    assert [output.data.get("text/markdown") for output in figure.outputs] == [
        "**It falls.**",
        None,
        "*What is drawn.*",
    ]
    made.cells.append(nbformat.v4.new_code_cell("close(page)", execution_count=4))
    *_, title, figure, heading, _ = presentable(made, PAGE).cells
    assert heading.source == "## Data and command"
    assert [output.data for output in title.outputs] == [{"text/markdown": "**It falls.**"}]
    assert title.metadata["tags"] == ["remove-input"]
    assert [list(output.data) for output in figure.outputs] == [["image/svg+xml"]]


@pytest.mark.parametrize(
    ("source", "metadata", "label"),
    [
        ("axes = panels(2)", {"mystnb": {"figure": {"caption": "A."}}}, "Code of this figure"),
        ("render(table)", {}, "Code of this table"),
        ("render(tables.control_table(answers, 'size'))", {}, "The numbers of these effects"),
        ("# NBVAL_CHECK_OUTPUT\nprint(1)", {"tags": ["hide-input"]}, "Checks of this page"),
        ("close(page)", {"tags": ["hide-input"]}, "Code"),
        ("show_source(render)", {}, None),
        ("round(0.1 + 0.2, 2)", {}, None),
        ("glue('a', 1)\nrender(table)", {"tags": ["remove-cell"]}, None),
    ],
)
def test_code_that_only_shows_is_folded_and_code_that_teaches_is_not(source, metadata, label):
    cell = nbformat.v4.new_code_cell(source, metadata=metadata)
    assert folded_behind(cell) == label


# What Sphinx writes


@pytest.fixture
def renderings(book, monkeypatch):
    """The number of times that the book was rendered; here into an empty folder."""
    calls = []

    def render():
        calls.append(1)
        site.HTML.mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(site, "render", render)
    return calls


def test_an_unchanged_book_is_not_rendered_again(renderings):
    changes = [
        (lambda: None, 1),
        (lambda: None, 1),
        (lambda: Path("intro.md").write_text("# New"), 2),
        (lambda: Path("constraints.txt").write_text("numpy==2"), 3),
        (lambda: shutil.rmtree(site.HTML), 4),
        (lambda: None, 4),
    ]
    for change, expected in changes:
        change()
        site.html(committed=True)
        assert len(renderings) == expected


@pytest.mark.book
def test_an_edited_notebook_shows_on_its_page_and_on_those_that_glue_from_it(book):
    chapter = book / "_build" / "html" / PAGE.with_suffix(".html")
    for answer in ("forty-two", "forty-three"):
        write(PAGE, notebook(answer))
        done = build(book)
        assert done.returncode == 0, done.stdout + done.stderr
        for page in (chapter, book / "_build" / "html" / "summary.html"):
            assert f"'{answer}'" in page.read_text().replace("&#39;", "'")


@pytest.mark.book
def test_a_repository_adds_buttons_and_a_cell_that_installs(book):
    config = Path("_config.yml").read_text() + "launch_buttons: {binderhub_url: ''}\n"
    config += "repository: {url: https://github.com/me/book, branch: main}\n"
    Path("_config.yml").write_text(config + "sphinx: {extra_extensions: [sameloss.book.site]}\n")
    done = build(book)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (site.HTML / PAGE.with_suffix(".html")).read_text()
    assert f"https://colab.research.google.com/github/me/book/blob/main/{PAGE}" in page
    assert "https://github.com/me/book/issues" in page
    assert "git clone" not in page
    downloaded = (site.HTML / "_sources" / PAGE).read_text()
    assert "!git clone -q --depth 1 https://github.com/me/book same-loss" in downloaded


@in_a_browser
@pytest.mark.book
def test_the_whole_book_is_printed_into_one_file(book):
    done = build(book, "pdf")
    assert done.returncode == 0, done.stdout + done.stderr
    printed = (book / "_build" / "book.pdf").read_bytes()
    assert printed.startswith(b"%PDF")
    assert b"/Outlines" in printed  # a table of contents
    assert re.search(rb"/Type\s*/Page\b", printed)


def test_without_a_browser_nothing_is_printed(book, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit, match="needs Chromium; on Debian"):
        site.pdf()


def test_the_footer_says_the_version():
    version = re.findall(r"^version: (.*)", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[0]
    footer = yaml.safe_load((ROOT / "_config.yml").read_text())["html"]["extra_footer"]
    assert re.findall(r"[Vv]ersion ([\d.]+\d)", footer) == [version, version]


@pytest.mark.book
def test_a_warning_fails_every_build_until_it_is_mended(book):
    """One of what is read, which would not be read again."""
    good = Path("intro.md").read_text()
    Path("intro.md").write_text(good + "\n```{nonsense}\n```\n")
    for _ in range(2):
        done = build(book)
        assert done.returncode == 1
        assert "nonsense" in done.stderr
        assert "The book was not built" in done.stderr
    Path("intro.md").write_text(good)
    assert build(book).returncode == 0


# The book itself


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


@pytest.mark.book
def test_every_page_of_the_contents_is_there(html, monkeypatch):
    monkeypatch.chdir(ROOT)
    for source in toc_files():
        assert (html / source.with_suffix(".html")).exists()


@pytest.mark.book
def test_jupyter_book_alone_builds_the_same_pages(html, tmp_path):
    """From any folder, of the committed notebooks."""
    book = tmp_path / "book"
    shutil.copytree(html.parents[1], book, ignore=shutil.ignore_patterns("_build"))
    command = [Path(sys.executable).parent / "jupyter-book", "build", book, "-n", "-W", "--keep-going"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    built = book / "_build" / "html"
    for page in pages(html):
        assert (built / page.relative_to(html)).read_bytes() == page.read_bytes(), page.name


@pytest.mark.book
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


@pytest.mark.book
def test_figures_equations_and_scripts_need_no_network(html):
    chapter = html / "chapters" / "02_existence.html"
    links = pages(html)[chapter]
    assert not [source for source in links.sources if source.startswith(("http:", "https:", "//"))]
    for source in links.sources:
        path = urlparse(source).path
        if path and not source.startswith("data:"):
            assert (chapter.parent / unquote(path)).resolve().exists(), source
    assert sum(source.endswith(".svg") for source in links.sources) >= 2
    assert any("mathjax" in source for source in links.sources)


@pytest.mark.book
def test_figures_have_captions_and_alternative_texts(html):
    """Where there is a figure: what the preset leaves out has none."""
    for path in sorted((ROOT / "chapters").glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        drawn = sum("figure" in c["metadata"].get("mystnb", {}) and bool(c["outputs"]) for c in cells)
        text = (html / "chapters" / f"{path.stem}.html").read_text()
        assert text.count("<figcaption>") == drawn, path.name
        assert len(re.findall(r'<img alt="(?!_images|\.\./)[A-Z][^"]{20,}"', text)) >= drawn, path.name


@pytest.mark.book
def test_no_picture_is_without_words(html):
    """A file's name is none."""
    for page in pages(html):
        for image in re.findall(r"<img [^>]*>", page.read_text()):
            assert re.search(r'alt="(?!_images|\.\./)[^"]+"', image), f"{page.name}: {image[:200]}"


@pytest.mark.book
def test_claims_and_their_chapters_lead_to_each_other(html):
    home = html / "chapters" / "verdicts.html"
    found = pages(html)
    there = [target for target in found[home].targets if "#claim-" in target]
    elsewhere = (*growing.TOPICS, *growing.STACKING_TOPICS, *stability.TOPICS, *images.TOPICS)
    assert len(there) == sum(len(topic.claims) for topic in elsewhere if not topic.presets)
    for target in there:
        name, _, anchor = target.partition("#")
        assert f"verdicts.html#{anchor}" in found[home.parent / name].targets


@pytest.mark.book
def test_every_answer_of_the_front_page_leads_to_its_chapter(html):
    (table,) = re.findall(
        r'<table class="[^"]*front".*?</table>', (html / "intro.html").read_text(), re.DOTALL
    )
    linked = re.findall(r'<th scope="row"><a href="([^"]+)"', table)
    assert len(linked) == table.count("<tr>") - 1
    assert all((html / target).exists() for target in linked)


@pytest.mark.book
def test_every_question_of_the_first_edition_leads_to_its_chapter(html):
    argued = pages(html)[html / "chapters" / "verdicts.html"].targets
    main = recorded_answers().query("row == 'main' and judged")
    assert {f"{page}.html" for page in PAGES if set(PAGES[page]) & set(main.question)} <= set(argued)


@pytest.mark.book
def test_no_page_shows_an_error_an_object_or_a_path_of_this_machine(html):
    for page in html.rglob("*.html"):
        text = page.read_text()
        assert "Traceback (most recent call last)" not in text, page
        assert "object&gt;" not in text, page
        for folder in (ROOT, html.parents[1]):
            assert str(folder) not in text, page
        assert str(Path.home()) + "/" not in text, page


# What the book's pages are told beyond Sphinx' configuration.


@pytest.mark.book
def test_no_page_asks_for_a_server_and_all_say_what_they_are_about(html):
    for page in [*(html / "chapters").glob("*.html"), html / "intro.html"]:
        text = page.read_text()
        assert "thebe_selector" not in text, page.name
        assert "x-thebe-config" not in text, page.name
        assert re.search(r'<meta name="description" content="\w', text), page.name
    assert f"<title>{FRONT_TITLE} &#8212; Same pre" in (html / "intro.html").read_text()
