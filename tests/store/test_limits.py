"""One thread, too little memory, a full disk."""

import errno
from contextlib import suppress

import numpy as np
import pytest
import torch

from sameloss.errors import StoreError
from sameloss.store.limits import disk_faults_explained, one_thread, small_memory_explained


def test_one_thread_and_then_as_many_as_before():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with suppress(KeyError), one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_lack_of_memory_is_one_sentence_with_advice():
    sentence = r"^The memory of this device \(.+\) is too small for Squaring; choose 7\. What was computed"
    with pytest.raises(StoreError, match=sentence), small_memory_explained("Squaring", "choose 7"):
        raise torch.OutOfMemoryError


@pytest.mark.parametrize(
    "computed", [lambda: torch.empty(10**15), lambda: np.empty(10**17), lambda: bytearray(10**18)]
)
def test_so_is_one_of_a_processor(computed):
    with pytest.raises(StoreError, match="is too small for Squaring"), small_memory_explained("Squaring", ""):
        computed()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EDQUOT])
def test_a_full_disk_is_one_sentence_with_the_folder(tmp_path, number):
    sentence = f"^No space left in the artifacts folder {tmp_path}; .*parameter `artifacts`"
    with pytest.raises(StoreError, match=sentence), disk_faults_explained(tmp_path):
        raise OSError(number, "full")


def test_something_in_the_way_is_one_sentence_with_its_path(tmp_path):
    (tmp_path / "file").touch()
    sentence = rf"^{tmp_path}/file/run cannot be used \(Not a directory\); what was computed before is kept"
    with pytest.raises(StoreError, match=sentence), disk_faults_explained(tmp_path):
        (tmp_path / "file" / "run").mkdir()


def test_so_is_something_above_the_folder(tmp_path):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "artifacts"
    with pytest.raises(StoreError, match="file cannot be used"), disk_faults_explained(folder):
        folder.parent.mkdir()


@pytest.mark.parametrize(
    "fault",
    [
        lambda folder: FileNotFoundError(errno.ENOENT, "missing", str(folder / "x")),  # the code's own fault
        lambda folder: PermissionError(errno.EACCES, "elsewhere", "/elsewhere"),
        lambda folder: OSError(errno.ENOSPC, "full", "/elsewhere"),
        lambda folder: BrokenPipeError(errno.EPIPE, "no file at all"),
    ],
)
def test_what_is_not_the_folders_fault_stays_what_it_is(tmp_path, fault):
    with pytest.raises(OSError, match=r"missing|elsewhere|no file") as met, disk_faults_explained(tmp_path):
        raise fault(tmp_path)
    assert not isinstance(met.value, StoreError)


def test_a_sentence_is_not_said_twice(tmp_path):
    with pytest.raises(StoreError, match=r"^said$"), disk_faults_explained(tmp_path):
        raise StoreError("said")


def test_other_faults_stay_what_they_are(tmp_path):
    for guard in (disk_faults_explained(tmp_path), small_memory_explained("Squaring", "")):
        with pytest.raises(PermissionError), guard:
            raise PermissionError(errno.EACCES, "not yours")
    with pytest.raises(RuntimeError, match=r"^another$"), small_memory_explained("Squaring", ""):
        raise RuntimeError("another")
