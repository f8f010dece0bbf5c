"""The record of runs without large weights, and the origin of results."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from toy_runs import Big, Squaring

from sameloss.errors import StoreError
from sameloss.store.pool import compute_all
from sameloss.store.provenance import origin_of, record_in_words, uncommitted_runs
from sameloss.store.record import LARGEST, Record, kept_runs
from sameloss.store.store import LEFT_OUT, Store, sealed_manifest, write_manifest


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


@dataclass(frozen=True)
class Drawn(Squaring):
    """A run whose result is no text."""

    def compute(self, folder, store, report):
        np.savez(folder / "drawn.npz", numbers=np.arange(self.number))

    def load(self, folder):
        with np.load(folder / "drawn.npz") as saved:
            return saved["numbers"].tolist()


def noted(tmp_path, number, parent=None, kind=Squaring):
    return kind(number, parent, str(tmp_path / "notes"))


def computed(tmp_path):
    return len((tmp_path / "notes").read_text().splitlines())


@pytest.fixture
def trained(tmp_path):
    return noted(tmp_path, 2, kind=Trained)


@pytest.fixture
def run(tmp_path, trained):
    """A measurement of the trained model."""
    return noted(tmp_path, 3, trained, Measured)


@pytest.fixture
def first(tmp_path, run):
    """A store with a trained and measured model."""
    store = Store(tmp_path / "first")
    store.compute(run)
    return store


@pytest.fixture
def record(tmp_path, first, run):
    """A record of the first store."""
    record = Record(tmp_path / "record")
    assert record.add(first, [run, noted(tmp_path, 4)]) == 2  # the last was never computed
    return record


@pytest.fixture
def second(tmp_path, record):
    """Another store, which reads the record."""
    return Store(tmp_path / "second", record)


def line_of(record, run):
    """The file of a run's line."""
    return record.root / run.kind / f"{run.key[0]}.jsonl"


def test_recorded_measurements_are_read_without_computation(tmp_path, first, record, second, run, trained):
    before = computed(tmp_path)
    compute_all(second, [run])
    for store in (record, second):
        assert (store.get(run), store.get(trained)) == (13, 4)
        assert store.missing([run]) == []
        assert store.manifest(run) == first.manifest(run)
    assert computed(tmp_path) == before
    told, before = second.manifest(trained), first.manifest(trained)
    assert told.pop("sealed") != before["sealed"]
    assert told | {"sealed": before["sealed"]} == before | {LEFT_OUT: ["last.weights"]}
    assert not second.root.exists()


def test_a_record_computes_nothing(tmp_path, record):
    with pytest.raises(
        StoreError, match=r"^Squaring/\w+ is not in \S+/record, to which `make record` adds ru"
    ):
        record.get(noted(tmp_path, 4))
    with pytest.raises(StoreError, match="is not in"):
        record.manifest(noted(tmp_path, 4))


def test_a_recorded_measurement_does_without_what_it_came_from(tmp_path, record, second, run, trained):
    line_of(record, trained).unlink()
    assert second.missing([run]) == []
    assert second.missing([noted(tmp_path, 5, trained, Measured)])[0] == trained


def test_a_new_measurement_trains_its_model_again(tmp_path, second, run, trained):
    new = noted(tmp_path, 5, trained, Measured)
    assert second.missing([run, new]) == [trained, new]
    before = computed(tmp_path)
    compute_all(second, [run, new])
    assert computed(tmp_path) == before + 2
    assert second.get(new) == 29
    assert all(map(second.complete.has, (trained, run, new)))
    assert LEFT_OUT not in second.manifest(trained)


def test_only_a_whole_store_requires_the_weights(tmp_path, second, trained):
    assert second.has(trained)
    assert not second.complete.has(trained)
    before = computed(tmp_path)
    assert second.complete.get(trained) == 4
    assert computed(tmp_path) == before + 1
    assert (second.folder(trained) / "last.weights").exists()


def test_a_result_that_an_older_version_took_from_the_record_is_completed(tmp_path, second, trained):
    """Also where a reader moved it behind a link."""
    folder, disk = second.folder(trained), tmp_path / "larger disk"
    disk.mkdir()
    (disk / "result.txt").write_text("4")
    write_manifest(disk, second.manifest(trained))
    folder.parent.mkdir(parents=True)
    folder.symlink_to(disk)
    assert second.get(trained) == 4
    assert not second.complete.has(trained)
    assert second.complete.get(trained) == 4
    assert second.complete.has(trained)
    assert not folder.is_symlink()
    assert not (disk / "last.weights").exists()


