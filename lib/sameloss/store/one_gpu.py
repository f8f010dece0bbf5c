"""Run a command on a GPU of its own: no two commands started this way share one.

python -m sameloss.store.one_gpu papermill ...

Each GPU has a lock file, held as long as the command runs and given back by the system however it
ends. Where there is no GPU the command runs as it is.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

POLL_S = 1.0


def visible_gpus() -> list[str]:
    """Return the UUIDs of the GPUs that CUDA may use here.

    UUIDs and not indices: inside a Slurm job or a container indices begin at 0 for every GPU.
    """
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    return listed if allowed is None else _chosen(listed, allowed)


def _chosen(listed: Sequence[str], allowed: str) -> list[str]:
    """Return what `CUDA_VISIBLE_DEVICES` allows, indices made UUIDs.

    >>> _chosen(["GPU-a", "GPU-b"], "1"), _chosen(["GPU-a"], "MIG-c"), _chosen(["GPU-a"], "")
    (['GPU-b'], ['MIG-c'], [])
    """
    names = {str(index): gpu for index, gpu in enumerate(listed)}
    words = [names.get(word.strip(), word.strip()) for word in allowed.split(",")]
    return [word for word in words if word.startswith(("GPU-", "MIG-"))]


def hold_one(gpus: Sequence[str], folder: Path) -> str:
    """Wait until one of the GPUs is free, and hold it until this process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        for gpu in gpus:
            if _hold(folder / f"{gpu}.lock"):
                return gpu
        time.sleep(POLL_S)


def _hold(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    os.set_inheritable(descriptor, True)  # else the lock would end where the command begins
    return True


def main() -> None:
    """Become the given command."""
    gpus = visible_gpus()
    if gpus:
        locks = Path(tempfile.gettempdir()) / f"sameloss-gpus-{os.getuid()}"
        os.environ["CUDA_VISIBLE_DEVICES"] = hold_one(gpus, locks)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
