r"""The Hessian of the pre-training loss: products, dense matrix, largest eigenvalue, stochastic traces.

The Fisher form of the trace (`trace.py`) needs saturation; the estimators here do not. With logits z(θ),
predictions f and exact conditionals q,

$$\nabla^2 L = \mathbb E\, J^\top (\mathrm{diag} f - f f^\top) J
  + \mathbb E \sum_y (f_y - q_y) \nabla^2 z_y ,$$

where the first term is the Fisher information and the second vanishes at saturation (Lemma 3.2).
"""

import time
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor, nn
from torch.func import functional_call, grad, vjp, vmap
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from sameloss.checks import check_count
from sameloss.errors import ParameterError
from sameloss.languages.masking import Batch
from sameloss.measures.flatness.trace import Cost, EstimatedTrace
from sameloss.measures.flatness.validation import check, check_logits, check_padding
from sameloss.models.bilstm import without_cudnn

Parameters = dict[str, Tensor]

ParameterLoss = Callable[[Parameters], Tensor]
"""A loss as a function of the trainable parameters by name."""

Product = Callable[[Tensor], Tensor]
"""The Hessian as a linear map of flat vectors."""

ROWS = 64
"""Rows of a dense Hessian computed at once."""


def flat_parameters(model: nn.Module) -> Float[Tensor, " parameter"]:
    """Concatenate the trainable parameters into one detached vector, in the order of `named_parameters`."""
    return flattened(_parameters(model))


def flattened(parameters: Parameters) -> Float[Tensor, " parameter"]:
    """All parameters in one vector, in the order of the mapping."""
    return torch.cat([value.flatten() for value in parameters.values()])


def unflattened(model: nn.Module, flat: Float[Tensor, " parameter"]) -> Parameters:
    """Split a flat vector into parameters by name, as views: the inverse of `flattened`."""
    shapes = {name: value.shape for name, value in _parameters(model).items()}
    parts = flat.split([shape.numel() for shape in shapes.values()])
    return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


def _parameters(model: nn.Module) -> Parameters:
    return {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}


def population_loss(
    model: nn.Module, masked: Batch, truth: Float[Tensor, "batch word"] | None = None
) -> ParameterLoss:
    """Return the loss as a function of the trainable parameters, to be transformed by `torch.func`.

    Args:
        model: a masked language model.
        masked: at least one masked sentence.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets if None.

    Returns:
        A function from parameters by name to the mean over the sentences of -sum_y truth[y] log f[y],
        in nats per masked token.

    Raises:
        ModelError: see `check`; once called, also for logits of a wrong shape.
        ParameterError: if `truth` has another number of sentences or words.

    """
    masked, truth = _on_model_device(model, masked, truth)

    def loss(parameters: Parameters) -> Tensor:
        logits = _logits(model, parameters, masked)
        return -(_conditionals(masked, truth, logits) * logits.log_softmax(-1)).sum(-1).mean()

    return loss


def gap_loss(model: nn.Module, masked: Batch, truth: Tensor | None = None) -> ParameterLoss:
    """Return the function E sum_y (f_y - q_y) z_y of the parameters, with f - q held fixed.

    Its Hessian is the Hessian of the loss minus the Fisher information (Lemma 3.2).
    """
    masked, truth = _on_model_device(model, masked, truth)
    with torch.no_grad():
        logits = _logits(model, _parameters(model), masked)
        excess = logits.softmax(-1) - _conditionals(masked, truth, logits)
    return lambda parameters: (excess * _logits(model, parameters, masked)).sum(-1).mean()


def _logits(model: nn.Module, parameters: Parameters, masked: Batch) -> Tensor:
    # the backward passes of fused attention and of cuDNN's LSTM are not differentiable
    with sdpa_kernel(SDPBackend.MATH), without_cudnn():
        return functional_call(model, parameters, (masked.masked, masked.positions, masked.lengths))


def _on_model_device(model: nn.Module, masked: Batch, truth: Tensor | None) -> tuple[Batch, Tensor | None]:
    """Validate model, sentences and conditionals, and move the latter two to the model's device."""
    check(model, masked)
    check_padding(model, masked)
    if truth is not None and len(truth) != len(masked.masked):
        raise ParameterError(
            f"truth needs one row per sentence, {len(masked.masked)} of them; got {len(truth)}."
        )
    device = next(model.parameters()).device
    return masked.to(device), truth if truth is None else truth.to(device)


