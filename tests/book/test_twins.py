"""Notebooks and their twins."""

import shutil
from pathlib import Path

import nbformat
import pytest
from jupytext.cli import jupytext

from sameloss.book.twins import twin_differences, twin_of, twins

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
    with pytest.raises(SystemExit, match=r"a.py differ, first at line \d+ of.*\nRun `make twins`"):
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
