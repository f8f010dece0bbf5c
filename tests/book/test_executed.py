"""Executed copies and what they record."""

import nbformat
from tiny_book import PAGE, notebook, write

from sameloss.book.executed import (
    Execution,
    code_cells,
    copy_of,
    execution_of,
    forget_execution,
    write_execution,
)

HERE = Execution(preset="smoke", fingerprint="f", revision="r")


def test_an_execution_is_recorded_in_the_copy(book):
    assert execution_of(PAGE) is None
    made = notebook()
    write(copy_of(PAGE), made)
    assert execution_of(PAGE) is None  # executed by something else
    write_execution(made, HERE)
    write(copy_of(PAGE), made)
    assert execution_of(PAGE) == HERE
    copy_of(PAGE).write_bytes(copy_of(PAGE).read_bytes()[:500])
    assert execution_of(PAGE) is None


def test_two_executions_of_the_same_are_alike_once_forgotten():
    first, second = notebook(), notebook()
    for made, time in ((first, "now"), (second, "then")):
        write_execution(made, Execution("smoke", "f", time))
        made.metadata.papermill = {"start_time": time}
        made.metadata.language_info = {"name": "python", "version": time}
        for number, cell in enumerate(made.cells):
            cell.id = f"cell-{number}"
            cell.metadata.update({"papermill": {"start_time": time}, "execution": {"shell": time}})
        made.cells[0].metadata["tags"] = []
        forget_execution(made)
    assert nbformat.writes(first) == nbformat.writes(second)
    assert first.metadata.kernelspec.name == "python3"
    assert "tags" not in first.cells[0].metadata
    assert [cell.metadata.get("tags") for cell in code_cells(first)] == [["parameters"], None, None]
