"""Notebooks and their twins."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from jupytext.cli import jupytext
from papermill.inspection import inspect_notebook
from papermill.translators import PythonTranslator

from sameloss.book.pages import all_studies
from sameloss.book.twins import HEAD, stale_cells, twin_differences, twin_of, twins, with_parameters
from sameloss.studies.parameters import cell, checked, parameters_in

ROOT = Path(__file__).parents[2]

CAPTION = 'Γ at η²/B, \N{MATHEMATICAL BOLD SMALL X}, \\u0393 and "x"'


@pytest.fixture
def twin(tmp_path, monkeypatch):
    """A book of one notebook, and its twin, which is in step."""
    (tmp_path / "chapters").mkdir()
    (tmp_path / "_toc.yml").write_text("root: chapters/a\nparts: []\n")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    cell = nbformat.v4.new_code_cell("x = 1", metadata={"mystnb": {"figure": {"caption": CAPTION}}})
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = nbformat.v4.new_notebook(cells=[cell], metadata={"kernelspec": kernel})
    nbformat.write(made, "chapters/a.ipynb")
    Path("chapters/a.py").write_text(twin_of(Path("chapters/a.ipynb")))
    twins(sync=True)
    return Path("chapters/a.py")


def edit(twin, old, new):
    assert old in twin.read_text()
    twin.write_text(twin.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = 1", "x = 2"),
        ("# %%", '# %% tags=["hide-input"]'),
        ("x = 1", "x = 1\n\n# %%\ny = 1"),
        ("Γ", "\\u0393"),
    ],
)
def test_a_twin_out_of_step_is_found_and_written_into_the_notebook(twin, old, new):
    assert twin_differences() == []
    edit(twin, old, new)
    with pytest.raises(SystemExit, match=r"a.ipynb and its twin differ\.\nRun `make twins`"):
        twins(sync=False)
    twins(sync=True)
    assert twin_differences() == []


def test_what_is_edited_in_the_twin_is_in_the_notebook(twin):
    edit(twin, "x = 1", "x = 2")
    twins(sync=True)
    (cell,) = nbformat.read("chapters/a.ipynb", as_version=4).cells
    assert cell.source == "x = 2"
    assert cell.metadata.mystnb.figure.caption == CAPTION


def test_jupytext_leaves_the_twin_as_it_is_but_for_letters_which_are_put_back(twin):
    committed = twin.read_text()
    assert "Γ at η²/B" in committed
    jupytext(["--quiet", "--to", "py:percent", "chapters/a.ipynb"])
    written = twin.read_text().splitlines()
    differ = [a for a, b in zip(written, committed.splitlines(), strict=True) if a != b]
    assert [line.startswith("# %% mystnb=") for line in differ] == [True]
    twins(sync=True)
    assert twin.read_text() == committed


def test_the_books_twins_are_in_step(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert twin_differences() == []


# The parameters cells of chapters: short lines that papermill reads back, and that are kept up to date.


EVERY_PAGE = [(study, name) for study in all_studies().values() for name in study.specs]
BY_NAME = [pytest.param(*pair, id=pair[1]) for pair in EVERY_PAGE]


@pytest.mark.parametrize(("study", "name"), BY_NAME)
def test_papermill_reads_every_page_back(study, name):
    """Name, type, default and help: what `papermill --help-notebook` prints, and it drops nothing."""
    table = study.table(name)
    read = PythonTranslator.inspect(nbformat.v4.new_code_cell(cell(table)))
    assert [parameter.name for parameter in read] == list(table)
    for own, parameter in zip(table.values(), read, strict=True):
        assert parameter.inferred_type_name in ("str", "int", "float", "list[int]", "list[str]")
        assert parameter.default == (
            f'"{own.default}"' if isinstance(own.default, str) else repr(own.default)
        )
        assert parameter.help == own.text
        assert own.text


@pytest.mark.parametrize(("study", "name"), BY_NAME)
def test_every_line_is_one_that_a_page_is_wide_enough_for(study, name):
    """And that no formatter breaks, which would take the help from its parameter."""
    lines = cell(study.table(name)).splitlines()
    assert len(lines) == len(study.table(name))
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize(("study", "name"), BY_NAME)
def test_a_cell_gives_the_defaults(study, name):
    namespace = {}
    exec(cell(study.table(name)), namespace)
    assert parameters_in(namespace, {}) == {n: p.default for n, p in study.table(name).items()}
    assert checked(study.table(name), parameters_in(namespace, {})) == checked(study.table(name), {})


def test_papermill_finds_the_cell_in_a_notebook(tmp_path):
    study, name = EVERY_PAGE[0]
    own = nbformat.v4.new_code_cell(cell(study.table(name)), metadata={"tags": ["parameters"]})
    kernel = {"kernelspec": {"name": "python3", "language": "python", "display_name": "Python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[own], metadata=kernel), tmp_path / "page.ipynb")
    found = inspect_notebook(tmp_path / "page.ipynb")
    assert set(found) == set(study.table(name))
    assert found["preset"]["help"] == study.table(name)["preset"].text


SOURCE = f"""# %% [markdown]
# Text

{HEAD}size: str = 'all'  # old
other = 1

# %%
x = '# %%'

# %%
y = 1
"""


def test_only_the_parameters_cell_is_replaced():
    found = with_parameters(SOURCE, "size = 2  # \\1 new")
    assert found == SOURCE.replace("size: str = 'all'  # old\nother = 1", "size = 2  # \\1 new")
    assert with_parameters(found, "size = 2  # \\1 new") == found
    assert with_parameters("# %%\nx = 1\n", "size = 2") == "# %%\nx = 1\n"


def test_stale_cells_are_those_that_are_not_what_their_study_says(tmp_path):
    for study, name in EVERY_PAGE:
        (tmp_path / f"{name}.py").write_text(with_parameters(SOURCE, cell(study.table(name))))
    assert stale_cells(tmp_path) == {}
    path = tmp_path / "02_existence.py"
    right = path.read_text()
    path.write_text(SOURCE)
    assert stale_cells(tmp_path) == {path: right}


def test_twins_are_read_where_the_locale_is_ascii():
    environment = os.environ | {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    command = [sys.executable, "-c", "from sameloss.book.twins import *; print(twin_differences())"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
