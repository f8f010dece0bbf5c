"""Training in several processes of one machine: starting torchrun, and what each process runs.

    python -m torch.distributed.run --nnodes=1 --nproc-per-node=N -m sameloss.runs.torchrun JOB

is started by a run while the store holds the run's lock.

Runs and exceptions are passed as pickles: JSON would need a registry of all classes that a run can contain
(languages, shapes, settings, also those defined in tests or notebooks). Since loading a
pickle can execute code, pickles never lie in the store, which may be shared, but in a temporary folder that
only this user can open and that is removed after the computation, unless that is killed.
"""

import ctypes
import os
import pickle
import re
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import distributed

from sameloss.device import accelerated, accelerator, peak_memory
from sameloss.errors import BookError, ParameterError, StoreError
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

FAULT = "fault-{rank}.pickle"


def launch(run: Any, folder: Path, root: Path, processes: int) -> None:
    """Compute a run in several processes, which end when this process does.

    Args:
        run: has a method `train(folder, store, report, process)`; its parents have been computed.
        folder: where the result is written.
        root: folder of the store.
        processes: their number; each needs a GPU of its own if the device is CUDA.

    Raises:
        ParameterError: if there are fewer GPUs than processes.
        BookError: that of the first process to fail, as any OSError; other exceptions become a RuntimeError.
        StoreError: if processes died without an exception.

    """
    gpus = accelerator().device_count()
    if accelerated() and processes > gpus:
        raise ParameterError(f"processes = {processes} needs as many GPUs; this machine has {gpus}.")
    (folder / SCRATCH).mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="sameloss-") as private:
        job = Path(private) / "job.pickle"
        job.write_bytes(pickle.dumps((run, folder, root)))
        done = _torchrun(job, processes)
        faults = sorted(job.parent.glob(FAULT.format(rank="*")), key=lambda path: path.stat().st_mtime)
        if faults:
            raise pickle.loads(faults[0].read_bytes())
    sys.stderr.write(done.stderr)
    if done.returncode:
        raise StoreError(
            f"The {processes} processes of a training ended with code {done.returncode} "
            f"({_reason(done.stderr)}). Run again to resume from the last saved state."
        )


def _reason(printed: str) -> str:
    """What ended a process: the last line of its traceback, or its signal."""
    lines = re.findall(r"^(?:\[rank\d+\]: )?([\w.]*(?:Error|Exception)\b.*)$", printed, re.MULTILINE)
    if own := [line for line in lines if "ChildFailedError" not in line]:  # which is torchrun's
        return own[-1].strip()
    signals = re.findall(r"Signal \d+ \((?!SIGTERM)\w+\)", printed)  # torchrun sends SIGTERM to the others
    if not signals:
        return "no explanation, perhaps for lack of memory"
    return signals[-1] + (", perhaps for lack of memory" if "SIGKILL" in signals[-1] else "")


def _torchrun(job: Path, processes: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [
        "--local-addr=127.0.0.1",
        "--nnodes=1",
        f"--nproc-per-node={processes}",
        "-m",
        "sameloss.runs.torchrun",
        str(job),
    ]
    # Clusters set defaults of torchrun, for trainings on several machines.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PET_")}
    return subprocess.run(
        command,
        check=False,
        capture_output=True,  # torchrun prints a page about an exception, which `launch` raises instead
        text=True,
        env={**inherited, "OMP_NUM_THREADS": "1"},
        preexec_fn=_terminated_with_parent,
    )


def _terminated_with_parent() -> None:
    """Have Linux end torchrun, which does not watch its parent, when the parent is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def main(job: Path) -> None:
    """Train as one of the processes that torchrun started."""
    end_with_parent()
    run, folder, root = pickle.loads(job.read_bytes())
    torch.set_num_threads(1)
    process = Process(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    report = write_progress(folder) if process.leads else lambda fraction, text: None
    try:
        if accelerated():
            accelerator().set_device(int(os.environ["LOCAL_RANK"]))
        # Each process compiles for itself, so that others may wait for minutes.
        distributed.init_process_group("nccl" if accelerated() else "gloo", timeout=timedelta(hours=1))
        with small_memory_explained(run.kind, run.memory_advice):
            run.train(folder, Store(root), report, process)
    except Exception as error:
        portable = error if isinstance(error, BookError | OSError) else RuntimeError(repr(error))
        write_atomically(job.parent / FAULT.format(rank=process.rank), pickle.dumps(portable))
        os._exit(1)  # torchrun ends the others, for which this process might wait in vain
    if process.leads:
        (folder / SCRATCH / PEAK).write_text(str(peak_memory()))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
