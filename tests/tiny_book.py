"""A book of a front page, one chapter and a summary, for tests of what builds books; and its builder."""

import subprocess
import sys
from pathlib import Path

import nbformat

PAGE = Path("chapters/02_confirmation.ipynb")

SQUARE = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><path d="M0 0h8v8H0z"/></svg>'

FILES = {
    "_config.yml": 'title: Tiny\nonly_build_toc_files: true\nexecute: {execute_notebooks: "off"}\n',
    "_toc.yml": "format: jb-book\nroot: intro\nparts:\n  - chapters:\n"
    "      - file: chapters/02_confirmation\n"
    "      - file: summary\n",
    "intro.md": "# Tiny\n",
    "summary.md": "# Summary\n\n```{glue:} answer\n:doc: chapters/02_confirmation.ipynb\n```\n",
    "references.bib": "",
    "README.md": "# Tiny\n",
    "_static/book.css": "",
    "_static/movable_accuracy.js": "",
    "_static/movable_landscape.js": "",
    "_static/movable_growth.js": "",
    "_static/movable_lists.js": "",
    "_static/favicon.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
    "constraints.txt": "numpy==1\n",
    "results/a.csv": "1\n",
    "lib/a.py": "",
    ".gitignore": "_build/\n",
}


def git(*words):
    """Run git here, and return what it says."""
    own = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    return subprocess.run(["git", *own, *words], capture_output=True, text=True, check=True).stdout.strip()


def notebook(answer="42", *, executed=True):
    """Return a chapter whose cells set a parameter, glue an answer and draw the front page's figure."""
    sources = [
        'preset: str = "auto"',
        f'from myst_nb import glue\nglue("answer", "{answer}")',
        "print(preset)",
    ]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    cells[0].metadata["tags"] = ["parameters"]
    cells[2].metadata["mystnb"] = {"figure": {"name": "fig-existence"}}
    if executed:
        for count, cell in enumerate(cells, 1):
            cell.execution_count = count
        glued = {
            "data": {"text/plain": f"'{answer}'"},
            "metadata": {"scrapbook": {"mime_prefix": "", "name": "answer"}},
        }
        cells[1].outputs = [nbformat.v4.new_output("display_data", **glued)]
        cells[2].outputs = [nbformat.v4.new_output("display_data", {"image/svg+xml": SQUARE})]
    text = nbformat.v4.new_markdown_cell("# A chapter")
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=[text, *cells], metadata={"kernelspec": kernel})


def write(path, made):
    """Write a notebook, the same one always alike."""
    for number, cell in enumerate(made.cells):
        cell.id = f"cell-{number}"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(made, path)


def build(folder, *words):
    """Build the HTML of the committed notebooks of a book, or what is named; return the finished process."""
    command = [sys.executable, "-m", "sameloss.book.build", *(words or ("html", "--committed"))]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
