"""Consistency of notebooks, their py:percent twins, and the parameters cells declared by studies."""

import json
import re
from pathlib import Path

import jupytext
import nbformat
from jupytext.cli import jupytext as run_jupytext
from jupytext.config import load_jupytext_config

from sameloss.book.notebooks import notebooks


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


HEAD = '# %% tags=["parameters"]\n'


def with_parameters(source: str, written: str) -> str:
    """Replace the parameters cell in a py:percent source."""
    pattern = re.compile(re.escape(HEAD) + r".*?(?=\n\n# %%)", re.DOTALL)
    return pattern.sub(lambda _: HEAD + written, source, count=1)


def stale_cells(folder: Path) -> dict[Path, str]:
    """Corrected sources of chapters whose parameters cell differs from their study's."""
    from sameloss.book.pages import all_studies  # slow imports
    from sameloss.studies.parameters import cell

    corrected = {}
    for study in all_studies().values():
        for name in study.specs:
            path = folder / f"{name}.py"
            source = path.read_text("utf-8") if path.exists() else ""
            updated = with_parameters(source, cell(study.table(name)))
            if updated != source:
                corrected[path] = updated
    return corrected


def twins(sync: bool) -> None:
    """Compare notebooks with their twins; with `sync`, first write the twins into the notebooks.

    Raises:
        SystemExit: if they differ.

    """
    stale = stale_cells(Path("chapters"))
    if sync:
        for path, source in stale.items():
            path.write_text(source, "utf-8")
        stale = {}
        for twin in sorted(Path("chapters").glob("*.py")):
            run_jupytext(["--quiet", "--update", "--to", "ipynb", str(twin)])
            twin.write_text(twin_of(twin.with_suffix(".ipynb")), "utf-8")
    differences = [f"{path}: its parameters cell is not what its study says." for path in stale]
    differences += twin_differences()
    if differences:
        raise SystemExit("\n".join(differences) + "\nRun `make twins` after editing a .py twin.")
