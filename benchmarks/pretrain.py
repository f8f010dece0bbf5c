"""Pre-training beside HuggingFace's `BertForMaskedLM`: the same function, batches and optimiser, one process.

A step is forward, backward and AdamW on one batch of masked sentences. Both models start from the same
weights, and the script stops where their losses do not stay together. The peer gets its batch padded to
its longest sentence, with -100 for every label that is not masked, as its own trainer
would hand it over; ours computes the last block and the head at the masked position only and leaves
padding out. `utilisation` is the floating-point operations of ours on real tokens over what this device's
matrix products of that width reach. With a GPU everything runs there in bfloat16, larger.

    python benchmarks/pretrain.py
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import torch
from racing import (
    NOBODY,
    Report,
    Work,
    conclude,
    difference,
    fastest,
    fresh_process,
    parser,
    peak,
    race,
    row,
    tells_memory,
)
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM

from sameloss.hub import load_without_code
from sameloss.languages import HierarchySpec, LanguageSpec
from sameloss.languages.masking import Batch
from sameloss.languages.paper import PAPER_LANGUAGE
from sameloss.models.encoder import Encoder, EncoderShape
from sameloss.models.export import export_model
from sameloss.models.sizes import SIZES
from sameloss.store.store import one_thread
from sameloss.training.corpus import EndlessCorpus
from sameloss.training.loop import Execution, Optimisation, make_optimiser, pretrain

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RECORD = "pretrain" if DEVICE == "cpu" else "pretrain_cuda"
PACKAGES = ("torch", "transformers")
LAPTOP_LANGUAGE = HierarchySpec(levels=3, symbols=3, rules=2, smoothing=0.03, seed=9)
"""Eight tokens of three words."""

SHAPES: dict[str, EncoderShape] = {name: s for family in SIZES.values() for name, s in family.items()}

CONTESTS = {
    "cpu": [
        ("d16", LAPTOP_LANGUAGE, 128, 1.5),
        ("d32", LAPTOP_LANGUAGE, 128, 1.5),
        ("d64", LAPTOP_LANGUAGE, 128, 1.5),
        ("2M", PAPER_LANGUAGE, 128, 1.5),
    ],
    "cuda": [
        ("2M", PAPER_LANGUAGE, 4096, 3.0),
        ("9M", PAPER_LANGUAGE, 4096, 3.0),
        ("110M", PAPER_LANGUAGE, 2048, 2.0),
    ],
}[DEVICE]
"""Size, language, batch, and the ratio aimed at."""

EAGER = Execution(autocast=DEVICE == "cuda", by_length=True)
EXECUTIONS = {"compiled": replace(EAGER, compiled=True), "eager": EAGER}
"""Ours, each against the peer; the laptop preset is eager, `gpu` and `paper` are compiled."""

TOLERANCE = 1e-4 if DEVICE == "cpu" else 2e-2
"""Largest difference of two losses, nats: rounding, of bfloat16 on a GPU."""

MICRO_BATCH = 32 if DEVICE == "cpu" else 1024
LR = 1e-3


PEER = "BertForMaskedLM"
OPTIMISERS = ("AdamW", "fused AdamW")
"""The peer's optimiser: torch's default, and in one kernel as ours."""


def new_encoder(size: str, spec: LanguageSpec) -> Encoder:
    """Return a model; post-LN, as the peer is."""
    return Encoder(SHAPES[size], spec.words, spec.max_length, seed=0, norm="post").to(DEVICE)


def some_batches(spec: LanguageSpec, batch: int) -> list[Batch]:
    """Return the batches that all contestants take in turn."""
    return [EndlessCorpus(spec.build(), 0).batch(0, step, batch).to(DEVICE) for step in range(4)]


def ours(
    size: str, spec: LanguageSpec, batches: list[Batch], execution: Execution, micro_batch: int = MICRO_BATCH
) -> Iterator[float]:
    """Train as the book does."""
    model = new_encoder(size, spec)
    settings = Optimisation(10**6, len(batches[0].targets), LR, warmup=0.0, schedule="constant")
    steps = pretrain(
        model,
        make_optimiser(model, settings),
        lambda step: batches[step % len(batches)],
        settings,
        micro_batch=micro_batch,
        execution=execution,
    )
    return (step.loss for step in steps)


def huggingface(size: str, spec: LanguageSpec, batches: list[Batch], optimiser: str) -> Iterator[float]:
    """Train `BertForMaskedLM` of the same weights with its own loss."""
    model, settings = exported(new_encoder(size, spec)), Optimisation(1, 1, LR)
    adamw = torch.optim.AdamW(
        model.parameters(),
        LR,
        (settings.beta1, settings.beta2),
        settings.epsilon,
        weight_decay=0.0,
        fused=optimiser == "fused AdamW" or None,
    )
    for batch in cycle(batches):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
            loss = model(**padded(batch)).loss
        adamw.zero_grad()
        loss.backward()
        adamw.step()
        yield float(loss.detach())


def exported(encoder: Encoder) -> nn.Module:
    """Return the same function as a model of `transformers`."""
    with TemporaryDirectory() as folder:
        export_model(encoder, Path(folder))
        model = load_without_code(AutoModelForMaskedLM.from_pretrained, folder).to(DEVICE).train()
    # One vector added everywhere: ours has none, and with a step of its own losses would drift apart.
    model.bert.embeddings.token_type_embeddings.requires_grad_(False)
    return model


def padded(batch: Batch) -> dict[str, Tensor]:
    """Return what the peer's data collator would make of a batch: as wide as its longest sentence."""
    tokens = batch.masked
    labels = torch.full_like(tokens, -100)
    labels[torch.arange(len(tokens)), batch.positions] = batch.targets + 1
    inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths_of(batch)[:, None]
    return {"input_ids": tokens, "attention_mask": inside.long(), "labels": labels}


