"""The run store: keys, atomic results, and system errors."""

import errno
import fcntl
import json
import logging
import os
import subprocess
import sys
import tempfile
import textwrap
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import torch
import toy_runs
from toy_runs import Slow, Squaring, computations

from sameloss.device import device_name
from sameloss.errors import StoreError
from sameloss.store import store as files
from sameloss.store.location import source_hash, source_revision
from sameloss.store.store import (
    MANIFEST,
    PROGRESS,
    SCRATCH,
    Store,
    disk_faults_explained,
    environment,
    locked,
    one_thread,
    small_memory_explained,
)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "artifacts")


def test_a_result_is_computed_once(store, tmp_path):
    run = Squaring(3, notes=str(tmp_path / "notes"))
    assert [store.get(run), store.get(run), Store(store.root).get(run)] == [9, 9, 9]
    assert computations(run) == 1


def test_a_result_can_be_computed_without_being_read(store, tmp_path, monkeypatch):
    run = Squaring(3, notes=str(tmp_path / "notes"))
    monkeypatch.setattr(Squaring, "load", None)
    store.compute(run)
    store.compute(run)
    assert store.has(run)
    assert computations(run) == 1


def test_a_process_hashes_a_result_once_and_still_finds_damage(store, monkeypatch, caplog):
    run, read, original = Squaring(12), [], files._read
    monkeypatch.setattr(files, "_read", lambda path: (read.append(path), original(path))[1])
    store.get(run)
    result = store.folder(run) / "result.txt"
    os.utime(result, (1000, 1000))
    read.clear()
    assert [store.get(run) for _ in range(3)] == [144] * 3
    assert read == [result]
    result.write_text("145")
    with caplog.at_level(logging.WARNING, logger="sameloss"):
        assert store.get(run) == 144
    assert "result.txt is damaged" in caplog.text


def test_the_key_depends_on_fields_parents_class_and_schema(monkeypatch):
    run = Squaring(3, Squaring(4))
    others = [
        replace(run, number=5),
        replace(run, parent=Squaring(5)),
        replace(run, parent=None),
        Slow(3, Squaring(4)),
    ]
    keys = {run.key, *(other.key for other in others)}
    monkeypatch.setattr(Squaring, "schema", 2)
    assert len({*keys, replace(run).key}) == 6
    assert Squaring(3).key == Squaring(3).key


def test_parents_are_read_from_the_store(store, tmp_path):
    parent = Squaring(4, notes=str(tmp_path / "notes"))
    assert store.get(Squaring(3, parent)) == 25
    assert store.get(Squaring(5, parent)) == 41
    assert computations(parent) == 1
    assert store.manifest(Squaring(3, parent))["parents"] == [f"Squaring/{parent.key}"]


def test_the_manifest_records_how_it_was_made(store):
    run = Squaring(3)
    store.get(run)
    manifest = store.manifest(run)
    assert manifest["parameters"]["number"] == 3
    for fact in ("created", "device", "revision", "torch", "wall_s", "peak_memory_bytes"):
        assert fact in manifest
    assert set(manifest["files"]) == {"result.txt"}
    assert not (store.folder(run) / PROGRESS).exists()
    assert not (store.folder(run) / SCRATCH).exists()


def test_an_invalid_peak_file_is_ignored(store):
    run = Squaring(12)
    (store.partial(run) / SCRATCH).mkdir(parents=True)
    (store.partial(run) / SCRATCH / "peak.txt").write_text("much")
    assert store.get(run) == 144
    assert store.manifest(run)["peak_memory_bytes"] > 0


def test_opening_a_store_creates_no_folder(tmp_path):
    store = Store(tmp_path / "mistyped" / "artifacts")
    assert not store.has(Squaring(2))
    assert not list(tmp_path.iterdir())
    assert store.get(Squaring(2)) == 4


def test_a_kill_after_the_rename_leaves_a_clean_result(store, monkeypatch):
    run = Squaring(5)
    renamed = Path.rename

    def killed(self, target):
        renamed(self, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", killed)
    (store.partial(run) / SCRATCH).mkdir(parents=True)
    with pytest.raises(KeyboardInterrupt):
        store.get(run)
    assert sorted(path.name for path in store.folder(run).iterdir()) == [MANIFEST, "result.txt"]


def test_a_result_without_manifest_does_not_exist(store, tmp_path):
    run = Squaring(3, notes=str(tmp_path / "notes"))
    store.partial(run).mkdir(parents=True)
    for leftover in ("result.txt", MANIFEST, ".result.txt.tmp"):
        (store.partial(run) / leftover).write_text("wrong")
    assert not store.has(run)
    assert store.get(run) == 9
    assert set(store.manifest(run)["files"]) == {"result.txt"}
    assert sorted(path.name for path in store.folder(run).iterdir()) == [MANIFEST, "result.txt"]
    assert store.get(run) == 9
    assert computations(run) == 1


@dataclass(frozen=True)
class Continued(Squaring):
    """A run that resumes from a kept file."""

    resumable = frozenset({"kept.txt"})

    def compute(self, folder, store, report):
        super().compute(folder, store, report)
        found = {path.name for path in folder.iterdir()} - {PROGRESS}
        (folder / "found.txt").write_text(" ".join(sorted(found)))


def test_a_computation_begins_with_its_kept_files_only(store, tmp_path):
    run = Continued(3)
    (tmp_path / "aside").mkdir()
    folder = store.partial(run)
    (folder / SCRATCH / "state").mkdir(parents=True)
    (folder / "strange folder" / "x").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path / "aside")
    for name in ("kept.txt", "strange.txt"):
        (folder / name).write_text("before")
    store.get(run)
    assert sorted(store.manifest(run)["files"]) == ["found.txt", "kept.txt", "result.txt"]
    assert (store.folder(run) / "found.txt").read_text() == f"kept.txt result.txt {SCRATCH}"
    assert (tmp_path / "aside").exists()


