"""Records of runs without large weights, and the origin of results."""

import errno
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from toy_runs import Big, Failing, Squaring

from sameloss.store.pool import compute_all
from sameloss.store.provenance import origin_of, uncommitted_runs
from sameloss.store.recording import LARGEST, prune_record, record_runs, take_recorded
from sameloss.store.store import LEFT_OUT, MANIFEST, Store, write_manifest
from sameloss.studies.recorded import changed_since


@dataclass(frozen=True)
class Trained(Squaring):
    """A run with weights, and details that its result does not include."""

    weight_suffixes: ClassVar[tuple[str, ...]] = (".weights",)

    lazy_suffixes: ClassVar[tuple[str, ...]] = ("losses.txt",)

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
    """A store with a trained and measured model."""
    store, trained = Store(tmp_path / "first"), noted(tmp_path, 2, kind=Trained)
    store.compute(noted(tmp_path, 3, trained, Measured))
    return store


@pytest.fixture
def second(tmp_path, first):
    """Another store, filled from a record of the first."""
    trained = noted(tmp_path, 2, kind=Trained)
    runs = [noted(tmp_path, 3, trained, Measured), noted(tmp_path, 4)]  # the last was never computed
    assert record_runs(first, runs, tmp_path / "record") == 2
    store = Store(tmp_path / "second", recorded=True)
    assert take_recorded(tmp_path / "record", store) == 2
    return store


def test_recorded_measurements_are_read_without_computation(tmp_path, first, second):
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


def test_a_recorded_measurement_does_without_what_it_came_from(tmp_path, second):
    trained = noted(tmp_path, 2, kind=Trained)
    run = noted(tmp_path, 3, trained, Measured)
    shutil.rmtree(second.folder(trained))
    assert second.missing([run]) == []
    assert second.missing([noted(tmp_path, 5, trained, Measured)])[0] == trained


def test_a_new_measurement_trains_its_model_again(tmp_path, second):
    trained = noted(tmp_path, 2, kind=Trained)
    old, new = (noted(tmp_path, number, trained, Measured) for number in (3, 5))
    assert second.missing([old, new]) == [trained, new]
    before = computed(tmp_path)
    compute_all(second, [old, new], workers=1)
    assert computed(tmp_path) == before + 2
    assert second.get(new) == 29
    assert all(map(second.complete.has, (trained, old, new)))
    assert LEFT_OUT not in second.manifest(trained)


def test_only_a_whole_store_requires_the_weights(tmp_path, second):
    trained = noted(tmp_path, 2, kind=Trained)
    assert second.has(trained)
    assert not second.complete.has(trained)
    before = computed(tmp_path)
    assert second.complete.get(trained) == 4
    assert computed(tmp_path) == before + 1
    assert (second.folder(trained) / "last.weights").exists()


def test_a_result_moved_behind_a_link_is_completed_in_the_store(tmp_path, second):
    trained, disk = noted(tmp_path, 2, kind=Trained), tmp_path / "larger disk"
    second.folder(trained).rename(disk)
    second.folder(trained).symlink_to(disk)
    assert second.complete.get(trained) == 4
    assert second.complete.has(trained)
    assert not second.folder(trained).is_symlink()
    assert not (disk / "last.weights").exists()


def test_a_record_is_taken_whatever_lies_in_it_and_in_the_way(tmp_path, first):
    """A folder in a run, the rest of a killed take, links: what they lead to stays as it is."""
    runs, record, aside = [noted(tmp_path, 2, kind=Trained)], tmp_path / "record", tmp_path / "aside"
    record_runs(first, runs, record)
    third = Store(tmp_path / "third", recorded=True)
    (record / "Trained" / runs[0].key / "strange").mkdir()
    aside.mkdir()
    (aside / "thesis.txt").touch()
    taken = third.folder(runs[0]).with_suffix(".taken")
    taken.parent.mkdir(parents=True)
    taken.symlink_to(aside)
    assert take_recorded(record, third) == 1
    assert third.get(runs[0]) == 4
    assert not third.folder(runs[0]).is_symlink()
    (record / "Trained" / "linked").symlink_to(aside)
    prune_record(record, [])
    assert not list(record.glob("*/*"))
    assert [path.name for path in aside.iterdir()] == ["thesis.txt"]