def lengths_of(batch: Batch) -> Tensor:
    """Return the sentences' lengths, where they are equal too."""
    return torch.full_like(batch.targets, batch.masked.shape[1]) if batch.lengths is None else batch.lengths


def compare(size: str, spec: LanguageSpec, batch: int, goal: float, repetitions: int) -> Report:
    """Race ours against the peer on one size, by tokens of sentences: padding does not count."""
    batches = some_batches(spec, batch)
    tokens = sum(int(lengths_of(b).sum()) for b in batches) // len(batches)
    works = [
        Work(name, f"micro-batches of {m}", tokens, partial(next, ours(size, spec, batches, execution, m)))
        for name, execution in EXECUTIONS.items()
        for m in sorted({min(MICRO_BATCH, batch), batch})
    ]
    works += [
        Work(PEER, name, tokens, partial(next, huggingface(size, spec, batches, name))) for name in OPTIMISERS
    ]
    losses = torch.tensor([[work.call() for _ in batches] for work in works], dtype=torch.float64)
    apart = difference(f"losses of four steps, {size}", losses, losses[:1], TOLERANCE)
    *mine, peer = fastest(race(works, repetitions))
    what = f"{size}, {batch} sentences of at most {spec.max_length} tokens per step"
    rows = [row(what, "tokens/s", timing, peer, goal) for timing in mine]
    rows += [utilisation(size, spec, tokens / batch, rows[0]), *memory(size, batch)]
    return Report(rows, apart)


def flops_per_second(width: int, dtype: torch.dtype) -> float:
    """Measure the FLOP/s of this device in matrix products, on a CPU by CPU time."""
    clock = time.perf_counter if DEVICE == "cuda" else time.process_time
    # Without instructions for bfloat16, 2048 rows would take a CPU a minute.
    rows = 64 if DEVICE == "cpu" and dtype == torch.bfloat16 else 2048
    a, b = (torch.randn(shape, device=DEVICE, dtype=dtype) for shape in ((rows, width), (width, 4 * width)))
    fastest = float("inf")
    with one_thread():
        for _ in range(21):  # the first also loads libraries
            start = clock()
            a @ b
            if DEVICE == "cuda":
                torch.cuda.synchronize()
            fastest = min(fastest, clock() - start)
    return 2.0 * a.numel() * b.shape[1] / fastest


def utilisation(size: str, spec: LanguageSpec, length: float, timed: dict) -> dict:
    """Return the operations on real tokens over those that matrix products of that width reach."""
    shape = SHAPES[size]
    speed = flops_per_second(shape.d_model, torch.bfloat16 if EAGER.autocast else torch.float32)
    share = 100 * timed["ours_value"] * shape.flops(spec.words, length) / (length * speed)
    goal = 40.0 if DEVICE == "cuda" and shape.d_model >= 768 else None
    line = {"what": f"utilisation, {size}", "ours": timed["ours"], "peer": NOBODY, "unit": "%", "goal": goal}
    line |= {"ours_value": share, "ours_median": share}
    return line if goal is None else line | {"met": share >= goal}


def memory(size: str, batch: int) -> list[dict]:
    """Return the peaks of memory of a few steps, each contestant in a process of its own."""
    if not tells_memory(DEVICE):
        return []
    mine, theirs = (
        int(fresh_process(__file__, "--memory", name, size, str(batch)).split()[-1]) / 1e6
        for name in ("ours", "huggingface")
    )
    line = {
        "what": f"peak memory, {size}",
        "ours": f"eager, micro-batches of {batch}",
        "peer": PEER,
        "unit": "MB",
    }
    return [line | {"ours_value": mine, "peer_value": theirs, "ratio": theirs / mine}]


def measure_memory(name: str, size: str, batch: int) -> None:
    """Print the bytes that three steps take at their peak, model and optimiser included."""
    spec = next(spec for other, spec, *_ in CONTESTS if other == size)
    train = {"ours": (ours, EAGER, batch), "huggingface": (huggingface, "fused AdamW")}
    contestant, *options = train[name]
    batches = some_batches(spec, batch)
    next(
        contestant(size, spec, [batches[0].rows(slice(2))], *options)
    )  # libraries are loaded, and not counted
    steps = contestant(size, spec, batches, *options)
    print(peak(lambda: [next(steps) for _ in range(3)], DEVICE)[0])


def main(argv: list[str] | None = None) -> pd.DataFrame | None:
    """Race, record and return what was found; or measure one contestant's memory."""
    arguments = parser(__doc__)
    arguments.add_argument("--memory", nargs=3, help="contestant, size, batch: measure its memory alone")
    given = arguments.parse_args(argv)
    torch.set_num_threads(1)
    if given.memory:
        contestant, size, batch = given.memory
        return measure_memory(contestant, size, int(batch))
    contests, repetitions = (CONTESTS[:1], 3) if given.quick else (CONTESTS, 20)
    reports = [compare(*chosen, repetitions) for chosen in contests]
    return conclude(RECORD, reports, PACKAGES, write=not given.quick, device=DEVICE)


if __name__ == "__main__":
    main()
