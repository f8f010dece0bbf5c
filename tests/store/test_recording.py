"""A record holds what was measured: a store takes it as computed, but for what a model is needed for."""

import errno
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from toy_runs import Big, Squaring

from sameloss.store.pool import compute_all
from sameloss.store.recording import LARGEST, WithRecord, forget_others, record_runs, take_recorded
from sameloss.store.store import LEFT_OUT, MANIFEST, Store


@dataclass(frozen=True)
class Trained(Squaring):
    """A run with weights, and with details that its result does not show either."""

    weights: ClassVar[tuple[str, ...]] = (".weights",)

    details: ClassVar[tuple[str, ...]] = ("losses.txt",)

    def compute(self, folder, store, report):
        super().compute(folder, store, report)
        (folder / "losses.txt").write_text("2.5\n" * 5)
        (folder / "last.weights").write_text("of a model")


@dataclass(frozen=True)
class Measured(Squaring):
    """A run that reads the weights of its parent."""

    def compute(self, folder, store, report):
        super().compute(folder, store, report)
        assert (store.folder(self.parent) / "last.weights").exists()


def noted(tmp_path, number, parent=None, kind=Squaring):
    return kind(number, parent, str(tmp_path / "notes"))


def computed(tmp_path):
    return len((tmp_path / "notes").read_text().splitlines())


@pytest.fixture
def first(tmp_path):
    """A store in which a model was trained and measured once."""
    store, trained = Store(tmp_path / "first"), noted(tmp_path, 2, kind=Trained)
    store.compute(noted(tmp_path, 3, trained, Measured))
    return store


@pytest.fixture
def second(tmp_path, first):
    """A store elsewhere that has taken what was recorded of it."""
    trained = noted(tmp_path, 2, kind=Trained)
    runs = [noted(tmp_path, 3, trained, Measured), noted(tmp_path, 4)]  # the last one was never computed
    assert record_runs(first, runs, tmp_path / "record") == 2
    store = Store(tmp_path / "second", recorded=True)
    assert take_recorded(tmp_path / "record", store) == 2
    return store


def test_what_was_measured_is_read_and_nothing_is_computed(tmp_path, first, second):
    trained = noted(tmp_path, 2, kind=Trained)
    run = noted(tmp_path, 3, trained, Measured)
    before_taken = computed(tmp_path)
    compute_all(second, [run])
    assert (second.get(run), second.get(trained)) == (13, 4)
    assert second.missing([run]) == []
    assert computed(tmp_path) == before_taken
    assert second.manifest(run) == first.manifest(run)
    told, before = second.manifest(trained), first.manifest(trained)
    assert told.pop("sealed") != before["sealed"]
    assert told | {"sealed": before["sealed"]} == before | {LEFT_OUT: ["last.weights"]}


def test_a_new_measurement_has_its_model_trained_again(tmp_path, second):
    trained = noted(tmp_path, 2, kind=Trained)
    old, new = (noted(tmp_path, number, trained, Measured) for number in (3, 5))
    assert second.missing([old, new]) == [trained, new]
    before = computed(tmp_path)
    compute_all(second, [old, new], workers=1)
    assert computed(tmp_path) == before + 2
    assert second.get(new) == 29
    assert all(map(second.whole.has, (trained, old, new)))
    assert LEFT_OUT not in second.manifest(trained)


def test_only_a_whole_store_misses_the_weights(tmp_path, second):
    trained = noted(tmp_path, 2, kind=Trained)
    assert second.has(trained)
    assert not second.whole.has(trained)
    before = computed(tmp_path)
    assert second.whole.get(trained) == 4
    assert computed(tmp_path) == before + 1
    assert (second.folder(trained) / "last.weights").exists()


def test_a_kill_while_it_is_trained_again_leaves_what_was_recorded(tmp_path, second, monkeypatch):
    trained = noted(tmp_path, 2, kind=Trained)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Trained, "compute", killed)
        with pytest.raises(KeyboardInterrupt):
            second.whole.get(trained)
    assert second.get(trained) == 4


def test_what_is_large_is_not_recorded(tmp_path):
    store = Store(tmp_path / "first")
    store.compute(Big("corpus"))
    assert (store.folder(Big("corpus")) / "big").stat().st_size > LARGEST
    assert record_runs(store, [Big("corpus")], tmp_path / "record") == 0


def test_of_a_training_large_details_are_left_out_and_all_that_it_reads_is_there(tmp_path, monkeypatch):
    store, trained = Store(tmp_path / "first"), noted(tmp_path, 2, kind=Trained)
    store.compute(trained)
    monkeypatch.setattr("sameloss.store.recording.LARGEST", 10)
    assert record_runs(store, [trained], tmp_path / "record") == 1
    recorded = tmp_path / "record" / "Trained" / trained.key
    assert sorted(path.name for path in recorded.iterdir()) == [MANIFEST, "result.txt"]
    second = Store(tmp_path / "second", recorded=True)
    take_recorded(tmp_path / "record", second)
    assert second.get(trained) == 4
    assert computed(tmp_path) == 1
    monkeypatch.setattr("sameloss.store.recording.LARGEST", 0)  # its result is too large
    assert record_runs(store, [trained], tmp_path / "another") == 0


