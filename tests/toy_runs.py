"""Runs of next to no work, and the tiny grammar that tests share; other processes import them from here."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from sameloss.errors import ModelError
from sameloss.languages import PCFGSpec
from sameloss.store.store import SCRATCH, Run

TINY = PCFGSpec(
    levels=2,
    start_symbols=2,
    symbols=2,
    start_rules=2,
    rules=3,
    words=3,
    words_per_symbol=2,
    rule_concentration=1.0,
    emission_concentration=1.0,
    smoothing=0.1,
    seed=3,
)


@dataclass(frozen=True)
class Squaring(Run):
    """A run that notes each computation beside the store."""

    number: int
    parent: "Squaring | None" = None
    notes: str = ""

    def compute(self, folder, store, report):
        if self.notes:
            with Path(self.notes).open("a") as notes:
                notes.write(f"{os.getpid()}\n")
        base = store.get(self.parent) if self.parent else 0
        (folder / "result.txt").write_text(str(base + self.number**2))
        (folder / SCRATCH).mkdir(exist_ok=True)
        report(1.0, "done")

    def load(self, folder):
        return int((folder / "result.txt").read_text())


@dataclass(frozen=True)
class Slow(Squaring):
    """A run that takes a while."""

    def compute(self, folder, store, report):
        time.sleep(0.7)
        super().compute(folder, store, report)


@dataclass(frozen=True)
class Failing(Squaring):
    """A run that cannot be computed."""

    def compute(self, folder, store, report):
        raise ModelError("It was made to fail.")


@dataclass(frozen=True)
class Big(Run):
    """A run that writes a megabyte."""

    name: str

    def compute(self, folder, store, report):
        (folder / "big").write_bytes(b"x" * (1 << 20))

    def load(self, folder):
        return (folder / "big").stat().st_size


@dataclass(frozen=True)
class Sleeping(Run):
    """A run that says which process computes it, and never ends."""

    def compute(self, folder, store, report):
        (folder / "pid").write_text(str(os.getpid()))
        time.sleep(1000)


def computations(run: Squaring) -> int:
    """Return how often a run was computed that notes it."""
    return len(Path(run.notes).read_text().splitlines())
