"""What decides an execution."""

from pathlib import Path

import nbformat
import pytest
from tiny_book import PAGE, git, notebook, write

from sameloss.book.fingerprint import fingerprints


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
    "name", ["lib/a.py", "lib/deep/new.py", "lib/grammar.txt", "results/a.csv", "constraints.txt"]
)
def test_library_results_and_versions_decide_every_page(book, name):
    before = of_page()
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text("new")
    assert of_page() != before


def test_the_pool_of_finished_runs_does_not_decide(book):
    before = of_page()
    kept = Path("results/runs/Squaring/abc/manifest.json")
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    assert of_page() == before


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
