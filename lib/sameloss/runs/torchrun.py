"""One training on several processes of this machine: torchrun, and what each of them runs.

    python -m torch.distributed.run --nproc-per-node=N -m sameloss.runs.torchrun JOB

is started by a run, while the store holds the run's lock.

Runs and faults are handed over as pickles. JSON would need a registry of all classes that a run can consist
of (languages, shapes, settings, also those that a test or a notebook defines) and of all faults. A pickle
runs what is in it, so it is only read by the processes of this computation: it lies in a folder that this
user alone can open, never in the store, which may be someone else's. The folder goes with the computation,
unless that is killed.
"""

import ctypes
import os
import pickle
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import distributed

from sameloss.device import best_device, peak_bytes
from sameloss.errors import ParameterError, StoreError
from sameloss.store.processes import end_with_parent
from sameloss.store.store import (
    PEAK,
    SCRATCH,
    Store,
    small_memory_explained,
    write_atomically,
    write_progress,
)
from sameloss.training.loop import Process

JOB, FAULT = "job.pickle", "fault-{rank}.pickle"


def launch(run: Any, folder: Path, root: Path, processes: int) -> None:
    """Compute a run on several processes, which write into `folder` and end with this process.

    Args:
        run: has a method `train(folder, store, report, process)`; the runs that it reads are computed.
        folder: of the computation.
        root: folder of the run store.
        processes: their number; on GPUs each has one of its own.

    Raises:
        ParameterError: where there are fewer GPUs than processes.
        Exception: whatever the first process to fail met.
        StoreError: where the processes died without saying why.

    """
    gpus = torch.cuda.device_count()
    if best_device() == "cuda" and processes > gpus:
        raise ParameterError(f"processes = {processes} needs as many GPUs; this machine has {gpus}.")
    (folder / SCRATCH).mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="sameloss-") as own:
        job = Path(own) / JOB
        job.write_bytes(pickle.dumps((run, folder, root)))
        done = _torchrun(job, processes)
        for fault in sorted(job.parent.glob(FAULT.format(rank="*")), key=lambda path: path.stat().st_mtime):
            raise pickle.loads(fault.read_bytes())
    if done.returncode:
        raise StoreError(
            f"The {processes} processes of a training ended with code {done.returncode} and did not say "
            "why, perhaps for want of memory. Run again to go on from the last saved state."
        )
    sys.stderr.write(done.stderr)


def _torchrun(job: Path, processes: int) -> subprocess.CompletedProcess[str]:
    """Start the processes and wait for their end."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [f"--nproc-per-node={processes}", "-m", "sameloss.runs.torchrun", str(job)]
    return subprocess.run(
        command,
        check=False,
        capture_output=True,  # after a fault torchrun prints a page, which the fault itself replaces
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=_terminated_with_parent,
    )


def _terminated_with_parent() -> None:
    """Ask Linux to end torchrun, which cannot watch for it, when the process that started it is killed."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)


def main(job: Path) -> None:
    """Train as one of the processes that torchrun started."""
    end_with_parent()
    run, folder, root = pickle.loads(job.read_bytes())
    torch.set_num_threads(1)
    if cuda := best_device() == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Each compiles for itself, which takes the others by surprise for minutes.
    distributed.init_process_group("nccl" if cuda else "gloo", timeout=timedelta(hours=1))
    process = Process(distributed.get_rank(), distributed.get_world_size())
    report = write_progress(folder) if process.leads else lambda fraction, text: None
    try:
        with small_memory_explained(run.kind, run.memory_advice):
            run.train(folder, Store(root), report, process)
    except Exception as error:
        write_atomically(job.parent / FAULT.format(rank=process.rank), _pickled(error))
        os._exit(1)  # torchrun ends the others; waiting for them here might be in vain
    if process.leads:
        (folder / SCRATCH / PEAK).write_text(str(peak_bytes()))
    distributed.destroy_process_group()


def _pickled(error: Exception) -> bytes:
    """Return a fault as bytes; one that cannot be pickled is told in words."""
    try:
        content = pickle.dumps(error)
        pickle.loads(content)
        return content
    except Exception:  # of an object that is someone else's anything may be raised
        return pickle.dumps(RuntimeError(repr(error)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
