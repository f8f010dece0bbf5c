"""Results: a computation that changed must say so by its schema."""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
from library import run_classes
from recorded import results
from recorded.files import RECORD, read
from recorded.results import differences, fingerprint
from recorded.tiny_runs import tiny_runs

from sameloss.store.store import Store, with_ancestors


def test_every_class_of_runs_has_a_tiny_one():
    lacking = {kind.__name__ for kind in run_classes()} - {run.kind for run in tiny_runs().values()}
    assert not lacking, f"No tiny run of {sorted(lacking)}; add one to tests/recorded/tiny_runs.py."


def test_what_a_tiny_run_reads_is_one_of_them():
    """So that of a change the run is named in which it began."""
    runs = tiny_runs().values()
    assert {run.key for run in with_ancestors(runs)} == {run.key for run in runs}


@pytest.mark.book
def test_results_are_those_recorded(tmp_path, monkeypatch):
    """On a CPU, wherever there is a GPU too: what differs between CPUs is far below the tolerance."""
    monkeypatch.setenv("SAMELOSS_DEVICE", "cpu")
    recorded, found = read(results.FILE), results.found(Store(tmp_path))
    moved = results.moved(recorded, found)
    assert not moved, "\n".join(moved)
    new = results.unrecorded(recorded, found)
    assert not new, f"Recorded under another schema, or not at all: {', '.join(new)}; {RECORD}."


# That it would be seen


@pytest.fixture
def saved(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"name": list("abcde"), "value": rng.normal(size=5), "seconds": rng.random(5)})

    def save(table=table, array=(0.0, 1.0, 2.0, 3.0, 4.0, 5.0)):
        table.to_csv(tmp_path / "table.csv", index=False)
        np.savez(tmp_path / "array.npz", correct=np.asarray(array))
        return fingerprint(tmp_path, ["array.npz", "table.csv"])

    return table, save


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (lambda table: table.assign(value=table.value * (1 + 1e-6)), []),
        (lambda table: table.assign(value=table.value * (1 + 1e-3)), ["table.csv: value"]),
        (lambda table: table.assign(value=table.value[::-1].to_numpy()), ["table.csv: value"]),
        (lambda table: table.assign(value=table.value.where(table.name != "c")), ["table.csv: value"]),
        (lambda table: table.assign(name=list("abcdf")), ["table.csv: name"]),
        (lambda table: table.assign(seconds=0.0), []),
        (lambda table: table.assign(more=1), ["table.csv: more"]),
        (lambda table: table.iloc[:4], ["table.csv: name", "table.csv: value"]),
    ],
)
def test_a_change_of_a_table_is_seen_and_rounding_is_not(saved, change, seen):
    table, save = saved
    assert differences(save(), save(change(table))) == seen


def test_a_change_of_a_small_row_beside_large_ones_is_seen(saved):
    _, save = saved
    before, after = (save(pd.DataFrame({"value": [1e6, 1.0, last]})) for last in (1e-6, 1.01e-6))
    assert differences(before, after) == ["table.csv: value"]


def test_a_change_of_an_array_is_seen(saved):
    _, save = saved
    before = save()
    assert differences(before, save()) == []
    for other in (np.arange(6.0)[::-1], np.arange(6.0).reshape(2, 3), np.arange(6) != 2):
        assert differences(before, save(array=other)) == ["array.npz: correct"]


def test_only_the_first_run_that_changed_is_named():
    """Of a training and all that is measured of it, the training; with a raised schema, nothing."""
    recorded = read(results.FILE)
    moved = {"training, adamw", "flatness, all measures", "estimators"}
    found = {name: {**record, "result": {}} if name in moved else record for name, record in recorded.items()}
    (sentence,) = results.moved(recorded, found)
    assert sentence.startswith("The result of Pretraining changed: raise its schema and record again.")
    assert "(training, adamw in history.csv: loss)" in sentence
    raised = deepcopy(found)
    for name in moved:
        raised[name]["schemas"]["Pretraining"] += 1
    assert results.moved(recorded, raised) == []
    assert results.unrecorded(recorded, raised) == sorted(moved)
    assert results.kept(recorded, raised) == raised
    assert results.kept(recorded, found) == recorded
