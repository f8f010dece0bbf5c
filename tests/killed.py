"""A run that is killed in the middle, as a power cut would end it."""

import os
import pickle
import signal
import subprocess
import sys

from campaign.children import Child

from sameloss.store.store import Store

ELSEWHERE = """
import pickle, sys
sys.path[:0] = {path}
from killed import die
die(pickle.loads(bytes.fromhex("{run}")), "{root}", {fraction})
"""


def die(run, root, fraction):
    """Compute a run and what it reads; this process ends at the first report of so much or more."""
    store = Store(root)
    for parent in run.parents():
        store.get(parent)

    def report(done, text):
        if done >= fraction:
            os.kill(os.getpid(), signal.SIGKILL)

    store.get(run, report)


def kill(run, root, fraction):
    """Let a child of this process die so."""
    root.mkdir(exist_ok=True)
    child = Child(lambda: die(run, root, fraction), root.parent).wait()
    assert child.killed, child.fault


def kill_elsewhere(run, root, fraction):
    """Let an interpreter of its own die so, which has nothing of this one."""
    given = {"path": sys.path, "run": pickle.dumps(run).hex(), "root": root, "fraction": fraction}
    command = [sys.executable, "-c", ELSEWHERE.format(**given)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
