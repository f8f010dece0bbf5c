"""The trace of the Hessian from random directions: Hutchinson, Hutch++, and its gap to the Fisher trace."""

import time
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.estimated_trace import Cost, EstimatedTrace
from sameloss.measures.flatness.hessian import (
    ParameterLoss,
    Product,
    flat_parameters,
    gap_loss,
    hessian_product,
    on_model_device,
    population_loss,
    unflattened,
)

Vectors = Literal["rademacher", "gaussian"]
"""What the entries of random directions are: random signs, or normal."""


def hutchinson_trace(
    model: nn.Module,
    masked: Batch,
    truth: Float[Tensor, "batch word"] | None = None,
    *,
    batch: int,
    draws: int = 1,
    vectors: Vectors = "rademacher",
    generator: torch.Generator,
) -> EstimatedTrace:
    """Estimate the trace of the Hessian by z^T H z, z a random direction (Hutchinson 1989).

    Gaussian directions and no `truth` are what the paper's released code does: labels from the
    corpus, directions in the space of the parameters.

    Args:
        model: a masked language model.
        masked: independent masked sentences, cut into disjoint batches; a remainder is dropped.
        truth: Pr(. | x_-t); the targets' one-hot where None.
        batch: sentences a batch; its Hessian is the mean over them.
        draws: directions a batch. A batch is one draw of the result, the mean over its directions,
            so that the error covers both sentences and directions.
        vectors: what the directions' entries are; `rademacher`, random signs, has less variance.
        generator: of the directions.

    Raises:
        ParameterError: for fewer than two batches, no direction, or an unknown kind of direction.

    """
    _check(vectors, batch=batch, draws=draws)

    def estimate(product: Product) -> Tensor:
        return _hutchinson(product, _directions(model, draws, vectors, generator))

    return _over_batches(model, masked, truth, batch, population_loss, estimate, draws)


def hutch_plus_plus_trace(
    model: nn.Module,
    masked: Batch,
    truth: Float[Tensor, "batch word"] | None = None,
    *,
    batch: int,
    rank: int,
    draws: int = 1,
    vectors: Vectors = "rademacher",
    generator: torch.Generator,
) -> EstimatedTrace:
    """Estimate the trace of the Hessian by Hutch++ (Meyer, Musco, Musco and Woodruff 2021).

    A sketch finds most of the range of each batch's Hessian, the trace there is exact, and random
    directions cover the rest: 2 `rank` + `draws` Hessian-vector products a batch. All that is
    random of a sentence stays, so it pays where directions are the larger part of the error.

    Args:
        model: a masked language model.
        masked: independent masked sentences, cut into disjoint batches; a remainder is dropped.
        truth: Pr(. | x_-t); the targets' one-hot where None.
        batch: sentences a batch; its Hessian is the mean over them.
        rank: columns of the sketch, random signs.
        draws: directions a batch, orthogonal to the sketched range.
        vectors: what the directions' entries are.
        generator: of the sketch and the directions.

    Raises:
        ParameterError: for fewer than two batches, no direction, no rank, or an unknown kind.

    """
    _check(vectors, batch=batch, draws=draws, rank=rank)

    def estimate(product: Product) -> Tensor:
        sketch = _directions(model, rank, "rademacher", generator)
        return _hutch_plus_plus(product, sketch, _directions(model, draws, vectors, generator))

    return _over_batches(model, masked, truth, batch, population_loss, estimate, 2 * rank + draws)


