"""What Sphinx is told beyond its configuration: narrow figures, and no scripts that ask for a server."""

import hashlib
import re
from pathlib import Path
from typing import Any

import nbformat
from docutils.nodes import document
from sphinx.application import Sphinx

from sameloss.book.executed import code_cells
from sameloss.studies.screens import NARROW, NARROW_SCREEN, WIDE

FOLDER = Path("_static/narrow")
"""Where the narrow forms of figures are, named as MyST-NB names the wide ones."""

FRONT_TITLE = "An executable reproduction"
"""Of the front page; its heading is the book's title, which follows anyway."""

_IMAGE = re.compile(r'<img [^>]*src="([./]*)_images/([0-9a-f]{64}\.svg)"[^>]*>')

_THEBE = re.compile(
    r'<script type="text/x-thebe-config">.*?</script>\s*(<script>kernelName.*?</script>)?', re.DOTALL
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Take part in the writing of each page, after all others."""
    app.connect("html-page-context", _finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def take_narrow_forms(notebook: nbformat.NotebookNode) -> dict[Path, bytes]:
    """Take out the narrow forms of a notebook's figures, which MyST-NB cannot show, by their files."""
    shown = [output.get("data", {}) for cell in code_cells(notebook) for output in cell.outputs]
    return {FOLDER / _name(data[WIDE]): data.pop(NARROW).encode() for data in shown if NARROW in data}


def _name(svg: str) -> str:
    return hashlib.sha256("\n".join(svg.splitlines()).encode()).hexdigest() + ".svg"


def _finish(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: document | None) -> None:
    """Show each figure as the screen wants it; drop what asks for a server; give the front page a title."""
    context["script_files"] = [script for script in context["script_files"] if not _asks_for_a_server(script)]
    body = _THEBE.sub("", context.get("body", ""))
    context["body"] = _IMAGE.sub(lambda image: _for_any_screen(image, Path(app.srcdir)), body)
    if page == app.config.root_doc:
        context["title"] = FRONT_TITLE


def _asks_for_a_server(script: Any) -> bool:
    """Tell the scripts of sphinx-thebe, which would run code elsewhere, by their file or their text."""
    return "thebe" in f"{script.filename} {script.attributes.get('body', '')}".lower()


def _for_any_screen(image: re.Match[str], source: Path) -> str:
    """Put the narrow form of an image beside it, where there is one."""
    up, name = image.groups()
    if not (source / FOLDER / name).exists():
        return image[0]
    narrow = f'<source media="{NARROW_SCREEN}" srcset="{up}{FOLDER}/{name}">'
    return f"<picture>{narrow}{image[0]}</picture>"
