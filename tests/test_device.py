"""Which device computes."""

import platform
import sys

import pytest
import torch

from sameloss.device import CHOSEN, DEVICES, best_device, device_name, forget_peak, peak_bytes, use_device
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
    forget_peak()
    before = peak_bytes()
    held = torch.ones(1 << 26)
    assert held.sum() == 1 << 26
    assert 1 << 20 < before <= peak_bytes()
    assert peak_bytes() >= held.nbytes


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can begin a process's peak anew")
def test_what_was_held_before_is_forgotten():
    use_device("cpu")
    torch.ones(1 << 27).sum()
    before = peak_bytes()
    forget_peak()
    assert peak_bytes() < before - (1 << 28)
