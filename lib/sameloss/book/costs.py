"""Estimated and measured costs of runs."""

from collections.abc import Iterable

import pandas as pd

from sameloss.device import accelerated, device_bytes, device_name, memory_bytes, usable_workers
from sameloss.errors import ParameterError
from sameloss.runs.cost import H200, H200_IN_CORES, core_factors, training_flops
from sameloss.runs.pretraining import Pretraining
from sameloss.store.store import Run, Store, with_ancestors

ON_A_GPU = ("gpu-hour", "gpu", "paper")
"""Presets estimated for an H200."""

MOST_PARTS = 3
"""Kinds of runs whose time an estimate names."""


def estimate(about: str, store: Store, runs: Iterable[Run], max_hours: float, workers: int | None) -> str:
    """Estimate the cost of missing runs, in one sentence; refuse above `max_hours` and what does not fit.

    The limit is on hours of a reference core or GPU, so that it depends on the runs alone. The time on this
    machine is only reported.

    Args:
        about: what they are, in words.
        store: that has some.
        runs: to be computed with their ancestors.
        max_hours: the limit.
        workers: runs at once; None: one per core.

    Raises:
        ParameterError: above `max_hours`, or for a run that needs more memory than there is.

    """
    if not (runs := list(runs)):
        return f"{about}: this page has no runs of its own; nothing is computed."
    missing = store.missing(runs)
    if not missing:
        return f"{about}: all {len(runs)} runs are in the store; nothing is computed."
    hours = sum(map(reference_seconds, missing)) / 3600
    cost = f"{duration(hours)} of {'an H200' if accelerated() else 'one core'} ({_in_parts(missing)})"
    if hours > max_hours:
        raise ParameterError(
            f"{about}: {len(missing)} missing runs take about {cost}, above max_hours = {max_hours:g}; "
            "raise max_hours, or choose something smaller."
        )
    for run in missing:
        _require_memory(about, run)
    here = _here(missing, at_once(workers))
    return f"{about}: {len(missing)} of {len(with_ancestors(runs))} runs to compute, about {cost}{here}."


def _in_parts(missing: list[Run]) -> str:
    """Hours of the kinds of runs that take most, operations of pre-trainings, and memory."""
    seconds: dict[str, float] = {}
    for run in missing:
        seconds[run.kind] = seconds.get(run.kind, 0.0) + reference_seconds(run)
    longest = sorted(seconds, key=lambda kind: -seconds[kind])[:MOST_PARTS]
    parts = [f"{kind} {duration(seconds[kind] / 3600)}" for kind in longest]
    if trainings := [run for run in missing if isinstance(run, Pretraining)]:
        flops = sum(map(training_flops, trainings))
        parts.append(f"pre-trainings: {len(trainings)}, {flops:.2g} FLOPs")
    memory, beside = (max(part) / 1e9 for part in zip(*map(memory_of, missing), strict=True))
    where = f"GPU memory, {beside:.2g} GB beside it" if accelerated() else "memory per process"
    return "; ".join([*parts, f"{memory:.2g} GB of {where}"])


def memory_of(run: Run) -> tuple[float, float]:
    """Estimated peak memory of a run on the GPU (bytes; without one, in all), and beside it."""
    if accelerated() and not run.accelerated:
        return 0.0, run.memory
    return run.memory, run.host_memory


def _require_memory(about: str, run: Run) -> None:
    """Refuse a run that does not fit, before others have taken hours.

    Raises:
        ParameterError: with the parameter that makes it fit.

    """
    places = {f"this device ({device_name()})": device_bytes(), "this machine": memory_bytes()}
    for needed, (place, there) in zip(memory_of(run), places.items(), strict=True):
        if needed > there:
            raise ParameterError(
                f"{about}: {run.kind} takes about {needed / 1e9:.0f} GB of the memory of {place}, which "
                f"has {there / 1e9:.0f}; {run.memory_advice}."
            )


def reference_seconds(run: Run) -> float:
    """Estimated seconds on the reference core, or for an accelerated run with a GPU on an H200."""
    if not (accelerated() and run.accelerated):
        return run.effort
    return H200.seconds(run) if isinstance(run, Pretraining) else run.effort / H200_IN_CORES


def at_once(workers: int | None) -> int:
    """Runs computed at once: more workers than cores do not speed anything up."""
    return min(workers or usable_workers(), usable_workers())


def _here(missing: list[Run], cores: int) -> str:
    """Estimated time on the idle cores of this machine."""
    if accelerated():
        return ""
    seconds = [reference_seconds(run) for run in missing]
    least = max(sum(seconds) / cores, *seconds)  # a single run is not parallel
    fastest, slowest = (duration(factor * least / 3600) for factor in core_factors())
    time = fastest if fastest == slowest else f"{fastest} to {slowest}"
    return f"; here, {cores} at once ({device_name()}): {time}"


def duration(hours: float) -> str:
    """Hours in a reader's unit."""
    if hours >= 1:
        return f"{hours:,.1f} hours"
    if hours >= 1 / 60:
        return f"{60 * hours:.1f} minutes"
    seconds = max(1, round(3600 * hours))
    return f"{seconds} second{'s' if seconds > 1 else ''}"


def measured(store: Store, runs: Iterable[Run]) -> pd.DataFrame:
    """Time and memory of finished runs and their ancestors, by stage and device."""
    manifests = [store.manifest(run) for run in with_ancestors(runs) if store.has(run)]
    table = pd.DataFrame(
        [(m["parameters"]["run"], m["device"], m["wall_s"], m["peak_memory_bytes"] / 1e9) for m in manifests],
        columns=["stage", "device", "core_s", "peak_gb"],
    )
    stages = table.groupby(["stage", "device"], sort=False, as_index=False)
    return stages.agg(runs=("core_s", "size"), core_s=("core_s", "sum"), peak_gb=("peak_gb", "max"))
