"""Whole commands, interrupted and killed: nothing of them goes on, and nothing is lost."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import pandas as pd
import psutil

from campaign.parts import Part, Trial
from campaign.victims import own_folder
from sameloss.store.files import sha256
from sameloss.store.manifest import MANIFEST

ROOT = Path(__file__).parents[2]

MARK = "SAMELOSS_CAMPAIGN"
"""A variable by which all processes that a command has started are known, whoever their parents are."""

PATIENCE_S = 5.0
"""So long after a command has ended nothing of it may go on."""

PAGE = "b2_enlargement"
"""A page with trainings and measurements of every kind that takes little at the smoke preset."""


class Command:
    """A command at work, in a session of its own, with everything that it starts."""

    def __init__(self, words: Sequence[str | Path], folder: Path, log: Path) -> None:
        """Begin."""
        self._log = log
        self._mark = f"{os.getpid()}-{time.monotonic_ns()}"
        path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        with log.open("a") as out:
            self._process = subprocess.Popen(
                words,
                cwd=folder,
                env={**os.environ, MARK: self._mark, "PATH": path},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def wait(self, seconds: float) -> int | None:
        """Wait for its end, but not longer; return its exit status if it has one."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def interrupt(self, how: str, rng: random.Random) -> None:
        """Press Ctrl-C, terminate or kill the command itself, or kill a process that it started."""
        if how == "Ctrl-C":
            os.killpg(self._process.pid, signal.SIGINT)
        elif how == "kill a child":
            others = [process for process in self.alive() if process.pid != self._process.pid]
            with suppress(psutil.NoSuchProcess, IndexError):
                rng.choice(others).kill()
        else:
            self._process.send_signal(signal.SIGTERM if how == "terminate" else signal.SIGKILL)

    def alive(self) -> list[psutil.Process]:
        """Return all processes of this command that live."""
        return [process for process in psutil.process_iter() if self._owns(process)]

    def _owns(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                return process.environ().get(MARK) == self._mark
        return False

    def said(self) -> str:
        """Return the end of what it and those before it in the same file have said."""
        return self._log.read_text()[-1500:]

    def end(self) -> None:
        """Kill what is left of it."""
        for process in self.alive():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()


@contextmanager
def started(words: Sequence[str | Path], folder: Path, log: Path) -> Iterator[Command]:
    """Start a command; at last nothing of it is left."""
    command = Command(words, folder, log)
    try:
        yield command
    finally:
        command.end()


HOW = ("Ctrl-C", "terminate", "kill a child", "kill")
"""The last for papermill alone: what `make` or Snakemake has started is not told that they were killed."""

LONGEST_S = 1800
"""A command takes no longer than this."""


def interrupted(words: Sequence[str | Path], folder: Path, trial: Trial, seconds: float) -> bool:
    """Interrupt a command at a random moment, and see that nothing of it goes on; tell whether it was."""
    how = trial.rng.choice(HOW if words[0] == "papermill" else HOW[:-1])
    with started(words, folder, trial.folder / "log") as command:
        if command.wait(trial.rng.uniform(0.3, seconds / 2)) is not None:  # an early one in every trial
            return False
        command.interrupt(how, trial.rng)
        trial.kills += 1
        over = command.wait(LONGEST_S)
        trial.check(over is not None, f"goes on after {how}: {command.said()}")
        until = time.monotonic() + PATIENCE_S
        while (alive := command.alive()) and time.monotonic() < until:
            time.sleep(0.05)
        trial.check(not alive, f"after {how} there is still {[process.cmdline() for process in alive]}")
    return True


def to_its_end(words: Sequence[str | Path], folder: Path, log: Path) -> None:
    """Run a command to its end, which has to be a good one."""
    with started(words, folder, log) as command:
        if command.wait(LONGEST_S) != 0:
            raise AssertionError(f"{words} failed: {command.said()}")


TIMED = "seconds"
"""A column of times that were measured, which no two computations share."""


def results(store: Path) -> dict[str, str]:
    """Return the hashes of all files of all results, but for manifests and measured times."""
    files = (path for found in store.glob(f"*/*/{MANIFEST}") for path in found.parent.iterdir())
    return {str(path.relative_to(store)): _content(path) for path in files if path.name != MANIFEST}


def _content(path: Path) -> str:
    """Return the hash of a file; of a table with measured times, that of the others."""
    if path.suffix == ".csv" and TIMED in (table := pd.read_csv(path)):
        return hashlib.sha256(table.drop(columns=TIMED).to_csv().encode()).hexdigest()
    return sha256(path)


def check_same(trial: Trial, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Check that two stores hold the same."""
    wrong = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
    trial.check(not wrong, f"not as undisturbed: {wrong[:5]}, {len(wrong)} in all")


def papermill(folder: Path) -> list[str | Path]:
    """Return the command that executes a page with a store of its own."""
    given = ["-p", "preset", "smoke", "-p", "artifacts", folder / "store"]
    return ["papermill", ROOT / "chapters" / f"{PAGE}.ipynb", folder / "out.ipynb", *given]


def grid(folder: Path) -> list[str | Path]:
    """Return the command of a small grid, which goes on where it was killed."""
    snakemake = ROOT / ".venv-grid" / "bin" / "snakemake"
    given = ["preset=smoke", "sizes=1K", "steps=20", "seeds=1,2", f"artifacts={folder / 'store'}"]
    words = [snakemake, "-s", ROOT / "lib" / "grid.smk", "--directory", folder, "--cores", "2", "--nolock"]
    return [*words, "--rerun-incomplete", "--rerun-triggers", "mtime", "--config", *given]


def book(folder: Path) -> list[str | Path]:
    """Return the command that makes the smoke book, of a clone in a folder."""
    clone = folder / "book"
    if not clone.exists():
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        (clone / ".venv").symlink_to(ROOT / ".venv")
    make = ["make", "-o", ".venv/installed", "-C", clone]  # without installing: the environment is this one's
    return ["env", f"PYTHONPATH={clone / 'lib'}", *make, "book", "PRESET=smoke"]


@cache
def undisturbed(kind) -> tuple[dict[str, str], float]:
    """Return what a command leaves in its store, and the seconds that it takes."""
    folder = own_folder()
    begun = time.monotonic()
    to_its_end(kind(folder), folder, folder / "log")
    found = results(store_of(kind, folder)), time.monotonic() - begun
    return found


def store_of(kind, folder: Path) -> Path:
    """Return where a command keeps its results."""
    return folder / "book" / "artifacts" if kind is book else folder / "store"


def again_and_again(kind, most: int, trial: Trial) -> None:
    """Interrupt a command so many times, then let it end; its store holds what it would undisturbed."""
    wanted, seconds = undisturbed(kind)
    for _ in range(most):
        if not interrupted(kind(trial.folder), trial.folder, trial, seconds):
            break
    to_its_end(kind(trial.folder), trial.folder, trial.folder / "log")
    check_same(trial, results(store_of(kind, trial.folder)), wanted)


def snakemake() -> bool:
    """Tell whether grids can be run."""
    return (ROOT / ".venv-grid" / "installed").exists()


PARTS = (
    Part("papermill, interrupted or killed", 8, lambda trial: again_and_again(papermill, 4, trial)),
    Part("grid, interrupted or killed", 2, lambda trial: again_and_again(grid, 4, trial), needs=snakemake),
    Part("make book, interrupted or killed", 1, lambda trial: again_and_again(book, 8, trial)),
)

if sys.platform != "linux":
    raise SystemExit("Commands are told by /proc; run the campaign on Linux.")
