"""A GPU beside this machine's CPU: one run of every kind on both, and what 235M takes on the card.

The smoke runs of every page are computed on the CPU first. Then each kind is computed on the card, from
parents of the CPU, so that a difference is that kind's own. Nothing needs to be installed but what the
library imports.

    PYTHONPATH=lib python3 benchmarks/gpu_check.py kinds
    PYTHONPATH=lib python3 benchmarks/gpu_check.py pieces
    PYTHONPATH=lib python3 benchmarks/gpu_check.py sizes
    python3 benchmarks/gpu_check.py kinds --device cpu   # the same comparison where there is no card
"""

import argparse
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import fields, is_dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from pretrain import huggingface
from racing import RESULTS, provenance

from sameloss.book.pages import open_page, pages_at
from sameloss.device import use_device
from sameloss.languages import PCFGSpec
from sameloss.languages.paper import PAPER_LANGUAGE
from sameloss.measures.downstream import OptimalProbe
from sameloss.measures.flatness.trace import fisher_trace
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.sizes import SIZES
from sameloss.runs.checkpoints import Checkpoints
from sameloss.store.pool import compute_all
from sameloss.store.provenance import seal
from sameloss.store.store import Run, Store, with_ancestors
from sameloss.training.corpus import EndlessCorpus
from sameloss.training.loop import Execution, Optimisation, make_optimiser, pretrain
from sameloss.training.objectives import Objective, loss_of

FOLDER = RESULTS / "gpu"
PACKAGES = ("torch", "transformers", "numpy")
PEAK_FLOPS = 989e12
"""Dense bfloat16 operations per second of an H100 or H200 (data sheet)."""


def smoke_runs(root: Path) -> list[Run]:
    """Return all runs of the book at its smallest preset, parents first."""
    runs = open_page("04_flatness", preset="smoke", language="hmm").runs()
    return with_ancestors(runs + [run for page in pages_at("smoke", Store(root)) for run in page.runs()])


def representatives(runs: Sequence[Run], each: int) -> list[Run]:
    """Return some runs of every kind: the first, and others with other classes in their fields."""
    found: dict[tuple[str, str], Run] = {}
    for run in runs:
        found.setdefault((run.kind, " ".join(sorted(_classes(run)))), run)
    by_kind: dict[str, list[Run]] = {}
    for (kind, _), run in found.items():
        by_kind.setdefault(kind, []).append(run)
    return [run for own in by_kind.values() for run in own[:each]]