def _conditionals(masked: Batch, truth: Tensor | None, logits: Tensor) -> Tensor:
    """Return `truth`, or the one-hot targets, in the shape and dtype of the logits."""
    check_logits(logits, masked)
    words = logits.shape[1]
    if truth is None:
        return F.one_hot(masked.targets, words).to(logits.dtype)
    if truth.shape[1] != words:
        raise ParameterError(f"The model's logits cover {words} words, truth {truth.shape[1]}.")
    return truth.to(logits.dtype)


def hessian_product(model: nn.Module, loss: ParameterLoss) -> Product:
    """Return the Hessian of `loss` at the model's parameters as a linear map of flat vectors.

    The graph of the gradient is built once for all vectors.
    """
    # Reverse over reverse: forward over reverse (jvp of grad) took 1.1 to 1.7 times as long for a model of
    # 106K parameters on one core (batch 32 to 512), 2 to 3 times once vectors share the graph, and forward
    # mode lacks a kernel for float32 LSTMs.
    pull = vjp(grad(loss), _parameters(model))[1]
    return lambda flat: flattened(pull(unflattened(model, flat))[0])


def dense_hessian(
    model: nn.Module, masked: Batch, truth: Float[Tensor, "batch word"] | None = None, *, most: int = 3000
) -> Float[Tensor, "parameter parameter"]:
    """Compute the Hessian of the loss over all trainable parameters, exact up to rounding.

    Args:
        model: a masked language model, preferably in float64.
        masked: masked sentences, taken as the population.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets if None.
        most: largest number of parameters.

    Returns:
        The matrix in the order of `flat_parameters`, in nats per squared parameter.

    Raises:
        ParameterError: for a model with more parameters.
        ModelError: see `check`.

    """
    point = flat_parameters(model)
    if len(point) > most:
        size = len(point) ** 2 * point.element_size() / 1e9
        raise ParameterError(
            f"The Hessian of {len(point)} parameters takes {size:.3g} GB; the limit is {most} parameters."
        )
    # Not torch.func.hessian, which applies vmap inside the outer derivative: LayerNorm of torch 2.13 then
    # treats the saved mean and standard deviation as constants, and the rows of its weights come out wrong.
    product = hessian_product(model, population_loss(model, masked, truth))
    identity = torch.eye(len(point), dtype=point.dtype, device=point.device)
    return torch.cat([vmap(product)(rows) for rows in identity.split(ROWS)])


