"""Commands on a GPU each."""

import os
import select
import subprocess
import sys
import time

import psutil
import pytest


@pytest.fixture
def machine(tmp_path):
    """An environment in which `nvidia-smi` lists two GPUs."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf 'GPU-a\\nGPU-b\\n'\n")
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    return {**kept, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}


def on_a_gpu(environment):
    """Start a command that says which GPU it has and ends at the end of its input."""
    says = "import os, sys; print(os.environ.get('CUDA_VISIBLE_DEVICES'), flush=True); sys.stdin.read()"
    command = [sys.executable, "-m", "sameloss.store.processes", sys.executable, "-c", says]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes)


def test_jobs_at_once_have_a_gpu_each_and_a_third_waits(machine):
    first, second = on_a_gpu(machine), on_a_gpu(machine)
    held = {job: job.stdout.readline().strip() for job in (first, second)}
    assert sorted(held.values()) == ["GPU-a", "GPU-b"]
    third = on_a_gpu(machine)
    assert not select.select([third.stdout], [], [], 3)[0]
    first.kill()  # as a user might: the lock must not outlive the job
    assert third.communicate(timeout=60)[0].strip() == held[first]
    second.communicate(timeout=60)
    first.communicate(timeout=60)


@pytest.mark.parametrize(("allowed", "expected"), [("1", "GPU-b"), ("GPU-a", "GPU-a"), ("", "")])
def test_only_an_allowed_gpu_is_taken(machine, allowed, expected):
    job = on_a_gpu({**machine, "CUDA_VISIBLE_DEVICES": allowed})
    assert job.communicate(timeout=60)[0].strip() == expected


def test_without_a_gpu_nothing_is_set(tmp_path):
    kept = {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}
    environment = {**kept, "PATH": str(tmp_path), "TMPDIR": str(tmp_path)}
    assert on_a_gpu(environment).communicate(timeout=60)[0].strip() == "None"
    assert not list(tmp_path.iterdir())


# A process whose parent is gone.


PARENT = """
import subprocess, sys

code = "import os, time; {beginning} print(os.getpid(), flush=True); time.sleep(1000)"
subprocess.run([sys.executable, "-c", code])
"""

WATCHING = "from sameloss.store.processes import end_with_parent; end_with_parent();"


def child_of_a_killed(beginning):
    """Kill the parent of a process that has begun, and return that process."""
    command = [sys.executable, "-c", PARENT.format(beginning=beginning)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    return child


def test_a_process_that_watches_ends_with_its_parent():
    child = child_of_a_killed(WATCHING)
    end = time.monotonic() + 60
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, "the orphan goes on"
        time.sleep(0.05)


def test_so_does_one_whose_parent_had_died_before_it_could_look():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    code = (
        WATCHING.replace("end_with_parent();", f"end_with_parent({gone.pid});")
        + "import time; time.sleep(1000)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 1


def test_another_one_does_not():
    child = child_of_a_killed("")
    with pytest.raises(psutil.TimeoutExpired):
        child.wait(timeout=1)
    child.kill()
