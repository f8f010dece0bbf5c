"""The cost of a pre-training: floating-point operations, memory, and estimated time."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from sameloss.device import best_device
from sameloss.store.store import one_thread

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
    """Approximate memory of one process: weights, gradients, both moments, and activations."""
    shape, words, length = run.shape, run.corpus.language.words, run.corpus.language.max_length
    parameters = shape.matrix_parameters + shape.d_model * (words + length + shape.d_model)
    sentences = min(run.micro_batch, run.optimisation.batch // run.execution.processes)
    return 4.0 * (4 * parameters + sentences * length * shape.activations(length))


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

READ = 1 / 6
"""Fraction of the candidates' tokens that are read if conditionals have a tolerance, from a few measured."""


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
"""Reference cores that equal an H200 in matrix products of training; it prices runs of other kinds."""


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
    if best_device() == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()
