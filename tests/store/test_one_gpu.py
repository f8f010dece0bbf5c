"""Commands on a GPU each."""

import os
import select
import subprocess
import sys

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
    command = [sys.executable, "-m", "sameloss.store.one_gpu", sys.executable, "-c", says]
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