def top_eigenvalue(
    model: nn.Module,
    masked: Batch,
    truth: Float[Tensor, "batch word"] | None = None,
    *,
    tolerance: float = 1e-3,
    restarts: int = 100,
) -> float:
    r"""Compute $\max_{\lVert v \rVert = 1} v^\top H v$, the algebraically largest eigenvalue.

    The method is implicitly restarted Lanczos (Lehoucq, Sorensen and Yang 1998, ARPACK) on
    Hessian-vector products, with a fixed initial vector.

    Args:
        model: a masked language model.
        masked: masked sentences, taken as the population.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets if None.
        tolerance: accepted relative error.
        restarts: largest number of restarts, each of up to 20 products.

    Returns:
        The eigenvalue, in nats per squared parameter.

    Raises:
        ModelError: see `check`.
        ParameterError: if Lanczos does not converge.

    """
    times, point = hessian_product(model, population_loss(model, masked, truth)), flat_parameters(model)

    def product(vector: np.ndarray) -> np.ndarray:
        return times(torch.from_numpy(vector.reshape(-1)).to(point)).double().cpu().numpy()

    hessian = LinearOperator((len(point), len(point)), product, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(len(point))
    options = {"which": "LA", "tol": tolerance, "maxiter": restarts, "return_eigenvectors": False}
    try:
        return float(eigsh(hessian, 1, v0=start, **options)[0])
    except ArpackError as error:
        raise ParameterError(
            f"Lanczos did not find the largest eigenvalue to a relative error of {tolerance:g} in "
            f"{restarts} restarts; allow a larger tolerance or more restarts."
        ) from error


def hutchinson_trace(
    model: nn.Module,
    masked: Batch,
    truth: Float[Tensor, "batch word"] | None = None,
    *,
    batch: int,
    draws: int = 1,
    rank: int = 0,
    vectors: Literal["rademacher", "gaussian"] = "rademacher",
    generator: torch.Generator,
    loss: Callable[..., ParameterLoss] = population_loss,
) -> EstimatedTrace:
    r"""Estimate the trace of the Hessian from random directions, by Hutchinson (1989) or Hutch++.

    For independent entries of mean 0 and variance 1, Hutchinson's estimate is unbiased:

    $$\mathbb E_z\, z^\top H z = \mathrm{Tr}\, H.$$

    Hutch++ (Meyer, Musco, Musco and Woodruff 2021, Algorithm 1) first finds most of the range of each
    batch's Hessian from a sketch S of `rank` vectors of random signs. With an orthonormal basis Q of HS, the
    trace on that range is exact and random directions z cover the rest:

    $$\mathrm{Tr}\, Q^\top H Q + \mathbb E_z\, z^\top (I - QQ^\top) H (I - QQ^\top) z.$$

    A batch takes 2 `rank` + `draws` Hessian-vector products. The sampling error of the sentences remains, so
    a sketch pays if the random directions dominate the error.

    The paper's released code draws Gaussian directions in the space of the parameters and takes the
    labels from the corpus: here `vectors="gaussian"` and no `truth`.

    Args:
        model: a masked language model.
        masked: independent masked sentences, cut into disjoint batches; the remainder is dropped.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets if None.
        batch: sentences per batch; its Hessian is their mean.
        draws: directions per batch. A batch is one draw of the result, the mean over its directions,
            so that the standard error covers both sentences and directions.
        rank: columns of the sketch of Hutch++; 0 for Hutchinson.
        vectors: distribution of the directions' entries; random signs have less variance.
        generator: of the sketch and the directions, on the CPU.
        loss: makes the function whose Hessian it is from model, sentences and `truth`.

    Returns:
        One draw of the trace per batch, by parameter.

    Raises:
        ParameterError: for fewer than two batches, no directions, or an unknown distribution.
        ModelError: see `check`.

    """
    check_count("batch", batch)
    check_count("draws", draws)
    check_count("rank", rank, 0)
    if vectors not in ("rademacher", "gaussian"):
        raise ParameterError(f"Unknown vectors {vectors!r}; choose rademacher or gaussian.")
    started, sentences = time.perf_counter(), len(masked.targets)
    masked, truth = _on_model_device(model, masked, truth)
    if sentences < 2 * batch:
        raise ParameterError(
            f"Two batches, the least for a standard error, take {2 * batch} sentences; got {sentences}."
        )
    parts = []
    for start in range(0, sentences - batch + 1, batch):
        rows = slice(start, start + batch)
        q = None if truth is None else truth[rows]
        product = hessian_product(model, loss(model, masked.rows(rows), q))
        sketch = _directions(model, rank, "rademacher", generator)
        directions = _directions(model, draws, vectors, generator)
        diagonal = _hutch_plus_plus(product, sketch, directions) if rank else _hutchinson(product, directions)
        parts.append({name: part.sum() for name, part in unflattened(model, diagonal).items()})
    summed = {name: torch.stack([part[name] for part in parts]).cpu() for name in parts[0]}
    passes = len(parts) * batch * (2 * rank + draws)
    return EstimatedTrace(summed, Cost(passes, 3 * passes, time.perf_counter() - started))


def fisher_gap(
    model: nn.Module, masked: Batch, truth: Float[Tensor, "batch word"] | None, **options: Any
) -> EstimatedTrace:
    r"""Estimate the trace of the Hessian minus that of the Fisher information.

    With logits z, predictions f and conditionals q it is

    $$\mathrm{Tr}\; \mathbb E \sum_y (f_y - q_y) \nabla^2 z_y ,$$

    so that the variance of the estimate vanishes with the gap at saturation, f = q (Lemma 3.2): there it is
    exactly 0 for all directions. Options and result are those of `hutchinson_trace`.
    """
    return hutchinson_trace(model, masked, truth, loss=gap_loss, **options)


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
    """Average z * Hz over the directions z: entrywise unbiased for the diagonal of H."""
    return sum(z * product(z) for z in directions) / len(directions)


def _hutch_plus_plus(product: Product, sketch: Tensor, directions: Tensor) -> Tensor:
    """Compute entries that are unbiased for the diagonal of H and add up to the trace of Hutch++.

    With P = QQ^T and R = I - P, diag H = diag PHP + diag PHR + diag RHP + diag RHR. The products HQ give the
    first three exactly; the cross terms have trace 0 but contribute to the parts by parameter.
    """
    basis = torch.linalg.qr(torch.stack([product(s) for s in sketch], 1)).Q
    image = torch.stack([product(q) for q in basis.T], 1)

    def rest(v: Tensor) -> Tensor:
        return v - basis @ (basis.T @ v)

    inside = (basis * (image + rest(image))).sum(1)  # diag HP = diag PHP + diag RHP; diag PHR = diag RHP
    return inside + sum(z * rest(product(rest(z))) for z in directions) / len(directions)
