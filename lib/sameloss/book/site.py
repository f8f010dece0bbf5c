"""Stage the input of Jupyter Book, and render it if it has changed.

This module is also a Sphinx extension, which removes scripts that need a server, and makes pages of committed
notebooks where `jupyter-book build .` reads them without a stage.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import nbformat
import yaml
from docutils.nodes import document
from sphinx.application import Sphinx
from sphinx.config import Config

from sameloss.book.notebooks import CAPTION, EXECUTED, VERSIONS, code_cells, strip_metadata, toc_files

STAGE, HTML, DOCTREES = (Path("_build") / name for name in ("stage", "html", ".doctrees"))

RENDERED = HTML / ".source.sha256"
"""Hash of the input of the HTML; exists only while the HTML is complete."""

PAGES = (
    *("_config.yml", "_toc.yml", "references.bib", "README.md", "_static/book.css", "_static/favicon.svg"),
    *(f"_static/movable_{name}.js" for name in ("accuracy", "landscape", "growth", "lists")),
)
"""Input besides the pages of `_toc.yml`; of the README, its sections on running."""


def html(committed: bool) -> None:
    """Render the book if it has changed, and print its path.

    Args:
        committed: whether to render the committed notebooks instead of the executed ones.

    Raises:
        SystemExit: for a notebook with errors or missing outputs, or any warning.

    """
    stage(committed)
    source = _staged_hash()
    if not (RENDERED.exists() and RENDERED.read_text("utf-8") == source):
        render()
        RENDERED.write_text(source, "utf-8")
    print(f"The book: {(HTML / 'index.html').resolve()}")


def stage(committed: bool) -> None:
    """Write the input of Sphinx; unchanged files keep their time stamps, so that Sphinx skips them."""
    wanted = {STAGE / path: content for path, content in _contents(committed)}
    for path in [path for path in STAGE.rglob("*") if path.is_file()]:
        if path not in wanted:
            path.unlink()
            shutil.rmtree(HTML, ignore_errors=True)  # Sphinx would keep the page of a deleted file
    for path, content in wanted.items():
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _contents(committed: bool) -> Iterator[tuple[Path, bytes]]:
    """Files that Sphinx reads."""
    for path in [*map(Path, PAGES), *toc_files()]:
        if path.suffix != ".ipynb":
            yield path, path.read_bytes()
            continue
        source = path if committed else EXECUTED / path
        if not source.exists():
            raise SystemExit(f"{path} was not executed; run `make book` first.")
        yield path, nbformat.writes(presentable(nbformat.read(source, as_version=4), path)).encode()


INSTALL = """# Where the library is not installed yet, for example in Colab
import importlib.util
import sys

