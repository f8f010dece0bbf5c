"""Manifests, and results that do not match theirs."""

import hashlib
import json
import logging
import os
import shutil
import time
from pathlib import Path

import pytest
from toy_runs import Squaring, computations

from sameloss.errors import StoreError
from sameloss.store import store as files
from sameloss.store.provenance import origin_of, seal, sealed, uncommitted_runs
from sameloss.store.store import (
    LEFT_OUT,
    MANIFEST,
    Store,
    read_manifest,
    sha256,
    write_atomically,
    write_manifest,
    write_through,
)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "artifacts")


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "manifest"])
def test_a_damaged_result_is_reported_set_aside_and_computed_again(store, tmp_path, caplog, damage):
    run = Squaring(12, notes=str(tmp_path / "notes"))
    store.get(run)
    victim = store.folder(run) / ("result.txt" if damage != "manifest" else MANIFEST)
    content = victim.read_bytes()
    if damage == "remove":
        victim.unlink()
    else:
        victim.write_bytes({"flip": b"9" + content[1:]}.get(damage, content[: len(content) // 2]))
    with caplog.at_level(logging.WARNING, logger="sameloss"):
        assert store.get(run) == 144
    assert f"{run.kind}/{run.key}/{victim.name} is damaged" in caplog.text
    assert len(list(store.folder(run).parent.glob("*.damaged-*"))) == 1
    assert computations(run) == 2


@pytest.mark.parametrize(
    "content", ["null", "[]", "5", '"x"', "{}", '{"files": null}', '{"files": []}', "[" * 100_000]
)
def test_an_invalid_manifest_is_damage(store, tmp_path, content):
    run = Squaring(12, notes=str(tmp_path / "notes"))
    store.get(run)
    (store.folder(run) / MANIFEST).write_text(content)
    assert store.get(run) == 144
    assert computations(run) == 2


@pytest.mark.parametrize("content", ["", "null", "{}", "[" * 100_000])
def test_an_unreadable_manifest_is_a_store_error(store, content):
    """Where only the manifest is read, as by a page that lists the costs of its runs."""
    run = Squaring(12)
    store.get(run)
    (store.folder(run) / MANIFEST).write_text(content)
    with pytest.raises(StoreError, match=r"manifest\.json cannot be read; delete its folder"):
        store.manifest(run)


def test_the_result_of_another_run_is_damage(store, tmp_path, caplog):
    """One folder copied over the other."""
    one, other = (Squaring(number, notes=str(tmp_path / "notes")) for number in (3, 4))
    store.get(one)
    store.get(other)
    shutil.rmtree(store.folder(one))
    shutil.copytree(store.folder(other), store.folder(one))
    assert Store(store.root).get(one) == 9
    assert "is damaged" in caplog.text


def test_an_unlisted_file_is_damage(store, tmp_path):
    run = Squaring(12, notes=str(tmp_path / "notes"))
    store.get(run)
    write_manifest(store.folder(run), store.manifest(run) | {"files": {}})
    assert store.get(run) == 144
    assert computations(run) == 2


def test_a_manifest_older_than_a_field_is_valid(store, tmp_path):
    run = Squaring(12, notes=str(tmp_path / "notes"))
    store.get(run)
    manifest = store.manifest(run)
    older = {name: value for name, value in manifest["parameters"].items() if name != "parent"}
    write_manifest(store.folder(run), manifest | {"parameters": older})
    assert store.get(run) == 144
    assert computations(run) == 1


@pytest.mark.parametrize("changed", [{"device": "another"}, {"wall_s": 999.0}, {"sealed": "0"}])
def test_an_edited_manifest_is_damage(store, tmp_path, changed):
    run = Squaring(12, notes=str(tmp_path / "notes"))
    store.get(run)
    (store.folder(run) / MANIFEST).write_text(json.dumps({**store.manifest(run), **changed}, indent=1) + "\n")
    with pytest.raises(StoreError, match="cannot be read; delete its folder"):  # nor is it sealed again
        store.manifest(run)
    assert store.get(run) == 144
    assert computations(run) == 2
    assert store.manifest(run)["device"] != "another"


def test_a_manifest_without_its_seal_is_damage(store, tmp_path):
    run = Squaring(12, notes=str(tmp_path / "notes"))
    store.get(run)
    manifest = {name: value for name, value in store.manifest(run).items() if name != "sealed"}
    (store.folder(run) / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    assert not store.has(run)  # or it would be computed without being announced
    assert store.get(run) == 144
    assert computations(run) == 2


def test_a_flipped_bit_in_any_byte_of_a_manifest_is_detected(store):
    run = Squaring(12, Squaring(3))
    store.get(run)
    path = store.folder(run) / MANIFEST
    content = path.read_bytes()
    assert read_manifest(path.parent) == store.manifest(run)
    for at in range(len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 1 << at % 8
        path.write_bytes(flipped)
        assert read_manifest(path.parent) is None, flipped


@pytest.mark.parametrize(
    "untrue",
    [
        {"parameters": []},
        {"parameters": {}},
        {"parameters": {"run": "Squaring", "schema": 1}},
        {LEFT_OUT: ["result.txt"]},
    ],
)
def test_an_inconsistent_sealed_manifest_is_damage(store, tmp_path, untrue):
    """Missing parameters, or required files left out."""
    run = Squaring(12, notes=str(tmp_path / "notes"))
    store.get(run)
    write_manifest(store.folder(run), store.manifest(run) | untrue)
    assert Store(store.root).get(run) == 144
    assert computations(run) == 2


MISSING = object()
ENTRIES = ("parameters", "parents", "files", "created", "sameloss", "revision", "python", "torch", "device")
WRONG = [
    (name, value) for name in ENTRIES for value in (MISSING, None, 5, "x" if name == "parents" else [[]])
]
WRONG += [(name, value) for name in ("wall_s", "peak_memory_bytes") for value in (MISSING, None, "x", [5])]
WRONG += [(LEFT_OUT, value) for value in (None, 5, "x", {}, [5], [None])]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_sealed_manifest_with_a_wrong_entry_is_damage(store, tmp_path, name, value):
    """As another version of the book may write one: whoever reads it gets one sentence, no TypeError."""
    run = Squaring(12, notes=str(tmp_path / "notes"))
    store.get(run)
    manifest = store.manifest(run) | {name: value}
    if value is MISSING:
        del manifest[name]
    write_manifest(store.folder(run), manifest)
    reader = Store(store.root)
    assert not reader.has(run)
    with pytest.raises(StoreError, match="cannot be read; delete its folder"):
        reader.manifest(run)
    assert uncommitted_runs(reader, [run]) == []
    assert reader.get(run) == 144
    assert origin_of(reader, [run])["runs"] == 1


def test_a_huge_manifest_is_refused_without_being_parsed(store, monkeypatch):
    """Though it is valid: 3 MB would take ten seconds."""
    run = Squaring(12)
    store.get(run)
    notes = {"notes": ["x" * 99] * 10_000}
    write_manifest(store.folder(run), store.manifest(run) | notes)
    parsed = []
    monkeypatch.setattr(files.json, "loads", lambda content: parsed.append(content) or {})
    assert not store.has(run)
    with pytest.raises(StoreError, match="cannot be read; delete its folder"):
        store.manifest(run)
    assert parsed == []


# Atomic writes and cached hashes


@pytest.fixture
def read(monkeypatch):
    """The files that were hashed, in order."""
    paths, original = [], files._read
    monkeypatch.setattr(files, "_read", lambda path: (paths.append(path), original(path))[1])
    return paths


@pytest.fixture
def old(tmp_path):
    """A file written long ago."""
    path = tmp_path / "old"
    path.write_bytes(b"some")
    os.utime(path, (1000, 1000))
    return path


def test_an_atomic_write_joins_its_parts_and_replaces_the_file(tmp_path):
    path = tmp_path / "a"
    for content in ((b"old",), (b"new ", memoryview(b"and longer"))):
        write_atomically(path, *content)
        assert path.read_bytes() == b"".join(content)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_atomically(path, b"old")

    def fail(descriptor):
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"


def test_files_and_folders_are_synced(tmp_path):
    write_atomically(tmp_path / "a", b"content")
    write_through(tmp_path / "a")
    write_through(tmp_path)
    with pytest.raises(FileNotFoundError):
        write_through(tmp_path / "b")


def test_an_unchanged_file_is_hashed_once(old, read):
    assert {sha256(old) for _ in range(3)} == {hashlib.sha256(b"some").hexdigest()}
    assert read == [old]


def test_a_file_with_another_time_or_size_is_hashed_again(old, read):
    sha256(old)
    old.write_bytes(b"same")  # same size, another time
    os.utime(old, (2000, 2000))
    assert sha256(old) == hashlib.sha256(b"same").hexdigest()
    old.write_bytes(b"some more")
    os.utime(old, (2000, 2000))
    assert sha256(old) == hashlib.sha256(b"some more").hexdigest()
    assert len(read) == 3


def test_the_hash_of_a_just_written_file_is_not_cached(tmp_path, monkeypatch):
    """Two contents with the same size and, as on a coarse clock, the same time."""
    path, now = tmp_path / "a", time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)  # however long this takes
    for content in (b"some", b"same"):
        path.write_bytes(content)
        os.utime(path, ns=(now, now))
        assert sha256(path) == hashlib.sha256(content).hexdigest()


# Tables beside the record.


@pytest.fixture
def tables(tmp_path):
    """A folder with a table and its seal."""
    (tmp_path / TABLE).write_text("seed,kl\n0,0.25\n1,0.5\n")
    seal(tmp_path / ORIGIN, ABOUT, "*.csv")
    return tmp_path


ABOUT = {"days": ["2026-01-01", "2026-01-02"], "runs": 7, "device": ["cpu"], "revision": ["abc"]}


def replaced(before, after):
    return lambda path: path.write_text(path.read_text().replace(before, after))


def in_place(content):
    return lambda path: path.write_bytes(content)


def a_folder(path):
    path.unlink()
    path.mkdir()


BROKEN = {"cut": lambda path: os.truncate(path, path.stat().st_size // 2), "gone": Path.unlink}
BROKEN |= {"empty": in_place(b""), "no text": in_place(b"\xff"), "a folder": a_folder}

ORIGIN, TABLE = "record.json", "stages.csv"
DAMAGE = {
    "number": (TABLE, replaced("0.25", "0.26")),
    "row": (TABLE, replaced("1,0.5\n", "")),
    "column": (TABLE, replaced("kl", "loss")),
    "another table": ("pairs.csv", in_place(b"seed\n1\n")),
    "revision": (ORIGIN, replaced("abc", "def")),
    "number of runs": (ORIGIN, replaced('"runs": 7', '"runs": 8')),
    "hash": (ORIGIN, replaced("stages.csv", "pairs.csv")),
    "no seal": (ORIGIN, lambda path: path.write_text(json.dumps(ABOUT, indent=1) + "\n")),
    **{f"{name}, table": (TABLE, damage) for name, damage in BROKEN.items()},
    **{f"{name}, origin": (ORIGIN, damage) for name, damage in BROKEN.items() if name != "gone"},
    **{content: (ORIGIN, in_place(content.encode())) for content in ("[]", "5", "null", "{}", '"x"')},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_altered_table_is_refused_in_one_sentence(tables, damage):
    name, alter = DAMAGE[damage]
    alter(tables / name)
    with pytest.raises(StoreError, match=rf"^\S*/{name} is not what was recorded; restore .*\.$"):
        sealed(tables / ORIGIN, "*.csv")
