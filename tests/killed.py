"""A run that is killed in the middle, as a power cut would end it."""

import pickle
import subprocess
import sys
import textwrap

SCRIPT = """
    import os, pickle, signal
    from sameloss.store.store import Store

    run = pickle.loads(bytes.fromhex("RUN"))
    store = Store("ROOT")
    for parent in run.parents():
        store.get(parent)

    def report(fraction, text):
        if fraction >= FRACTION:
            os.kill(os.getpid(), signal.SIGKILL)

    store.get(run, report)
"""


def kill(run, root, fraction):
    """Compute a run in a process of its own, which dies at the first report of so much or more."""
    script = textwrap.dedent(SCRIPT)
    for name, value in {"ROOT": root, "RUN": pickle.dumps(run).hex(), "FRACTION": fraction}.items():
        script = script.replace(name, str(value))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
