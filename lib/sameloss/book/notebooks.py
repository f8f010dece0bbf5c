"""The book's notebooks, their py:percent twins, their executed copies, and the fingerprint of an execution.

Executions with the same fingerprint differ only in printed times. It does not cover the run store, whose keys
already cover everything that a result depends on.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import jupytext
import nbformat
import yaml
from jupytext.cli import jupytext as run_jupytext
from jupytext.config import load_jupytext_config
from nbformat.reader import NotJSONError

from sameloss.store.location import SOURCE

EXECUTED = Path("_build/executed")
"""Folder of the executed copies of chapters."""

DEFAULT = "laptop"
"""Preset of chapters without parameters."""

OWN = "sameloss"
"""Key of the execution in a notebook's metadata."""

SVG = "image/svg+xml"
"""MIME type of figures."""

CAPTION = "caption"
"""Key in the metadata of an output that is a figure's caption."""

VERSIONS = Path("constraints.txt")

RESULTS = Path("results")
"""Recorded runs, and tables beside them."""


def toc_files() -> list[Path]:
    """Files of the book in the order of `_toc.yml`, the front page first.

    Raises:
        SystemExit: if one does not exist.

    """
    toc = yaml.safe_load(Path("_toc.yml").read_text("utf-8"))
    names = [toc["root"]] + [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    files = [[p for s in (".ipynb", ".md") if (p := Path(name + s)).exists()] for name in names]
    if [] in files:
        raise SystemExit(
            f"_toc.yml names {names[files.index([])]}, of which there is neither an .ipynb nor an .md file; "
            "`make twins` writes the notebook of a .py."
        )
    return [found[0] for found in files]


def notebooks(page: str | None = None) -> list[Path]:
    """Chapters that are notebooks, or the one of a name.

    Raises:
        SystemExit: if there is none of that name.

    """
    paths = {path.stem: path for path in toc_files() if path.suffix == ".ipynb"}
    if page is not None and page not in paths:
        raise SystemExit(f"Unknown page {page!r}; choose one of {', '.join(paths)}.")
    return [*paths.values()] if page is None else [paths[page]]


def code_cells(notebook: nbformat.NotebookNode) -> Iterator[nbformat.NotebookNode]:
    """Code cells in order."""
    return (cell for cell in notebook.cells if cell.cell_type == "code")


@dataclass(frozen=True)
class Execution:
    """Inputs of an executed copy: preset, fingerprint and source revision."""

    preset: str
    fingerprint: str
    revision: str

    def write(self, notebook: nbformat.NotebookNode) -> None:
        """Write to the metadata of the notebook."""
        notebook.metadata[OWN] = asdict(self)


def execution_of(page: Path) -> Execution | None:
    """Execution of a chapter's copy; None if missing or incomplete."""
    try:
        recorded = nbformat.read(EXECUTED / page, as_version=4).metadata.get(OWN)
    except (FileNotFoundError, NotJSONError):
        return None
    return Execution(**recorded) if recorded else None


def strip_metadata(notebook: nbformat.NotebookNode) -> None:
    """Remove what differs between executions with the same outputs: metadata, times, and standard error.

    Warnings and progress bars name folders of this machine, and no page shows them.
    """
    kept = {name: notebook.metadata[name] for name in ("kernelspec", "jupytext") if name in notebook.metadata}
    notebook.metadata = nbformat.from_dict({**kept, "language_info": {"name": "python"}})
    for cell in notebook.cells:
        for name in ("papermill", "execution"):
            cell.metadata.pop(name, None)
        if not cell.metadata.get("tags"):
            cell.metadata.pop("tags", None)
    for cell in code_cells(notebook):
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for data in (output.get("data", {}) for output in cell.outputs):
            if "text/html" in data and " at 0x" in data.get("text/plain", ""):  # an address in memory
                del data["text/plain"]


def show_captions(notebook: nbformat.NotebookNode) -> None:
    """Add each figure's caption to its outputs: only Jupyter Book shows it from the cell's metadata."""
    for cell in code_cells(notebook):
        if caption := cell.metadata.get("mystnb", {}).get("figure", {}).get("caption"):
            data = {"text/markdown": f"*{caption}*"}
            cell.outputs.append(nbformat.v4.new_output("display_data", data, metadata={CAPTION: True}))


def fingerprints(pages: Iterable[Path], preset: str) -> dict[Path, str]:
    """Hash of each chapter: its cells, preset, library, what is recorded, and versions of packages."""
    recorded = (path for path in RESULTS.rglob("*") if path.is_file())
    library = (*SOURCE.rglob("*.py"), *SOURCE.rglob("*.toml"))
    read = [(str(p), _hash(p.read_bytes())) for p in sorted([VERSIONS, *library, *recorded])]
    found = {}
    for page in pages:
        cells = nbformat.read(page, as_version=4).cells
        own = [[c.cell_type, c.source, c.metadata.get("tags"), c.metadata.get("mystnb")] for c in cells]
        found[page] = _hash(json.dumps([preset, read, own]).encode())
    return found


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# Notebooks and their twins


def twin_of(path: Path) -> str:
    """The py:percent twin of a notebook, with captions in plain Unicode instead of JSON escapes."""
    notebook = nbformat.read(path, as_version=4)
    twin = jupytext.writes(notebook, "py:percent", config=load_jupytext_config(str(path)))
    return re.sub(r"^# %% .*", _unescaped, twin, flags=re.MULTILINE)


def _unescaped(line: re.Match[str]) -> str:
    return re.sub(
        r'"(?:[^"\\]|\\.)*"', lambda text: json.dumps(json.loads(text[0]), ensure_ascii=False), line[0]
    )


def twin_differences() -> list[str]:
    """One line for each notebook that differs from its twin."""
    twins = {path: path.with_suffix(".py").read_text("utf-8") for path in notebooks()}
    return [f"{path} and its twin differ." for path, twin in twins.items() if twin_of(path) != twin]


def twins(sync: bool) -> None:
    """Compare notebooks with their twins; with `sync`, first write the twins into the notebooks.

    Raises:
        SystemExit: if they differ.

    """
    if sync:
        for twin in sorted(Path("chapters").glob("*.py")):
            run_jupytext(["--quiet", "--update", "--to", "ipynb", str(twin)])
            twin.write_text(twin_of(twin.with_suffix(".ipynb")), "utf-8")
    if differences := twin_differences():
        raise SystemExit("\n".join(differences) + "\nRun `make twins` after editing a .py twin.")
