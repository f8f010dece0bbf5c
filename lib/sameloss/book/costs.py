"""What a page costs: an estimate before, the record after."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from sameloss.device import best_device, device_name, usable_workers
from sameloss.errors import ParameterError
from sameloss.runs.cost import H200, H200_IN_CORES, core_factors, training_bytes, training_flops
from sameloss.runs.pretraining import Pretraining
from sameloss.store.store import Run, Store, with_ancestors
from sameloss.studies.page import Page
from sameloss.studies.parameters import MAX_HOURS


def announce(page: Page[Any], runs: Iterable[Run] | None = None) -> str:
    """Say what the missing runs will cost; refuse what is out of all proportion.

    What is refused depends on the runs alone, on the hours that they take a reference core or GPU. How long
    they take this machine is measured, and only told.

    Args:
        page: its store and its limits count.
        runs: what is to be computed, with all that it reads; what the page reads where None.

    Returns:
        One sentence.

    Raises:
        ParameterError: where the reference's hours are above `max_hours`.

    """
    needed = with_ancestors(page.runs() if runs is None else runs)
    missing = page.store.missing(needed)
    if not missing:
        return f"{page.about}: all {len(needed)} runs are in the store; nothing is computed."
    hours = sum(map(reference_seconds, missing)) / 3600
    reference = "an H200" if best_device() == "cuda" else "one core"
    cost = f"{_duration(hours)} of {reference}{_training_in_words(missing)}"
    limit = page.config.max_hours or MAX_HOURS[page.config.name]
    if hours > limit:
        raise ParameterError(
            f"{page.about}: {len(missing)} missing runs take about {cost}, above max_hours = {limit:g}; "
            "raise max_hours, or choose something smaller."
        )
    here = _here(missing, _at_once(page))
    return f"{page.about}: {len(missing)} of {len(needed)} runs to compute, about {cost}{here}."


def reference_seconds(run: Run) -> float:
    """Return what a run takes the reference core, or where there is a GPU an H200."""
    if best_device() != "cuda":
        return run.effort
    return H200.seconds(run) if isinstance(run, Pretraining) else run.effort / H200_IN_CORES


def _at_once(page: Page[Any]) -> int:
    """Return how many runs are computed at once: workers that share a core make none of them faster."""
    return min(page.config.workers or usable_workers(), usable_workers())


def _here(missing: list[Run], cores: int) -> str:
    """Say what that takes on the cores of this machine, where nothing else needs them."""
    if best_device() == "cuda":
        return ""
    seconds = [reference_seconds(run) for run in missing]
    least = max(sum(seconds) / cores, *seconds)  # the longest run is not shared
    fastest, slowest = (_duration(factor * least / 3600) for factor in core_factors())
    time = fastest if fastest == slowest else f"{fastest} to {slowest}"
    return f"; here, {cores} at once ({device_name()}): {time}"


def _training_in_words(missing: list[Run]) -> str:
    """Return what the pre-trainings among some runs take, in words."""
    trainings = [run for run in missing if isinstance(run, Pretraining)]
    if not trainings:
        return ""
    flops, gigabytes = sum(map(training_flops, trainings)), max(map(training_bytes, trainings)) / 1e9
    return f" (pre-trainings: {len(trainings)}, {flops:.2g} FLOPs, {gigabytes:.2g} GB a process)"


def _duration(hours: float) -> str:
    if hours >= 1:
        return f"{hours:,.1f} hours"
    if hours >= 1 / 60:
        return f"{60 * hours:.1f} minutes"
    seconds = max(1, round(3600 * hours))
    return f"{seconds} second{'s' if seconds > 1 else ''}"


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
    """Return stage by stage what the finished runs of each page took."""
    tables = [
        measured(page.store, page.runs()).assign(chapter=page.name)
        for page in pages
        if any(map(page.store.has, page.runs()))
    ]
    return pd.concat(tables, ignore_index=True)[["chapter", "device", "stage", "runs", "core_s", "peak_gb"]]


def by_part(page: Page[Any]) -> pd.DataFrame:
    """Return what the parts of a page's record take, in the order in which they are computed.

    Returns:
        One row a part: `part`, the number of its `runs` and of those `finished`; core-hours `told` and `took`
        of the finished ones, and `left`, told of the others. What an earlier part has is not counted again.

    """

    def told(runs: list[Run]) -> float:
        return sum(map(reference_seconds, runs)) / 3600

    return pd.DataFrame(
        {
            "part": name,
            "runs": len(runs),
            "finished": len(done := list(filter(page.store.has, runs))),
            "told": told(done),
            "took": sum(page.store.manifest(run)["wall_s"] for run in done) / 3600,
            "left": told(missing),
        }
        for name, runs, missing in _once(page)
        if runs
    )


def _once(page: Page[Any]) -> Iterator[tuple[str, list[Run], list[Run]]]:
    """Yield each part's name, its runs with all that they read, and those to be computed, each run once."""
    seen = set[Path]()
    for name, runs in page.parts().items():
        every, missing = with_ancestors(runs), page.store.missing(runs)
        new, left = ([run for run in some if page.store.folder(run) not in seen] for some in (every, missing))
        yield name, new, left
        seen |= set(map(page.store.folder, every))


def parts_in_words(page: Page[Any]) -> str:
    """Return what is left of a record here, in all and part by part in the order of `by_part`."""
    parts, cores = by_part(page), _at_once(page)
    lines = [
        f"  {row.part}: {row.finished} of {row.runs} runs"
        + (f", {_duration(row.left)} of one core left" if row.left else "")
        for row in parts.itertuples()
    ]
    left = f"about {_duration(parts.left.sum() / cores)} left" if parts.left.any() else "complete"
    return "\n".join([f"Record of {page.name}, preset {page.config.name}: {left}.", *lines])


def totals(stages: pd.DataFrame) -> pd.DataFrame:
    """Return what all stages of a page took together, from `by_page`."""
    pages = stages.groupby(["chapter", "device"], sort=False, as_index=False)
    return pages.agg({"runs": "sum", "core_s": "sum", "peak_gb": "max"})
