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

from sameloss.book.cells import COMPARISON, EXPERIMENT, KINDS, declared
from sameloss.book.cells import twins as found
from sameloss.book.notebooks import twin_differences, twin_of, twins
from sameloss.book.run import cells
from sameloss.studies.parameters import assigned

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


NAMES = sorted(found())


def parameters_cell(name):
    """The source of a chapter's parameters cell."""
    (source,) = (s for s, tags in cells(found()[name].read_text("utf-8")) if "parameters" in tags)
    return source


@pytest.mark.parametrize("name", NAMES)
def test_papermill_reads_every_page_back(name):
    """Name, type, default and help: what `papermill --help-notebook` prints, and it drops nothing."""
    table = declared(name).parameters
    read = PythonTranslator.inspect(nbformat.v4.new_code_cell(parameters_cell(name)))
    assert [parameter.name for parameter in read] == list(table)
    for own, parameter in zip(table.values(), read, strict=True):
        assert parameter.inferred_type_name in KINDS
        assert parameter.default == (
            f'"{own.default}"' if isinstance(own.default, str) else repr(own.default)
        )
        assert parameter.help == own.text
        assert own.text


@pytest.mark.parametrize("name", NAMES)
def test_every_line_is_one_that_a_page_is_wide_enough_for(name):
    """And that no formatter breaks, which would take the help from its parameter."""
    lines = parameters_cell(name).splitlines()
    assert len(lines) == len(declared(name).parameters)
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_names_the_presets_that_a_chapter_has(name):
    page = declared(name)
    assert page.parameters["preset"].text == ", ".join(["auto", *page.presets])
    assert page.parameters["preset"].choices == ("auto", *page.presets)


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_gives_the_defaults(name):
    namespace, table = {}, declared(name).parameters
    exec(parameters_cell(name), namespace)
    assert {n: namespace[n] for n in table} == {n: p.default for n, p in table.items()}
    assert assigned(parameters_cell(name)) == set(table)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("ii")])
def test_an_experiment_sets_no_parameter(name):
    """So its cells can be executed again."""
    source = found()[name].read_text("utf-8")
    names = {name for cell, tags in cells(source) if "experiment" in tags for name in assigned(cell)}
    assert not names & set(declared(name).parameters)


def test_papermill_finds_the_cell_in_a_notebook():
    read = inspect_notebook(ROOT / "chapters" / "04_flatness.ipynb")
    table = declared("04_flatness").parameters
    assert set(read) == set(table)
    assert read["preset"]["help"] == table["preset"].text


def test_twins_are_read_where_the_locale_is_ascii(twin):
    environment = os.environ | {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    command = [sys.executable, "-c", "from sameloss.book.notebooks import *; print(twin_differences())"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_no_experiment_gives_a_parameter_another_value(name):
    """So that these cells may be executed again in the same kernel."""
    own = (s for s, tags in cells(found()[name].read_text("utf-8")) if tags & {EXPERIMENT, COMPARISON})
    assert not set().union(*map(assigned, own)) & declared(name).parameters.keys()
