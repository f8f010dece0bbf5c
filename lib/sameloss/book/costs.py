"""What a setting costs: an estimate before, the record after."""

from collections.abc import Callable, Iterable

import pandas as pd

from sameloss.device import device_name
from sameloss.errors import ParameterError
from sameloss.runs.cost import this_device, training_bytes, training_flops
from sameloss.runs.pretraining import Pretraining
from sameloss.store.pool import usable_workers
from sameloss.store.store import Run, with_ancestors
from sameloss.studies.same_loss.arms import ARMS, Study
from sameloss.studies.same_loss.groups import Setting


def announce(setting: Setting, runs: Iterable[Run] | None = None) -> str:
    """Say what the missing pre-trainings will cost here; refuse what would take too long.

    Args:
        setting: its device, limits and store.
        runs: what is to be computed, with all it reads; the setting's own where None.

    Returns:
        One sentence.

    Raises:
        ParameterError: where the estimate is above `max_hours`.

    """
    needed = with_ancestors(setting.runs() if runs is None else runs)
    wanted = [run for run in needed if isinstance(run, Pretraining)]
    missing = [run for run in wanted if not setting.store.has(run)]
    name = f"preset {setting.preset.name}, size {', '.join(setting.sizes)}"
    if not missing:
        return f"{name}: all {len(wanted)} pre-trainings are in the store; nothing is trained."
    flops = sum(training_flops(run) for run in missing)
    workers = min(setting.preset.workers or usable_workers(), len(missing))
    hours = sum(map(this_device().seconds, missing)) / workers / 3600
    gigabytes = max(training_bytes(run) for run in missing) / 1e9
    cost = (
        f"about {flops:.2g} FLOPs, {_duration(hours)} and {gigabytes:.2g} GB a process "
        f"on this device ({device_name()})"
    )
    if hours > setting.preset.max_hours:
        raise ParameterError(
            f"{name}: {len(missing)} pre-training(s) would take {cost}, above "
            f"max_hours = {setting.preset.max_hours:g}; lift the limit with the parameter "
            f"max_hours, or choose a smaller size or fewer steps."
        )
    return f"{name}: {len(missing)} pre-training(s) will take {cost}."


def _duration(hours: float) -> str:
    if hours >= 1:
        return f"{hours:,.1f} hours"
    return f"{60 * hours:.1f} minutes" if hours >= 1 / 60 else f"{max(1, round(3600 * hours))} seconds"


def measured(setting: Setting, runs: list[Run] | None = None) -> pd.DataFrame:
    """Tabulate what the setting's finished runs took, from their manifests."""
    rows = []
    for run in with_ancestors(runs or setting.runs()):
        if setting.store.has(run):
            manifest = setting.store.manifest(run)
            rows.append(
                {
                    "stage": run.kind,
                    "device": manifest["device"],
                    "core_s": manifest["wall_s"],
                    "memory": manifest["peak_memory_bytes"],
                }
            )
    table = pd.DataFrame(rows).groupby(["stage", "device"], sort=False, as_index=False)
    table = table.agg(runs=("core_s", "size"), core_s=("core_s", "sum"), peak_gb=("memory", "max"))
    table["peak_gb"] /= 1e9
    table.insert(0, "preset", setting.preset.name)
    return table


BESIDE: dict[str, Callable[[Setting], Iterable[Run]]] = {
    "02_existence": lambda setting: [*setting.protocol_runs(), *setting.finetunings().values()],
    "03_implicit_bias": Setting.implicit_bias,
    "04_flatness": lambda setting: setting.gaps().values(),
    "05_dyck": lambda setting: setting.dyck().runs(),
    "a1_datasets": lambda setting: [*setting.language_runs(), setting.corpus],
    "b1_trace": Setting.trace_runs,
    "b2_enlargement": lambda setting: setting.enlargements().values(),
    "d_practice": lambda setting: [
        run
        for arm in Study(setting, ARMS["d_practice"]).arms
        for run in arm.setting(setting).flatness().values()
    ],
}
"""What a chapter reads beside its comparisons."""


def runs_of(setting: Setting, chapter: str) -> list[Run]:
    """Return what a chapter reads."""
    compared = Study(setting, ARMS[chapter]).runs() if chapter in ARMS else []
    return [*compared, *BESIDE.get(chapter, lambda _: [])(setting)]


def chapter_runs(setting: Setting) -> dict[str, list[Run]]:
    """Return what each chapter reads."""
    return {name: runs_of(setting, name) for name in sorted({*BESIDE, *ARMS})}


def by_chapter(setting: Setting) -> pd.DataFrame:
    """Return stage by stage what each chapter's finished runs took, with a total."""
    parts = []
    for chapter, runs in chapter_runs(setting).items():
        if not any(map(setting.store.has, runs)):
            continue
        table = measured(setting, runs)
        total = {
            "stage": "all",
            "runs": table.runs.sum(),
            "core_s": table.core_s.sum(),
            "peak_gb": table.peak_gb.max(),
            "preset": setting.preset.name,
            "device": ", ".join(table.device.unique()),
        }
        table = pd.concat([table, pd.DataFrame([total])], ignore_index=True)
        parts.append(table.assign(chapter=chapter))
    table = pd.concat(parts, ignore_index=True)
    return table[["chapter", "preset", "device", "stage", "runs", "core_s", "peak_gb"]]