def _classes(value: Any) -> set[str]:
    """Return the names of the dataclasses in the fields of a run, and the classes of its parents' fields."""
    found = set()
    for part in (getattr(value, f.name) for f in fields(value)):
        if is_dataclass(part) and not isinstance(part, type):
            found |= {type(part).__name__, *_classes(part)}
    return found


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Yield every array of numbers in a result, however deep it lies."""
    if isinstance(value, Checkpoints):
        for step in value.steps:
            yield from numbers(value.model(step).state_dict(), f"{name}/{step}")
    elif isinstance(value, torch.Tensor):
        yield name, value.detach().cpu().double().numpy()
    elif isinstance(value, np.ndarray | float | int | bool | np.number):
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            yield name, array.astype(float)
    elif isinstance(value, pd.DataFrame):
        for column in value.select_dtypes(["number", "bool"]):
            yield f"{name}/{column}", value[column].to_numpy(float)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from numbers(part, f"{name}/{key}")
    elif is_dataclass(value):
        yield from numbers({f.name: getattr(value, f.name) for f in fields(value)}, name)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from numbers(part, f"{name}/{number}")


def largest_difference(here: Any, there: Any) -> tuple[float, str]:
    """Return the largest difference of two results relative to the largest number of its array, and where."""
    worst = (0.0, "")
    ours, theirs = dict(numbers(here)), dict(numbers(there))
    if ours.keys() != theirs.keys():
        return np.inf, "other parts"
    for name, a in ours.items():
        b = theirs[name]
        if a.shape != b.shape:
            return np.inf, name
        if a.size and "second" not in name and "wall" not in name:
            gap = np.nan_to_num(np.abs(a - b)).max() / max(np.abs(np.nan_to_num(a)).max(), 1e-30)
            worst = max(worst, (float(gap), name))
    return worst


def on_device(device: str, root: Path, run: Run) -> dict[str, Any]:
    """Compute one run on a device from parents that the CPU made; return how far it is from the CPU's."""
    use_device(device)
    base, own = Store(root), Store(root / "device" / run.key)
    for parent in with_ancestors([run])[:-1]:
        target = own.folder(parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.symlink_to(base.folder(parent).resolve())
    row = {"kind": run.kind, "fields": " ".join(sorted(_classes(run))), "cpu_s": base.manifest(run)["wall_s"]}
    try:
        started = time.perf_counter()
        there = own.get(run)
        row |= {"device_s": own.manifest(run)["wall_s"], "with_start_s": time.perf_counter() - started}
        row["difference"], row["where"] = largest_difference(base.get(run), there)
        row["peak_MB"] = own.manifest(run)["peak_memory_bytes"] / 1e6
    except Exception as error:  # a table of what fails is what this is for
        row |= {"difference": np.nan, "where": f"{type(error).__name__}: {error}"[:300]}
        print(run.kind, traceback.format_exc()[-1500:], file=sys.stderr, flush=True)
    return row


def kinds(device: str, root: Path, workers: int, each: int) -> pd.DataFrame:
    """Return how far every kind of run on a device is from the same on the CPU."""
    use_device("cpu")
    runs = smoke_runs(root)
    chosen = representatives([run for run in runs if run.accelerated], each)
    compute_all(Store(root), chosen, workers)
    print(f"{len(chosen)} runs of {len({run.kind for run in chosen})} kinds, of {len(runs)}", flush=True)
    rows = []
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        for done in as_completed(pool.submit(on_device, device, root, run) for run in chosen):
            rows.append(done.result())
            write("kinds", pd.DataFrame(rows).sort_values("kind"), device)  # what is cut short is not lost
    return pd.DataFrame(rows)


# What 235M takes


def training_step(
    size: str, batch: int, execution: Execution, steps: int, micro_batch: int = 2048
) -> dict[str, Any]:
    """Return the time of a step of pre-training, its share of the card's peak, and its memory."""
    shape, corpus = SIZES["paper"][size], EndlessCorpus(PAPER_LANGUAGE.build(), 0)
    batches = [corpus.batch(0, step, batch).to("cuda") for step in range(4)]
    model = Encoder(shape, PAPER_LANGUAGE.words, PAPER_LANGUAGE.max_length, seed=0).cuda()
    settings = Optimisation(10**6, batch, 1e-4, warmup=0.0, schedule="constant")
    torch.cuda.reset_peak_memory_stats()
    taken = pretrain(
        model,
        make_optimiser(model, settings),
        lambda step: batches[step % 4],
        settings,
        micro_batch=min(batch, micro_batch),
        execution=execution,
    )
    begun = time.perf_counter()
    for _ in range(5):
        next(taken)
    warm = time.perf_counter() - begun
    torch.cuda.synchronize()
    begun = time.perf_counter()
    losses = [next(taken).loss for _ in range(steps)]
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - begun) / steps
    tokens = sum(float(b.lengths.sum()) for b in batches) / 4
    length = tokens / batch
    flops = shape.flops(PAPER_LANGUAGE.words, length) * batch
    del taken, model
    return {
        "what": f"pre-training {size}, {batch} sentences a step in parts of {min(batch, micro_batch)}"
        f"{', compiled' * execution.compiled}",
        "seconds": seconds,
        "rate": tokens / seconds,
        "unit": "tokens/s",
        "share_of_peak": flops / seconds / PEAK_FLOPS,
        "peak_GB": torch.cuda.max_memory_allocated() / 1e9,
        "first_five_s": warm,
        "loss": losses[-1],
    }


def trace_step(size: str, sentences: int, labels: int) -> dict[str, Any]:
    """Return the time and memory of a Fisher trace."""
    corpus = EndlessCorpus(PAPER_LANGUAGE.build(), 0)
    model = (
        Encoder(SIZES["paper"][size], PAPER_LANGUAGE.words, PAPER_LANGUAGE.max_length, seed=0).cuda().eval()
    )
    batch = corpus.batch(0, 0, sentences).to("cuda")
    draw = partial(fisher_trace, model, labels=labels)
    draw(batch.rows(slice(8)), generator=torch.Generator().manual_seed(0))
    torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    found = draw(batch, generator=torch.Generator().manual_seed(0))
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    return {
        "what": f"Fisher trace {size}, {sentences} sentences, {labels} labels",
        "seconds": seconds,
        "rate": sentences * labels / seconds,
        "unit": "gradients/s",
        "peak_GB": torch.cuda.max_memory_allocated() / 1e9,
        "loss": found.total.mean,
    }


