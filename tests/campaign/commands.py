"""Commands that are interrupted and killed, which leave no process behind and lose no result."""

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
from typing import Any

import nbformat
import pandas as pd
import psutil
from stores import SECONDS

from campaign.parts import Part, Trial
from campaign.victims import temporary_folder
from sameloss.store.store import MANIFEST, sha256

ROOT = Path(__file__).parents[2]

MARK = "SAMELOSS_CAMPAIGN"
"""Environment variable that marks all processes of a command, whatever their parents."""

PATIENCE_S = 60.0
"""Time in which all processes of an ended command must end."""

PAGE = "b2_enlargement"
"""A short page at the smoke preset with trainings and measurements of every kind."""


class Command:
    """A running command in its own session, with the processes it starts."""

    def __init__(self, words: Sequence[str | Path], folder: Path, log: Path) -> None:
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
        """Wait up to some seconds; return the exit status if it has ended."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def interrupt(self, how: str, rng: random.Random) -> None:
        """Interrupt, terminate or kill the command, a process it started, or their group, as in `HOW`."""
        if how in ("Ctrl-C", "kill the group"):
            os.killpg(self._process.pid, signal.SIGINT if how == "Ctrl-C" else signal.SIGKILL)
        elif how == "kill a child":
            others = [process for process in self.alive() if process.pid != self._process.pid]
            with suppress(psutil.NoSuchProcess, IndexError):
                rng.choice(others).kill()
        else:
            self._process.send_signal(signal.SIGTERM if how == "terminate" else signal.SIGKILL)

    def alive(self) -> list[psutil.Process]:
        """Its processes that are alive."""
        return [process for process in psutil.process_iter() if self._owns(process)]

    def _owns(self, process: psutil.Process) -> bool:
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                return process.environ().get(MARK) == self._mark
        return False

    def tail(self) -> str:
        """The end of the log."""
        return self._log.read_text()[-1500:]

    def end(self) -> None:
        """Kill its remaining processes."""
        for process in self.alive():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()


@contextmanager
def started(words: Sequence[str | Path], folder: Path, log: Path) -> Iterator[Command]:
    """Start a command; kill its remaining processes on exit."""
    command = Command(words, folder, log)
    try:
        yield command
    finally:
        command.end()


HOW = ("Ctrl-C", "terminate", "kill a child", "kill", "kill the group")
"""Without the last two for make and Snakemake, whose children do not learn that they were killed."""

LONGEST_S = 1800
"""Time in which every command ends."""


def interrupted(words: Sequence[str | Path], folder: Path, trial: Trial, seconds: float) -> bool:
    """Interrupt a command at a random time and check that its processes end; False if it ended before."""
    how = trial.rng.choice(HOW[:-2] if {"make", SNAKEMAKE} & set(words) else HOW)
    with started(words, folder, trial.folder / "log") as command:
        if command.wait(trial.rng.uniform(0.3, seconds / 2)) is not None:
            return False
        command.interrupt(how, trial.rng)
        trial.kills += 1
        over = command.wait(LONGEST_S)
        trial.check(over is not None, f"goes on after {how}: {command.tail()}")
        until = time.monotonic() + PATIENCE_S
        while (alive := command.alive()) and time.monotonic() < until:
            time.sleep(0.05)
        trial.check(not alive, f"after {how} there is still {[process.cmdline() for process in alive]}")
    return True


def to_its_end(words: Sequence[str | Path], folder: Path, log: Path) -> None:
    """Run a command, which must succeed."""
    with started(words, folder, log) as command:
        if command.wait(LONGEST_S) != 0:
            raise AssertionError(f"{words} failed: {command.tail()}")


def results(store: Path) -> dict[str, str]:
    """Hashes of the files of all results, without manifests and measured times."""
    files = (path for found in store.glob(f"*/*/{MANIFEST}") for path in found.parent.iterdir())
    return {str(path.relative_to(store)): _content(path) for path in files if path.name != MANIFEST}


def _content(path: Path) -> str:
    if path.suffix == ".csv" and SECONDS & set(table := pd.read_csv(path)):
        return hashlib.sha256(table.drop(columns=SECONDS & set(table)).to_csv().encode()).hexdigest()
    return sha256(path)


TIMES = re.compile(r"^(page = begin|close)\(", re.MULTILINE)
"""Cells that print durations."""


ADDRESS = re.compile("0x[0-9a-f]{8,}")
"""Memory addresses in outputs."""


def shown(pages: Path) -> dict[str, str]:
    """Outputs of executed pages, cell by cell, without durations."""
    return {
        f"{page.name}, cell {number}": ADDRESS.sub("", _output(cell.outputs))
        for page in pages.glob("*.ipynb")
        for number, cell in enumerate(nbformat.read(page, as_version=4).cells)
        if cell.cell_type == "code" and not TIMES.search(cell.source)
    }


def _output(outputs: Sequence[Mapping[str, Any]]) -> str:
    """What a cell shows; a slow cell prints the same text in more pieces."""
    printed = "".join(part["text"] for part in outputs if part.get("name") == "stdout")
    return printed + json.dumps([part for part in outputs if part["output_type"] != "stream"])


def check_same(trial: Trial, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Check that stores and pages agree."""
    wrong = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
    trial.check(not wrong, f"not as undisturbed: {wrong[:5]}, {len(wrong)} in all")


