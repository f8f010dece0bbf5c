"""What every benchmark shares: taking turns, comparing answers, measuring memory, writing the table.

Contestants take turns, so that a busy moment strikes all of them. A value is the best repetition, and of
a contestant with several settings (batch size, implementation) the best setting; whether a goal is met is
judged by the medians, which stand in `results/benchmark_<name>.json`.
"""

import argparse
import json
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from sameloss.store.location import source_revision
from sameloss.store.provenance import seal

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
COLUMNS = ["what", "ours", "peer", "unit", "ours_value", "peer_value", "ratio", "goal", "met"]
NOBODY = "–"
"""The peer of a row that only measures ours."""

CONVERSIONS: dict[str, Callable[[float], float]] = {
    "ms": lambda seconds: 1000 * seconds,
    "s": lambda seconds: seconds,
    "sentences/s": lambda seconds: 1 / seconds,
    "tokens/s": lambda seconds: 1 / seconds,
}
"""What a unit makes of seconds."""


class Work(NamedTuple):
    """A contestant in one of its settings, what it does, and how many units of work that is."""

    name: str
    setting: str
    units: int  # sentences, say
    call: Callable[[], Any]


class Timing(NamedTuple):
    """Seconds a unit of work, of a contestant in one of its settings."""

    name: str
    setting: str
    best: float
    median: float

    @property
    def title(self) -> str:
        """Name and setting."""
        return ", ".join(filter(None, (self.name, self.setting)))


class Report(NamedTuple):
    """What a part of the benchmark found: rows of the table, and how far answers lie apart."""

    rows: list[dict[str, Any]]
    agreement: dict[str, float]


# Measuring


def now() -> float:
    """Return the time in seconds, once a GPU has done what it was told to do."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def race(works: Sequence[Work], repetitions: int) -> list[Timing]:
    """Time contestants in turn, after one unmeasured call each; return them in the same order."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(repetitions + 1):
        for work, times in zip(works, seconds, strict=True):
            started = now()
            work.call()
            times.append((now() - started) / work.units)
    return [
        Timing(work.name, work.setting, min(times), statistics.median(times))
        for work, (_, *times) in zip(works, seconds, strict=True)
    ]


def fastest(timings: Iterable[Timing]) -> list[Timing]:
    """Return each contestant's best setting, contestants in the order of their first."""
    kept: dict[str, Timing] = {}
    for timing in timings:
        kept[timing.name] = min(kept.get(timing.name, timing), timing, key=lambda other: other.best)
    return list(kept.values())


def contest(
    what: str, unit: str, works: Iterable[Work], goals: Mapping[str, float | None], repetitions: int
) -> list[dict[str, Any]]:
    """Race the first, ours, against the others; return a row for each of them."""
    ours, *peers = fastest(race(list(works), repetitions))
    return [row(what, unit, ours, peer, goals[peer.name]) for peer in peers]


def row(what: str, unit: str, ours: Timing, peer: Timing | None = None, goal: float | None = None) -> dict:
    """Return a line of the table; `unit` is one of `CONVERSIONS`."""
    convert = CONVERSIONS[unit]
    line = {"what": what, "ours": ours.title, "peer": NOBODY, "unit": unit, "goal": goal}
    line |= {"ours_value": convert(ours.best), "ours_median": convert(ours.median)}
    if peer is not None:
        line |= {"peer": peer.title, "ratio": peer.best / ours.best}
        line |= {"peer_value": convert(peer.best), "peer_median": convert(peer.median)}
    if goal is None or peer is None:
        return line
    return line | {"met": bool(peer.median / ours.median >= goal)}  # more careful than the best


def difference(what: str, ours: Tensor, theirs: Tensor, tolerance: float) -> dict[str, float]:
    """Return the largest difference of two answers.

    Raises:
        SystemExit: where it is above the tolerance, or not a number.

    """
    largest = float((ours - theirs).abs().max())
    if not largest <= tolerance:
        raise SystemExit(f"{what}: answers differ by {largest:.3g}, more than {tolerance:.3g}.")
    return {what: largest}


