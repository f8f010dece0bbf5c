"""What a pre-training takes: operations and bytes counted, seconds estimated."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from sameloss.device import best_device
from sameloss.store.store import one_thread

Training = Any
"""A `Pretraining`, which is priced by this module and so cannot be imported here."""


def training_flops(run: Training, length: float | None = None) -> float:
    """Return the floating-point operations of a pre-training.

    Args:
        run: the pre-training.
        length: mean number of tokens of a sentence; where it is None, all are taken to be as long as can be.

    """
    language, sentences = run.corpus.language, run.expected_steps * run.optimisation.batch
    each = run.shape.flops(language.words, language.max_length if length is None else length)
    return run.passes * sentences * each


def training_bytes(run: Training) -> float:
    """Return roughly the bytes of a process: weights, gradients, two moments, and activations."""
    shape, length = run.shape, run.corpus.language.max_length
    words = run.corpus.language.words
    parameters = shape.matrix_parameters + shape.d_model * (words + length + shape.d_model)
    together = min(run.micro_batch, run.optimisation.batch // run.execution.processes)
    return 4.0 * (4 * parameters + together * length * shape.activations(length))


def micro_steps(run: Training) -> int:
    """Return how many times micro-batches go forward and back through the model."""
    each = -(-run.optimisation.batch // (run.execution.processes * run.micro_batch))
    return run.passes * run.expected_steps * each


CORE_PRODUCTS = 9e10
"""Operations a second of the reference core in matrix products: the core on which efforts are seconds."""

UTILISATION = 0.55
"""The share of the speed of wide products that training reaches, measured where two shared a machine."""

BESIDE_PRODUCTS = 30
"""The width at which what is done element by element takes as long as the products, measured there."""

BESIDE_BLOCKS = 2
"""As many blocks hand the device about as many operations as embeddings, head and optimiser together."""

ROUNDS = 20
"""How often a product is timed to compare this core with the reference core."""


class Speed(NamedTuple):
    """What decides how long a training takes."""

    products: Callable[[int, torch.dtype], float]  # operations a second that training reaches, by width
    block_s: float  # a block forward and back on next to no data: handing out its operations

    def seconds(self, run: Training) -> float:
        """Estimate how long a pre-training takes, as if all sentences were as long as can be."""
        rate = self.products(run.shape.d_model, run.execution.dtype) * run.execution.processes
        blocks = run.shape.layers + BESIDE_BLOCKS
        return training_flops(run) / rate + micro_steps(run) * blocks * self.block_s


CORE = Speed(lambda width, dtype: UTILISATION * CORE_PRODUCTS / (1 + BESIDE_PRODUCTS / width), 2e-3)
"""The reference core: of an AMD EPYC, where its neighbour computes, too. It takes 50 s to train 10K for 3,200
steps of the laptop, and 70 s to train 40K."""


PEAKS = {torch.bfloat16: 989e12, torch.float32: 67e12}
"""Operations a second of NVIDIA's H200, from its data sheet (dense products)."""

H200 = Speed(lambda width, dtype: 0.4 * min(PEAKS[dtype], 4.8e12 * width / dtype.itemsize), 5e-4)
"""The speed of an H200 that is not at hand.

A product of width d is bound by arithmetic, or by reading and writing its activations at 4.8 TB a second:
2 d² operations a token, and 2 d numbers. That training reaches 40 % of the smaller bound, and hands out a
block's operations in half a millisecond, are assumptions until they are measured.
"""

H200_IN_CORES = 500
"""Reference cores that an H200 stands for where other runs are priced, by the products that each reaches."""


def core_factors() -> tuple[float, float]:
    """Return the least and the largest time of a product here over that on the reference core.

    CPU time is compared: what else the machine does hardly counts.
    """
    rates = _rates(64, torch.float32)
    return CORE_PRODUCTS / max(rates), CORE_PRODUCTS / min(rates)


def flops_per_second(width: int, dtype: torch.dtype = torch.float32) -> float:
    """Measure the operations a second of this device's matrix products at a model's width."""
    return max(_rates(width, dtype))


def _rates(width: int, dtype: torch.dtype) -> list[float]:
    """Return the operations a second of some products, on a CPU in CPU time on one thread."""
    device = best_device()
    # Without instructions for bfloat16, a CPU would take a minute for as many rows.
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
    """Return CPU time in seconds, or on a GPU the time when it has done what it was told to."""
    if best_device() == "cuda":
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()