def test_a_damaged_result_is_read_from_the_record(tmp_path, first, record, run, caplog):
    (first.folder(run) / "result.txt").write_text("14")
    before = computed(tmp_path)
    assert Store(first.root, record).get(run) == 13
    assert "result.txt is damaged" in caplog.text
    assert computed(tmp_path) == before


def test_a_kill_during_retraining_leaves_the_record(second, trained, monkeypatch):
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
    assert Record(tmp_path / "record").add(store, [Big("corpus")]) == 0


def test_what_is_no_text_is_recorded(tmp_path):
    store, record = Store(tmp_path / "first"), Record(tmp_path / "record")
    store.compute(Drawn(3))
    assert record.add(store, [Drawn(3)]) == 1
    assert record.get(Drawn(3)) == [0, 1, 2]


@pytest.mark.parametrize("large", [True, False])
def test_details_of_a_training_are_left_out_if_large_or_unwanted(
    first, tmp_path, trained, monkeypatch, large
):
    if large:
        monkeypatch.setattr("sameloss.store.record.LARGEST", 10)
    record = Record(tmp_path / "record")
    assert record.add(first, [trained], lazy=large) == 1
    assert record.manifest(trained)[LEFT_OUT] == ["last.weights", "losses.txt"]
    assert record.get(trained) == 4
    monkeypatch.setattr("sameloss.store.record.LARGEST", 0)  # smaller than its result
    assert Record(tmp_path / "another").add(first, [trained]) == 0


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_record_of_recorded_runs_is_the_same(tmp_path, record, second, first, run):
    before = contents(record.root)
    for store in (second, first):
        assert record.add(store, [run]) == 2
        assert contents(record.root) == before


def test_a_record_grows_by_lines_in_the_order_of_keys(tmp_path):
    store, record = Store(tmp_path / "first"), Record(tmp_path / "record")
    runs = [Squaring(number) for number in range(40)]
    for run in runs:
        store.compute(run)
    record.add(store, runs[:20])
    before = {line for path in record.root.glob("*/*") for line in path.read_text().splitlines()}
    record.add(store, runs[20:])
    lines = {path.name: path.read_text().splitlines() for path in (record.root / "Squaring").iterdir()}
    keys = {name: [json.loads(line)["key"] for line in own] for name, own in lines.items()}
    assert all(own == sorted(own) and {key[0] for key in own} == {name[0]} for name, own in keys.items())
    assert sorted(key for own in keys.values() for key in own) == sorted(run.key for run in runs)
    assert before <= {line for own in lines.values() for line in own}
    assert [record.get(run) for run in runs] == [run.number**2 for run in runs]


# Every alteration of a file of the record is told in one sentence, and nothing is read of it.


def replaced(before, after):
    return lambda text: text.replace(before, after)


def changed(change):
    """Alter the content of a line."""
    return lambda text: json.dumps(change(json.loads(text))) + "\n"


def resealed(line):
    """A line whose manifest was changed by someone who knows how it is sealed."""
    return line | {"manifest": sealed_manifest(line["manifest"] | {"files": {}})}