def papermill(folder: Path) -> list[str | Path]:
    """Execute a page with its own store."""
    given = ["-p", "preset", "smoke", "-p", "artifacts", folder / "store"]
    return ["papermill", ROOT / "chapters" / f"{PAGE}.ipynb", folder / "out.ipynb", *given]


SNAKEMAKE = ROOT / ".venv-grid" / "bin" / "snakemake"


def grid(folder: Path) -> list[str | Path]:
    """Run a small grid, which resumes after a kill."""
    given = ["preset=smoke", "sizes=d8", "steps=20", "seeds=1,2", f"artifacts={folder / 'store'}"]
    words = [SNAKEMAKE, "-s", ROOT / "lib" / "grid.smk", "--directory", folder, "--cores", "2", "--nolock"]
    return [*words, "--rerun-incomplete", "--rerun-triggers", "mtime", "--config", *given]


def book(folder: Path) -> list[str | Path]:
    """Make the smoke book in a clone."""
    clone = cloned(folder)
    make = ["make", "-o", ".venv/installed", "-C", clone]  # nothing to install
    return ["env", f"PYTHONPATH={clone / 'lib'}", *make, "book", "PRESET=smoke"]


CHAPTERS = ("ii4_decision_lists", "ii5_growing")
"""Two short chapters that print no durations, long enough to occupy several workers."""


def chapters(folder: Path) -> list[str | Path]:
    """Execute two chapters in a clone without others."""
    clone = cloned(folder, CHAPTERS)
    words = [sys.executable, "-m", "sameloss.book.build", "execute", "--preset", "smoke", "--max-hours", "9"]
    return ["env", "-C", clone, f"PYTHONPATH={clone / 'lib'}", *words]


def cloned(folder: Path, only: Sequence[str] = ()) -> Path:
    """Clone this book once, with all chapters or `only` some; return the folder."""
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
    """Results of an undisturbed command, and its seconds."""
    folder = temporary_folder()
    words = kind(folder)
    begun = time.monotonic()
    to_its_end(words, folder, folder / "log")
    seconds = time.monotonic() - begun
    return left_by(kind, folder), seconds


def left_by(kind, folder: Path) -> dict[str, str]:
    """Results in the store of a command, and outputs of its pages."""
    if kind in (book, chapters):
        found = results(folder / "book" / "artifacts")
        return found | (
            shown(folder / "book" / "_build" / "executed" / "chapters") if kind is chapters else {}
        )
    return results(folder / "store") | shown(folder)


def again_and_again(kind, most: int, trial: Trial) -> None:
    """Interrupt a command up to `most` times, complete it, and compare with an undisturbed one."""
    wanted, seconds = undisturbed(kind)
    for _ in range(most):
        if not interrupted(kind(trial.folder), trial.folder, trial, seconds):
            break
    to_its_end(kind(trial.folder), trial.folder, trial.folder / "log")
    check_same(trial, left_by(kind, trial.folder), wanted)


def installation(trial: Trial) -> None:
    """Interrupt the installation up to four times; it then goes on to an environment that lacks nothing."""
    clone = trial.folder / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    make = ["make", "-C", clone, ".venv/installed"]
    for _ in range(4):
        if not interrupted(make, trial.folder, trial, 240.0):
            break
    to_its_end(make, trial.folder, trial.folder / "log")
    python = clone / ".venv" / "bin" / "python"
    to_its_end([python, "-m", "pip", "check"], clone, trial.folder / "log")
    modules = "import jupyter_book, papermill, seaborn, torch, transformers, sameloss.book.pages"
    to_its_end([python, "-c", modules], clone, trial.folder / "log")


def snakemake() -> bool:
    return (ROOT / ".venv-grid" / "installed").exists()


PARTS = (
    Part("papermill, interrupted or killed", 8, lambda trial: again_and_again(papermill, 4, trial)),
    Part("grid, interrupted or killed", 2, lambda trial: again_and_again(grid, 4, trial), needs=snakemake),
    Part("two chapters, interrupted or killed", 4, lambda trial: again_and_again(chapters, 4, trial)),
    Part("make book, interrupted or killed", 1, lambda trial: again_and_again(book, 8, trial)),
    Part("installation, interrupted or killed", 2, installation),
)

if sys.platform != "linux":
    raise SystemExit("Processes are found in /proc; run the campaign on Linux.")