def has(module: str, title: str) -> bool:
    """Tell whether a peer is installed; say so where it is not."""
    try:
        import_module(module)
    except ImportError:
        print(f"{title} is not installed, so its rows are left out: see benchmarks/requirements.txt.")
        return False
    return True


# Memory


STATUS = Path("/proc/self/status")


def tells_memory(device: str = "cpu") -> bool:
    """Tell whether the peak of memory can be known here; say so where it cannot."""
    if device == "cuda" or STATUS.exists():
        return True
    print("Peak memory is read from /proc, which this system lacks: these rows are left out.")
    return False


def resident(name: str) -> int:
    """Return `VmRSS` (now) or `VmHWM` (the most so far) of this process in bytes; Linux alone tells."""
    return 1024 * int(re.search(rf"{name}:\s*(\d+) kB", STATUS.read_text())[1])


def peak(call: Callable[[], Any], device: str = "cpu") -> tuple[int, Any]:
    """Return how many bytes a call takes at its peak, its result included, and the result.

    On the CPU it should be a fresh process that calls: memory once freed may be used again.
    """
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = call()
        return torch.cuda.max_memory_allocated() - before, result
    Path("/proc/self/clear_refs").write_text("5")  # the peak becomes what is in use now
    before = resident("VmRSS")
    result = call()
    return resident("VmHWM") - before, result


def fresh_process(script: str, *options: str) -> str:
    """Run a script in a process of its own; return what it prints."""
    command = [sys.executable, script, *options]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


# The table


def parser(description: str) -> argparse.ArgumentParser:
    """Return a command line with what every benchmark takes."""
    made = argparse.ArgumentParser(description=description.splitlines()[0])
    made.add_argument("--quick", action="store_true", help="little work; nothing is written")
    return made


def conclude(
    name: str, reports: Iterable[Report], packages: Sequence[str], *, write: bool, device: str = "cpu"
) -> pd.DataFrame:
    """Print what was found and return it as a table, with medians; write it into results/ where asked."""
    reports = list(reports)
    rows = [line for report in reports for line in report.rows]
    agreement = {what: value for report in reports for what, value in report.agreement.items()}
    frame = pd.DataFrame(rows, columns=[*COLUMNS, "ours_median", "peer_median"])
    print(frame.to_string(index=False, na_rep="", float_format=lambda value: f"{value:,.4g}"))
    print("Largest differences:", *(f"  {value:.2g}  {what}" for what, value in agreement.items()), sep="\n")
    if write:  # where it comes from is asked first: a written file makes the checkout look changed
        save(name, frame, agreement, provenance(packages, device))
    return frame


def save(name: str, frame: pd.DataFrame, agreement: Mapping[str, float], made_with: dict[str, Any]) -> None:
    """Write the table, and beside it what it was made with, how far answers lie apart, and medians."""
    RESULTS.mkdir(exist_ok=True)
    frame[COLUMNS].to_csv(RESULTS / f"benchmark_{name}.csv", index=False, float_format="%.5g")
    medians = frame[["what", "peer", "unit", "ours_median", "peer_median"]].dropna(subset="ours_median")
    record = {
        **made_with,
        "largest_differences": agreement,
        "medians": json.loads(medians.to_json(orient="records")),
    }
    seal(RESULTS / f"benchmark_{name}.json", record, f"benchmark_{name}.csv")


def provenance(packages: Sequence[str], device: str = "cpu") -> dict[str, Any]:
    """Return what the numbers were measured with."""
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "revision": source_revision(),
        "device": processor(device),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "sameloss": installed("sameloss"),
        "versions": {package: installed(package) for package in packages},
    }


def processor(device: str) -> str:
    """Return the model of the GPU, or of the processor as far as the system tells."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    file = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.+)", file.read_text()) if file.exists() else None
    return model[1] if model else f"cpu {platform.machine()}"


def installed(package: str) -> str | None:
    """Return a package's version; None where it is missing."""
    try:
        return torch.__version__ if package == "torch" else version(package)
    except PackageNotFoundError:
        return None
