"""What a computation may take of the machine: one thread, and the memory and the disk there is."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from sameloss.device import device_name
from sameloss.errors import StoreError


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread, so that a result does not depend on the number of cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


NO_MEMORY = "can't allocate memory"
"""What torch's allocator says on a CPU, among other things."""


@contextmanager
def small_memory_explained(kind: str, advice: str) -> Iterator[None]:
    """Turn a lack of memory into one sentence that says what takes less.

    Args:
        kind: what is computed.
        advice: what would take less memory.

    Raises:
        StoreError: in the place of torch's `OutOfMemoryError`, on a CPU a plain `RuntimeError`, and of
            Python's and NumPy's `MemoryError`.

    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and NO_MEMORY not in str(error):
            raise
        raise StoreError(
            f"The memory of this device ({device_name()}) is too small for {kind}; {advice}. "
            "What was computed before is kept."
        ) from error


FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)

IN_THE_WAY = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)
"""What the system says of a file or a folder that is another's, or not what it should be."""


@contextmanager
def disk_faults_explained(folder: Path) -> Iterator[None]:
    """Turn a lack of space, or something in this folder that cannot be used, into one sentence.

    Raises:
        StoreError: in the place of the system's error.

    """
    try:
        yield
    except OSError as error:
        named = error.filename is not None and Path(str(error.filename))
        within = named and (named.is_relative_to(folder) or folder.is_relative_to(named))
        if error.errno in FULL and (within or error.filename is None):
            raise StoreError(
                f"No space left in the artifacts folder {folder}; what was computed before is kept. "
                "Free some space, or choose another folder with the parameter `artifacts`."
            ) from error
        if error.errno not in IN_THE_WAY or not within:
            raise
        raise StoreError(
            f"{error.filename} cannot be used ({error.strerror}); what was computed before is kept. "
            "Move it away, or choose another folder with the parameter `artifacts`."
        ) from error
