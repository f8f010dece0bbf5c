"""What decides an execution."""

from pathlib import Path

import nbformat
import pytest
from tiny_book import PAGE, git, notebook, write

from sameloss.book.notebooks import (
    EXECUTED,
    Execution,
    code_cells,
    execution_of,
    fingerprints,
    notebooks,
    strip_metadata,
    toc_files,
)


def of_page(preset="laptop"):
    return fingerprints([PAGE], preset)[PAGE]


def test_what_has_not_changed_has_the_same_fingerprint(book):
    before = of_page()
    for path in book.rglob("*.*"):
        if path.is_file() and ".git" not in path.parts:
            path.touch()
    Path("intro.md").write_text("# Another")
    Path("lib/__pycache__").mkdir()
    Path("lib/__pycache__/a.pyc").touch()
    git("add", ".")
    git("commit", "-q", "-m", "second")
    assert of_page() == before


def test_outputs_do_not_decide(book):
    before = of_page()
    write(PAGE, notebook(executed=False))
    assert of_page() == before


@pytest.mark.parametrize(
    "name", ["lib/a.py", "lib/new/b.py", "results/a.csv", "results/runs/K/0.jsonl", "constraints.txt"]
)
def test_library_results_and_versions_decide_every_page(book, name):
    before = of_page()
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("new")
    assert of_page() != before


def test_where_a_line_stands_decides(book):
    Path("lib/b.py").write_text("x\n")
    before = of_page()
    Path("lib/b.py").rename("lib/c.py")
    assert of_page() != before


def test_the_preset_and_the_pages_own_cells_decide(book):
    found = {of_page(), of_page("smoke")}
    for answer in ("43", "44"):
        write(PAGE, notebook(answer))
        found.add(of_page())
    tagged = nbformat.read(PAGE, as_version=4)
    tagged.cells[2].metadata["tags"] = ["hide-input"]
    write(PAGE, tagged)
    assert len(found | {of_page()}) == 5


def test_one_page_does_not_decide_another(book):
    write(Path("chapters/b.ipynb"), notebook("1"))
    before = of_page()
    write(Path("chapters/b.ipynb"), notebook("2"))
    assert of_page() == before


# The table of contents.


def test_files_come_in_the_order_of_the_contents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("chapters").mkdir()
    for name in ("intro.md", "chapters/b.ipynb", "chapters/a.md", "chapters/c.ipynb", "chapters/c.py"):
        Path(name).touch()
    parts = "".join(f"  - chapters:\n      - file: chapters/{name}\n" for name in "bac")
    Path("_toc.yml").write_text(f"root: intro\nparts:\n{parts}")
    assert list(map(str, toc_files())) == [
        "intro.md",
        "chapters/b.ipynb",
        "chapters/a.md",
        "chapters/c.ipynb",
    ]
    assert list(map(str, notebooks())) == ["chapters/b.ipynb", "chapters/c.ipynb"]


# Executed copies and what they record.


HERE = Execution(preset="smoke", fingerprint="f", revision="r")


def test_an_execution_is_recorded_in_the_copy(book):
    assert execution_of(PAGE) is None
    made = notebook()
    write(EXECUTED / PAGE, made)
    assert execution_of(PAGE) is None  # executed by something else
    HERE.write(made)
    write(EXECUTED / PAGE, made)
    assert execution_of(PAGE) == HERE
    (EXECUTED / PAGE).write_bytes((EXECUTED / PAGE).read_bytes()[:500])
    assert execution_of(PAGE) is None


def test_two_executions_of_the_same_are_alike_once_forgotten():
    first, second = notebook(), notebook()
    for made, time in ((first, "now"), (second, "then")):
        Execution("smoke", "f", time).write(made)
        made.metadata.papermill = {"start_time": time}
        made.metadata.language_info = {"name": "python", "version": time}
        for number, cell in enumerate(made.cells):
            cell.id = f"cell-{number}"
            cell.metadata.update({"papermill": {"start_time": time}, "execution": {"shell": time}})
        made.cells[0].metadata["tags"] = []
        strip_metadata(made)
    assert nbformat.writes(first) == nbformat.writes(second)
    assert first.metadata.kernelspec.name == "python3"
    assert "tags" not in first.cells[0].metadata
    assert [cell.metadata.get("tags") for cell in code_cells(first)] == [["parameters"], None, None]


def test_addresses_of_displayed_objects_are_stripped():
    made = notebook()
    cell = next(code_cells(made))
    shown = {"text/html": "<table/>", "text/plain": "<pandas.io.formats.style.Styler at 0x7f0603f681d0>"}
    cell.outputs = [
        nbformat.v4.new_output("display_data", data) for data in (shown, {"text/plain": "1 at 0x2"})
    ]
    strip_metadata(made)
    assert [output.data for output in cell.outputs] == [{"text/html": "<table/>"}, {"text/plain": "1 at 0x2"}]
