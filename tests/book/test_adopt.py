"""Only executions of what is committed become the committed ones."""

import shutil
from pathlib import Path

import nbformat
import pytest
from tiny_book import PAGE, SQUARE, git, notebook, write

from sameloss.book.adopt import FRONT_FIGURE, adopt, front_figure
from sameloss.book.executed import Execution, copy_of, write_execution
from sameloss.book.fingerprint import fingerprints
from sameloss.errors import StoreError


def write_copy(made=None, **other):
    """Write an executed copy, as from the present revision but for what is said to be other."""
    made = made or notebook("43")
    facts = {
        "preset": "laptop",
        "fingerprint": fingerprints([PAGE], "laptop")[PAGE],
        "revision": git("describe", "--always"),
    }
    write_execution(made, Execution(**{**facts, **other}))
    write(copy_of(PAGE), made)


def refused(match):
    committed = PAGE.read_bytes()
    with pytest.raises(SystemExit, match=match) as caught:
        adopt()
    assert "\n" not in str(caught.value)
    assert PAGE.read_bytes() == committed


def test_an_executed_notebook_becomes_the_committed_one_without_traces(book):
    made = notebook("43")
    made.metadata.papermill = {"output_path": str(book)}
    made.cells[2].outputs.append(nbformat.v4.new_output("stream", name="stderr", text=str(book)))
    write_copy(made)
    adopt()
    assert str(book) not in PAGE.read_text()
    adopted = nbformat.read(PAGE, as_version=4)
    assert adopted.cells[2].outputs[0].data["text/plain"] == "'43'"
    assert sorted(adopted.metadata) == ["kernelspec", "language_info"]
    assert PAGE.read_text().endswith("}\n")
    assert FRONT_FIGURE.read_bytes() == SQUARE.encode()


def test_a_changed_file_is_refused(book):
    write_copy()
    Path("intro.md").write_text("# New")
    refused("^intro.md not committed; commit or remove the change, then run this again.$")


def test_where_git_fails_everything_is_refused_with_its_own_sentence(book):
    write_copy()
    shutil.rmtree(".git")
    with pytest.raises(StoreError, match=r"^The revision of the source is not known: fatal: not a git repo"):
        adopt()


@pytest.mark.parametrize("name", ["lib/b.py", "chapters/b.py"])
def test_a_new_file_that_may_decide_a_result_is_refused(book, name):
    write_copy()
    Path(name).touch()
    Path("lib/c.py").touch()
    refused(r"^\S+ and .* more not committed" if name != "lib/b.py" else "^lib/b.py and 1 more not committed")


def test_new_files_elsewhere_are_none_of_its_business(book):
    write_copy()
    Path("notes.txt").touch()
    adopt()


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (
            {"revision": "abc1234"},
            f"^{PAGE} was executed at revision abc1234 with preset laptop, not as it is",
        ),
        ({"preset": "smoke"}, "with preset smoke, not as it is at the present .* with preset laptop"),
        ({"fingerprint": "of a new file that was removed again"}, "run `make notebooks`"),
    ],
)
def test_another_execution_is_refused(book, other, sentence):
    write_copy(**other)
    refused(sentence)


def test_no_execution_is_refused(book):
    refused(f"^{PAGE} was not executed; run `make notebooks`.$")


def test_a_front_chapter_without_its_figure_is_refused():
    with pytest.raises(SystemExit, match="no figure named fig-existence"):
        front_figure(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]))
