"""The pages that are about all studies."""

from dataclasses import dataclass

import pandas as pd
import pytest

from sameloss.book.pages import STUDY, BookPage, all_statements, all_studies, open_page, study_of
from sameloss.errors import ParameterError
from sameloss.store.store import with_ancestors
from sameloss.studies.page import Page

NAMES = [name for study in all_studies().values() if study is not STUDY for name in study.specs]


@pytest.fixture
def page(opened):
    return opened("verdicts")


def test_it_has_every_page_of_every_other_study(page):
    assert [other.name for other in page.pages] == NAMES
    assert not set(NAMES) & set(STUDY.specs)
    assert {other.store for other in page.pages} == {page.store}


def test_pages_have_its_preset(page):
    assert {other.config.name for other in page.pages} == {"smoke"}


def test_a_preset_that_a_study_lacks_leaves_its_pages_out(opened):
    names = {other.name for other in opened("costs", preset="workstation").pages}
    assert names == {name for name in NAMES if "workstation" in study_of(name).presets} != set()


def test_it_reads_all_that_they_read(page):
    keys = {run.key for run in page.runs()}
    for other in page.pages:
        assert {run.key for run in other.runs()} <= keys, other.name


@pytest.mark.parametrize("name", STUDY.specs)
def test_what_may_be_set(name, opened):
    page = opened(name, preset="laptop", max_hours=3)
    assert isinstance(page, BookPage)
    assert (page.config.name, page.config.max_hours) == ("laptop", 3)
    with pytest.raises(ParameterError, match=r"Unknown parameter 'size'; valid here are preset, max_hours, "):
        opened(name, size="d8")


# The verdicts of all studies on one page.


@dataclass
class Proved(Page):
    """A page that proves what it is told."""

    proved: tuple[str, ...] = ()

    def statements(self) -> pd.DataFrame:
        return pd.DataFrame({"id": self.proved, "verdict": "holds"})


def test_statements_of_all_pages_stand_under_each_other_with_their_page(opened):
    """Pages without any add nothing."""
    plain = opened("a2_conditionals")
    about = plain.config, plain.store
    pages = [Proved("one", *about, ("a", "b")), plain, Proved("none", *about), Proved("two", *about, ("c",))]
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
