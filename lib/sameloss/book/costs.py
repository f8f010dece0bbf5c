"""Estimated and measured costs of runs."""

from collections import defaultdict
from collections.abc import Iterable

import pandas as pd

from sameloss.device import accelerated, device_bytes, device_name, usable_workers
from sameloss.errors import ParameterError
from sameloss.runs.pretraining import Pretraining
from sameloss.store.store import Run, Store, with_ancestors

ON_A_GPU = ("gpu-hour", "gpu", "paper")
"""Presets estimated for an H200."""

MOST_PARTS = 3
"""Kinds of runs whose time an estimate names."""

H200_BFLOAT16, H200_FLOAT32 = 4e14, 2.5e13
"""Operations per second of an NVIDIA H200: two fifths of the peak in its data sheet, assumed.

In bfloat16 are pre-trainings of encoders, all of whose sentences are counted at full length.
"""

H200_STEP_S = 0.01
"""Seconds in which a GPU is told what to do for a micro-batch; an H100 took 11 ms for d = 48."""


def estimate(about: str, store: Store, runs: Iterable[Run], max_hours: float, workers: int | None) -> str:
    """Estimate the cost of missing runs, in one sentence; refuse above `max_hours` and what does not fit.

    The limit is on hours of one core or GPU, so that it depends on the runs alone.

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
    _require_memory(about, max(missing, key=lambda run: run.memory))
    count = f"{len(missing)} of {len(with_ancestors(runs))} runs to compute"
    if not accelerated():  # a single run is not parallel
        cores = at_once(workers)
        longest = max(hours / cores, *(reference_seconds(run) / 3600 for run in missing))
        cost += f"; here, {cores} at once ({device_name()}): {duration(longest)}"
    return f"{about}: {count}, about {cost}."


def _in_parts(missing: list[Run]) -> str:
    """Hours of the kinds of runs that take most, operations of pre-trainings, and memory."""
    hours = defaultdict[str, float](float)
    for run in missing:
        hours[run.kind] += reference_seconds(run) / 3600
    longest = sorted(hours, key=lambda kind: -hours[kind])[:MOST_PARTS]
    parts = [f"{kind} {duration(hours[kind])}" for kind in longest]
    if flops := [run.flops for run in missing if isinstance(run, Pretraining)]:
        parts.append(f"pre-trainings: {len(flops)}, {sum(flops):.2g} FLOPs")
    memory = max(run.memory for run in missing) / 1e9
    where = "GPU memory" if accelerated() else "memory per process"
    return "; ".join([*parts, f"{memory:.2g} GB of {where}"])


def _require_memory(about: str, run: Run) -> None:
    """Refuse a run that does not fit, before others have taken hours.

    Raises:
        ParameterError: with the parameter that makes it fit.

    """
    if run.memory > (there := device_bytes()):
        raise ParameterError(
            f"{about}: {run.kind} takes about {run.memory / 1e9:.0f} GB of the memory of this device "
            f"({device_name()}), which has {there / 1e9:.0f}; {run.memory_advice}."
        )


def reference_seconds(run: Run) -> float:
    """Estimated seconds on one core of the record, or for an accelerated run with a GPU on an H200."""
    return h200_seconds(run) if accelerated() and run.accelerated else run.effort


def h200_seconds(run: Run) -> float:
    """Estimated seconds on an NVIDIA H200."""
    if not isinstance(run, Pretraining):
        return run.work / H200_FLOAT32
    micro_batches = -(-run.optimisation.batch // (run.execution.processes * run.micro_batch))
    rate = H200_BFLOAT16 if run.execution.autocast else H200_FLOAT32
    return run.work / rate + run.passes * run.optimisation.steps * micro_batches * H200_STEP_S


def at_once(workers: int | None) -> int:
    """Runs computed at once: more workers than cores do not speed anything up."""
    return min(workers or usable_workers(), usable_workers())


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