if importlib.util.find_spec("sameloss") is None:
    !git clone -q --depth 1 {url} same-loss
    %pip install -q -e "same-loss[book]"
    sys.path.insert(0, "same-loss/lib")"""
"""A cell of notebooks that are downloaded; pages do not show it."""

INVISIBLE: dict[str, Any] = {"id": "install", "metadata": {"tags": ["remove-cell"]}}


def presentable(notebook: nbformat.NotebookNode, path: Path, book: Path | str = ".") -> nbformat.NotebookNode:
    """A page of a notebook: plumbing code is folded behind a label, findings stand above their figures.

    It installs the library if the book has an address. One with errors or missing outputs is refused.
    """
    strip_metadata(notebook)
    for cell in code_cells(notebook):
        if any(output.output_type == "error" for output in cell.outputs):
            raise SystemExit(f"{path}: a cell ended in an error; execute the chapter again.")
        if cell.source.strip() and cell.execution_count is None:
            raise SystemExit(f"{path}: a cell was not executed; run `make book` first.")
        if label := folded_behind(cell):
            what = "hide-cell" if label in FOLDED_WHOLE.values() else "hide-input"
            cell.metadata["tags"] = sorted({*cell.metadata.get("tags", []), what})
            cell.metadata.setdefault("mystnb", {}).setdefault("code_prompt_show", label)
        elif "say(" in cell.source:
            cell.metadata["tags"] = sorted({*cell.metadata.get("tags", []), "remove-input"})
    notebook.cells = [part for cell in notebook.cells for part in _arranged(cell)]
    config = yaml.safe_load((Path(book) / "_config.yml").read_text("utf-8"))
    if url := config.get("repository", {}).get("url"):
        notebook.cells.insert(1, nbformat.v4.new_code_cell(INSTALL.format(url=url), **INVISIBLE))
    return notebook


def _arranged(cell: nbformat.NotebookNode) -> Iterator[nbformat.NotebookNode]:
    """Move a figure's finding into a cell above it, since MyST-NB makes every output a figure.

    The caption below it, which other viewers of notebooks need, is dropped. The last cell, to which figures
    link, gets a heading.
    """
    if cell.cell_type == "code" and "close(page" in cell.source:
        yield nbformat.v4.new_markdown_cell(f"## {LAST}", id="last")
    if "figure" in cell.metadata.get("mystnb", {}):
        texts = [output for output in cell.outputs if "text/markdown" in output.get("data", {})]
        titles = [output for output in texts if not output.metadata.get(CAPTION)]
        if titles:
            options = {"id": f"{cell.id}-title", "execution_count": 1, "metadata": {"tags": ["remove-input"]}}
            yield nbformat.v4.new_code_cell("finding()", outputs=titles, **options)
        cell.outputs = [output for output in cell.outputs if output not in texts]
    yield cell


LAST = "Data and command"
"""Heading of the end of a page, which has both."""

FOLDED_WHOLE = {
    "beside_the_paper(page)": "All verdicts of this page",
    "control_table(": "The numbers of these effects",
    "render(theory": "All statements",
}
"""Text in cells whose tables are folded too, and the label they are folded behind."""

FOLDED = FOLDED_WHOLE | {
    "NBVAL_CHECK_OUTPUT": "Checks of this page",
    "begin(globals()": "Start of this page",
    "beside_the_paper(": "Code of this table",
    "render(": "Code of this table",
}
"""Text in cells that only display results, and the label they are folded behind."""


def folded_behind(cell: nbformat.NotebookNode) -> str | None:
    """Label that a cell's code is folded behind; None to leave it visible."""
    tags = cell.metadata.get("tags", [])
    if "parameters" in tags or "injected-parameters" in tags:
        return "Parameters of this chapter"
    if "figure" in cell.metadata.get("mystnb", {}):
        return "Code of this figure"
    if "show_source(" in cell.source or {"remove-cell", "hide-cell"} & set(tags):
        return None
    labels = (label for text, label in FOLDED.items() if text in cell.source)
    return next(labels, "Code" if "hide-input" in tags else None)


