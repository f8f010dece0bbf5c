"""What a pre-training takes: operations and bytes counted, seconds estimated."""

import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from sameloss.device import best_device
from sameloss.models.encoder import Block, EncoderShape
from sameloss.runs.pretraining import Pretraining
from sameloss.store.store import Run


def training_flops(run: Pretraining, length: float | None = None) -> float:
    """Return the floating-point operations of a pre-training.

    Args:
        run: the pre-training.
        length: mean number of tokens of a sentence; where it is None, all are taken to be as long as can be.

    """
    language, sentences = run.corpus.language, run.expected_steps * run.optimisation.batch
    each = run.shape.flops(language.words, language.max_length if length is None else length)
    return run.passes * sentences * each


def training_bytes(run: Pretraining) -> float:
    """Return roughly the bytes of a process: weights, gradients, two moments, and activations."""
    shape, length = run.shape, run.corpus.language.max_length
    words = run.corpus.language.words
    parameters = shape.matrix_parameters + shape.d_model * (words + length + shape.d_model)
    together = min(run.micro_batch, run.optimisation.batch // run.execution.processes)
    return 4.0 * (4 * parameters + together * length * shape.activations(length))


def micro_steps(run: Pretraining) -> int:
    """Return how many times micro-batches go forward and back through the model."""
    each = -(-run.optimisation.batch // (run.execution.processes * run.micro_batch))
    return run.passes * run.expected_steps * each


UTILISATION = 0.55
"""The share of the speed of wide products that training reaches, measured where two shared a machine."""

BESIDE_PRODUCTS = 30
"""The width at which what is done element by element takes as long as the products, measured there."""

LAPTOP_CORE = 9.6e10
"""The operations a second, in products of width 64, of the core on which the efforts of runs are seconds."""

BESIDE_BLOCKS = 2
"""As many blocks hand the device about as many operations as embeddings, head and optimiser together."""

MEASURED_S = 0.1
"""How long a speed is measured, in seconds."""


class Speed(NamedTuple):
    """What decides how long a training takes."""

    products: Callable[[int, torch.dtype], float]  # operations a second that training reaches, by width
    block_s: float  # a block forward and back on next to no data: handing out its operations
    effort_s: float = 1.0  # what takes a second of effort

    def seconds(self, run: Pretraining) -> float:
        """Estimate how long a pre-training takes, as if all sentences were as long as can be."""
        rate = self.products(run.shape.d_model, run.execution.dtype) * run.execution.processes
        blocks = run.shape.layers + BESIDE_BLOCKS
        return training_flops(run) / rate + micro_steps(run) * blocks * self.block_s

    def all_seconds(self, run: Run) -> float:
        """Estimate how long any run takes: a training by its operations, a measurement by its effort."""
        return self.seconds(run) if isinstance(run, Pretraining) else run.effort * self.effort_s


def this_device() -> Speed:
    """Measure this device, one CPU thread or the GPU; a width is measured when it is first asked for."""
    known: dict[tuple[int, torch.dtype], float] = {}

    def speed(width: int, dtype: torch.dtype) -> float:
        if (width, dtype) not in known:
            products = flops_per_second(width, dtype)
            known[width, dtype] = UTILISATION * products / (1 + BESIDE_PRODUCTS / width)
        return known[width, dtype]

    return Speed(speed, block_seconds(), LAPTOP_CORE / flops_per_second(64))


def data_sheet(peaks: dict[torch.dtype, float], bandwidth: float, share: float, block_s: float) -> Speed:
    """Return the speed of a GPU that is not at hand.

    A product of width d is bound by arithmetic, or by reading and writing its activations: 2 d² operations
    a token, and 2 d numbers.

    Args:
        peaks: operations a second.
        bandwidth: bytes a second.
        share: what training reaches of the smaller of the two bounds.
        block_s: seconds for handing out a block's operations, as in `Speed`.

    """
    return Speed(
        lambda width, dtype: share * min(peaks[dtype], bandwidth * width / dtype.itemsize),
        block_s,
    )


H200 = data_sheet({torch.bfloat16: 989e12, torch.float32: 67e12}, 4.8e12, 0.4, 5e-4)
"""The speed of NVIDIA's H200, from its data sheet (dense products). That training reaches 40 % of it, and
hands out a block's operations in half a millisecond, are assumptions until they are measured."""


def flops_per_second(width: int, dtype: torch.dtype = torch.float32) -> float:
    """Measure the operations a second of this device's matrix products at a model's width."""
    device = best_device()
    # Without instructions for bfloat16, a CPU would take a minute for as many rows.
    rows = 64 if device == "cpu" and dtype == torch.bfloat16 else 2048
    a = torch.randn(rows, width, device=device, dtype=dtype)
    b = torch.randn(width, 4 * width, device=device, dtype=dtype)
    return 2.0 * a.numel() * 4 * width / _seconds(lambda: a @ b)


def block_seconds() -> float:
    """Measure the seconds of a block, forward and back, on next to no data."""
    block = Block(EncoderShape(8, 1, 1, 32)).to(best_device())
    h = torch.zeros(1, 2, 8, device=best_device())
    return _seconds(lambda: block(h, None).sum().backward())


def _seconds(call: Callable[[], object]) -> float:
    """Return the seconds of a call on one thread, without the first call, which also loads libraries.

    It is the fastest of several rounds: what else the machine does only ever makes one slower.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    call()
    _wait()
    rounds: list[float] = []
    end = time.perf_counter() + MEASURED_S
    while not rounds or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        _wait()
        rounds.append(time.perf_counter() - start)
    torch.set_num_threads(threads)
    return min(rounds)


def _wait() -> None:
    """Let a GPU finish what it was told to do."""
    if best_device() == "cuda":
        torch.cuda.synchronize()
