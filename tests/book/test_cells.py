"""Chapters whose experiment stands in their cells, and definitions of chapters for tests."""

import shutil
import subprocess
import sys
from cProfile import Profile
from pathlib import Path

import pytest
from cells import definitions

from sameloss.book import cells
from sameloss.book import page as module
from sameloss.book.cells import opened
from sameloss.errors import ParameterError, StoreError
from sameloss.store.location import HOME
from sameloss.store.store import Store

BOOK = Path(__file__).parents[2]


def test_definitions_of_a_chapter():
    found = definitions("04_flatness")
    assert callable(found.plain_trace)
    assert not hasattr(found, "page")


# Records.


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A chapter with an empty store, which would fail to compute anything."""
    monkeypatch.setattr(module, "compute_all", lambda *_: pytest.fail("something was computed"))
    return opened("ii2_stability", {"preset": "smoke"}, Store(tmp_path))


def test_a_record_is_read_where_it_lies(page, tmp_path):
    assert page.recorded("laptop-long").twins.seed.nunique() == 60
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["altered", "gone"])
def test_a_recorded_run_that_was_altered_is_refused(page, tmp_path, monkeypatch, damage):
    copy, kept = tmp_path / "book", Path("results/runs/TwinTraining")
    shutil.copytree(BOOK / kept, copy / kept)
    (copy / "chapters").mkdir()
    (copy / "_config.yml").touch()
    monkeypatch.setenv(HOME, str(copy))
    page.recorded("laptop-long")
    path = copy / kept / f"{page.of_record('laptop-long').runs()[5].key[0]}.jsonl"
    if damage == "gone":
        path.unlink()
    else:
        path.write_text(path.read_text().replace("0.5", "0.6", 1))
    with pytest.raises(StoreError, match=r"is not what was recorded|is not in"):
        page.recorded("laptop-long")


@pytest.mark.parametrize("value", [5, "abc"])
def test_a_sweep_over_what_is_no_list_is_one_sentence(page, value):
    with pytest.raises(ParameterError, match="A sweep takes lists: steps ="):
        page.sweep(lambda steps: steps, steps=value)


def test_a_chapter_that_compares_nothing_is_one_sentence(tmp_path, monkeypatch):
    twin = (BOOK / "chapters" / "05_dyck.py").read_text().replace("page.results = ", "forgotten = ")
    (tmp_path / "05_dyck.py").write_text(twin)
    monkeypatch.setattr(cells, "twins", lambda: {"05_dyck": tmp_path / "05_dyck.py"})
    monkeypatch.setattr(module.Chapter, "compute", lambda page, *runs: [None] * len(runs))
    page = opened("05_dyck", {"preset": "smoke"}, Store(tmp_path))
    with pytest.raises(
        ParameterError, match=r"No cell of 05_dyck\.py that is tagged comparison sets page\.results"
    ):
        page.results  # noqa: B018


# A plain program.


@pytest.mark.book
def test_a_chapter_is_a_program_too(tmp_path):
    command = [sys.executable, "-m", "sameloss.book.run", "chapters/ii2_stability.py"]
    given = {"preset": "smoke", "artifacts": str(tmp_path), "sizes": "40, 60"}
    words = [word for pair in given.items() for word in ("-p", *pair)]
    done = subprocess.run([*command, *words], capture_output=True, text=True, cwd=BOOK, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    assert "preset smoke: 10 of 10 runs to compute" in done.stdout
    assert "From m = 40 to 60 the gap of networks falls to" in done.stdout
    assert len(list(tmp_path.glob("TwinTraining/*/manifest.json"))) == 10
    wrong = subprocess.run(
        [*command, "-p", "sise", "3"], capture_output=True, text=True, cwd=BOOK, check=False
    )
    assert wrong.stderr.strip().startswith("Unknown parameter 'sise'; valid here are preset, model, sizes, ")


MOST_CALLS = 10_000
"""Calls of functions for each run that is listed; seconds would depend on the machine."""


@pytest.mark.parametrize("name", ["04_flatness", "a4_algorithms"])
def test_a_chapter_is_opened_as_quickly_as_it_is_read(name):
    """However many runs it lists: none is computed, and no result is read."""
    opened(name, {}, cells.NOWHERE)
    profile = Profile()
    runs = profile.runcall(opened, name, {"preset": "workstation"}, cells.NOWHERE).runs()
    assert len(runs) > 400
    assert sum(entry.callcount for entry in profile.getstats()) < MOST_CALLS * len(runs)
