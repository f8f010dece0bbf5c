"""Build the book: execute the chapters, stage the executed copies, render HTML.

python -m sameloss.book.build execute --preset laptop    papermill, in the order of _toc.yml
python -m sameloss.book.build html [--committed]          executed (or committed) notebooks to HTML
python -m sameloss.book.build twins [--sync]              compare notebooks with their py:percent twins
python -m sameloss.book.build adopt                       make the executed notebooks the committed ones
python -m sameloss.book.build record --preset laptop-long  write a long run's tables to results/
"""

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jupytext
import nbformat
import papermill
import yaml
from papermill.exceptions import PapermillExecutionError

from sameloss.book.cells import stale_cells
from sameloss.book.costs import announce
from sameloss.book.studies import open_page
from sameloss.store.files import write_atomically
from sameloss.store.pool import compute_all
from sameloss.studies.parameters import PRESETS
from sameloss.studies.same_loss.record import record as write_record

EXECUTED = Path("_build/executed")

STAGE = Path("_build/stage")

FRONT_CHAPTER, FRONT_FIGURE = Path("chapters/02_existence.ipynb"), Path("images/existence.png")

PAGES = ("_config.yml", "_toc.yml", "references.bib", "_static/book.css")


def toc_files() -> list[Path]:
    """Return the book's files in the order of `_toc.yml`, the front page first."""
    toc = yaml.safe_load(Path("_toc.yml").read_text())
    names = [toc["root"]] + [c["file"] for part in toc["parts"] for c in part["chapters"]]
    return [next(p for s in (".ipynb", ".md") if (p := Path(name + s)).exists()) for name in names]


def notebooks() -> list[Path]:
    """Return the chapters that are notebooks."""
    return [path for path in toc_files() if path.suffix == ".ipynb"]


def execute(preset: str) -> None:
    """Execute every chapter through papermill; a copy appears only once its chapter has succeeded."""
    given = {} if preset == "laptop" else {"preset": preset}
    for path in notebooks():
        started = time.perf_counter()
        print(f"── {path} ({preset})", flush=True)
        target = EXECUTED / path
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_suffix(".unfinished.ipynb")
        options = {"stdout_file": sys.stdout, "stderr_file": sys.stderr, "progress_bar": False}
        options["extra_arguments"] = ["--IPKernelApp.log_level=50"]
        try:
            papermill.execute_notebook(path, unfinished, given, **options)
        except PapermillExecutionError as error:
            raise SystemExit(f"{path} ended with {error.ename}: {error.evalue}") from None
        unfinished.replace(target)
        print(f"   done in {time.perf_counter() - started:.0f} s", flush=True)


def stage(committed: bool) -> None:
    """Lay out what Jupyter Book reads: pages, and executed (or committed) notebooks."""
    shutil.rmtree(STAGE, ignore_errors=True)
    for path in [*map(Path, PAGES), *toc_files()]:
        target = STAGE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".ipynb":
            notebook = nbformat.read(path if committed else EXECUTED / path, as_version=4)
            nbformat.write(presentable(notebook, path), target)
        else:
            shutil.copy(path, target)


def presentable(notebook: nbformat.NotebookNode, path: Path) -> nbformat.NotebookNode:
    """Tag the cells a reader should not see; refuse a notebook with an error or without outputs."""
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        if any(output.output_type == "error" for output in cell.outputs):
            raise SystemExit(f"{path}: a cell ended in an error; execute the chapter again.")
        if cell.source.strip() and cell.execution_count is None:
            raise SystemExit(f"{path}: a cell was not executed; run `make book` first.")
        tags = cell.metadata.setdefault("tags", [])
        if "parameters" in tags or "injected-parameters" in tags:
            tags.append("hide-input")
    return notebook


def html(committed: bool) -> None:
    """Render the staged book with warnings as errors and print where it is."""
    stage(committed)
    program = Path(sys.executable).with_name("jupyter-book")
    options = ["--path-output", ".", "-W", "-n", "--keep-going", "--quiet"]
    environment = {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    built = subprocess.run([program, "build", STAGE, *options], check=False, env=environment)
    if built.returncode:
        raise SystemExit("The book was not built: see the warnings above.")
    print(f"The book: {Path('_build/html/index.html').resolve()}")


def cells_of(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str, str]]:
    """Yield what a notebook and its twin must share: type, source, tags and figure captions."""
    for cell in notebook.cells:
        kept = {key: cell.metadata[key] for key in ("tags", "mystnb") if cell.metadata.get(key)}
        yield cell.cell_type, cell.source.strip(), json.dumps(kept, sort_keys=True)


