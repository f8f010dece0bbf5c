"""Worker processes: order, errors and kills; commands that share GPUs."""

import os
import pickle
import select
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import toy_runs
from quick_workers import quick_workers
from toy_runs import Sleeping, Squaring

from sameloss.errors import NonFiniteLoss, StoreError
from sameloss.store.pool import _keep_busy, compute_all
from sameloss.store.store import Run, Store, with_ancestors


def get_all(store, runs, workers=None):
    """Compute missing runs; return results in order."""
    compute_all(store, runs, workers)
    return [store.get(run) for run in runs]


@dataclass(frozen=True)
class Failing(Run):
    """A run that raises or is killed."""

    how: str

    def compute(self, folder, store, report):
        if self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise NonFiniteLoss("The loss is nan at step 3")

    def load(self, folder):
        raise AssertionError


class InOrder(Executor):
    """One worker that finishes every run at once, and remembers them."""

    def __init__(self):
        self.numbers = []

    def submit(self, function, store, run):
        self.numbers.append(pickle.loads(run).number)
        (future := Future()).set_result(None)
        return future


def order(store, runs):
    worker = InOrder()
    _keep_busy(worker, 1, store, with_ancestors(runs))
    return worker.numbers


def test_parents_come_first(tmp_path):
    grandparent, parent = Squaring(1), Squaring(2, Squaring(1))
    assert order(Store(tmp_path), [Squaring(3, parent), grandparent]) == [1, 2, 3]


@dataclass(frozen=True)
class Weighed(Squaring):
    """A run whose effort is its number."""

    @property
    def effort(self):
        return float(self.number)


def test_the_longest_chain_begins_first(tmp_path):
    """4 and then 9 outweigh 10; longer runs go before shorter ones."""
    runs = [Weighed(10), Weighed(9, Weighed(4)), Weighed(1, Weighed(2))]
    assert order(Store(tmp_path), runs) == [4, 10, 9, 2, 1]


def test_results_come_in_the_order_of_their_runs(tmp_path):
    runs = [Squaring(n, Squaring(1)) for n in (5, 2, 3)]
    assert get_all(Store(tmp_path), runs, workers=2) == [26, 5, 10]
    assert get_all(Store(tmp_path), runs) == [26, 5, 10]


@dataclass(frozen=True)
class Unreadable(Squaring):
    """A run whose result cannot be read."""

    def load(self, folder):
        raise AssertionError


def test_results_can_be_computed_without_being_read(tmp_path):
    store, runs = Store(tmp_path), [Unreadable(3, Squaring(1)), Unreadable(4)]
    with quick_workers():
        compute_all(store, iter(runs), workers=1)
    assert all(map(store.has, [*runs, Squaring(1)]))
    with pytest.raises(AssertionError):
        get_all(store, runs)


