"""Training in two processes: the same loss, resumption after a kill bit for bit, and all speed options."""

import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import psutil
import pytest
from stores import with_copies

from sameloss.errors import NonFiniteLoss, StoreError
from sameloss.languages import PCFGSpec
from sameloss.measures.saturation import divergences
from sameloss.models.encoder import EncoderShape
from sameloss.runs import torchrun
from sameloss.runs.pretraining import Pretraining
from sameloss.runs.sampling import CorpusSampling, HeldOutConditionals
from sameloss.store.store import Store
from sameloss.training.loop import Execution, Optimisation

pytestmark = pytest.mark.book  # each training starts three interpreters


@pytest.fixture
def run(tiny_spec):
    return Pretraining(
        corpus=CorpusSampling(tiny_spec, 300, seed=0),
        shape=EncoderShape(8, 2, 1, 16),
        optimisation=Optimisation(steps=300, batch=16, lr=1e-2),
        seed=0,
        checkpoints=(100, 300),
        micro_batch=4,
        resume_every=50,
        dtype="float64",
    )


@pytest.fixture
def parted(run):
    return replace(run, execution=Execution(processes=2))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store in which nothing is killed."""
    return Store(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def of_a_cluster(monkeypatch):
    """The defaults of torchrun in a pod of a training on two machines."""
    for name, value in {"NNODES": "2", "NPROC_PER_NODE": "4", "NODE_RANK": "1"}.items():
        monkeypatch.setenv(f"PET_{name}", value)


def test_two_processes_train_as_one_does(run, parted, whole, of_a_cluster):
    """The same global batch gives the same losses within rounding; float64 shows it."""
    alone, both = whole.get(run).history, whole.get(parted).history
    assert both.step.tolist() == alone.step.tolist()
    assert both.loss.tolist() == pytest.approx(alone.loss.tolist(), rel=1e-7)


ONE = """
import pickle, sys
from sameloss.store.store import Store
Store(sys.argv[1]).get(pickle.loads(bytes.fromhex(sys.argv[2])))
"""


def test_a_killed_training_of_two_processes_goes_on_bit_for_bit(parted, whole, tmp_path):
    """SIGKILL of the waiting process ends the others; the next computation resumes from their state."""
    whole.get(parted)
    store = with_copies([parted.corpus], whole, tmp_path / "killed")
    command = [sys.executable, "-c", ONE, str(store.root), pickle.dumps(parted).hex()]
    process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)})
    state = store.partial(parted) / "scratch" / "resume.pt"
    while not state.exists():
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not store.has(parted)
    _wait_until_nothing_runs(tmp_path)
    store.get(parted)
    assert store.manifest(parted)["files"] == whole.manifest(parted)["files"]


UNRESOLVED = ["unshare", "--uts", "sh", "-c", 'hostname unresolved.invalid && exec "$@"', "sh"]
"""Runs a command where the machine's name has no address."""


def test_a_machine_whose_name_has_no_address_trains_as_others_do(parted, whole, tmp_path):
    if subprocess.run([*UNRESOLVED, "true"], capture_output=True, check=False).returncode:
        pytest.skip("giving the machine another name needs root")
    command = [sys.executable, "-c", ONE, str(tmp_path), pickle.dumps(parted).hex()]
    subprocess.run([*UNRESOLVED, *command], check=True, timeout=600)  # it waited for ever
    whole.get(parted)
    assert Store(tmp_path).manifest(parted)["files"] == whole.manifest(parted)["files"]


def _wait_until_nothing_runs(folder, limit_s=600.0):
    """Wait for the orphans, which end when their parent does."""
    end = time.monotonic() + limit_s
    while any(str(folder) in command for command in _command_lines()):
        assert time.monotonic() < end, "processes of a killed training go on"
        time.sleep(0.05)


def _command_lines():
    return [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]


FAST = Execution(compiled=True, by_length=True, processes=2)

