"""What a setting costs: an estimate before, the record after."""

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict

import pandas as pd
import torch

from sameloss.errors import ParameterError
from sameloss.experiments import Pretraining
from sameloss.experiments.pretraining import best_device
from sameloss.models.bilstm import BiLSTMShape
from sameloss.models.encoder import EncoderShape
from sameloss.parameters import book_root
from sameloss.presets import PRESETS, Shape
from sameloss.runs import Run, device_name, with_ancestors
from sameloss.setting import Setting
from sameloss.study import ARMS, Study

UTILISATION = 0.35
"""Training's share of the speed of its own matrix products, measured on a laptop's core."""


def block_parameters(shape: Shape) -> int:
    """Return the parameters that multiply every token: the matrices of the blocks.

    >>> block_parameters(EncoderShape(64, 1, 1, 256)), block_parameters(BiLSTMShape(64, 1))
    (49152, 24576)
    """
    if isinstance(shape, BiLSTMShape):
        return shape.layers * 6 * shape.d_model**2  # two directions of four gates
    return shape.layers * (4 * shape.d_model**2 + 2 * shape.d_model * shape.d_inter)


def training_flops(run: Pretraining) -> float:
    """Return the floating-point operations of a pre-training.

    6 for each product with a parameter (forward 2, backward 4): of a block's at every token, but of
    an encoder's last block only keys and values are needed at all of them; of the head's at the one
    masked position. Attention adds 12 d T a token and layer. Sentences are counted at full length.
    """
    shape, length = run.shape, run.corpus.language.max_length
    products = length * block_parameters(shape) + shape.d_model * (shape.d_model + run.corpus.language.words)
    attention = 0
    if isinstance(shape, EncoderShape):
        spared = block_parameters(shape) // shape.layers - 2 * shape.d_model**2
        products -= (length - 1) * spared
        attention = 12 * shape.d_model * length * ((shape.layers - 1) * length + 1)
    sentences = run.optimisation.steps * run.optimisation.batch
    return float(run.passes * sentences * (6 * products + attention))


def training_bytes(run: Pretraining) -> float:
    """Return a rough peak of memory: weights, gradients, two moments, and activations."""
    shape, length = run.shape, run.corpus.language.max_length
    words = run.corpus.language.words
    parameters = block_parameters(shape) + shape.d_model * (words + length + shape.d_model)
    if isinstance(shape, BiLSTMShape):
        activations = shape.layers * 20 * shape.d_model
    else:
        activations = shape.layers * (12 * shape.d_model + 3 * shape.d_inter + 3 * shape.heads * length)
    return 4.0 * (4 * parameters + run.micro_batch * length * activations)


def flops_per_second(width: int, seconds: float = 0.1) -> float:
    """Measure this device's matrix products at a model's width, on one CPU thread or the GPU."""
    device = best_device()
    a = torch.randn(2048, width, device=device)
    b = torch.randn(width, 4 * width, device=device)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    float((a @ b)[0, 0])  # the first product of a process also loads the library
    repeats, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        a @ b
        repeats += 1
    if device == "cuda":
        torch.cuda.synchronize()
    torch.set_num_threads(threads)
    return repeats * 2.0 * a.numel() * 4 * width / (time.perf_counter() - start)


def training_seconds(runs: list[Pretraining]) -> float:
    """Estimate how long pre-trainings take on this device, one after the other."""
    speed = {width: flops_per_second(width) for width in {run.shape.d_model for run in runs}}
    return sum(training_flops(run) / (UTILISATION * speed[run.shape.d_model]) for run in runs)


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
    workers = setting.preset.workers or os.cpu_count() or 1
    hours = training_seconds(missing) / min(workers, len(missing)) / 3600
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


def estimated_and_measured(setting: Setting) -> pd.DataFrame:
    """Return, for each size, the estimated and the measured seconds of one pre-training."""
    rows = []
    for size in setting.sizes:
        runs = [run for (name, _), run in setting.pretrainings().items() if name == size]
        seconds = [setting.store.manifest(run)["wall_s"] for run in runs]
        rows.append(
            {
                "size": size,
                "FLOPs": f"{training_flops(runs[0]):.2g}",
                "estimated_s": training_seconds(runs[:1]),
                "measured_s": sum(seconds) / len(seconds),
            }
        )
    return pd.DataFrame(rows)


def size_table() -> pd.DataFrame:
    """Return every size of every preset: shape, and true number of parameters."""
    rows = []
    for preset in PRESETS.values():
        for size, shape in preset.sizes.items():
            count = preset.parameter_count(size)
            rows.append({"preset": preset.name, "size": size, "parameters": count, **asdict(shape)})
    table = pd.DataFrame(rows).drop_duplicates(["size"], keep="first")
    return table.reset_index(drop=True)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def recorded_benchmark(name: str) -> tuple[pd.DataFrame, str]:
    """Return the table that `benchmarks/<name>.py` recorded, and a line on where it ran."""
    folder = book_root() / "results"
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