def test_without_missing_runs_no_process_starts(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.compute(Squaring(2))
    monkeypatch.setattr("sameloss.store.pool.ProcessPoolExecutor", None)
    compute_all(store, [Squaring(2)])
    assert get_all(store, [Squaring(2)]) == [4]


@pytest.mark.parametrize(("number", "workers"), [(3, None), (12, None), (3, 1)])
def test_short_work_is_done_in_the_calling_process(tmp_path, monkeypatch, number, workers):
    """Efforts of 1 and 3 s are less than starting processes takes, 1 and 12 s are more."""
    asked = []

    def no_pool(count, *_, **__):
        asked.append(count)
        raise BrokenProcessPool

    monkeypatch.setattr("sameloss.store.pool.ProcessPoolExecutor", no_pool)
    monkeypatch.setattr("sameloss.store.pool.usable_workers", lambda: 7)
    store, run = Store(tmp_path), Weighed(number, Squaring(1))
    if (number, workers) == (3, None):
        compute_all(store, [run])
        assert store.get(run) == 10
    else:
        with pytest.raises(BrokenProcessPool):
            compute_all(store, [run], workers)
        assert asked == [workers or 7]


def test_errors_of_the_library_propagate_and_finished_runs_are_kept(tmp_path):
    store = Store(tmp_path)
    with quick_workers(), pytest.raises(NonFiniteLoss, match="nan at step 3") as caught:
        get_all(store, [Squaring(2), Failing("nan")], workers=1)
    assert caught.value.__cause__ is None
    assert store.has(Squaring(2))
    assert not store.has(Failing("nan"))


def test_a_killed_worker_is_a_store_error(tmp_path):
    with quick_workers(), pytest.raises(StoreError, match="A worker process was killed"):
        get_all(Store(tmp_path), [Failing("killed")], workers=1)


ORPHANED = """
import sys
from toy_runs import Sleeping
from sameloss.store.pool import compute_all
from sameloss.store.store import Store

if __name__ == "__main__":
    compute_all(Store(sys.argv[1]), [Sleeping()], workers=1)
"""


def test_a_killed_parent_leaves_no_worker_behind(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(ORPHANED)
    environment = {**os.environ, "PYTHONPATH": str(Path(toy_runs.__file__).parent)}
    parent = subprocess.Popen([sys.executable, script, tmp_path], env=environment)
    told = Store(tmp_path).partial(Sleeping()) / "pid"
    _wait(lambda: told.exists() and told.read_text())
    worker = int(told.read_text())
    parent.kill()
    parent.wait()
    _wait(lambda: not psutil.pid_exists(worker) or psutil.Process(worker).status() == psutil.STATUS_ZOMBIE)


def _wait(condition, limit_s=600):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


# Commands with one GPU each


@pytest.fixture
def machine(tmp_path):
    """An environment whose `nvidia-smi` lists two GPUs."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf 'GPU-a\\nGPU-b\\n'\n")
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return {**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}


def on_a_gpu(environment):
    """Start a command that prints its GPU and ends with its input."""
    says = "import os, sys; print(os.environ.get('CUDA_VISIBLE_DEVICES'), flush=True); sys.stdin.read()"
    command = [sys.executable, "-m", "sameloss.store.processes", sys.executable, "-c", says]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes)


def test_concurrent_jobs_have_one_gpu_each_and_a_third_waits(machine):
    first, second = on_a_gpu(machine), on_a_gpu(machine)
    held = {job: job.stdout.readline().strip() for job in (first, second)}
    assert sorted(held.values()) == ["GPU-a", "GPU-b"]
    third = on_a_gpu(machine)
    assert not select.select([third.stdout], [], [], 3)[0]
    first.kill()  # the lock must not outlive the job
    assert third.communicate(timeout=600)[0].strip() == held[first]
    second.communicate(timeout=600)
    first.communicate(timeout=600)


@pytest.mark.parametrize(("allowed", "expected"), [("1", "GPU-b"), ("GPU-a", "GPU-a"), ("", "")])
def test_only_visible_gpus_are_used(machine, allowed, expected):
    job = on_a_gpu({**machine, "CUDA_VISIBLE_DEVICES": allowed})
    assert job.communicate(timeout=600)[0].strip() == expected


def test_without_a_gpu_nothing_is_set(tmp_path):
    kept = {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
    environment = {**kept, "PATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    assert on_a_gpu(environment).communicate(timeout=600)[0].strip() == "None"
    assert not list(tmp_path.iterdir())


# Processes that outlive their parent


PARENT = """
import subprocess, sys

code = "import os, time; {beginning} print(os.getpid(), flush=True); time.sleep(1000)"
subprocess.run([sys.executable, "-c", code])
"""

WATCHING = "from sameloss.store.processes import end_with_parent; end_with_parent();"


def child_of_a_killed(beginning):
    """Start a process, kill its parent, and return the process."""
    command = [sys.executable, "-c", PARENT.format(beginning=beginning)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    return child


def test_a_watching_process_ends_with_its_parent():
    child = child_of_a_killed(WATCHING)
    end = time.monotonic() + 600
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, "the orphan goes on"
        time.sleep(0.05)


def test_a_watching_process_ends_if_its_parent_died_before_it_started():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    code = (
        WATCHING.replace("end_with_parent();", f"end_with_parent({gone.pid});")
        + "import time; time.sleep(1000)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=600, check=False).returncode == 1


def test_a_process_that_does_not_watch_survives_its_parent():
    child = child_of_a_killed("")
    with pytest.raises(psutil.TimeoutExpired):
        child.wait(timeout=1)
    child.kill()
