"""Which device computes: the best there is, or the one asked for; and how many runs at once."""

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

torch.backends.cudnn.allow_tf32 = False  # LSTMs and convolutions: float32 means float32, as of products

DEVICES = ("auto", "cpu", "cuda")

WORKER_BYTES = 1e9
"""Memory that a worker process may need; the libraries alone take 0.4 GB."""

CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")
"""Where Linux keeps the limit of a container."""


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


def usable_workers() -> int:
    """Return how many runs to compute at once: on a GPU one, else one a core, as far as there is memory."""
    by_memory = int(memory_bytes() / WORKER_BYTES)
    return 1 if best_device() == "cuda" else max(1, min(usable_cores(), by_memory))


def usable_cores() -> int:
    """Return how many cores this process may use, by its affinity and the quota of its container."""
    from joblib import cpu_count  # whose import takes a good part of a second

    return cpu_count()


def memory_bytes() -> float:
    """Return the memory that this process may use: the machine's, or less in a container or under a limit."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, ValueError):  # no container, or "max"
        limits.append(int(CGROUP_MEMORY.read_text()))
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    return min(limits + [address_space] * (address_space != resource.RLIM_INFINITY))