RAGGED = PCFGSpec(3, 3, 3, 3, 3, 6, 3, 0.7, 0.7, early_stop=(0.2, 0.4), smoothing=0.03, seed=1)


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="compiling needs a compiler")
def test_all_speed_options_together_change_only_rounding(tmp_path):
    """On sentences of several lengths: equal first losses, and a final KL within the noise of seeds."""
    store, corpus = Store(tmp_path), CorpusSampling(RAGGED, 20_000, seed=0)
    how = Optimisation(steps=160, batch=64, lr=1e-2)
    plain = [
        Pretraining(corpus, EncoderShape(16, 2, 1, 32), how, seed, (160,), micro_batch=16, resume_every=50)
        for seed in range(4)
    ]
    quick = replace(plain[0], execution=FAST)
    losses = [store.get(run).history.loss for run in (plain[0], quick)]
    assert losses[1][:5].tolist() == pytest.approx(losses[0][:5].tolist(), rel=1e-5)
    held_out = store.get(HeldOutConditionals(RAGGED, 500, 0))
    last = [float(divergences(store.get(run).last(), *held_out).mean()) for run in (*plain, quick)]
    assert last[-1] == pytest.approx(last[0], abs=np.std(last[:-1], ddof=1))


def test_pickles_lie_where_nobody_else_can_write(parted, tmp_path, monkeypatch):
    """Not in the store, which may be shared: loading a pickle can execute code."""
    seen = []

    def looked_at(job, processes):
        seen.append((job, job.parent.stat().st_mode & 0o777))
        return subprocess.CompletedProcess([], 0, stderr="")

    monkeypatch.setattr(torchrun, "_torchrun", looked_at)
    torchrun.launch(parted, tmp_path, tmp_path / "store", 2)
    ((job, mode),) = seen
    assert mode == 0o700
    assert tmp_path not in job.parents
    assert not job.exists()
    assert not list(tmp_path.rglob("*.pickle"))


def test_an_exception_of_a_process_is_raised_here(parted, tmp_path):
    diverging = replace(parted, optimisation=replace(parted.optimisation, lr=1e30))
    with pytest.raises(
        NonFiniteLoss, match=r"at step \d+, far above guessing .*, seed 0\..*\(step 150\) is kept"
    ):
        Store(tmp_path).get(diverging)


def test_what_torch_refuses_is_said_here(parted, tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nosuch9")
    with pytest.raises(RuntimeError, match="nosuch9"):
        Store(tmp_path).get(parted)


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("", "no explanation, perhaps for lack of memory"),
        ("  exitcode : -11\n  traceback : Signal 11 (SIGSEGV) received by PID 7\n", "Signal 11 (SIGSEGV)"),
        (
            "traceback : Signal 9 (SIGKILL) received by PID 7\n",
            "Signal 9 (SIGKILL), perhaps for lack of memory",
        ),
        (
            "Traceback:\n[rank1]: ModuleNotFoundError: No module named 'x'\nTraceback:\n"
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n",
            "ModuleNotFoundError: No module named 'x'",
        ),
    ],
)
def test_processes_that_end_without_an_exception_are_explained(
    parted, tmp_path, monkeypatch, printed, reason
):
    ended = subprocess.CompletedProcess([], 1, stderr=printed)
    monkeypatch.setattr(torchrun, "_torchrun", lambda job, processes: ended)
    with pytest.raises(StoreError, match=re.escape(f"ended with code 1 ({reason}). Run again to resume")):
        torchrun.launch(parted, tmp_path, tmp_path / "store", 2)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("raise RuntimeError('no address')", "RuntimeError: no address"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "Signal 11 (SIGSEGV)"),
    ],
)
def test_the_process_that_failed_is_explained_not_the_one_that_torchrun_ended(
    tmp_path, monkeypatch, fault, reason
):
    package = tmp_path / "sameloss" / "runs"
    package.mkdir(parents=True)
    waiting = "import os, signal, time\nif os.environ['RANK'] == '1': time.sleep(600)\nelse: "
    (package / "torchrun.py").write_text(waiting + fault)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = torchrun._torchrun(tmp_path / "job", 2)
    assert done.returncode
    assert torchrun._reason(done.stderr) == reason