def fisher_gap(
    model: nn.Module,
    masked: Batch,
    truth: Float[Tensor, "batch word"] | None,
    *,
    batch: int,
    draws: int = 1,
    generator: torch.Generator,
) -> EstimatedTrace:
    """Estimate the trace of the Hessian minus that of the Fisher information, by itself.

    It is the trace of E sum_y (f_y - q_y) Hess z_y, so its variance vanishes with it at
    saturation, f = q: there it is exactly 0, whatever the directions.

    Args:
        model: a masked language model.
        masked: independent masked sentences, cut into disjoint batches; a remainder is dropped.
        truth: q = Pr(. | x_-t); the targets' one-hot where None, far from saturation then.
        batch: sentences a batch.
        draws: directions a batch, random signs.
        generator: of the directions.

    Raises:
        ParameterError: for fewer than two batches or no direction.

    """
    _check(batch=batch, draws=draws)

    def estimate(product: Product) -> Tensor:
        return _hutchinson(product, _directions(model, draws, "rademacher", generator))

    return _over_batches(model, masked, truth, batch, gap_loss, estimate, draws)


def _check(vectors: str = "rademacher", **counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            raise ParameterError(f"{name} must be positive; got {value}.")
    if vectors not in ("rademacher", "gaussian"):
        raise ParameterError(f"Unknown vectors {vectors!r}; choose rademacher or gaussian.")


def _directions(model: nn.Module, count: int, vectors: str, generator: torch.Generator) -> Tensor:
    """Draw random vectors [count, parameter] with independent entries of mean 0 and variance 1."""
    like = flat_parameters(model)
    drawn = torch.empty(count, len(like), dtype=like.dtype)
    if vectors == "gaussian":
        drawn.normal_(generator=generator)
    else:
        drawn.bernoulli_(0.5, generator=generator).mul_(2).sub_(1)
    return drawn.to(like.device)


def _hutchinson(product: Product, directions: Tensor) -> Tensor:
    """Return the mean over the directions of z * Hz: by entry, unbiased for the diagonal of H."""
    return sum(z * product(z) for z in directions) / len(directions)


def _hutch_plus_plus(product: Product, sketch: Tensor, directions: Tensor) -> Tensor:
    """Return values by entry, unbiased for the diagonal of H, that add up to Hutch++'s trace.

    With P = QQ^T and R = I - P, diag H = diag PHP + diag PHR + diag RHP + diag RHR. The products
    HQ give the first three exactly; the cross terms have trace 0 and only tell where it belongs.
    """
    basis = torch.linalg.qr(torch.stack([product(s) for s in sketch], 1)).Q
    image = torch.stack([product(q) for q in basis.T], 1)

    def rest(v: Tensor) -> Tensor:
        return v - basis @ (basis.T @ v)

    inside = (basis * (image + rest(image))).sum(1)  # diag HP = diag PHP + diag RHP; diag PHR = diag RHP
    return inside + sum(z * rest(product(rest(z))) for z in directions) / len(directions)


def _over_batches(
    model: nn.Module,
    masked: Batch,
    truth: Tensor | None,
    batch: int,
    scalar: Callable[..., ParameterLoss],
    estimate: Callable[[Product], Tensor],
    products: int,
) -> EstimatedTrace:
    """Estimate the Hessian's diagonal for each batch and add it up by parameter."""
    started = time.perf_counter()
    masked, truth = on_model_device(model, masked, truth)
    parts = []
    for some, q in _batches(masked, truth, batch):
        values = estimate(hessian_product(model, scalar(model, some, q)))
        parts.append({name: part.sum() for name, part in unflattened(model, values).items()})
    draws = {name: torch.stack([part[name] for part in parts]).cpu() for name in parts[0]}
    passes = len(parts) * batch * products
    return EstimatedTrace(draws, Cost(passes, 3 * passes, time.perf_counter() - started))


def _batches(masked: Batch, truth: Tensor | None, batch: int) -> Iterator[tuple[Batch, Tensor | None]]:
    """Cut the sentences into disjoint batches of equal size."""
    sentences = len(masked.targets)
    if sentences < 2 * batch:
        raise ParameterError(
            f"Two batches, the least for a standard error, take {2 * batch} sentences; got {sentences}."
        )
    for start in range(0, sentences - batch + 1, batch):
        some = slice(start, start + batch)
        yield masked.rows(some), truth if truth is None else truth[some]