def test_a_kill_during_retraining_leaves_the_record(tmp_path, second, monkeypatch):
    trained = noted(tmp_path, 2, kind=Trained)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Trained, "compute", killed)
        with pytest.raises(KeyboardInterrupt):
            second.complete.get(trained)
    assert second.get(trained) == 4


def test_large_results_are_not_recorded(tmp_path):
    store = Store(tmp_path / "first")
    store.compute(Big("corpus"))
    assert (store.folder(Big("corpus")) / "big").stat().st_size > LARGEST
    assert record_runs(store, [Big("corpus")], tmp_path / "record") == 0


@pytest.mark.parametrize("large", [True, False])
def test_details_of_a_training_are_left_out_if_large_or_not_wanted(tmp_path, monkeypatch, large):
    store, trained = Store(tmp_path / "first"), noted(tmp_path, 2, kind=Trained)
    store.compute(trained)
    if large:
        monkeypatch.setattr("sameloss.store.recording.LARGEST", 10)
    assert record_runs(store, [trained], tmp_path / "record", lazy=large) == 1
    recorded = tmp_path / "record" / "Trained" / trained.key
    assert sorted(path.name for path in recorded.iterdir()) == [MANIFEST, "result.txt"]
    second = Store(tmp_path / "second", recorded=True)
    take_recorded(tmp_path / "record", second)
    assert second.get(trained) == 4
    assert computed(tmp_path) == 1
    monkeypatch.setattr("sameloss.store.recording.LARGEST", 0)  # smaller than its result
    assert record_runs(store, [trained], tmp_path / "another") == 0


def test_a_record_of_recorded_runs_is_the_same(tmp_path, second):
    trained = noted(tmp_path, 2, kind=Trained)
    runs = [noted(tmp_path, 3, trained, Measured)]
    assert record_runs(second, runs, tmp_path / "again") == 2
    assert contents(tmp_path / "again") == contents(tmp_path / "record")


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_record_grows_and_forgets_other_runs(tmp_path, first):
    record, trained = tmp_path / "record", noted(tmp_path, 2, kind=Trained)
    measured = noted(tmp_path, 3, trained, Measured)
    assert record_runs(first, [trained], record) == 1
    assert record_runs(first, [measured], record) == 2
    before = contents(record)
    assert record_runs(first, [trained], record) == 1
    prune_record(record, [measured])
    assert contents(record) == before
    prune_record(record, [trained])
    assert {path.parts[0] for path in contents(record)} == {"Trained"}


def test_an_interrupted_recording_is_repeated(tmp_path, first):
    record, trained = tmp_path / "record", noted(tmp_path, 2, kind=Trained)
    record_runs(first, [trained], record)
    before = contents(record)
    (record / "Trained" / trained.key / MANIFEST).unlink()
    assert take_recorded(record, Store(tmp_path / "second")) == 0
    record_runs(first, [trained], record)
    assert contents(record) == before


def test_existing_results_stay_and_an_incomplete_one_is_copied_again(tmp_path, second):
    trained = noted(tmp_path, 2, kind=Trained)
    second.complete.compute(trained)
    lost = second.folder(noted(tmp_path, 3, trained, Measured))
    lost.rename(lost.with_suffix(".taken"))
    (lost.with_suffix(".taken") / "result.txt").unlink()
    assert take_recorded(tmp_path / "record", second) == 1
    assert (lost / "result.txt").read_text() == "13"
    assert second.complete.has(trained)


def test_an_edited_record_is_computed_again(tmp_path, second, caplog):
    run = noted(tmp_path, 3, noted(tmp_path, 2, kind=Trained), Measured)
    (second.folder(run) / "result.txt").write_text("14")
    assert second.get(run) == 13
    assert "result.txt is damaged" in caplog.text


def test_a_folder_in_place_of_a_manifest_is_damage(tmp_path, second):
    trained = noted(tmp_path, 2, kind=Trained)
    path = second.folder(trained) / MANIFEST
    path.unlink()
    path.mkdir()
    compute_all(second, [noted(tmp_path, 5, trained, Measured)], workers=1)
    assert second.complete.has(trained)


def test_two_concurrent_readers_copy_each_run_once(tmp_path, second, monkeypatch):
    write = Path.write_bytes

    def slow(*args):
        time.sleep(0.2)  # time for the other reader
        return write(*args)

    monkeypatch.setattr(Path, "write_bytes", slow)
    third = Store(tmp_path / "third", recorded=True)
    with ThreadPoolExecutor(2) as both:
        taken = [both.submit(take_recorded, tmp_path / "record", third) for _ in range(2)]
    assert sum(number.result() for number in taken) == 2
    assert {path.parent.name for path in third.root.glob("*/*/result.txt")} == {
        path.parent.name for path in second.root.glob("*/*/result.txt")
    }


