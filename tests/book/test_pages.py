"""The pages that are about all chapters."""

import pandas as pd
import pytest

from sameloss.book.cells import declared, twins
from sameloss.book.page import Chapter
from sameloss.book.pages import ABOUT_ALL, all_statements, open_page, pages_at
from sameloss.errors import ParameterError
from sameloss.store.store import Store, with_ancestors

NAMES = [name for name in twins() if name not in ABOUT_ALL]


@pytest.fixture
def store(home):
    return Store(home / "artifacts")


def test_all_other_pages_are_opened_with_a_preset_and_a_store(store):
    pages = pages_at("smoke", store)
    assert [page.name for page in pages] == NAMES
    assert {page.store for page in pages} == {store}
    assert {page.preset for page in pages} == {"smoke"}


def test_a_preset_that_a_chapter_lacks_leaves_it_out(store):
    names = [page.name for page in pages_at("workstation", store)]
    assert names == [name for name in NAMES if "workstation" in declared(name).presets] != []


@pytest.mark.parametrize("name", ABOUT_ALL)
def test_they_read_all_that_others_read(name, opened, store):
    keys = {run.key for run in opened(name).runs()}
    assert keys == {run.key for page in pages_at("smoke", store) for run in page.runs()}


@pytest.mark.parametrize("name", ABOUT_ALL)
def test_what_may_be_set(name, opened):
    page = opened(name, preset="laptop", max_hours=3)
    assert (page.preset, page.max_hours) == ("laptop", 3)
    with pytest.raises(ParameterError, match=r"Unknown parameter 'size'; valid here are preset, max_hours, "):
        opened(name, size="d8")


def test_an_unknown_page_is_refused_with_those_there_are():
    with pytest.raises(ParameterError) as refused:
        open_page("02_existance")
    names = sorted([*NAMES, *ABOUT_ALL])
    assert str(refused.value) == f"Unknown page '02_existance'; choose one of {', '.join(names)}."


# The verdicts of all studies on one page.


class Proved(Chapter):
    """A page that proves what it is told."""

    def statements(self) -> pd.DataFrame:
        return pd.DataFrame({"id": self.proved, "verdict": "holds"})


def test_statements_of_all_pages_stand_under_each_other_with_their_page(opened):
    """Pages without any add nothing."""
    plain = opened("a2_conditionals")
    proofs = {"one": ("a", "b"), "none": (), "two": ("c",)}
    one, none, two = (Proved(name, {"proved": proofs[name]}, plain.store) for name in proofs)
    pages = [one, plain, none, two]
    table = all_statements(pages)
    assert table.to_numpy().tolist() == [["a", "holds", "one"], ["b", "holds", "one"], ["c", "holds", "two"]]
    assert table.index.tolist() == [0, 1, 2]


def test_recorded_runs_of_every_kind_are_loaded(tmp_path):
    """One of each that the default reads, with no folder of its own."""
    page = open_page("costs", preset="laptop", artifacts=str(tmp_path / "empty"))
    runs = {run.kind: run for run in with_ancestors(page.runs()) if page.store.has(run)}
    assert len(runs) > 30
    for run in runs.values():
        assert page.store.get(run) is not None, run
    assert not page.store.root.exists()
