"""One training on several processes of this machine: torchrun, and what each of them runs.

    python -m torch.distributed.run --nproc-per-node=N -m sameloss.distributed JOB

is started by the run store, which holds the run's lock meanwhile.
"""

import ctypes
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import distributed

from sameloss.device import best_device
from sameloss.errors import BookError, ParameterError, StoreError
from sameloss.runs import SCRATCH, Store, small_memory_explained, write_atomically, write_progress

JOB, FAULT = "job.pickle", "fault-{rank}.pickle"


class Process(NamedTuple):
    """One of the processes of a training."""

    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """Tell whether this process writes."""
        return self.rank == 0

    def mean(self, value: float) -> float:
        """Return the mean of a number over all processes, the same on each of them."""
        if self.world == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64)
        if distributed.get_backend() == "nccl":
            total = total.cuda()
        distributed.all_reduce(total)
        return float(total) / self.world


ALONE = Process()


def launch(run: Any, folder: Path, root: Path, processes: int) -> None:
    """Compute a run on several processes; they write into `folder` and end with this process.

    Args:
        run: with a method `train(folder, store, report, process)`.
        folder: of the computation.
        root: of the run store.
        processes: how many; on GPUs one each.

    Raises:
        ParameterError: where there are fewer GPUs.
        BookError: the fault of the process that met one.
        StoreError: where the processes died without saying why.

    """
    gpus = torch.cuda.device_count()
    if best_device() == "cuda" and processes > gpus:
        raise ParameterError(f"processes = {processes} needs as many GPUs; this machine has {gpus}.")
    scratch = folder / SCRATCH
    scratch.mkdir(exist_ok=True)
    for old in scratch.glob(FAULT.format(rank="*")):
        old.unlink()
    (scratch / JOB).write_bytes(pickle.dumps((run, folder, root)))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", "-m", "sameloss.distributed", str(scratch / JOB)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, preexec_fn=_end_with_parent)
    for fault in scratch.glob(FAULT.format(rank="*")):
        raise pickle.loads(fault.read_bytes())
    if done.returncode:
        raise StoreError(
            f"The {processes} processes of a training ended with code {done.returncode}: "
            f"{_last_line(done.stderr)} Run again to go on from the last saved state."
        )


def _end_with_parent() -> None:
    """Ask Linux to end torchrun, which cannot watch for it, when the process that started it is killed."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no message."


def main(job: Path) -> None:
    """Train as one of the processes that torchrun started."""
    run, folder, root = pickle.loads(job.read_bytes())
    torch.set_num_threads(1)
    cuda = best_device() == "cuda"
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl" if cuda else "gloo")
    process = Process(distributed.get_rank(), distributed.get_world_size())
    report = write_progress(folder) if process.leads else lambda fraction, text: None
    try:
        with small_memory_explained(run):
            run.train(folder, Store(root), report, process)
    except BookError as error:
        write_atomically(job.parent / FAULT.format(rank=process.rank), pickle.dumps(error))
        raise SystemExit(1) from None
    finally:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
