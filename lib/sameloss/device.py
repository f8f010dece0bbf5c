"""The device that computes, and how many runs it can take at once."""

import os
import platform
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from sameloss.errors import ParameterError

CHOSEN = "SAMELOSS_DEVICE"
"""Environment variable that passes the choice on to worker processes; empty or unset means auto."""

torch.backends.cudnn.allow_tf32 = False  # LSTMs and convolutions: in float32, too

ACCELERATOR = "cuda"
"""PyTorch's name of GPUs; tests put an emulated device in its place, so no other module names it."""

DEVICES = ("auto", "cpu", ACCELERATOR)

WORKER_BYTES = 1e9
"""Memory reserved for each worker process; the imported libraries alone take 0.4 GB."""

CGROUP_MEMORY = Path("/sys/fs/cgroup/memory.max")
"""Memory limit of a Linux container."""


def use_device(name: str) -> None:
    """Set the device of this process and its children.

    Args:
        name: one of `DEVICES`.

    Raises:
        ParameterError: for `cuda` where PyTorch finds none.

    """
    if name == ACCELERATOR and not accelerator().is_available():
        raise ParameterError(
            "device = cuda was asked for, but PyTorch finds no CUDA device here; choose cpu, or auto "
            "for the best there is."
        )
    os.environ[CHOSEN] = "" if name == "auto" else name


def best_device() -> str:
    """The chosen device; by default `cuda` where available and `cpu` otherwise."""
    return os.environ.get(CHOSEN) or (ACCELERATOR if accelerator().is_available() else "cpu")


def accelerated() -> bool:
    """Whether the chosen device is a GPU."""
    return best_device() == ACCELERATOR


def accelerator() -> Any:
    """PyTorch's module of GPUs: `torch.cuda`."""
    return torch.get_device_module(ACCELERATOR)


def device_name() -> str:
    """Name of the device that computes, as provenance has it."""
    return accelerator().get_device_name() if accelerated() else f"cpu {platform.machine()}"


def multiplies_bfloat16() -> bool:
    """Whether matrix products in bfloat16 are worth it; GPUs before Ampere emulate them."""
    return not accelerated() or accelerator().is_bf16_supported(including_emulation=False)


def holds_accelerator() -> bool:
    """Whether this process has memory on the GPU: in its exclusive mode no other process can then use it."""
    return accelerated() and accelerator().memory_reserved() > 0


def reset_peak_memory() -> None:
    """Reset the peak memory statistics; outside Linux, a CPU process keeps its lifetime peak."""
    if accelerated():
        accelerator().reset_peak_memory_stats()
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # proc(5): resets the peak resident set


def peak_memory() -> int:
    """Peak memory since `reset_peak_memory`, in bytes, of the GPU where there is one."""
    if accelerated():
        return accelerator().max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def usable_workers() -> int:
    """Number of runs to compute at once: one on a GPU, else one per core as far as memory allows."""
    by_memory = int(memory_bytes() / WORKER_BYTES)
    return 1 if accelerated() else max(1, min(usable_cores(), by_memory))


def usable_cores() -> int:
    """Cores available to this process under its affinity and its container's quota."""
    from joblib import cpu_count  # a slow import

    return cpu_count()


def device_bytes() -> float:
    """Memory of the chosen device: of the GPU, or `memory_bytes`."""
    return accelerator().get_device_properties(0).total_memory if accelerated() else memory_bytes()


def memory_bytes() -> float:
    """Memory available to this process: the machine's, or a lower limit of its container or shell."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, ValueError):  # not in a container, or no limit ("max")
        limits.append(int(CGROUP_MEMORY.read_text()))
    address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
    return min(limits + [address_space] * (address_space != resource.RLIM_INFINITY))