def probe_step(seeds: int, sentences: int, width: int, classes: Sequence[int]) -> dict[str, Any]:
    """Return the time and memory of probes on features of a width, drawn at random."""
    generator = torch.Generator("cuda").manual_seed(0)
    latent = torch.randn(seeds, sentences, 64, generator=generator, device="cuda")
    mixing = torch.randn(64, width, generator=generator, device="cuda")
    features = latent @ mixing / 8 + 0.1 * torch.randn(
        seeds, sentences, width, generator=generator, device="cuda"
    )
    labels = torch.stack([latent[..., :c].argmax(-1) for c in classes], -1)
    torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    OptimalProbe().fit(features, labels, classes, 0)
    torch.cuda.synchronize()
    return {
        "what": f"probe, {seeds} seed, {sentences} sentences, {width} features",
        "seconds": time.perf_counter() - begun,
        "peak_GB": torch.cuda.max_memory_allocated() / 1e9,
    }


def conditionals_step(device: str, sentences: int) -> dict[str, Any]:
    """Return the time of exact conditionals of the paper's grammar."""
    language = PAPER_LANGUAGE.build()
    drawn = language.sample(sentences, torch.Generator().manual_seed(0)).to(device)
    language.conditionals(drawn.rows(slice(64)))
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    language.conditionals(drawn)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begun
    return {
        "what": f"exact conditionals of the paper's grammar, {'card' if device == 'cuda' else 'one core'}",
        "seconds": seconds,
        "rate": sentences / seconds,
        "unit": "sentences/s",
        "peak_GB": torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else np.nan,
    }


SMALL_LANGUAGE = PCFGSpec(2, 8, 8, 8, 8, 32, 8, 1.0, 1.0, early_stop=(0.1, 0.26), smoothing=0.05, seed=1)


def small_training(device: str, compiled: bool, d_model: int, seconds: float = 8) -> tuple[int, float, float]:
    """Train a small model on exact labels for some seconds; return steps, begin and end."""
    torch.set_num_threads(1)
    language = SMALL_LANGUAGE.build()
    corpus = EndlessCorpus(language, 0)
    shape = EncoderShape(d_model, 2, 3, 4 * d_model)
    model = Encoder(shape, SMALL_LANGUAGE.words, SMALL_LANGUAGE.max_length, seed=0).to(device)
    settings = Optimisation(10**6, 256, 1e-3, warmup=0.0, schedule="constant")
    draw = torch.Generator().manual_seed(0)
    taken = pretrain(
        model,
        make_optimiser(model, settings),
        lambda step: corpus.batch(0, step, 256).to(device),
        settings,
        loss_at=lambda step: loss_of(Objective(label_noise=0.0), draw, language, None),
        execution=Execution(compiled=compiled, by_length=compiled),
    )
    for _ in range(10):
        next(taken)
    begun, steps = time.perf_counter(), 0
    while time.perf_counter() - begun < seconds:
        next(taken)
        steps += 1
    return steps, begun, time.perf_counter()


def small_trainings(device: str, processes: int, d_model: int, compiled: bool = False) -> dict[str, Any]:
    """Return how many steps per second several trainings of a small model take together."""
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        asked = [pool.submit(small_training, device, compiled, d_model) for _ in range(processes)]
        rates = [steps / (end - begun) for steps, begun, end in (each.result() for each in asked)]
    return {
        "what": f"{processes} trainings at once of d = {d_model}, exact labels, "
        f"{device}{', compiled' * compiled}",
        "rate": sum(rates),
        "unit": "steps/s",
    }


