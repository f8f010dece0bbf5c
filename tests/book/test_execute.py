"""Chapters are executed where they have changed."""

from pathlib import Path

import nbformat
import pytest
from tiny_book import PAGE, git, notebook, write

from sameloss.book import execute as module
from sameloss.book.execute import execute
from sameloss.book.notebooks import EXECUTED, execution_of


@pytest.fixture
def computed(monkeypatch):
    """The chapters whose runs were computed, call by call; here none has any."""
    calls = []
    monkeypatch.setattr(
        "sameloss.book.record.compute",
        lambda preset, chapters, max_hours: calls.append((preset, chapters, max_hours)),
    )
    return calls


@pytest.fixture
def executed(monkeypatch):
    """The chapters that were executed, call by call, without a kernel."""
    calls = []

    def execute_all(executions):
        calls.append(sorted(page.stem for page in executions))
        for page, execution in executions.items():
            made = nbformat.read(page, as_version=4)
            execution.write(made)
            write(EXECUTED / page, made)

    monkeypatch.setattr(module, "execute_all", execute_all)
    return calls


@pytest.fixture
def two(book):
    """The book with a second chapter."""
    Path("_toc.yml").write_text(Path("_toc.yml").read_text() + "      - file: chapters/b\n")
    write(Path("chapters/b.ipynb"), notebook("1"))
    return book


def test_runs_are_computed_first_and_unchanged_chapters_stay(two, computed, executed, capsys):
    execute("laptop")
    assert computed == [("laptop", ["02_confirmation", "b"], None)]
    execute("laptop")
    assert capsys.readouterr().out.count("unchanged") == 2
    assert len(executed) == len(computed) == 1


def test_what_has_changed_is_executed_again(two, computed, executed):
    execute("laptop")
    write(Path("chapters/b.ipynb"), notebook("2"))
    execute("laptop")
    (EXECUTED / PAGE).unlink()
    execute("laptop")
    Path("lib/a.py").write_text("new")
    execute("laptop")
    execute("smoke")
    execute("smoke", force=True, max_hours=20.0)
    both = ["02_confirmation", "b"]
    assert executed == [both, ["b"], ["02_confirmation"], both, both, both]
    assert [chapters for _, chapters, _ in computed] == executed
    assert [hours for *_, hours in computed] == [None] * 5 + [20.0]


@pytest.mark.book
def test_a_chapter_runs_in_a_kernel_and_records_what_decided_it(book, computed, capsys):
    execute("smoke")
    made = nbformat.read(EXECUTED / PAGE, as_version=4)
    assert made.cells[-1].outputs[0].text == "smoke\n"
    assert [cell.metadata.tags for cell in made.cells[1:3]] == [["parameters"], ["injected-parameters"]]
    assert execution_of(PAGE).preset == "smoke"
    assert execution_of(PAGE).revision == git("rev-parse", "--short", "HEAD")
    said = capsys.readouterr().out
    assert f"── {PAGE} (smoke)\nsmoke\n   done in" in said
    assert not list((EXECUTED / PAGE).parent.glob("*.unfinished.ipynb"))


@pytest.mark.book
@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("1 / 0", f"^{PAGE} ended with ZeroDivisionError: division by zero$"),
        ("import os; os.kill(os.getpid(), 9)", f"^{PAGE} lost its kernel, .*; run this again to go on.$"),
        (
            "import os; os.kill(os.getppid(), 9)",
            "^A process that executes chapters was killed; run this again",
        ),
    ],
)
def test_a_chapter_that_fails_leaves_no_copy(book, computed, code, sentence):
    failing = notebook()
    failing.cells.append(nbformat.v4.new_code_cell(code))
    write(PAGE, failing)
    with pytest.raises(SystemExit, match=sentence):
        execute("laptop")
    assert not (EXECUTED / PAGE).exists()
