"""Worker processes that end with their parent, and commands with a GPU of their own.

python -m sameloss.store.processes papermill ...

runs a command on a GPU that no other command started this way uses: a lock file per GPU is held while the
command runs and released by the system however it ends. Without a GPU the command simply runs.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

POLL_S = 0.5


def end_with_parent(parent: int | None = None) -> None:
    """Exit when the parent process is gone, so that a killed notebook leaves no worker behind.

    Args:
        parent: its process ID; None: the current parent, which is another one if the parent died while
            this process was starting.

    """
    parent = os.getppid() if parent is None else parent

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_S)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def visible_gpus() -> list[str]:
    """UUIDs of the GPUs that CUDA may use: in a Slurm job or container, every GPU has index 0."""
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(listed)).split(",")
    by_index = {str(index): gpu for index, gpu in enumerate(listed)}
    chosen = [by_index.get(word.strip(), word.strip()) for word in allowed]
    return [gpu for gpu in chosen if gpu.startswith(("GPU-", "MIG-"))]


def hold_one(gpus: list[str], folder: Path) -> str:
    """Wait for a free GPU and lock it until this process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    locks = {gpu: os.open(folder / f"{gpu}.lock", os.O_RDWR | os.O_CREAT) for gpu in gpus}
    while True:
        for gpu, descriptor in locks.items():
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            os.set_inheritable(descriptor, True)  # the lock has to survive exec
            return gpu
        time.sleep(POLL_S)


if __name__ == "__main__":
    if gpus := visible_gpus():
        locks = Path(tempfile.gettempdir()) / f"sameloss-gpus-{os.getuid()}"
        os.environ["CUDA_VISIBLE_DEVICES"] = hold_one(gpus, locks)
    os.execvp(sys.argv[1], sys.argv[1:])
