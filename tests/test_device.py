"""Which device computes."""

import math
import platform
import subprocess
import sys

import pytest
import torch

from sameloss import device
from sameloss.device import (
    CHOSEN,
    DEVICES,
    best_device,
    device_name,
    memory_bytes,
    peak_memory,
    reset_peak_memory,
    usable_workers,
    use_device,
)
from sameloss.errors import ParameterError


@pytest.fixture(autouse=True)
def unchosen(monkeypatch):
    monkeypatch.setenv(CHOSEN, "")


def test_a_choice_holds_until_the_next(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert best_device() == "cuda"
    for name, expected in {"cpu": "cpu", "cuda": "cuda", "auto": "cuda"}.items():
        use_device(name)
        assert best_device() == expected
    assert set(DEVICES) == {"cpu", "cuda", "auto"}


def test_without_a_gpu_the_cpu_computes(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert best_device() == "cpu"
    assert device_name() == f"cpu {platform.machine()}"
    with pytest.raises(ParameterError, match="finds no CUDA device here; choose cpu, or auto"):
        use_device("cuda")
    assert best_device() == "cpu"


def test_the_peak_counts_what_was_held():
    use_device("cpu")
    reset_peak_memory()
    before = peak_memory()
    held = torch.ones(1 << 26)
    assert held.sum() == 1 << 26
    assert 1 << 20 < before <= peak_memory()
    assert peak_memory() >= held.nbytes


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can begin a process's peak anew")
def test_what_was_held_before_is_forgotten():
    use_device("cpu")
    torch.ones(1 << 27).sum()
    before = peak_memory()
    reset_peak_memory()
    assert peak_memory() < before - (1 << 28)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has affinities")
def test_cores_are_those_that_this_process_may_use():
    """On a machine of many, a job of one core has one worker."""
    said = "import os; os.sched_setaffinity(0, {0}); from sameloss.device import *; print(usable_workers())"
    assert subprocess.check_output([sys.executable, "-c", said], text=True) == "1\n"


def test_workers_are_as_many_as_cores_and_memory_allow(monkeypatch):
    monkeypatch.setattr(device, "usable_cores", lambda: 8)
    for gigabytes, workers in {0.5: 1, 2.5: 2, 64: 8}.items():
        monkeypatch.setattr(device, "memory_bytes", lambda gigabytes=gigabytes: gigabytes * 1e9)
        assert usable_workers() == workers
    monkeypatch.setenv(CHOSEN, "cuda")
    assert usable_workers() == 1


@pytest.mark.parametrize(("written", "most"), [("2000000000\n", 2e9), ("max\n", math.inf), (None, math.inf)])
def test_memory_is_that_of_the_container(tmp_path, monkeypatch, written, most):
    monkeypatch.setattr(device, "CGROUP_MEMORY", tmp_path / "memory.max")
    whole = memory_bytes()
    if written:
        device.CGROUP_MEMORY.write_text(written)
    assert memory_bytes() == min(whole, most)


def test_memory_is_that_of_the_process(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (2 << 30, -1))
    assert memory_bytes() == 2 << 30