def twin_differences() -> list[str]:
    """Return one line for each chapter whose notebook and twin differ."""
    found = []
    for path in notebooks():
        ours = list(cells_of(nbformat.read(path, as_version=4)))
        twin = list(cells_of(jupytext.read(path.with_suffix(".py"))))
        different = [number for number, (a, b) in enumerate(zip(ours, twin, strict=False)) if a != b]
        if different or len(ours) != len(twin):
            where = f"first at cell {different[0]}" if different else "in their number of cells"
            found.append(f"{path} and {path.with_suffix('.py').name} differ, {where}.")
    return found


def twins(sync: bool) -> None:
    """Compare every notebook with its twin; with `sync` write the twin's sources into the notebook."""
    stale = stale_cells(Path("chapters"))
    if sync:
        for path, source in stale.items():
            path.write_text(source)
        stale = {}
        for source in sorted(Path("chapters").glob("*.py")):
            command = [sys.executable, "-m", "jupytext", "--quiet", "--update", "--to", "ipynb"]
            subprocess.run([*command, str(source)], check=True)
    differences = [f"{path}: its parameters cell is not what its study says." for path in stale]
    differences += twin_differences()
    if differences:
        raise SystemExit("\n".join(differences) + "\nRun `make twins` after editing a .py twin.")


def adopt() -> None:
    """Make the executed notebooks the committed ones, free of traces of this machine."""
    for path in notebooks():
        notebook = nbformat.read(EXECUTED / path, as_version=4)
        notebook.metadata = {k: v for k, v in notebook.metadata.items() if k in ("kernelspec", "jupytext")}
        notebook.metadata["language_info"] = {"name": "python"}
        for cell in notebook.cells:
            _forget_execution(cell)
        write_atomically(path, (nbformat.writes(notebook) + "\n").encode())
    figure = _front_figure(nbformat.read(FRONT_CHAPTER, as_version=4))
    FRONT_FIGURE.parent.mkdir(exist_ok=True)
    FRONT_FIGURE.write_bytes(figure)


def record(preset: str) -> None:
    """Compute every comparison at a preset and write its tables to `results/`."""
    page = open_page("verdicts", preset=preset)
    print(announce(page), flush=True)
    compute_all(page.store, page.runs(), page.settings.limits.workers)
    print(f"Recorded in {write_record(page, Path('results'))}")


def _forget_execution(cell: nbformat.NotebookNode) -> None:
    for key in ("papermill", "execution"):
        cell.metadata.pop(key, None)
    if not cell.metadata.get("tags"):
        cell.metadata.pop("tags", None)
    if cell.cell_type == "code":
        cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]


def _front_figure(notebook: nbformat.NotebookNode) -> bytes:
    """Return the picture of the cell that is named `fig-existence`."""
    for cell in notebook.cells:
        if cell.metadata.get("mystnb", {}).get("figure", {}).get("name") == "fig-existence":
            images = [o.data["image/png"] for o in cell.outputs if "image/png" in o.get("data", {})]
            return base64.b64decode(images[0])
    raise SystemExit("02_existence has no figure named fig-existence.")


def main() -> None:
    """Run one command from the repository root."""
    parser = argparse.ArgumentParser(prog="python -m sameloss.book.build")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("execute").add_argument("--preset", default="laptop", choices=PRESETS)
    commands.add_parser("html").add_argument("--committed", action="store_true")
    commands.add_parser("twins").add_argument("--sync", action="store_true")
    commands.add_parser("adopt")
    commands.add_parser("record").add_argument("--preset", default="laptop-long", choices=PRESETS)
    given = vars(parser.parse_args())
    chosen = {"execute": execute, "html": html, "twins": twins, "adopt": adopt, "record": record}
    chosen[given.pop("command")](**given)


if __name__ == "__main__":
    main()
