"""What a page costs: an estimate before, the record after."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from sameloss.device import device_name
from sameloss.errors import ParameterError
from sameloss.runs.cost import this_device, training_bytes, training_flops
from sameloss.runs.pretraining import Pretraining
from sameloss.store.pool import usable_workers
from sameloss.store.store import Run, Store, with_ancestors
from sameloss.studies.page import Page


def announce(page: Page[Any], runs: Iterable[Run] | None = None) -> str:
    """Say what missing pre-trainings will cost here; refuse what would take too long.

    Args:
        page: its store and its limits count.
        runs: what is to be computed, with all that it reads; what the page reads where None.

    Returns:
        One sentence.

    Raises:
        ParameterError: where the estimate is above `max_hours`.

    """
    needed = with_ancestors(page.runs() if runs is None else runs)
    trainings = [run for run in needed if isinstance(run, Pretraining)]
    missing = [run for run in trainings if not page.store.has(run)]
    if not trainings:
        absent = sum(not page.store.has(run) for run in needed)
        return f"{page.about}: {len(needed)} runs, {absent} of them to be made; none trains a language model."
    if not missing:
        return f"{page.about}: all {len(trainings)} pre-trainings are in the store; nothing is trained."
    cost, hours = _estimate(missing, page.settings.limits.workers)
    limit = page.settings.limits.max_hours
    if hours > limit:
        raise ParameterError(
            f"{page.about}: {len(missing)} pre-training(s) would take {cost}, above max_hours = {limit:g}; "
            "lift the limit with the parameter max_hours, or choose a smaller size or fewer steps."
        )
    return f"{page.about}: {len(missing)} pre-training(s) will take {cost}."


def _estimate(missing: list[Pretraining], workers: int | None) -> tuple[str, float]:
    """Return what pre-trainings take on this device, in words, and the hours of it."""
    flops = sum(map(training_flops, missing))
    together = min(workers or usable_workers(), len(missing))
    hours = sum(map(this_device().seconds, missing)) / together / 3600
    gigabytes = max(map(training_bytes, missing)) / 1e9
    words = (
        f"about {flops:.2g} FLOPs, {_duration(hours)} and {gigabytes:.2g} GB a process "
        f"on this device ({device_name()})"
    )
    return words, hours


def _duration(hours: float) -> str:
    if hours >= 1:
        return f"{hours:,.1f} hours"
    return f"{60 * hours:.1f} minutes" if hours >= 1 / 60 else f"{max(1, round(3600 * hours))} seconds"


def measured(store: Store, runs: Iterable[Run]) -> pd.DataFrame:
    """Return what finished runs, and all that they read, took, by stage and device."""
    manifests = [store.manifest(run) for run in with_ancestors(runs) if store.has(run)]
    table = pd.DataFrame(
        {
            "stage": m["parameters"]["run"],
            "device": m["device"],
            "core_s": m["wall_s"],
            "memory": m["peak_memory_bytes"],
        }
        for m in manifests
    )
    stages = table.groupby(["stage", "device"], sort=False, as_index=False)
    costs = stages.agg(runs=("core_s", "size"), core_s=("core_s", "sum"), peak_gb=("memory", "max"))
    return costs.assign(peak_gb=costs.peak_gb / 1e9)


def by_page(pages: Iterable[Page[Any]]) -> pd.DataFrame:
    """Return stage by stage what the finished runs of each page took, with a total."""
    parts = []
    for page in pages:
        runs = page.runs()
        if not any(map(page.store.has, runs)):
            continue
        table = measured(page.store, runs)
        total = {
            "stage": "all",
            "runs": table.runs.sum(),
            "core_s": table.core_s.sum(),
            "peak_gb": table.peak_gb.max(),
            "device": ", ".join(table.device.unique()),
        }
        table = pd.concat([table, pd.DataFrame([total])], ignore_index=True)
        parts.append(table.assign(chapter=page.name, preset=page.settings.name))
    columns = ["chapter", "preset", "device", "stage", "runs", "core_s", "peak_gb"]
    return pd.concat(parts, ignore_index=True)[columns]
