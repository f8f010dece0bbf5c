"""The cost of pre-trainings, probes and traces: floating-point operations, memory, estimated time."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from sameloss.device import accelerated, accelerator, best_device, device_name
from sameloss.measures.flatness.gradient_norms import CHUNK_BYTES
from sameloss.store.store import Store, one_thread

Training = Any
"""A `Pretraining`, which imports this module and so cannot be imported here."""


def training_flops(run: Training, length: float | None = None) -> float:
    """Floating-point operations of a pre-training.

    Args:
        run: the pre-training.
        length: mean number of tokens of a sentence; None: the maximum.

    """
    language, sentences = run.corpus.language, run.expected_steps * run.optimisation.batch
    flops = run.shape.flops(language.words, language.max_length if length is None else length)
    return run.passes * sentences * flops


def training_bytes(run: Training) -> float:
    """Peak memory of one process: weights, gradients, both moments, and activations of a micro-batch.

    Products in bfloat16 keep two thirds of the activations' bytes, and a copy of the weights. An H100 took
    what this says to 3 % (`results/gpu`: 235M in parts of 256, 512 and 2,048 sentences).
    """
    length = run.corpus.language.max_length
    sentences = min(run.micro_batch, run.optimisation.batch // run.execution.processes)
    activations = 4 * sentences * length * run.shape.activations(length)
    if run.execution.autocast:
        return 18 * parameters_of(run) + activations * 2 / 3
    return 16 * parameters_of(run) + activations


def parameters_of(run: Training) -> int:
    """Number of parameters of the model that a run trains."""
    return run.shape.parameter_count(run.corpus.language.words, run.corpus.language.max_length)


def probing_bytes(sentences: int, width: int, sets: int, tested: int) -> float:
    """Peak memory of fitting and testing `OptimalProbe`, by sentences and features of each set.

    Features are in float32. One set at a time, its standardised features take three copies in float64, and
    matrices between sentences (or features, where these are fewer) the rest: 2.5 of them are counted in the
    tests, 3.5 more are the workspace of the eigenvalue solver of a GPU (`results/gpu`).
    """
    features = 4.0 * (sets * sentences + tested) * width
    return features + 8 * (3 * sentences * width + 6 * min(sentences, width) ** 2)


def probing_seconds(sentences: int, width: int, sets: int) -> float:
    """Seconds of fitting `OptimalProbe` on the reference core: L-BFGS, and two eigenvalue problems a set."""
    less, more = sorted((sentences, width))
    return sets * (2e-6 * sentences * width + (20 * less**3 + 8 * less**2 * more) / 3.5e10)


def trace_bytes(run: Training) -> float:
    """Peak memory of `fisher_trace` for a training's model: weights, and 3.5 times its chunk (counted)."""
    return 4 * parameters_of(run) + 3.5 * CHUNK_BYTES[best_device()]


def trace_seconds(run: Training, pairs: float) -> float:
    """Seconds of `fisher_trace` on the reference core, for so many pairs of a sentence and a label."""
    language = run.corpus.language
    products = run.shape.flops(language.words, language.max_length) / (UTILISATION * CORE_PRODUCTS)
    return pairs * (run.shape.d_model / 6e5 + products)


def mean_length(run: Training, store: Store, sentences: int = 4096) -> float:
    """Mean sentence length (tokens) of a pre-training corpus."""
    batch = store.get(run.corpus).batch(0, 0, sentences)
    return float(batch.masked.shape[1] if batch.lengths is None else batch.lengths.double().mean())


def speed_in_words(run: Training, length: float, steps: int, seconds: float) -> str:
    """Tokens per second without padding, and on an H100 or H200 the share of its peak (MFU).

    Args:
        run: the pre-training.
        length: mean number of tokens of its sentences.
        steps: done so far.
        seconds: that they took.

    """
    told = f"{steps * run.optimisation.batch * length / seconds:,.0f} tokens/s"
    if not (accelerated() and device_name().startswith(("NVIDIA H100", "NVIDIA H200"))):
        return told
    flops = training_flops(run, length) * steps / run.expected_steps / seconds
    return f"{told}, {100 * flops / PEAKS[run.execution.dtype] / run.execution.processes:.0f} % MFU"


