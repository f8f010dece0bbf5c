"""A process whose parent is gone."""

import subprocess
import sys
import time

import psutil
import pytest

PARENT = """
import subprocess, sys

code = "import os, time; {beginning} print(os.getpid(), flush=True); time.sleep(1000)"
subprocess.run([sys.executable, "-c", code])
"""

WATCHING = "from sameloss.store.orphans import end_with_parent; end_with_parent();"


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