def huggingface_step(size: str, batch: int, steps: int) -> dict[str, Any]:
    """Return the time of a step of `BertForMaskedLM` of a size in bfloat16, on padded batches."""
    corpus = EndlessCorpus(PAPER_LANGUAGE.build(), 0)
    batches = [corpus.batch(0, step, batch).to("cuda") for step in range(4)]
    taken = huggingface(size, PAPER_LANGUAGE, batches, "fused AdamW")
    torch.cuda.reset_peak_memory_stats()
    for _ in range(4):
        next(taken)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(steps):
        next(taken)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - begun) / steps
    tokens = sum(float(b.lengths.sum()) for b in batches) / 4
    return {
        "what": f"BertForMaskedLM {size}, {batch} sentences a step",
        "seconds": seconds,
        "rate": tokens / seconds,
        "unit": "tokens/s",
        "peak_GB": torch.cuda.max_memory_allocated() / 1e9,
    }


def pieces() -> pd.DataFrame:
    """Return how far what the emulated device is asked in the tests is from the CPU on a real one."""
    sys.path.insert(0, str(RESULTS.parent / "tests"))
    import test_devices  # of this book's tests, where a device is emulated

    rows = []
    for piece in test_devices.PIECES:
        row = {"piece": piece}
        try:
            here, there = (test_devices.computed(piece, device) for device in ("cpu", "cuda"))
            row["difference"], row["where"] = largest_difference(here, there)
        except Exception as error:
            row["where"] = f"{type(error).__name__}: {error}"[:300]
            traceback.print_exc()
        rows.append(row)
    return pd.DataFrame(rows)


BF16 = Execution(autocast=True, by_length=True)


def sizes() -> Iterator[dict[str, Any]]:
    """Yield what the parts of chapter 4 take at the paper's sizes."""
    torch.set_num_threads(1)
    steps = [
        partial(conditionals_step, "cpu", 256),
        partial(conditionals_step, "cuda", 20_000),
        partial(training_step, "235M", 4096, BF16, 8),
        partial(trace_step, "235M", 200, 50),
        partial(probe_step, 1, 2_000, 32_768, (10, 10, 10)),
        partial(probe_step, 1, 20_000, 32_768, (10, 10, 10)),
        partial(training_step, "235M", 4096, BF16, 8, 512),
        partial(training_step, "235M", 1024, BF16, 8),
        partial(huggingface_step, "235M", 1024, 8),
        partial(small_trainings, "cuda", 1, 48),
        partial(small_trainings, "cuda", 8, 48),
        partial(small_trainings, "cuda", 16, 48),
        partial(small_trainings, "cpu", 16, 48),
        partial(small_trainings, "cuda", 1, 48, True),
        partial(training_step, "235M", 4096, replace(BF16, compiled=True), 8),
        partial(training_step, "41M", 4096, BF16, 10),
        partial(training_step, "5M", 4096, BF16, 10),
        partial(training_step, "5M", 4096, replace(BF16, compiled=True), 10),
    ]
    for step in steps:
        try:
            yield step()
        except Exception as error:  # one part that fails says so in the table
            yield {"what": str(step.args), "unit": f"{type(error).__name__}: {error}"[:300]}
            traceback.print_exc()
        torch.cuda.empty_cache()


def write(name: str, table: pd.DataFrame, device: str) -> None:
    """Write a table, and beside it what it was measured with; what a CPU measured is only printed."""
    if device == "cpu":
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    table.to_csv(FOLDER / f"{name}.csv", index=False, float_format="%.4g")
    seal(FOLDER / f"{name}.json", provenance(PACKAGES, device), f"{name}.csv")


def main() -> None:
    """Compare or measure, as the first word says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("kinds", "pieces", "sizes"))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--store", type=Path, default=Path("artifacts"))
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--each", type=int, default=3)
    given = parser.parse_args()
    if not torch.cuda.is_available() and (given.part, given.device) != ("kinds", "cpu"):
        raise SystemExit(
            "gpu_check needs an NVIDIA GPU, and PyTorch finds none here; `kinds --device cpu` needs none."
        )
    if given.part == "kinds":
        table = kinds(given.device, given.store.absolute(), given.workers, given.each)
    elif given.part == "pieces":
        table = pieces()
    else:
        rows = []
        for row in sizes():
            rows.append(row)
            print(row, flush=True)
            write("sizes", pd.DataFrame(rows), given.device)
        table = pd.DataFrame(rows)
    print(table.to_string(max_colwidth=60))
    write(given.part, table, given.device)


if __name__ == "__main__":
    main()
