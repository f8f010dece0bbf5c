"""The book's notebooks: which there are, their executed copies, and what decides an execution, as one hash.

Two executions of one fingerprint may differ in times that they print, and in nothing else. What is in the
run store does not count: a run's key is made of what decides its result.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import nbformat
import yaml
from nbformat.reader import NotJSONError

from sameloss.store.location import SOURCE

EXECUTED = Path("_build/executed")

DEFAULT = "laptop"
"""The preset that chapters have without being told."""

OWN = "sameloss"
"""The name of our record in a notebook's metadata."""

VERSIONS = Path("constraints.txt")

RESULTS = Path("results")
POOL = RESULTS / "runs"
"""What runs of all presets found, in small. A chapter computes the same without it."""


def toc_files() -> list[Path]:
    """Return the book's files in the order of `_toc.yml`, the front page first."""
    toc = yaml.safe_load(Path("_toc.yml").read_text())
    names = [toc["root"]] + [chapter["file"] for part in toc["parts"] for chapter in part["chapters"]]
    return [next(p for s in (".ipynb", ".md") if (p := Path(name + s)).exists()) for name in names]


def notebooks() -> list[Path]:
    """Return the chapters that are notebooks."""
    return [path for path in toc_files() if path.suffix == ".ipynb"]


def code_cells(notebook: nbformat.NotebookNode) -> Iterator[nbformat.NotebookNode]:
    """Yield the cells that a kernel runs."""
    return (cell for cell in notebook.cells if cell.cell_type == "code")


def copy_of(page: Path) -> Path:
    """Return where the executed copy of a chapter is, or will be."""
    return EXECUTED / page


@dataclass(frozen=True)
class Execution:
    """What decided an executed copy, and from which revision it is."""

    preset: str
    fingerprint: str
    revision: str

    def write(self, notebook: nbformat.NotebookNode) -> None:
        """Record the execution in its notebook."""
        notebook.metadata[OWN] = asdict(self)


def execution_of(page: Path) -> Execution | None:
    """Return what the executed copy of a chapter records; None where there is none, or half of one."""
    try:
        recorded = nbformat.read(copy_of(page), as_version=4).metadata.get(OWN)
    except (FileNotFoundError, NotJSONError):
        return None
    return Execution(**recorded) if recorded else None


def forget_execution(notebook: nbformat.NotebookNode) -> None:
    """Remove what tells one execution from another with the same outputs: its record, times and folders.

    Warnings and progress go, too: no page shows them, and they would name folders of this machine.
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


def fingerprints(pages: Iterable[Path], preset: str) -> dict[Path, str]:
    """Return a hash for each chapter: of its source, the preset, the library, recorded tables, versions."""
    shared = _hash(_shared(preset))
    return {page: _hash([shared.encode(), *_source(page)]) for page in pages}


def _shared(preset: str) -> Iterator[bytes]:
    """Yield what decides every chapter."""
    yield preset.encode()
    library = (path for path in SOURCE.rglob("*") if path.suffix in (".py", ".txt"))
    recorded = (path for path in RESULTS.rglob("*") if not path.is_relative_to(POOL))
    for folder, paths in ((SOURCE, library), (Path(), recorded), (Path(), [VERSIONS])):
        for path in sorted(path for path in paths if path.is_file()):
            yield str(path.relative_to(folder)).encode()
            yield path.read_bytes()


def _source(page: Path) -> Iterator[bytes]:
    """Yield what decides what a notebook gives: type, source, tags and figure captions of its cells."""
    for cell in nbformat.read(page, as_version=4).cells:
        kept = {key: cell.metadata[key] for key in ("tags", "mystnb") if cell.metadata.get(key)}
        for part in (cell.cell_type, cell.source.strip(), json.dumps(kept, sort_keys=True)):
            yield part.encode()


def _hash(parts: Iterable[bytes]) -> str:
    """Return a hash in which the parts cannot flow into each other."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()
