"""All runs of some chapters in one pool."""

from dataclasses import dataclass

import pytest
from toy_runs import Squaring

from sameloss.book import compute as module
from sameloss.book.compute import compute
from sameloss.book.studies import open_page
from sameloss.errors import ParameterError
from sameloss.store.store import Store
from sameloss.studies.page import Page

READS = {"a": [Squaring(2), Squaring(3)], "b": [Squaring(3, Squaring(4))]}


@pytest.fixture
def store(home, monkeypatch):
    monkeypatch.setattr(module, "open_page", opened)
    return Store(home / "artifacts")


@dataclass
class Reading(Page):
    """A page that reads some of the runs, or all of them."""

    def runs(self):
        every = [run for runs in READS.values() for run in runs]
        return READS.get(self.name, every if self.name == "costs" else [])


def opened(name, **given):
    """Open a page of ours in the place of the book's, at a preset that the book knows."""
    settings = open_page("costs", **given).config
    return Reading(name, settings, Store("artifacts"))


def test_what_the_chapters_read_is_computed_and_no_more(store, capsys):
    compute("smoke", ["a", "notation"])  # a page that reads no runs
    assert all(map(store.has, READS["a"]))
    assert not any(map(store.has, READS["b"]))
    assert "preset smoke" in capsys.readouterr().out
    compute("smoke")
    assert all(map(store.has, READS["b"]))


def test_more_than_the_hours_that_are_given_is_refused(store):
    with pytest.raises(ParameterError, match="above max_hours = 1e-12"):
        compute("smoke", ["a"], max_hours=1e-12)
    compute("smoke", ["a"], max_hours=1e6)


def test_an_unknown_preset_is_one_sentence(store):
    with pytest.raises(ParameterError, match="Unknown preset 'smal'; choose one of "):
        compute("smal")
