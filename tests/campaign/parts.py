"""Parts of a campaign, their trials, and their counts."""

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pandas as pd


class Fault(AssertionError):
    """A failed check of a trial."""


@dataclass
class Trial:
    """One trial, with its own random numbers and folder."""

    rng: random.Random
    folder: Path
    kills: int = 0

    def check(self, holds: object, what: str) -> None:
        if not holds:
            raise Fault(what)


class Part(NamedTuple):
    """Trials of one kind."""

    what: str
    trials: int  # in a full campaign
    try_once: Callable[[Trial], None]
    needs: Callable[[], bool] = lambda: True  # of the machine; without it there are no trials


@dataclass
class Tally:
    """Counts of a part's trials."""

    what: str
    tried: int = 0
    kills: int = 0
    seconds: float = 0.0
    faults: dict[str, str] = field(default_factory=dict)  # by seed


def run(part: Part, seed: str, trials: int, show: Callable[[str], None] = print) -> Tally:
    """Run trials of a part, each seeded by the campaign's seed, the part and the trial's number."""
    tally = Tally(part.what)
    for number in range(trials if part.needs() else 0):
        begun = time.monotonic()
        trial_seed = f"{seed}/{part.what}/{number}"
        with TemporaryDirectory(prefix="campaign-", ignore_cleanup_errors=True) as folder:
            trial = Trial(random.Random(trial_seed), Path(folder))
            try:
                part.try_once(trial)
            except Exception as fault:  # an error in the trial itself counts too
                tally.faults[trial_seed] = f"{type(fault).__name__}: {fault}"
                show(f"{trial_seed}: {fault}")
        tally.tried += 1
        tally.kills += trial.kills
        tally.seconds += time.monotonic() - begun
    return tally


def table(tallies: Iterable[Tally]) -> pd.DataFrame:
    """One row per part."""
    rows = [(t.what, t.tried, t.kills, len(t.faults), round(t.seconds)) for t in tallies]
    return pd.DataFrame(rows, columns=["what", "trials", "kills", "faults", "seconds"])
