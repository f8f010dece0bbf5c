"""What a campaign consists of, and how it is run and counted."""

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pandas as pd


class Found(AssertionError):
    """A fault that a trial has found."""


@dataclass
class Trial:
    """One trial: its random numbers, and a folder of its own."""

    rng: random.Random
    folder: Path
    kills: int = 0

    def check(self, holds: object, what: str) -> None:
        """Note a fault unless something holds."""
        if not holds:
            raise Found(what)


class Part(NamedTuple):
    """Trials of one kind."""

    what: str
    trials: int  # of a whole campaign
    try_once: Callable[[Trial], None]
    needs: Callable[[], bool] = lambda: True  # of the machine; where it has not, nothing is tried


@dataclass
class Counted:
    """What came of the trials of a part."""

    what: str
    tried: int = 0
    kills: int = 0
    seconds: float = 0.0
    faults: dict[str, str] = field(default_factory=dict)  # by seed


def run(part: Part, seed: str, trials: int, show: Callable[[str], None] = print) -> Counted:
    """Make so many trials of a part; each has the campaign's seed, its part and its number for a seed."""
    counted = Counted(part.what)
    for number in range(trials if part.needs() else 0):
        begun = time.monotonic()
        own = f"{seed}/{part.what}/{number}"
        with TemporaryDirectory(prefix="campaign-", ignore_cleanup_errors=True) as folder:
            trial = Trial(random.Random(own), Path(folder))
            try:
                part.try_once(trial)
            except Exception as fault:  # a trial that cannot be made is a fault, too
                counted.faults[own] = f"{type(fault).__name__}: {fault}"
                show(f"{own}: {fault}")
        counted.tried += 1
        counted.kills += trial.kills
        counted.seconds += time.monotonic() - begun
    return counted


def table(all_counted: Iterable[Counted]) -> pd.DataFrame:
    """Return one row a part."""
    return pd.DataFrame(
        {
            "what": c.what,
            "trials": c.tried,
            "kills": c.kills,
            "faults": len(c.faults),
            "seconds": round(c.seconds),
        }
        for c in all_counted
    )
