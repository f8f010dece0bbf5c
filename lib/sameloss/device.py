"""Which device computes: the best there is, or the one asked for."""

import os
import platform
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

from sameloss.errors import ParameterError

CHOSEN = "SAMELOSS_DEVICE"
"""The variable that hands the choice on to worker processes; empty or unset: the best there is."""

DEVICES = ("auto", "cpu", "cuda")


def use_device(name: str) -> None:
    """Choose the device of this process and of those it starts.

    Args:
        name: one of `DEVICES`.

    Raises:
        ParameterError: for `cuda` where PyTorch finds none.

    """
    if name == "cuda" and not torch.cuda.is_available():
        raise ParameterError(
            "device = cuda was asked for, but PyTorch finds no CUDA device here; choose cpu, or auto "
            "for the best there is."
        )
    os.environ[CHOSEN] = "" if name == "auto" else name


def best_device() -> str:
    """Return the device asked for, or where none was, `cuda` if there is one and else `cpu`."""
    return os.environ.get(CHOSEN) or ("cuda" if torch.cuda.is_available() else "cpu")


def device_name() -> str:
    """Return the name of the device that runs are computed on."""
    return torch.cuda.get_device_name() if best_device() == "cuda" else f"cpu {platform.machine()}"


def forget_peak() -> None:
    """Begin the peak of memory anew; on a CPU that is not under Linux it stays that of the whole process."""
    if best_device() == "cuda":
        torch.cuda.reset_peak_memory_stats()
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # proc(5): resets the peak resident set


def peak_bytes() -> int:
    """Return the largest memory in bytes in use since `forget_peak`, of the GPU where there is one."""
    if best_device() == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