def to_crlf(path):
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (MANIFEST, to_crlf),
        (MANIFEST, lambda path: path.write_text("{}")),
        ("result.txt", lambda path: path.write_text("14")),
        ("result.txt", Path.unlink),
    ],
)
def test_only_what_can_be_read_is_taken(tmp_path, second, caplog, name, damage):
    run = noted(tmp_path, 3, noted(tmp_path, 2, kind=Trained), Measured)
    damage(tmp_path / "record" / "Measured" / run.key / name)
    third = Store(tmp_path / "third", recorded=True)
    assert take_recorded(tmp_path / "record", third) == 1
    assert not third.has(run)
    assert f"1 runs of {tmp_path / 'record'} are damaged and were not taken, the first of them" in caplog.text
    assert f"Measured/{run.key};" in caplog.text


def test_git_changes_no_line_ends(tmp_path):
    """Also where its user has it do so, as on Windows."""
    root = Path(__file__).parents[2]
    for words in (["init", "-q"], ["config", "core.autocrlf", "true"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    shutil.copy(root / ".gitattributes", tmp_path)
    (tmp_path / "lines.json").write_bytes(b"{\n}\n")
    for words in (["add", "."], ["checkout-index", "-f", "lines.json"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    assert (tmp_path / "lines.json").read_bytes() == b"{\n}\n"


def test_a_missing_record_has_no_runs(tmp_path):
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
def test_a_disk_error_names_the_file_and_leaves_no_partial_copy(
    tmp_path, second, monkeypatch, method, fault, words
):
    third = Store(tmp_path / "third")
    with monkeypatch.context() as patched:
        patched.setattr(Path, method, lambda path, *_: fail(fault(path)))
        with pytest.raises(OSError, match=words):
            take_recorded(tmp_path / "record", third)
    assert not [path for path in third.root.glob("*/*") if path.is_dir()]
    assert take_recorded(tmp_path / "record", third) == 2


# Origins

PARENT, CHILD = Squaring(2), Squaring(3, Squaring(2))


@pytest.fixture
def store(tmp_path):
    """A store with a run and its parent, computed on two days with two revisions."""
    store = Store(tmp_path)
    store.get(CHILD)
    rewrite(store, PARENT, created="2026-01-02T00:00", revision="b-dirty", wall_s=36, peak_memory_bytes=10**9)
    rewrite(store, CHILD, created="2026-01-01T00:00", revision="a", wall_s=3600, peak_memory_bytes=2 * 10**9)
    return store


def rewrite(store, run, **facts):
    write_manifest(store.folder(run), store.manifest(run) | {"source": None} | facts)


def test_an_origin_covers_the_runs_and_their_ancestors(store):
    origin = origin_of(store, [CHILD])
    assert origin["runs"] == 2
    assert origin["revision"] == ["a", "b-dirty"]
    assert origin["days"] == ["2026-01-01", "2026-01-02"]
    assert (origin["core_hours"], origin["peak_gb"]) == (1.01, 2.0)
    assert origin["device"] == [store.manifest(CHILD)["device"]]
    assert origin_of(store, [PARENT])["runs"] == 1


def test_an_origin_has_the_schemas_of_its_runs(store):
    """By which outdated records are found: schemas that changed, and classes that are gone."""
    schemas = origin_of(store, [CHILD])["schemas"]
    assert schemas == {"Squaring": 1}
    assert changed_since(schemas) == []
    assert changed_since({"Squaring": 2, Failing.__name__: 1, "Forgotten": 1}) == ["Squaring", "Forgotten"]


def test_an_origin_omits_missing_runs(store):
    shutil.rmtree(store.folder(PARENT))
    assert origin_of(store, [CHILD])["runs"] == 1


def test_runs_with_an_uncommitted_or_unknown_source_are_found_among_ancestors(store):
    assert uncommitted_runs(store, [CHILD, Squaring(5)]) == [PARENT]
    rewrite(store, PARENT, revision="b")
    assert uncommitted_runs(store, [CHILD]) == []
    rewrite(store, CHILD, revision="unknown")
    assert uncommitted_runs(store, [CHILD]) == [CHILD]