@pytest.mark.parametrize("strange", ["a file", "a link"])
@pytest.mark.parametrize("place", ["folder", "partial"])
def test_a_file_in_place_of_a_folder_is_replaced(store, tmp_path, strange, place):
    run = Squaring(3)
    path = getattr(store, place)(run)
    path.parent.mkdir(parents=True)
    path.write_text("x") if strange == "a file" else path.symlink_to(tmp_path / "nowhere")
    assert store.get(run) == 9
    assert store.get(run) == 9


def test_without_file_locks_nothing_waits(store, monkeypatch):
    """On a file system whose flock is not there, a file that exists must not count as a lock."""
    store.get(Squaring(3))
    store.folder(Squaring(4)).with_suffix(".lock").touch()

    def missing(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", missing)
    assert store.get(Squaring(3)) == 9
    with pytest.raises(StoreError, match=r"^The file system of \S*/Squaring has no file locks; choose .*\.$"):
        store.get(Squaring(4))


OTHER_USER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from toy_runs import Squaring
from sameloss.store.store import Store
from sameloss.errors import StoreError
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for root, other in zip(sys.argv[2:], (4, 5)):
    for number in (3, other):
        try:
            print(Store(root).get(Squaring(number)))
        except StoreError as error:
            print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("writable", [True, False])
def test_two_users_share_a_store(writable):
    """What one has finished the other reads, and computes the rest where that is allowed; by either path."""
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        root = Path(parent) / "artifacts"
        store = Store(root)
        store.get(Squaring(3))
        for number in (4, 5):
            with locked(store.folder(Squaring(number))):
                pass  # its computation was killed
        for folder in (root, root / "Squaring"):
            folder.chmod(0o777 if writable else 0o755)
        words = [str(Path(__file__).parents[1]), root.name, str(root)]
        command = [sys.executable, "-c", OTHER_USER, *words]
        done = subprocess.run(command, cwd=parent, stdout=subprocess.PIPE, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[::2] == ["9", "9"]
    if writable:
        assert lines[1::2] == ["16", "25"]
    else:
        refused = f"The artifacts folder {root} cannot be written or made; choose another"
        assert [line.startswith(refused) for line in lines[1::2]] == [True, True]


@pytest.mark.parametrize("complete", [True, False])
def test_what_a_linked_partial_result_leads_to_is_never_touched(store, tmp_path, complete):
    run, precious = Squaring(3), tmp_path / "precious"
    store.get(run)
    store.folder(run).rename(precious)
    if not complete:
        (precious / MANIFEST).write_text("not this store's")
    (precious / SCRATCH).mkdir()
    (precious / SCRATCH / "thesis.txt").touch()
    store.partial(run).symlink_to(precious)
    before = {path: path.is_file() and path.read_text() for path in precious.rglob("*")}
    assert store.get(run) == 9
    assert {path: path.is_file() and path.read_text() for path in precious.rglob("*")} == before
    assert not store.folder(run).is_symlink()


def test_a_path_that_cannot_be_replaced_is_a_store_error(store):
    run = Squaring(3)
    store.folder(run).with_suffix(".lock").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"\.lock cannot be used \(.*\); what was computed before is kept"):
        store.get(run)
    (store.root / "Slow").write_text("x")
    with pytest.raises(StoreError, match=r"Slow cannot be used \(.*\); what was computed before is kept"):
        store.get(Slow(3))


def test_a_kill_before_the_rename_loses_nothing(store, tmp_path):
    """The manifest is written, the folder not yet renamed: the result is adopted."""
    run = Squaring(3, notes=str(tmp_path / "notes"))
    store.get(run)
    store.folder(run).rename(store.partial(run))
    assert not store.has(run)
    assert store.get(run) == 9
    assert computations(run) == 1


def test_an_unwritable_folder_is_a_store_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot be written .*parameter `artifacts`"):
        Store(tmp_path / "file" / "artifacts")


@pytest.mark.parametrize("folder", ["/proc/x", "/proc/x/y", "/proc"])
def test_a_folder_without_permission_is_a_store_error(folder):
    with pytest.raises(StoreError, match=rf"^The artifacts folder {folder} cannot be written .*`artifacts`"):
        Store(folder).compute(Squaring(3))


def test_a_full_disk_loses_nothing(tmp_path):
    """RLIMIT_FSIZE makes writes beyond 100 KB fail as a full disk does.

    Without bytecode (-B): what Python compiles under the limit it would cut off in the environment, for good.
    """
    script = """
        import resource, sys
        sys.path.insert(0, "TESTS")
        from toy_runs import TINY, Big, Squaring
        from sameloss.runs.sampling import HeldOutConditionals
        from sameloss.runs.sampling import CorpusSampling
        from sameloss.errors import StoreError
        from sameloss.store.store import Store

        store = Store("ROOT")
        store.get(Squaring(3))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        for run in (Big("a"), CorpusSampling(TINY, 50_000, 0), HeldOutConditionals(TINY, 2_000, 0)):
            try:
                store.get(run)
            except StoreError as error:
                print(error)
        assert store.get(Squaring(3)) == 9 and not store.has(Big("a"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert store.get(Big("a")) == 1 << 20
    """
    script = script.replace("TESTS", str(Path(toy_runs.__file__).parent)).replace("ROOT", str(tmp_path / "a"))
    done = subprocess.run(
        [sys.executable, "-B", "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("No space left in the artifacts folder") == 3
    assert "what was computed before is kept" in done.stdout


def test_keys_are_plain_json():
    assert json.loads(json.dumps(Squaring(3, Squaring(4)).canonical()))["parent"]["run"] == "Squaring"


# Threads, memory and disk


def test_one_thread_restores_the_number_of_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with suppress(KeyError), one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_lack_of_memory_is_a_store_error_with_advice():
    sentence = r"^The memory of this device \(.+\) is too small for Squaring; choose 7\. What was computed"
    with pytest.raises(StoreError, match=sentence), small_memory_explained("Squaring", "choose 7"):
        raise torch.OutOfMemoryError


@pytest.mark.parametrize(
    "computed", [lambda: torch.empty(10**15), lambda: np.empty(10**17), lambda: bytearray(10**18)]
)
def test_a_lack_of_memory_of_the_cpu_is_a_store_error(computed):
    with pytest.raises(StoreError, match="is too small for Squaring"), small_memory_explained("Squaring", ""):
        computed()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
def test_a_full_disk_is_a_store_error_with_the_folder(tmp_path, number):
    sentence = f"^No space left in the artifacts folder {tmp_path}; .*parameter `artifacts`"
    with pytest.raises(StoreError, match=sentence), disk_faults_explained(tmp_path):
        raise OSError(number, "full")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_are_a_store_error_with_advice(tmp_path, number):
    for named in ((), (str(tmp_path / "x"),)):
        with pytest.raises(StoreError, match=r"ulimit -n.*fewer `workers`"), disk_faults_explained(tmp_path):
            raise OSError(number, "Too many open files", *named)


def test_an_unusable_path_is_a_store_error_with_the_path(tmp_path):
    (tmp_path / "file").touch()
    sentence = rf"^{tmp_path}/file/run cannot be used \(Not a directory\); what was computed before is kept"
    with pytest.raises(StoreError, match=sentence), disk_faults_explained(tmp_path):
        (tmp_path / "file" / "run").mkdir()


def test_an_unusable_parent_folder_is_a_store_error(tmp_path):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "artifacts"
    with pytest.raises(StoreError, match="file cannot be used"), disk_faults_explained(folder):
        folder.parent.mkdir()


@pytest.mark.parametrize(
    "fault",
    [
        lambda folder: FileNotFoundError(errno.ENOENT, "missing", str(folder / "x")),  # a bug
        lambda folder: PermissionError(errno.EACCES, "elsewhere", "/elsewhere"),
        lambda folder: OSError(errno.ENOSPC, "full", "/elsewhere"),
        lambda folder: BrokenPipeError(errno.EPIPE, "no file at all"),
    ],
)
def test_errors_outside_the_folder_are_not_translated(tmp_path, fault):
    with pytest.raises(OSError, match=r"missing|elsewhere|no file") as met, disk_faults_explained(tmp_path):
        raise fault(tmp_path)
    assert not isinstance(met.value, StoreError)


def test_a_store_error_is_not_translated(tmp_path):
    with pytest.raises(StoreError, match=r"^said$"), disk_faults_explained(tmp_path):
        raise StoreError("said")


def test_other_errors_are_not_translated(tmp_path):
    for guard in (disk_faults_explained(tmp_path), small_memory_explained("Squaring", "")):
        with pytest.raises(PermissionError), guard:
            raise PermissionError(errno.EACCES, "not yours")
    with pytest.raises(RuntimeError, match=r"^another$"), small_memory_explained("Squaring", ""):
        raise RuntimeError("another")


def test_the_environment_has_time_versions_and_device():
    before = datetime.now(UTC).replace(microsecond=0)
    found = environment()
    assert before <= datetime.fromisoformat(found.pop("created")) <= datetime.now(UTC)
    assert found.pop("python").startswith("3.")
    assert found == {
        "sameloss": "0.1.0",
        "revision": source_revision(),
        "source": source_hash(),
        "torch": torch.__version__,
        "device": device_name(),
    }
