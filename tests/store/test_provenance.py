"""Where results come from."""

import shutil

import pytest
from toy_runs import Failing, Squaring

from sameloss.store.provenance import origin_of, uncommitted_runs
from sameloss.store.store import Store, write_manifest
from sameloss.studies.recorded import changed_since

PARENT, CHILD = Squaring(2), Squaring(3, Squaring(2))


@pytest.fixture
def store(tmp_path):
    """A store with a run and the one it reads, made on two days by two revisions."""
    store = Store(tmp_path)
    store.get(CHILD)
    rewrite(store, PARENT, created="2026-01-02T00:00", revision="b-dirty", wall_s=36, peak_memory_bytes=10**9)
    rewrite(store, CHILD, created="2026-01-01T00:00", revision="a", wall_s=3600, peak_memory_bytes=2 * 10**9)
    return store


def rewrite(store, run, **facts):
    write_manifest(store.folder(run), store.manifest(run) | facts)


def test_an_origin_is_that_of_the_runs_and_of_all_they_read(store):
    origin = origin_of(store, [CHILD])
    assert origin["runs"] == 2
    assert origin["revision"] == ["a", "b-dirty"]
    assert origin["days"] == ["2026-01-01", "2026-01-02"]
    assert (origin["core_hours"], origin["peak_gb"]) == (1.01, 2.0)
    assert origin["device"] == [store.manifest(CHILD)["device"]]
    assert origin_of(store, [PARENT])["runs"] == 1


def test_an_origin_tells_which_code_computed(store):
    """Of kinds that the code computes otherwise now, or not at all, a record is out of date."""
    schemas = origin_of(store, [CHILD])["schemas"]
    assert schemas == {"Squaring": 1}
    assert changed_since(schemas) == []
    assert changed_since({"Squaring": 2, Failing.__name__: 1, "Forgotten": 1}) == ["Squaring", "Forgotten"]


def test_what_is_not_there_any_more_does_not_count(store):
    shutil.rmtree(store.folder(PARENT))
    assert origin_of(store, [CHILD])["runs"] == 1


def test_runs_of_uncommitted_or_unknown_source_are_found_among_what_is_read(store):
    assert uncommitted_runs(store, [CHILD, Squaring(5)]) == [PARENT]
    rewrite(store, PARENT, revision="b")
    assert uncommitted_runs(store, [CHILD]) == []
    rewrite(store, CHILD, revision="unknown")
    assert uncommitted_runs(store, [CHILD]) == [CHILD]
