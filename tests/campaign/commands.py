"""Whole commands, interrupted and killed: nothing of them goes on, and nothing is lost."""

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import nbformat
import pandas as pd
import psutil

from campaign.parts import Part, Trial
from campaign.victims import own_folder
from sameloss.store.store import MANIFEST, sha256

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
        """Press Ctrl-C, terminate or kill the command itself, a process that it started, or their group."""
        if how in ("Ctrl-C", "kill the group"):
            os.killpg(self._process.pid, signal.SIGINT if how == "Ctrl-C" else signal.SIGKILL)
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


HOW = ("Ctrl-C", "terminate", "kill a child", "kill", "kill the group")
"""The last two not for what `make` or Snakemake has started, which is not told that they were killed."""

LONGEST_S = 1800
"""A command takes no longer than this."""


def interrupted(words: Sequence[str | Path], folder: Path, trial: Trial, seconds: float) -> bool:
    """Interrupt a command at a random moment, and see that nothing of it goes on; tell whether it was."""
    how = trial.rng.choice(HOW[:-2] if {"make", SNAKEMAKE} & set(words) else HOW)
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


TIMES = re.compile(r"^(page = begin|close)\(", re.MULTILINE)
"""Cells that say what a computation will take, or took."""


ADDRESS = re.compile("0x[0-9a-f]{8,}")
"""Where in its memory a process has what it shows."""


def shown(pages: Path) -> dict[str, str]:
    """Return what executed pages show, cell by cell, but for what the first and the last say of times."""
    return {
        f"{page.name}, cell {number}": ADDRESS.sub(
            "", json.dumps([o for o in cell.outputs if o.get("name") != "stderr"])
        )
        for page in pages.glob("*.ipynb")
        for number, cell in enumerate(nbformat.read(page, as_version=4).cells)
        if cell.cell_type == "code" and not TIMES.search(cell.source)
    }


def check_same(trial: Trial, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Check that two stores, and pages, hold the same."""
    wrong = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
    trial.check(not wrong, f"not as undisturbed: {wrong[:5]}, {len(wrong)} in all")


def papermill(folder: Path) -> list[str | Path]:
    """Return the command that executes a page with a store of its own."""
    given = ["-p", "preset", "smoke", "-p", "artifacts", folder / "store"]
    return ["papermill", ROOT / "chapters" / f"{PAGE}.ipynb", folder / "out.ipynb", *given]


SNAKEMAKE = ROOT / ".venv-grid" / "bin" / "snakemake"


def grid(folder: Path) -> list[str | Path]:
    """Return the command of a small grid, which goes on where it was killed."""
    given = ["preset=smoke", "sizes=1K", "steps=20", "seeds=1,2", f"artifacts={folder / 'store'}"]
    words = [SNAKEMAKE, "-s", ROOT / "lib" / "grid.smk", "--directory", folder, "--cores", "2", "--nolock"]
    return [*words, "--rerun-incomplete", "--rerun-triggers", "mtime", "--config", *given]


def book(folder: Path) -> list[str | Path]:
    """Return the command that makes the smoke book, of a clone in a folder."""
    clone = cloned(folder)
    make = ["make", "-o", ".venv/installed", "-C", clone]  # without installing: the environment is this one's
    return ["env", f"PYTHONPATH={clone / 'lib'}", *make, "book", "PRESET=smoke"]


CHAPTERS = ("ii4_decision_lists", "ii5_growing")
"""Two that show no times, and take little, but so much that workers share it."""


def chapters(folder: Path) -> list[str | Path]:
    """Return the command that executes two chapters, of a clone that has no others."""
    clone = cloned(folder, CHAPTERS)
    words = [sys.executable, "-m", "sameloss.book.build", "execute", "--preset", "smoke", "--max-hours", "9"]
    return ["env", "-C", clone, f"PYTHONPATH={clone / 'lib'}", *words]


def cloned(folder: Path, only: Sequence[str] = ()) -> Path:
    """Return the folder of a clone of this book, perhaps with some chapters only, which is made once."""
    clone = folder / "book"
    if not clone.exists():
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        (clone / ".venv").symlink_to(ROOT / ".venv")
        if only:
            files = "".join(f"      - file: chapters/{name}\n" for name in only)
            toc = f"format: jb-book\nroot: intro\nparts:\n  - chapters:\n{files}"
            (clone / "_toc.yml").write_text(toc)
    return clone


@cache
def undisturbed(kind) -> tuple[dict[str, str], float]:
    """Return what a command leaves, and the seconds that it takes."""
    folder = own_folder()
    words = kind(folder)
    begun = time.monotonic()
    to_its_end(words, folder, folder / "log")
    seconds = time.monotonic() - begun
    return left_by(kind, folder), seconds


def left_by(kind, folder: Path) -> dict[str, str]:
    """Return the results that a command has left in its store, and what its pages show."""
    if kind in (book, chapters):
        found = results(folder / "book" / "artifacts")
        return found | (
            shown(folder / "book" / "_build" / "executed" / "chapters") if kind is chapters else {}
        )
    return results(folder / "store") | shown(folder)


def again_and_again(kind, most: int, trial: Trial) -> None:
    """Interrupt a command so many times, then let it end; it has left what it would undisturbed."""
    wanted, seconds = undisturbed(kind)
    for _ in range(most):
        if not interrupted(kind(trial.folder), trial.folder, trial, seconds):
            break
    to_its_end(kind(trial.folder), trial.folder, trial.folder / "log")
    check_same(trial, left_by(kind, trial.folder), wanted)


def snakemake() -> bool:
    """Tell whether grids can be run."""
    return (ROOT / ".venv-grid" / "installed").exists()


PARTS = (
    Part("papermill, interrupted or killed", 8, lambda trial: again_and_again(papermill, 4, trial)),
    Part("grid, interrupted or killed", 2, lambda trial: again_and_again(grid, 4, trial), needs=snakemake),
    Part("two chapters, interrupted or killed", 4, lambda trial: again_and_again(chapters, 4, trial)),
    Part("make book, interrupted or killed", 1, lambda trial: again_and_again(book, 8, trial)),
)

if sys.platform != "linux":
    raise SystemExit("Commands are told by /proc; run the campaign on Linux.")
