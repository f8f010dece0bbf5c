"""All runs of some chapters in one pool."""

import pytest
from toy_runs import Squaring

from sameloss.book import compute as module
from sameloss.book.compute import compute
from sameloss.errors import ParameterError
from sameloss.store.store import Store

READS = {"a": [Squaring(2), Squaring(3)], "b": [Squaring(3, Squaring(4))]}


@pytest.fixture
def store(tmp_path, monkeypatch):
    (tmp_path / "_config.yml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "chapter_runs", lambda setting: READS)
    return Store(tmp_path / "artifacts")


def test_what_the_chapters_read_is_computed_and_no_more(store, capsys):
    compute("smoke", ["a", "notation"])  # a page that reads no runs
    assert all(map(store.has, READS["a"]))
    assert not any(map(store.has, READS["b"]))
    assert "preset smoke" in capsys.readouterr().out
    compute("smoke")
    assert all(map(store.has, READS["b"]))


def test_an_unknown_preset_is_one_sentence(store):
    with pytest.raises(ParameterError, match="Unknown preset 'smal'; choose one of "):
        compute("smal")
