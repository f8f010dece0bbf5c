"""Tables of the page on costs."""

import json
from dataclasses import asdict
from typing import Any, cast

import pandas as pd

from sameloss.device import device_name
from sameloss.runs.cost import CORE, H200, flops_per_second, training_bytes, training_flops
from sameloss.runs.pretraining import Pretraining
from sameloss.store.location import results_folder
from sameloss.store.provenance import origin_of
from sameloss.store.store import Store, with_ancestors
from sameloss.studies.recorded import recorded, records
from sameloss.studies.same_loss.experiment import PRESETS, Experiment

ON_A_GPU = ("gpu", "paper")
"""Presets whose estimate is for an H200."""


def estimated_and_measured(store: Store, experiment: Experiment) -> pd.DataFrame:
    """Return, for each size, what its longest descent was estimated to take and what it took.

    `tokens_per_s` counts tokens of sentences, not padding; `utilisation` is the operations on them over
    those of this device's matrix products in the same time (%), unknown for runs of another device.
    """
    rows = []
    replicates = list(experiment.replicates())
    for size in replicates[0].models:
        trainings = (r.main(size) for r in replicates if size in r.models)
        runs = [run for run in trainings if store.has(run)]
        if not runs:
            continue
        manifests = [store.manifest(run) for run in runs]
        took = sum(m["wall_s"] for m in manifests) / len(manifests)
        estimate = {"FLOPs": f"{training_flops(runs[0]):.2g}", "estimated_s": CORE.seconds(runs[0])}
        measured = {"measured_s": took, "peak_gb": max(m["peak_memory_bytes"] for m in manifests) / 1e9}
        here = {m["device"] for m in manifests} == {device_name()}
        rows.append({"size": size, **estimate, **measured, **_real(runs[0], store, took, here=here)})
    return pd.DataFrame(rows)


def _real(run: Pretraining, store: Store, seconds: float, *, here: bool) -> dict[str, float]:
    """Return the speed of a training on tokens that are there."""
    length = mean_length(run, store)
    products = flops_per_second(run.shape.d_model, run.execution.dtype) if here else float("nan")
    return {
        "tokens_per_s": round(
            run.passes * run.optimisation.steps * run.optimisation.batch * length / seconds
        ),
        "utilisation": 100 * training_flops(run, length) / (seconds * products * run.execution.processes),
    }


def mean_length(run: Pretraining, store: Store, sentences: int = 4096) -> float:
    """Return the mean number of tokens of sentences that a pre-training sees."""
    batch = store.get(run.corpus).batch(0, 0, sentences)
    return float(batch.masked.shape[1] if batch.lengths is None else batch.lengths.double().mean())


def preset_costs(store: Store) -> pd.DataFrame:
    """Return what all comparisons of each preset take: estimated before, and measured where they were run.

    The estimate is of the pre-trainings, one after the other; `measured_h` are the core-hours (on a GPU
    hours) of everything, from the store's manifests or from a record in `results/`.
    """
    return pd.DataFrame([_preset_cost(experiment, store) for experiment in PRESETS.values()])


def _preset_cost(experiment: Experiment, store: Store) -> dict[str, object]:
    runs = [run for replicate in experiment.replicates() for run in replicate.runs()]
    trainings = [run for run in with_ancestors(runs) if isinstance(run, Pretraining)]
    on_gpu = experiment.name in ON_A_GPU
    speed = H200 if on_gpu else CORE
    origin = origin_of(store, runs) if all(map(store.has, runs)) else _of_complete_record(experiment.name)
    return {
        "preset": experiment.name,
        "trainings": len(trainings),
        "FLOPs": f"{sum(map(training_flops, trainings)):.2g}",
        "GB": max(map(training_bytes, trainings)) / 1e9,
        "estimated_h": sum(map(speed.seconds, trainings)) / 3600,
        "for": "H200" if on_gpu else "one core",
        "measured_h": origin["core_hours"] if origin else float("nan"),
        "on": ", ".join(origin["device"]) if origin else "–",
    }


def _of_complete_record(preset: str) -> dict[str, Any] | None:
    """Return where the record of a preset comes from, if there is one and nothing is left of it."""
    parts = recorded("parts", preset)
    complete = parts.empty or not parts.left.any()
    return records().get(preset) if complete else None


def recorded_parts() -> pd.DataFrame:
    """Return the parts of every record that tells them, from `costs.by_part`, with their `preset`."""
    results_folder()  # of no book, which is not for want of a record
    tables = [recorded("parts", preset).assign(preset=preset) for preset in records()]
    table = pd.concat([table for table in tables if len(table)])
    return table[["preset", *table.columns.drop("preset")]]


def told_in_words(parts: pd.DataFrame) -> str:
    """Say by what factor the finished parts of records took longer than they were told to, or shorter.

    Args:
        parts: from `recorded_parts`; a part of which a run is missing does not count.

    """
    done = parts[parts.finished == parts.runs]
    totals = done.groupby("preset", sort=False)[["told", "took"]].sum()
    return " ".join(
        f"{row.Index}: {row.took:.1f} core-hours for the {(done.preset == row.Index).sum()} finished parts, "
        f"{row.took / row.told:.2f} times what was told."
        for row in totals.itertuples()
    )


def size_table() -> pd.DataFrame:
    """Return every transformer of every preset on the grammar: shape, and true number of parameters."""
    rows = []
    for experiment in PRESETS.values():
        setup = experiment.setups[0]
        words, length = setup.language.words, setup.language.max_length
        for size, shape in setup.models.items():
            about = {
                "size": size,
                "parameters": shape.parameter_count(words, length),
                **asdict(cast(Any, shape)),
            }
            rows.append({"preset": experiment.name, **about})
    table = pd.DataFrame(rows).drop_duplicates(["size"], keep="first")
    return table.reset_index(drop=True)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def recorded_benchmark(name: str) -> tuple[pd.DataFrame, str]:
    """Return the table that `benchmarks/<name>.py` recorded, and a line on where it ran."""
    folder = results_folder()
    table = pd.read_csv(folder / f"benchmark_{name}.csv")
    record = json.loads((folder / f"benchmark_{name}.json").read_text())
    table["met"] = table.met.map({True: "yes", False: "no"})
    for column in ("ours_value", "peer_value", "ratio", "goal"):
        table[column] = table[column].map(_short, na_action="ignore")
    table = table.astype(object).where(table.notna(), "–")
    versions = [f"{package} {version}" for package, version in record["versions"].items() if version]
    return table, (
        f"Recorded on {record['created'][:10]}, {record['device']}, {record['threads']} thread, "
        f"{', '.join(versions)}, source revision {record['revision']}."
    )


def recorded_campaign() -> tuple[pd.DataFrame, str]:
    """Return what `make campaign` recorded, one row a part, and what it found and where."""
    record = pd.read_csv(results_folder() / "campaign.csv")
    days, devices, revisions = (
        ", ".join(record[name].drop_duplicates().astype(str)) for name in ("created", "device", "revision")
    )
    found = "; ".join(record.found.dropna()) or "nothing was lost, and nothing was wrong in silence"
    return record[["what", "trials", "kills", "faults", "seconds"]], (
        f"Recorded on {days}, {devices}, source revision {revisions}: {record.trials.sum():,} trials, "
        f"{record.kills.sum():,} kills and interruptions; {found}."
    )