def _staged_hash() -> str:
    digest = hashlib.sha256(VERSIONS.read_bytes())
    for path in sorted(path for path in STAGE.rglob("*") if path.is_file()):
        digest.update(str(path).encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def render() -> None:
    """Run Sphinx: read changed pages, write all, since each may show titles and numbers of others.

    Raises:
        SystemExit: for any warning.

    """
    if not RENDERED.exists():
        shutil.rmtree(DOCTREES, ignore_errors=True)  # or pages read by a failed build would not warn again
    RENDERED.unlink(missing_ok=True)
    _sphinx("html", HTML, nitpicky=True)


def _sphinx(builder: str, folder: Path, **options: Any) -> None:
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # silences a warning about frozen modules
    from jupyter_book.sphinx import build_sphinx

    source = STAGE.absolute()
    toc = str(source / "_toc.yml")
    status = build_sphinx(
        source,
        folder.absolute(),
        noconfig=True,
        path_config=source / "_config.yml",
        confoverrides={"external_toc_path": toc, "latex_individualpages": False, **options},
        doctreedir=DOCTREES.absolute(),
        builder=builder,
        warningiserror=True,
        keep_going=True,
        quiet=True,
        force_all=True,
    )
    if isinstance(status, OSError):
        raise status
    if status != 0:
        raise SystemExit("The book was not built: see the warnings above.")


SINGLE, PDF = Path("_build/single"), Path("_build/book.pdf")


def pdf() -> None:
    """Print the committed notebooks on paper of size A4 with the system's Chromium, and print the path.

    Raises:
        SystemExit: as `html`, and without Chromium.

    """
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    if not (chromium := next(filter(None, map(shutil.which, names)), None)):
        raise SystemExit("A PDF needs Chromium; on Debian `apt-get install chromium` brings it.")
    stage(committed=True)
    _sphinx("singlehtml", SINGLE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto((SINGLE / "intro.html").absolute().as_uri(), wait_until="load")
        page.evaluate(UNFOLD)
        page.evaluate("window.MathJax?.startup?.promise")
        page.pdf(
            path=PDF, format="A4", scale=0.75, outline=True, tagged=True, print_background=True, margin=MARGIN
        )
        browser.close()
    print(f"The book: {PDF.resolve()}")


UNFOLD = """for (const fold of document.querySelectorAll(".bd-content details"))
    fold.querySelector(".cell_output") || !fold.closest("div.cell") ? fold.open = true : fold.remove()"""
"""On paper, folded tables and texts are open, and folded code is left out."""

MARGIN: Any = {"top": "18mm", "bottom": "18mm", "left": "14mm", "right": "14mm"}


# Words that are explained where a page first uses them

GLOSSARY = "chapters/notation"
"""The page whose table has them."""

_TERMS = re.compile(r"^\| (\*\*.+?) \|.*\| (.+) \|$", re.MULTILINE)
_BESIDES_TEXT = r"(?![^<>]*>)(?![^<]*</(?:a|code|span|abbr))"


def terms(glossary: str) -> dict[str, str]:
    """The words in bold of the glossary's table, with their meaning as plain text.

    >>> terms("| **probe**, **probing** | $g$ | a *linear* classifier |")
    {'probe': 'a linear classifier', 'probing': 'a linear classifier'}
    """
    found: dict[str, str] = {}
    for words, meaning in _TERMS.findall(glossary):
        plain = re.sub(r"\[(.+?)\]\(.+?\)", r"\1", re.sub(r"[*`$]|\\,", "", meaning))
        found |= dict.fromkeys(re.findall(r"\*\*(.+?)\*\*", words), plain)
    return found


def explained(body: str, meanings: dict[str, str]) -> str:
    """Say what words mean where a paragraph of a page first uses them.

    >>> explained("<p>Two probes, one probe.</p>", {"probe": "a classifier"})
    '<p>Two <abbr tabindex="0" data-means="a classifier">probes</abbr>, one probe.</p>'
    >>> explained("<p>Gradient descent.</p>", {"descent": "a whole training"})
    '<p>Gradient descent.</p>'
    """
    left = dict(meanings)
    words = "|".join(map(re.escape, sorted(meanings, key=len, reverse=True)))

    def mark(word: re.Match[str]) -> str:
        if (meaning := left.pop(word[1], None)) is None:
            return word[0]
        return f'<abbr tabindex="0" data-means="{escape(meaning)}">{word[0]}</abbr>'

    one = re.compile(rf"(?<![Gg]radient )\b({words})s?\b{_BESIDES_TEXT}")
    return re.sub(r"<p>.*?</p>", lambda paragraph: one.sub(mark, paragraph[0]), body, flags=re.DOTALL)


# The extension of Sphinx

FRONT_TITLE = "An executable reproduction"
"""Title of the front page, followed by the book's title."""

_THEBE = re.compile(
    r'<script type="text/x-thebe-config">.*?</script>\s*(<script>kernelName.*?</script>)?', re.DOTALL
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx extension: process each page after all other extensions."""
    app.connect("config-inited", _add_buttons)
    app.connect("source-read", _present)
    app.connect("html-page-context", _finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _add_buttons(app: Sphinx, config: Config) -> None:
    """Link to the repository, if there is one, and open pages in Colab."""
    options = config.html_theme_options
    if options.get("repository_url"):
        options |= {"use_repository_button": True, "use_issues_button": True}
        options["launch_buttons"] |= {"colab_url": "https://colab.research.google.com"}


def _present(app: Sphinx, page: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(page))
    if path.suffix == ".ipynb" and STAGE.absolute() not in path.parents:
        notebook = nbformat.reads(source[0], as_version=4)
        source[0] = nbformat.writes(presentable(notebook, path.relative_to(app.srcdir), app.srcdir))


def _finish(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: document | None) -> None:
    """Remove the scripts of sphinx-thebe, link figures to their data, and set the front page's title."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "thebe" not in f"{script.filename} {script.attributes.get('body', '')}".lower()
    ]
    body = _THEBE.sub("", context.get("body", ""))
    if (anchor := LAST.lower().replace(" ", "-")) in body:
        link = f' <a class="more" href="#{anchor}">{LAST}</a>'
        body = re.sub("(</p>)?\\s*</figcaption>", rf"{link}\1</figcaption>", body)
    if page != GLOSSARY and (glossary := Path(app.env.doc2path(GLOSSARY))).exists():
        body = explained(body, terms(glossary.read_text("utf-8")))
    context["body"] = body.replace("<figure", '<figure tabindex="0"')  # scrolled with keys where too wide
    context["default_mode"] = "auto"  # which the theme's script complains about not having
    if page == app.config.root_doc:
        context["title"] = FRONT_TITLE
