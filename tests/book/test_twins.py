"""Notebooks and their twins."""

from pathlib import Path

import nbformat
import pytest

from sameloss.book.twins import twin_differences, twins

ROOT = Path(__file__).parents[2]


@pytest.fixture
def twin(tmp_path, monkeypatch):
    """A book of one notebook, and its twin's path."""
    (tmp_path / "chapters").mkdir()
    (tmp_path / "_toc.yml").write_text("root: chapters/a\nparts: []\n")
    cell = nbformat.v4.new_code_cell("x = 1")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "chapters" / "a.ipynb")
    monkeypatch.chdir(tmp_path)
    return Path("chapters/a.py")


def test_a_twin_out_of_step_is_found(twin):
    twin.write_text("# %%\nx = 1\n")
    assert twin_differences() == []
    for other in ("# %%\nx = 2\n", '# %% tags=["hide-input"]\nx = 1\n', "# %%\nx = 1\n\n# %%\ny = 1\n"):
        twin.write_text(other)
        assert len(twin_differences()) == 1


def test_an_edited_twin_is_refused_until_it_is_written_into_the_notebook(twin):
    twin.write_text("# %%\nx = 2\n")
    with pytest.raises(SystemExit, match=r"a.ipynb and a.py differ, first at cell 0.\nRun `make twins`"):
        twins(sync=False)
    twins(sync=True)
    assert nbformat.read("chapters/a.ipynb", as_version=4).cells[0].source == "x = 2"


def test_the_books_twins_are_in_step(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert twin_differences() == []
