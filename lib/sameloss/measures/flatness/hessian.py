"""The Hessian: products with it, dense ones, its largest eigenvalue, its trace from random directions."""

import time
from collections.abc import Callable
from typing import Literal

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
from sameloss.measures.flatness.validation import check, check_logits
from sameloss.models.bilstm import without_cudnn

# The full Hessian of the pre-training loss: products with vectors, the dense matrix, its trace.
#
# The Fisher form of the trace (`trace.py`) needs saturation; what is here does not. With logits
# z(theta), predictions f and exact conditionals q,
#
# $$\nabla^2 L = \mathbb E\, J^\top (\mathrm{diag} f - f f^\top) J
#   + \mathbb E \sum_y (f_y - q_y) \nabla^2 z_y ,$$
#
# whose first term is the Fisher information and whose second one vanishes at saturation (Lemma 3.2).

Parameters = dict[str, Tensor]

ParameterLoss = Callable[[Parameters], Tensor]
"""A loss as a function of the trainable parameters by name."""

Product = Callable[[Tensor], Tensor]
"""The Hessian as a function from a flat vector to a flat vector."""

ROWS = 64
"""Rows of a dense Hessian computed at once."""


def flat_parameters(model: nn.Module) -> Float[Tensor, " parameter"]:
    """Return the trainable parameters as one detached vector, in the order of `named_parameters`."""
    return flattened(_parameters(model))