def test_a_record_of_what_was_taken_is_the_same(tmp_path, second):
    trained = noted(tmp_path, 2, kind=Trained)
    runs = [noted(tmp_path, 3, trained, Measured)]
    assert record_runs(second, runs, tmp_path / "again") == 2
    assert contents(tmp_path / "again") == contents(tmp_path / "record")


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_record_grows_and_forgets_what_is_not_asked_for_any_more(tmp_path, first):
    record, trained = tmp_path / "record", noted(tmp_path, 2, kind=Trained)
    measured = noted(tmp_path, 3, trained, Measured)
    assert record_runs(first, [trained], record) == 1
    assert record_runs(first, [measured], record) == 2
    before = contents(record)
    assert record_runs(first, [trained], record) == 1
    forget_others(record, [measured])
    assert contents(record) == before
    forget_others(record, [trained])
    assert {path.parts[0] for path in contents(record)} == {"Trained"}


def test_a_copy_that_was_killed_is_no_result_and_is_made_again(tmp_path, first):
    record, trained = tmp_path / "record", noted(tmp_path, 2, kind=Trained)
    record_runs(first, [trained], record)
    before = contents(record)
    (record / "Trained" / trained.key / MANIFEST).unlink()
    assert take_recorded(record, Store(tmp_path / "second")) == 0
    record_runs(first, [trained], record)
    assert contents(record) == before


def test_what_is_there_stays_and_a_killed_copy_is_made_again(tmp_path, second):
    trained = noted(tmp_path, 2, kind=Trained)
    second.whole.compute(trained)
    lost = second.folder(noted(tmp_path, 3, trained, Measured))
    lost.rename(lost.with_suffix(".taken"))
    (lost.with_suffix(".taken") / "result.txt").unlink()
    assert take_recorded(tmp_path / "record", second) == 1
    assert (lost / "result.txt").read_text() == "13"
    assert second.whole.has(trained)


def test_a_record_that_was_changed_by_hand_is_computed_again(tmp_path, second, caplog):
    run = noted(tmp_path, 3, noted(tmp_path, 2, kind=Trained), Measured)
    (second.folder(run) / "result.txt").write_text("14")
    assert second.get(run) == 13
    assert "result.txt is damaged" in caplog.text


def test_a_manifest_that_is_a_folder_is_damage_and_no_fault(tmp_path, second):
    trained = noted(tmp_path, 2, kind=Trained)
    path = second.folder(trained) / MANIFEST
    path.unlink()
    path.mkdir()
    compute_all(second, [noted(tmp_path, 5, trained, Measured)], workers=1)
    assert second.whole.has(trained)


def test_two_who_take_one_record_take_each_run_once(tmp_path, second, monkeypatch):
    write = Path.write_bytes

    def slow(*args):
        time.sleep(0.2)  # so that the other one comes meanwhile
        return write(*args)

    monkeypatch.setattr(Path, "write_bytes", slow)
    third = Store(tmp_path / "third", recorded=True)
    with ThreadPoolExecutor(2) as both:
        taken = [both.submit(take_recorded, tmp_path / "record", third) for _ in range(2)]
    assert sum(number.result() for number in taken) == 2
    assert {path.parent.name for path in third.root.glob("*/*/result.txt")} == {
        path.parent.name for path in second.root.glob("*/*/result.txt")
    }


def test_nothing_recorded_is_nothing_taken(tmp_path):
    assert take_recorded(Path("nowhere"), Store(tmp_path)) == 0


def fail(error):
    raise error


@pytest.mark.parametrize(
    ("method", "fault", "words"),
    [
        ("write_bytes", lambda path: OSError(errno.ENOSPC, "full"), "full"),
        (
            "read_bytes",
            lambda path: PermissionError(errno.EACCES, "Permission denied", str(path)),
            r"Permission denied: '.*record/",
        ),
    ],
)
def test_a_fault_of_the_disk_names_the_file_and_leaves_nothing_half(
    tmp_path, second, monkeypatch, method, fault, words
):
    third = Store(tmp_path / "third")
    with monkeypatch.context() as patched:
        patched.setattr(Path, method, lambda path, *_: fail(fault(path)))
        with pytest.raises(OSError, match=words):
            take_recorded(tmp_path / "record", third)
    assert not [path for path in third.root.glob("*/*") if path.is_dir()]
    assert take_recorded(tmp_path / "record", third) == 2


def test_what_a_record_has_counts_where_it_is_only_looked_at(tmp_path, second):
    trained = noted(tmp_path, 2, kind=Trained)
    runs = [noted(tmp_path, 3, trained, Measured), noted(tmp_path, 4), noted(tmp_path, 5, trained, Measured)]
    looking = WithRecord(Store(tmp_path / "third", recorded=True), tmp_path / "record")
    assert [looking.has(run) for run in runs] == [second.has(run) for run in runs]
    assert looking.missing(runs) == second.missing(runs)
    assert looking.manifest(runs[0]) == second.manifest(runs[0])
    assert not looking.root.exists()
