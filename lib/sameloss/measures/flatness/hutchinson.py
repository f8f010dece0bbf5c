"""The trace of the Hessian from random directions: Hutchinson, Hutch++, and its gap to the Fisher trace."""

import time
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sameloss.checks import check_count
from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
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
from sameloss.measures.flatness.trace import Cost, EstimatedTrace

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
    r"""Estimate the trace of the Hessian from random directions (Hutchinson 1989).

    For independent entries of mean 0 and variance 1,

    $$\mathbb E_z\, z^\top H z = \mathrm{Tr}\, H.$$

    The paper's released code draws Gaussian directions in the space of the parameters and takes the
    labels from the corpus: here `vectors="gaussian"` and no `truth`.

    Args:
        model: a masked language model.
        masked: independent masked sentences, cut into disjoint batches; a remainder is dropped.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets where None.
        batch: sentences a batch; its Hessian is the mean over them.
        draws: directions a batch. A batch is one draw of the result, the mean over its directions,
            so that the error covers both sentences and directions.
        vectors: entries of the directions; `rademacher`, random signs, has less variance.
        generator: random numbers for the directions, on the CPU.

    Returns:
        One draw of the trace for each batch, by parameter.

    Raises:
        ParameterError: for fewer than two batches, no direction, or an unknown kind of direction.
        ModelError: for what `check` refuses.

    >>> from sameloss.measures.flatness.trace import Unigram, one_word_sentences
    >>> model, masked = Unigram([0.5, 0.25, 0.25]), one_word_sentences([0, 0, 1, 2] * 25)
    >>> generator = torch.Generator().manual_seed(0)
    >>> found = hutchinson_trace(model, masked, batch=4, generator=generator).total
    >>> round(found.mean, 2), round(found.standard_error, 2), found.count  # of 0.625
    (0.59, 0.07, 25)

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
    r"""Estimate the trace of the Hessian by Hutch++ (Meyer, Musco, Musco and Woodruff 2021, Algorithm 1).

    A sketch S of random signs finds most of the range of each batch's Hessian. With an orthonormal basis
    Q of HS, the trace in that range is exact and random directions z cover the rest:

    $$\mathrm{Tr}\, Q^\top H Q + \mathbb E_z\, z^\top (I - QQ^\top) H (I - QQ^\top) z.$$

    A batch takes 2 `rank` + `draws` Hessian-vector products. The chance of the sentences stays, so the
    method pays where directions are the larger part of the error.

    Args:
        model: a masked language model.
        masked: independent masked sentences, cut into disjoint batches; a remainder is dropped.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets where None.
        batch: sentences a batch; its Hessian is the mean over them.
        rank: columns of the sketch.
        draws: directions a batch, orthogonal to the sketched range.
        vectors: entries of the directions.
        generator: random numbers for the sketch and the directions, on the CPU.

    Returns:
        One draw of the trace for each batch, by parameter.

    Raises:
        ParameterError: for fewer than two batches, no direction, no rank, or an unknown kind.
        ModelError: for what `check` refuses.

    >>> from sameloss.measures.flatness.trace import Unigram, one_word_sentences
    >>> model, masked = Unigram([0.5, 0.25, 0.25]), one_word_sentences([0, 0, 1, 2] * 25)
    >>> generator = torch.Generator().manual_seed(0)
    >>> found = hutch_plus_plus_trace(model, masked, batch=4, rank=3, generator=generator).total
    >>> round(found.mean, 9), round(found.standard_error, 9)  # three parameters: the sketch finds all
    (0.625, 0.0)

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
    r"""Estimate the trace of the Hessian minus that of the Fisher information, by itself.

    With logits z, predictions f and conditionals q it is

    $$\mathrm{Tr}\; \mathbb E \sum_y (f_y - q_y) \nabla^2 z_y ,$$

    so that its variance vanishes with it at saturation, f = q (Lemma 3.2): there the estimate is
    exactly 0, whatever the directions.

    Args:
        model: a masked language model.
        masked: independent masked sentences, cut into disjoint batches; a remainder is dropped.
        truth: q = Pr(. | x_-t) at the masked positions. The one-hot targets where None, from which a
            model is far.
        batch: sentences a batch.
        draws: directions a batch, random signs.
        generator: random numbers for the directions, on the CPU.

    Returns:
        One draw of the gap for each batch, by parameter.

    Raises:
        ParameterError: for fewer than two batches or no direction.
        ModelError: for what `check` refuses.

    >>> from sameloss.measures.flatness.trace import Unigram, one_word_sentences
    >>> model, masked = Unigram([0.5, 0.25, 0.25]), one_word_sentences([0, 0, 1, 2] * 25)
    >>> generator = torch.Generator().manual_seed(0)
    >>> fisher_gap(model, masked, None, batch=4, generator=generator).total  # its logits are linear
    Estimate(mean=0.0, standard_error=0.0, count=25)

    """
    _check(batch=batch, draws=draws)

    def estimate(product: Product) -> Tensor:
        return _hutchinson(product, _directions(model, draws, "rademacher", generator))

    return _over_batches(model, masked, truth, batch, gap_loss, estimate, draws)


def _check(vectors: str = "rademacher", **counts: int) -> None:
    for name, value in counts.items():
        check_count(name, value)
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