def micro_steps(run: Training) -> int:
    """Number of forward and backward passes over a micro-batch, in one process."""
    micro_batches = -(-run.optimisation.batch // (run.execution.processes * run.micro_batch))
    return run.passes * run.expected_steps * micro_batches


CORE_PRODUCTS = 9e10
"""FLOP/s of the reference core in matrix products; a run's `effort` is in seconds of this core."""

UTILISATION = 0.55
"""Fraction of the speed of wide products that training reaches, measured with two trainings on a machine."""

BESIDE_PRODUCTS = 30
"""Width at which element-wise operations take as long as the matrix products, measured likewise."""

BESIDE_BLOCKS = 2
"""Embeddings, head and optimiser launch about as many operations as this number of blocks."""

READ = 0.3
"""Fraction of the candidates' tokens that are read if conditionals have a tolerance; measured: 0.2 to 0.5."""


def teacher_seconds(language: Any, sentences: float, conditionals: float = 0.0) -> float:
    """Seconds on the reference core for passes of a pre-trained model over sentences; 0 for other languages.

    Args:
        language: its spec.
        sentences: number of passes.
        conditionals: number of them at random positions, each with a pass per candidate over what follows.

    """
    if not hasattr(language, "token_flops"):
        return 0.0
    conditionals *= language.words * (READ if language.tolerance else 1)
    tokens = sentences * language.max_length + conditionals * (language.max_length + 1) / 2
    return tokens * language.token_flops / (UTILISATION * CORE_PRODUCTS)


ROUNDS = 20
"""Timed products when this core is compared with the reference core."""


class Speed(NamedTuple):
    """The speed of a device."""

    products: Callable[[int, torch.dtype], float]  # FLOP/s reached in training, by width
    block_s: float  # seconds to launch the operations of a block, forward and backward

    def seconds(self, run: Training) -> float:
        """Estimated time of a pre-training on sentences of maximal length."""
        rate = self.products(run.shape.d_model, run.execution.dtype) * run.execution.processes
        blocks = run.shape.layers + BESIDE_BLOCKS
        return training_flops(run) / rate + micro_steps(run) * blocks * self.block_s


CORE = Speed(lambda width, dtype: UTILISATION * CORE_PRODUCTS / (1 + BESIDE_PRODUCTS / width), 2e-3)
"""The reference core: one of an AMD EPYC whose neighbour is busy too. Training for the laptop's 3,200 steps
takes it 50 s at 10K parameters and 70 s at 40K."""


PEAKS = {torch.bfloat16: 989e12, torch.float32: 67e12}
"""FLOP/s of NVIDIA's H200 in dense products, from its data sheet."""

H200 = Speed(lambda width, dtype: 0.4 * min(PEAKS[dtype], 4.8e12 * width / dtype.itemsize), 5e-4)
"""An NVIDIA H200, estimated.

A product of width d is bound by arithmetic (2 d² operations per token) or by memory traffic (2 d activations
a token, at 4.8 TB/s). Assumed until measured: training reaches 40 % of the smaller bound, and launching a
block's operations takes half a millisecond.
"""

H200_IN_CORES = 500
"""Reference cores that equal an H200; it prices accelerated runs of other kinds.

At 235M an H100 took 15 s for a probe, which this makes 18 s, and 4 s for 10,000 gradients of a trace (15 s).
"""


def core_factors() -> tuple[float, float]:
    """Smallest and largest CPU time of a matrix product here, relative to the reference core."""
    rates = _rates(64, torch.float32)
    return CORE_PRODUCTS / max(rates), CORE_PRODUCTS / min(rates)


def flops_per_second(width: int, dtype: torch.dtype = torch.float32) -> float:
    """Measure the FLOP/s of this device in matrix products of a model's width."""
    return max(_rates(width, dtype))


def _rates(width: int, dtype: torch.dtype) -> list[float]:
    """FLOP/s in repeated products; on a CPU by CPU time of one thread, which other load hardly affects."""
    device = best_device()
    # Without instructions for bfloat16, 2048 rows would take a CPU a minute.
    rows = 64 if device == "cpu" and dtype == torch.bfloat16 else 2048
    a = torch.randn(rows, width, device=device, dtype=dtype)
    b = torch.randn(width, 4 * width, device=device, dtype=dtype)
    rates = []
    with one_thread():
        for _ in range(1 + ROUNDS):
            start = _clock()
            a @ b
            rates.append(2.0 * a.numel() * 4 * width / (_clock() - start))
    return rates[1:]  # the first call also loads libraries


def _clock() -> float:
    """CPU time in seconds, or wall time on a GPU once its queue is empty."""
    if accelerated():
        accelerator().synchronize()
        return time.perf_counter()
    return time.process_time()
