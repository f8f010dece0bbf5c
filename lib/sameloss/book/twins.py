"""Consistency of notebooks and their py:percent twins."""

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