def unflattened(model: nn.Module, flat: Float[Tensor, " parameter"]) -> dict[str, Tensor]:
    """Return a vector of all trainable parameters as parameters by name, views of it."""
    shapes = {name: value.shape for name, value in _parameters(model).items()}
    parts = flat.split([shape.numel() for shape in shapes.values()])
    return {name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


def _parameters(model: nn.Module) -> Parameters:
    return {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}


def flattened(parameters: dict[str, Tensor]) -> Float[Tensor, " parameter"]:
    """Return parameters by name as one vector: the inverse of `unflattened`."""
    return torch.cat([value.flatten() for value in parameters.values()])


def population_loss(
    model: nn.Module, masked: Batch, truth: Float[Tensor, "batch word"] | None = None
) -> Callable[[dict[str, Tensor]], Tensor]:
    """Return the loss as a function of the trainable parameters, fit for `torch.func`'s transforms.

    Args:
        model: a masked language model.
        masked: at least one masked sentence.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets where None.

    Returns:
        A function from parameters by name to the mean over the sentences of -sum_y truth[y] log f[y],
        in nats a masked token.

    Raises:
        ModelError: for what `check` refuses, and, once called, for logits of another shape.
        ParameterError: where truth is of other sentences or words.

    """
    masked, truth = on_model_device(model, masked, truth)

    def loss(parameters: Parameters) -> Tensor:
        logits = _logits(model, parameters, masked)
        return -(_conditionals(masked, truth, logits) * logits.log_softmax(-1)).sum(-1).mean()

    return loss


def gap_loss(model: nn.Module, masked: Batch, truth: Tensor | None = None) -> ParameterLoss:
    """Return the function E sum_y (f_y - q_y) z_y of the parameters, f held fixed.

    Its Hessian is the Hessian of the loss minus the Fisher information (Lemma 3.2).
    """
    masked, truth = on_model_device(model, masked, truth)
    with torch.no_grad():
        logits = _logits(model, _parameters(model), masked)
        excess = logits.softmax(-1) - _conditionals(masked, truth, logits)
    return lambda parameters: (excess * _logits(model, parameters, masked)).sum(-1).mean()


def _logits(model: nn.Module, parameters: Parameters, masked: Batch) -> Tensor:
    # fused attention's gradient and that of cuDNN's LSTM have no gradient
    with sdpa_kernel(SDPBackend.MATH), without_cudnn():
        return functional_call(model, parameters, (masked.masked, masked.positions, masked.lengths))


def on_model_device(model: nn.Module, masked: Batch, truth: Tensor | None) -> tuple[Batch, Tensor | None]:
    """Move sentences and conditionals to the model's device, and refuse those that do not fit together.

    Raises:
        ModelError: for what `check` refuses.
        ParameterError: where there is not one row of `truth` for each sentence.

    """
    check(model, masked)
    if truth is not None and len(truth) != len(masked.masked):
        raise ParameterError(f"truth needs a row a sentence, {len(masked.masked)} of them; got {len(truth)}.")
    device = next(model.parameters()).device
    return masked.to(device), truth if truth is None else truth.to(device)


def _conditionals(masked: Batch, truth: Tensor | None, logits: Tensor) -> Tensor:
    """Return Pr(. | x_-t) like the logits: `truth`, or the one-hot targets."""
    check_logits(logits, masked)
    words = logits.shape[1]
    if truth is None:
        return F.one_hot(masked.targets, words).to(logits.dtype)
    if truth.shape[1] != words:
        raise ParameterError(f"The model's logits cover {words} words, truth {truth.shape[1]}.")
    return truth.to(logits.dtype)


def hessian_product(model: nn.Module, loss: ParameterLoss) -> Product:
    """Return the Hessian of `loss` at the model's parameters as a function of flat vectors.

    The graph of the gradient is built once for all of them.
    """
    # Reverse over reverse, because forward over reverse (jvp of grad) took 1.1 to 1.7 times as long for
    # a model of 106K parameters on one core (batch 32 to 512), 2 to 3 times once vectors share the graph,
    # and forward mode lacks a kernel for float32 LSTMs.
    pull = vjp(grad(loss), _parameters(model))[1]
    return lambda flat: flattened(pull(unflattened(model, flat))[0])


def dense_hessian(
    model: nn.Module, masked: Batch, truth: Float[Tensor, "batch word"] | None = None, *, most: int = 3000
) -> Float[Tensor, "parameter parameter"]:
    """Compute the Hessian of the loss over all trainable parameters, exact up to rounding.

    Args:
        model: a masked language model, best in float64.
        masked: masked sentences, the whole population.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets where None.
        most: largest number of parameters.

    Returns:
        The matrix, rows and columns in the order of `flat_parameters`, in nats by squared parameter.

    Raises:
        ParameterError: for a model of more parameters.
        ModelError: for what `check` refuses.

    """
    point = flat_parameters(model)
    if len(point) > most:
        size = len(point) ** 2 * point.element_size() / 1e9
        raise ParameterError(
            f"The Hessian of {len(point)} parameters takes {size:.3g} GB; the limit is {most} parameters."
        )
    # Not torch.func.hessian, which vmaps inside the outer derivative: of torch 2.13's LayerNorm it then
    # takes the saved mean and deviation for constants, and rows of LayerNorm weights come out wrong.
    product = hessian_product(model, population_loss(model, masked, truth))
    identity = torch.eye(len(point), dtype=point.dtype, device=point.device)
    return torch.cat([vmap(product)(rows) for rows in identity.split(ROWS)])


# The largest eigenvalue of the Hessian: the curvature in the sharpest direction.


def top_eigenvalue(
    model: nn.Module,
    masked: Batch,
    truth: Float[Tensor, "batch word"] | None = None,
    *,
    tolerance: float = 1e-3,
    restarts: int = 100,
    seed: int = 0,
) -> float:
    r"""Compute $\max_{\lVert v \rVert = 1} v^\top H v$, the largest (not largest absolute) eigenvalue.

    The method is implicitly restarted Lanczos (Lehoucq, Sorensen and Yang 1998, ARPACK) on
    Hessian-vector products.

    Args:
        model: a masked language model.
        masked: masked sentences, the whole population.
        truth: Pr(. | x_-t) at the masked positions; the one-hot targets where None.
        tolerance: accepted error relative to the eigenvalue.
        restarts: largest number of restarts, each of up to 20 products.
        seed: seed of the first vector.

    Returns:
        The eigenvalue, in nats by squared parameter.

    Raises:
        ModelError: for what `check` refuses.
        ParameterError: where Lanczos does not converge.

    """
    check(model, masked)
    times, point = hessian_product(model, population_loss(model, masked, truth)), flat_parameters(model)

    def product(vector: np.ndarray) -> np.ndarray:
        return times(torch.from_numpy(vector.reshape(-1)).to(point)).double().cpu().numpy()

    hessian = LinearOperator((len(point), len(point)), product, dtype=np.float64)
    start = np.random.default_rng(seed).standard_normal(len(point))
    options = {"which": "LA", "tol": tolerance, "maxiter": restarts, "return_eigenvectors": False}
    try:
        return float(eigsh(hessian, 1, v0=start, **options)[0])
    except ArpackError as error:
        raise ParameterError(
            f"Lanczos did not find the largest eigenvalue to a relative error of {tolerance:g} in "
            f"{restarts} restarts; allow a larger tolerance or more restarts."
        ) from error


# The trace of the Hessian from random directions: Hutchinson, Hutch++, and its gap to the Fisher trace.

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

    """
    return _over_batches(model, masked, truth, generator, batch=batch, draws=draws, vectors=vectors)


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

    """
    check_count("rank", rank)
    return _over_batches(
        model, masked, truth, generator, batch=batch, draws=draws, vectors=vectors, rank=rank
    )


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

    """
    return _over_batches(model, masked, truth, generator, batch=batch, draws=draws, scalar=gap_loss)


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
    generator: torch.Generator,
    *,
    batch: int,
    draws: int,
    vectors: str = "rademacher",
    rank: int = 0,
    scalar: Callable[..., ParameterLoss] = population_loss,
) -> EstimatedTrace:
    """Estimate the Hessian's diagonal for each of disjoint batches and add it up by parameter."""
    check_count("batch", batch)
    check_count("draws", draws)
    if vectors not in ("rademacher", "gaussian"):
        raise ParameterError(f"Unknown vectors {vectors!r}; choose rademacher or gaussian.")
    started, sentences = time.perf_counter(), len(masked.targets)
    masked, truth = on_model_device(model, masked, truth)
    if sentences < 2 * batch:
        raise ParameterError(
            f"Two batches, the least for a standard error, take {2 * batch} sentences; got {sentences}."
        )
    parts = []
    for start in range(0, sentences - batch + 1, batch):
        rows = slice(start, start + batch)
        product = hessian_product(
            model, scalar(model, masked.rows(rows), None if truth is None else truth[rows])
        )
        sketch = _directions(model, rank, "rademacher", generator)
        directions = _directions(model, draws, vectors, generator)
        diagonal = _hutch_plus_plus(product, sketch, directions) if rank else _hutchinson(product, directions)
        parts.append({name: part.sum() for name, part in unflattened(model, diagonal).items()})
    summed = {name: torch.stack([part[name] for part in parts]).cpu() for name in parts[0]}
    passes = len(parts) * batch * (2 * rank + draws)
    return EstimatedTrace(summed, Cost(passes, 3 * passes, time.perf_counter() - started))