ALTERED = {
    "a digit of its result": replaced("13", "14"),
    "a digit of its time": replaced('"wall_s":', '"wall_s":1'),
    "its revision": changed(lambda line: line | {"manifest": line["manifest"] | {"revision": "abc"}}),
    "its end": lambda text: text[: len(text) // 2],
    "its line end": lambda text: text[:-1],
    "everything": lambda text: "",
    "an empty line": lambda text: text + "\n",
    "twice": lambda text: 2 * text,
    "a list": lambda text: "[]\n",
    "a number": lambda text: "5\n",
    "no manifest": changed(lambda line: line | {"manifest": None}),
    "another type": changed(lambda line: line | {"manifest": line["manifest"] | {"wall_s": "1"}}),
    "no seal": changed(lambda line: line | {"manifest": {**line["manifest"], "sealed": ""}}),
    "no files": changed(lambda line: line | {"files": {}}),
    "a number as a file": changed(lambda line: line | {"files": {"result.txt": 13}}),
    "bytes that are none": changed(lambda line: line | {"files": {"result.txt": {"base64": "="}}}),
    "another file": changed(lambda line: line | {"files": line["files"] | {"more.txt": ""}}),
    "files that the manifest lacks": changed(resealed),
    "marks of a merge": lambda text: f"<<<<<<< here\n{text}",
}


@pytest.mark.parametrize("alteration", ALTERED)
def test_an_altered_line_is_told_in_one_sentence(record, second, run, alteration):
    path = line_of(record, run)
    path.write_text(ALTERED[alteration](path.read_text()))
    sentence = (
        rf"^{path} is not what was recorded: [\w ]+; restore it with `git checkout -- {path}`, or .*\.$"
    )
    for read in (record.has, record.get, record.manifest, second.has, second.get, second.compute):
        with pytest.raises(StoreError, match=sentence):
            read(run)


@pytest.mark.parametrize("content", [b"\xff\n", None])
def test_what_is_no_text_is_no_record(record, run, content):
    path = line_of(record, run)
    path.unlink()
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(StoreError, match="it cannot be read as text"):
        record.get(run)


def test_another_run_under_a_key_is_not_read(tmp_path, first, record, run, trained):
    """Though its line is as it was written, but for the key."""
    other = noted(tmp_path, 5, trained, Measured)
    first.compute(other)
    record.add(first, [other])
    lines = line_of(record, other).read_text().splitlines(keepends=True)
    line = next(line for line in lines if other.key in line)
    line_of(record, run).write_text(line.replace(f'"key":"{other.key}"', f'"key":"{run.key}"'))
    with pytest.raises(StoreError, match=f"what it has as {run.key} is another run"):
        record.get(run)


def test_a_restored_file_is_read_again(record, run):
    path = line_of(record, run)
    text = path.read_text()
    path.write_text("")
    with pytest.raises(StoreError):
        record.has(run)
    path.write_text(text)
    assert record.get(run) == 13


def test_files_of_the_books_record_have_room_to_grow():
    files = [path for path in kept_runs().root.rglob("*") if path.is_file()]
    assert files
    assert max(path.stat().st_size for path in files) < 1_000_000


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


def test_two_branches_of_a_record_merge(tmp_path, run):
    """Though both add lines at the same place."""
    root = Path(__file__).parents[2]

    def git(*words):
        subprocess.run(["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=b", *words], check=True)

    shutil.copy(root / ".gitattributes", tmp_path)
    path = tmp_path / "results" / "runs" / "Squaring" / "1.jsonl"
    path.parent.mkdir(parents=True)
    git("init", "-q", "-b", "main")
    for branch, text in {"main": "1\n", "one": "1\n2\n", "other": "1\n3\n"}.items():
        if branch != "main":
            git("checkout", "-q", "-b", branch, "main")
        path.write_text(text)
        git("add", ".")
        git("commit", "-q", "-m", branch)
    git("merge", "-q", "-m", "both", "one")
    assert sorted(path.read_text().split()) == ["1", "2", "3"]


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


def test_a_record_is_described_by_its_origin(store):
    origin = origin_of(store, [CHILD]) | {"seeds": 5}
    words = record_in_words("paper", origin)
    assert words.startswith("Recorded: preset paper, 5 seeds, 2 runs, 1.01 core-hours on ")
    assert words.endswith(", 2026-01-01 to 2026-01-02, source revision a, b-dirty.")
    assert record_in_words("paper", origin_of(store, [CHILD]) | {"seeds": 5, "note": " More."}).endswith(
        " More."
    )


def test_an_origin_omits_missing_runs(store):
    shutil.rmtree(store.folder(PARENT))
    assert origin_of(store, [CHILD])["runs"] == 1


def test_runs_with_an_uncommitted_or_unknown_source_are_found_among_ancestors(store):
    assert uncommitted_runs(store, [CHILD, Squaring(5)]) == [PARENT]
    rewrite(store, PARENT, revision="b")
    assert uncommitted_runs(store, [CHILD]) == []
    rewrite(store, CHILD, revision="unknown")
    assert uncommitted_runs(store, [CHILD]) == [CHILD]
