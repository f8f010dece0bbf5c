"""Whole files, and hashes that are taken once."""

import hashlib
import os
import time

import pytest

from sameloss.store import manifest as files
from sameloss.store.manifest import sha256, write_atomically, write_through


@pytest.fixture
def read(monkeypatch):
    """The files that were read for their hash, in order."""
    paths, original = [], files._read
    monkeypatch.setattr(files, "_read", lambda path: (paths.append(path), original(path))[1])
    return paths


@pytest.fixture
def old(tmp_path):
    """A file that was written a while ago."""
    path = tmp_path / "old"
    path.write_bytes(b"some")
    os.utime(path, (1000, 1000))
    return path


def test_a_file_is_written_in_parts_and_replaces_the_old_one(tmp_path):
    path = tmp_path / "a"
    for content in ((b"old",), (b"new ", memoryview(b"and longer"))):
        write_atomically(path, *content)
        assert path.read_bytes() == b"".join(content)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_atomically(path, b"old")

    def fail(descriptor):
        raise OSError("no space")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"


def test_files_and_folders_are_written_through(tmp_path):
    write_atomically(tmp_path / "a", b"content")
    write_through(tmp_path / "a")
    write_through(tmp_path)
    with pytest.raises(FileNotFoundError):
        write_through(tmp_path / "b")


def test_an_unchanged_file_is_hashed_once(old, read):
    assert {sha256(old) for _ in range(3)} == {hashlib.sha256(b"some").hexdigest()}
    assert read == [old]


def test_a_file_of_another_time_or_size_is_hashed_again(old, read):
    sha256(old)
    old.write_bytes(b"same")  # of the same size, at another time
    os.utime(old, (2000, 2000))
    assert sha256(old) == hashlib.sha256(b"same").hexdigest()
    old.write_bytes(b"some more")
    os.utime(old, (2000, 2000))
    assert sha256(old) == hashlib.sha256(b"some more").hexdigest()
    assert len(read) == 3


def test_a_file_written_a_moment_ago_is_not_remembered(tmp_path):
    """Two contents of one size and, as on a coarse clock, of one time."""
    path, now = tmp_path / "a", time.time_ns()
    for content in (b"some", b"same"):
        path.write_bytes(content)
        os.utime(path, ns=(now, now))
        assert sha256(path) == hashlib.sha256(content).hexdigest()
